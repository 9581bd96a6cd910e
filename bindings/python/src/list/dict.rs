//! Dictionaries: frozen mappings, found by a hash table in the shared memory.

use std::path::PathBuf;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple, PyType};
use shmarray::{Array, ColumnBuilder, DType, ItemType, Key, Options};

use super::build::{self, Items, Place};
use super::items::{ListFile, ListMemory, item};
use super::{List, bytes_and_writeable, helper, kind_name, open_file};
use crate::error::{to_py, value_error};
use crate::first_use::interned;
use crate::memory::Memory;
use crate::named;

/// The name of the dtype of an array that is a dictionary.
pub(super) const DTYPE_NAME: &str = "dict";

/// A frozen mapping in shared memory. Opening it takes no longer for more entries, and a look-up
/// makes the value of that key alone.
///
/// The keys are ``str``, ``bytes`` or ``int`` of 64 bits, all of one kind, and come out as that.
/// The values are as the items of a ``List``. It is used as a dict that nobody changes, and named,
/// pickled, sent, attached and saved as a ``List`` is. ``keys()`` come in the order of the mapping,
/// and ``values()`` are a ``List``.
///
/// Parameters
/// ----------
/// mapping : a mapping, or an iterable of pairs
///     The keys and their values.
/// name, persist, mode
///     As for ``shmarray.empty``.
/// writeable, progress
///     As for ``List``.
///
/// Raises TypeError for any other key, and for a value that cannot be pickled; ValueError for a key
/// that is there twice; and what ``List`` raises.
///
/// >>> import numpy, shmarray
/// >>> means = shmarray.Dict({"red": numpy.ones(3), "green": numpy.zeros(2)}, name="means")
/// >>> shmarray.attach("means")["red"]  # in another process
/// array([1., 1., 1.])
/// >>> "blue" in means, means.get("blue"), list(means)
/// (False, None, ['red', 'green'])
#[pyclass(frozen, mapping, module = "shmarray", weakref)]
pub(crate) struct Dict {
    memory: Py<ListMemory>,
    dict: shmarray::Dict,
}

impl Dict {
    pub(super) fn of(
        py: Python<'_>,
        dict: shmarray::Dict,
        is_writeable: bool,
        file: Option<ListFile>,
    ) -> PyResult<Self> {
        let memory = ListMemory::new(py, dict.as_list().clone(), is_writeable, file)?;
        Ok(Self { memory: Py::new(py, memory)?, dict })
    }

    /// Returns the array of its bytes, if it is in shared memory.
    pub(super) fn array(&self) -> Option<&Array> {
        self.dict.as_list().array()
    }

    /// Returns the number of the entry with a key. A key that no dict has is a TypeError.
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let found = if let Ok(text) = key.cast::<PyString>() {
            match text.to_str() {
                Ok(text) => self.dict.find(Key::String(text)),
                Err(_) => return Ok(None), // surrogates
            }
        } else if let Ok(bytes) = key.cast::<PyBytes>() {
            self.dict.find(Key::Bytes(bytes.as_bytes()))
        } else {
            match integer_of(key)? {
                Some(number) => self.dict.find(Key::Integer(number)),
                None => return Ok(None),
            }
        };
        found.map_err(to_py)
    }

    fn value<'py>(&self, py: Python<'py>, entry: u64) -> PyResult<Bound<'py, PyAny>> {
        item(self.memory.bind(py), self.dict.values(), entry)
    }
}

#[pymethods]
impl Dict {
    #[new]
    #[pyo3(signature = (
        mapping=None, *, name=None, persist=false, mode=0o600, writeable=false, progress=None
    ))]
    fn new(
        py: Python<'_>,
        mapping: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        persist: bool,
        mode: i64,
        writeable: bool,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = named("C", name, persist, mode)?;
        let (keys, values) = entries(py, mapping, progress)?;
        let (count, bytes) = (keys.len(), keys.size_bytes() + values.size_bytes());
        let dict = py.detach(|| shmarray::Dict::create(keys, values, &options));
        let dict = dict.map_err(|error| build::does_not_fit(py, error, count, bytes))?;
        Self::of(py, dict, writeable, None)
    }

    fn __len__(&self) -> usize {
        self.dict.len() as usize
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.find(key)? {
            Some(entry) => self.value(key.py(), entry),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.find(key).map(|entry| entry.is_some())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(py, self.column(py, 0))?.try_iter()?.into_any())
    }

    fn __eq__<'py>(
        this: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helper(this.py(), "equal_mappings")?.call1((this, other))
    }

    /// Returns the value of a key, or ``default``.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.find(key)? {
            Some(entry) => self.value(key.py(), entry),
            None => Ok(default.unwrap_or_else(|| key.py().None().into_bound(key.py()))),
        }
    }

    /// Returns a view of the keys, as that of a dict.
    fn keys<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import(interned!(this.py(), "collections.abc"))?.call_method1("KeysView", (this,))
    }

    /// Returns the values, in the order of the keys: a ``List``.
    fn values(&self, py: Python<'_>) -> List {
        self.column(py, 1)
    }

    /// Returns a view of the keys with their values, as that of a dict.
    fn items<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py()
            .import(interned!(this.py(), "collections.abc"))?
            .call_method1("ItemsView", (this,))
    }

    fn __repr__(&self) -> String {
        let kinds = [self.dict.keys(), self.dict.values()].map(|column| kind_name(column.kind()));
        format!("<shmarray.Dict of {} {} to {}>", self.dict.len(), kinds[0], kinds[1])
    }

    /// The bytes of shared memory that it takes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.dict.as_list().size_bytes()
    }

    /// Returns the same mapping, whose arrays can be written to or not. Raises ValueError if this
    /// process attached it read-only.
    #[pyo3(signature = (*, writeable))]
    fn view(&self, py: Python<'_>, writeable: bool) -> PyResult<Self> {
        Self::of(py, self.dict.clone(), writeable, self.memory.get().file.clone())
    }

    /// Saves it to a file, as a ``List``. ``Dict.open`` opens that.
    #[pyo3(signature = (path, /))]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.dict.save(path)).map_err(to_py)
    }

    /// Opens a file that ``save`` wrote, as ``List.open`` does.
    #[staticmethod]
    #[pyo3(signature = (path, /, *, check=false, writeable=false))]
    fn open(py: Python<'_>, path: PathBuf, check: bool, writeable: bool) -> PyResult<Self> {
        let (dict, file) = open_file(py, path, |path| shmarray::Dict::open(path, check))?;
        Self::of(py, dict, writeable, Some(file))
    }

    fn __reduce__<'py>(
        this: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, dict) = (this.py(), this.get());
        let memory = dict.memory.bind(py);
        let module = py.import(interned!(py, "shmarray._core"))?;
        let restore = match dict.array() {
            Some(_) => module.getattr("dict_of_bytes")?,
            None => module.getattr("dict_of_file")?,
        };
        Ok((restore, bytes_and_writeable(memory)?))
    }

    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        super::generic(class, item)
    }
}

impl Dict {
    /// Returns the column of the keys, 0, or of the values, 1.
    fn column(&self, py: Python<'_>, number: usize) -> List {
        let column = if number == 0 { self.dict.keys() } else { self.dict.values() };
        List::of_column(self.memory.clone_ref(py), column.column_number(), py)
    }
}

/// Returns the dictionary whose bytes an array has. Those in private memory are copied.
#[pyfunction]
pub(crate) fn dict_of_bytes(
    py: Python<'_>,
    bytes: &Bound<'_, PyAny>,
    writeable: bool,
) -> PyResult<Dict> {
    let dtype = || DType::by_name(DTYPE_NAME, 1).map_err(to_py);
    let memory = Memory::of(bytes)?;
    let array = match memory.in_segment(dtype()?) {
        Some(array) => array,
        None => memory.share(dtype()?, &Options::new())?,
    };
    let is_writeable = writeable && !array.is_readonly();
    Dict::of(py, shmarray::Dict::of(array).map_err(to_py)?, is_writeable, None)
}

/// Returns the dictionary that a file has. It must be the file that it was.
#[pyfunction]
pub(crate) fn dict_of_file(
    py: Python<'_>,
    file: (PathBuf, (u64, u64, i128)),
    writeable: bool,
) -> PyResult<Dict> {
    let dict = Dict::open(py, file.0, false, writeable)?;
    super::check_identity(dict.memory.get(), file.1)?;
    Ok(dict)
}

/// Returns the integer to which a key is equal that is no string or bytes. Raises TypeError for
/// what cannot be a key.
fn integer_of(key: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let py = key.py();
    let hash = key.hash()?;
    if key.is_instance_of::<PyInt>() {
        return Ok(key.extract().ok());
    }
    let candidate = if key.is_instance_of::<PyFloat>() {
        key.call_method0(interned!(py, "__int__")).ok().and_then(|int| int.extract::<i64>().ok())
    } else {
        // What is equal to an integer has its hash, which for all but large ones is itself.
        key.extract::<i64>().ok().or(Some(if hash == -2 { -1 } else { hash as i64 }))
    };
    let candidates = [candidate, (hash == -2).then_some(-2)];
    for candidate in candidates.into_iter().flatten() {
        if key.eq(candidate)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Puts the keys and the values of a mapping, or of pairs, into columns.
fn entries(
    py: Python<'_>,
    mapping: Option<&Bound<'_, PyAny>>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(ColumnBuilder, ColumnBuilder)> {
    let mut keys = ColumnBuilder::nothing();
    let mut values = Items::new();
    let Some(mapping) = mapping else { return Ok((keys, values.column)) };
    let pairs = helper(py, "pairs")?.call1((mapping,))?;
    build::each(py, &pairs, progress, |pair, index| {
        let (key, value) = pair_of(pair, index)?;
        push_key(&mut keys, &key, index)?;
        values.push(&value, &Place { up: None, field: "", index })
    })?;
    Ok((keys, values.column))
}

fn pair_of<'py>(
    pair: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let parts: Vec<_> = match pair.try_iter() {
        Ok(parts) => parts.collect::<PyResult<_>>()?,
        Err(_) => return Err(PyTypeError::new_err(format!("item {index} is no pair"))),
    };
    let count = parts.len();
    let [key, value] = <[_; 2]>::try_from(parts)
        .map_err(|_| value_error(format!("item {index} has {count} parts, and a pair has 2")))?;
    Ok((key, value))
}

fn push_key(keys: &mut ColumnBuilder, key: &Bound<'_, PyAny>, index: usize) -> PyResult<()> {
    let is_first = index == 0;
    let pushed = if let Ok(text) = key.cast::<PyString>() {
        if is_first {
            *keys = ColumnBuilder::strings();
        }
        let text = text.to_str().map_err(|_| value_error(format!("key {index} is no UTF-8")))?;
        keys.push_string(text)
    } else if let Ok(bytes) = key.cast::<PyBytes>() {
        if is_first {
            *keys = ColumnBuilder::bytes();
        }
        keys.push_bytes(bytes.as_bytes())
    } else if !key.is_instance_of::<PyBool>()
        && !key.is_instance_of::<PyFloat>()
        && let Ok(number) = key.extract::<i64>()
    {
        if is_first {
            *keys = ColumnBuilder::numbers(DType::parse("<i8").map_err(to_py)?).map_err(to_py)?;
            keys.set_item_type(ItemType::Scalar).map_err(to_py)?;
        }
        keys.push_number(&number.to_le_bytes())
    } else {
        let is_long = key.is_instance_of::<PyInt>() && !key.is_instance_of::<PyBool>();
        let found = if is_long { "an int beyond 64 bits".into() } else { key.repr()?.to_string() };
        let text = format!("key {index}: expected str, bytes or int of 64 bits, not {found}");
        return Err(PyTypeError::new_err(text));
    };
    pushed.map_err(|_| {
        let before = kind_name(keys.kind());
        PyTypeError::new_err(format!("key {index} is {key:?}, and those before it are {before}"))
    })
}
