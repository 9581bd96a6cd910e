//! Lists: immutable sequences in shared memory. core/LISTS.md says what the bytes are.

mod items;
mod build;
mod arrow;
mod dict;

use std::path::PathBuf;

use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::slice::PySliceIndices;
use pyo3::types::{PySlice, PyTuple, PyType};
use shmarray::{Array, Column, ColumnKind, DType, Element, Options};

use crate::error::{expected, to_py, value_error};
use crate::first_use::interned;
use crate::handles::Handle;
use crate::memory::Memory;
use crate::named;
pub(crate) use dict::{Dict, dict_of_bytes, dict_of_file};
use items::{ListFile, ListMemory, item};

/// The name of the dtype of an array that is a list.
const DTYPE_NAME: &str = "list";

/// An immutable sequence in shared memory: one data set for all workers.
///
/// It is built in one pass from any iterable, and then used as a tuple: ``items[i]``, slices (the
/// same memory), iteration, ``len``, ``in``, ``==``, ``index`` and ``count``. It is pickled, sent
/// and attached by a handle, as arrays are, and lives as they do: as long as a process has it, or
/// an array of it. ``shmarray.attach(handle_or_name)`` gives it back.
///
/// The first item that is not None says what the items are:
///
/// * ``bool``, ``int`` of 64 bits, ``float``, ``complex``, or scalars of NumPy of one dtype:
///   *numbers*;
/// * ``numpy.ndarray`` of one dtype and one ``ndim``, of any shapes: *arrays*;
/// * ``str``: *strings*; ``bytes``: *bytes*;
/// * ``dict`` with the same keys, which are strings and come out in the order of the first,
///   dataclasses and named tuples of one class, and tuples of as many items of several kinds:
///   *records*, with a column for each field;
/// * ``list`` and ``tuple`` of items of one kind: *lists*, up to 16 columns deep;
/// * ``None`` in any of them.
///
/// The items of a column that do not agree, and any other objects, are pickled one by one, with
/// their arrays in place. Programs in other languages read and make all but these. Reading a
/// pickle, or a record of a class, runs code: attach lists of those you trust.
///
/// Parameters
/// ----------
/// iterable : any iterable, or an object with ``__len__`` and ``__getitem__``
///     The items, such as a list, a generator, or a ``torch.utils.data.Dataset``.
/// name, persist, mode
///     As for ``shmarray.empty``.
/// writeable : bool, default False
///     Whether the arrays that come out of it can be written to. ``view`` says so later.
/// progress : callable, optional
///     Called every 0.1 s with the number of items since its last call, as ``tqdm.update`` is.
///
/// Raises TypeError for an item that cannot be pickled and ValueError for a ``dict`` with other
/// keys than the first, both naming the item and the field; MemoryError if shared memory is full;
/// and what ``shmarray.empty`` raises.
///
/// >>> import numpy, shmarray
/// >>> items = shmarray.List({"label": k, "pixels": numpy.arange(k)} for k in range(1000))
/// >>> items[3]
/// {'label': 3, 'pixels': array([0, 1, 2])}
/// >>> items.field("label").mean()
/// np.float64(499.5)
/// >>> again = shmarray.attach(str(shmarray.handle(items)))  # in another process
/// >>> len(again), again == items
/// (1000, True)
#[pyclass(frozen, sequence, module = "shmarray", weakref)]
pub(crate) struct List {
    memory: Py<ListMemory>,
    /// The number of the column whose items these are.
    column: usize,
    /// The first item of the column, the distance to the next, and how many there are.
    first: i64,
    step: i64,
    length: u64,
}

impl List {
    fn whole(py: Python<'_>, list: shmarray::List, is_writeable: bool) -> PyResult<Self> {
        let memory = Py::new(py, ListMemory::new(py, list, is_writeable, None)?)?;
        Ok(Self::of_column(memory, 0, py))
    }

    fn of_column(memory: Py<ListMemory>, column: usize, py: Python<'_>) -> Self {
        let length = memory.bind(py).get().column(column).len();
        Self { memory, column, first: 0, step: 1, length }
    }

    fn column(&self) -> Column<'_> {
        self.memory.get().column(self.column)
    }

    fn core(&self) -> &shmarray::List {
        self.memory.get().list()
    }

    /// Returns where an item is in the column, of those that this list has.
    fn place(&self, index: u64) -> u64 {
        (self.first + self.step * index as i64) as u64
    }

    fn at<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Bound<'py, PyAny>> {
        item(self.memory.bind(py), self.column(), self.place(index))
    }

    fn is_whole(&self) -> bool {
        self.column == 0 && self.has_whole_column()
    }

    fn has_whole_column(&self) -> bool {
        (self.first, self.step, self.length) == (0, 1, self.column().len())
    }

    /// Returns these items of another array, which has one along its first dimension for each item
    /// of the column.
    fn those_of<'py>(&self, all: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.has_whole_column() {
            return Ok(all);
        }
        let py = all.py();
        let stop = self.first + self.step * self.length as i64;
        let stop = (stop >= 0).then_some(stop); // back to the first item there is none
        all.get_item(py.get_type::<PySlice>().call1((self.first, stop, self.step))?)
    }

    /// Returns the numbers, or the arrays of one shape along a new first dimension, if none of them
    /// is None.
    fn stacked<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let column = self.column();
        let is_ndarray = match column.kind() {
            ColumnKind::Numbers => column.nulls() == 0,
            ColumnKind::Arrays => column.common_shape().is_some(),
            _ => false,
        };
        if !is_ndarray {
            return Ok(None);
        }
        let mut values = self.all_values(py)?;
        if let Some(shape) = column.common_shape() {
            let mut all = vec![column.len()];
            all.extend(shape);
            values = values.call_method1(interned!(py, "reshape"), (PyTuple::new(py, all)?,))?;
        }
        self.those_of(values).map(Some)
    }

    fn all_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let column = self.column();
        let (range, count) = column.values_range().map_err(to_py)?;
        let memory = self.memory.bind(py);
        if matches!(column.kind(), ColumnKind::Numbers | ColumnKind::Arrays) {
            return items::view(memory, &self.memory.get().dtype(py, column)?, range.start, count);
        }
        let dtype = crate::dtypes::to_numpy(py, &u8::dtype())?;
        items::fixed_view(memory, &dtype, range.start, count)
    }
}

#[pymethods]
impl List {
    #[new]
    #[pyo3(signature = (
        iterable=None, *, name=None, persist=false, mode=0o600, writeable=false, progress=None
    ))]
    fn new(
        py: Python<'_>,
        iterable: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        persist: bool,
        mode: i64,
        writeable: bool,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = named("C", name, persist, mode)?;
        let column = build::column(py, iterable, progress)?;
        let (count, bytes) = (column.len(), column.size_bytes());
        let list = py.detach(|| shmarray::List::create(column, &options));
        let list = list.map_err(|error| build::does_not_fit(py, error, count, bytes))?;
        Self::whole(py, list, writeable)
    }

    fn __len__(&self) -> usize {
        self.length as usize
    }

    fn __getitem__<'py>(
        this: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, list) = (this.py(), this.get());
        if let Ok(slice) = index.cast::<PySlice>() {
            let PySliceIndices { start, step, slicelength, .. } =
                slice.indices(list.length as isize)?;
            let (first, step) = match slicelength {
                0 => (0, 1),
                1 => (list.first + list.step * start as i64, 1),
                _ => (list.first + list.step * start as i64, list.step * step as i64),
            };
            let part = Self {
                memory: list.memory.clone_ref(py),
                column: list.column,
                first,
                step,
                length: slicelength as u64,
            };
            return Ok(Bound::new(py, part)?.into_any());
        }
        let wanted = match index.extract::<i64>() {
            Ok(wanted) => wanted,
            Err(_) if index.hasattr(interned!(py, "__index__"))? => {
                return Err(PyIndexError::new_err(format!(
                    "list index {index} is out of range for {} items",
                    list.length
                )));
            }
            Err(_) => return Err(expected("an integer or a slice as a list index", index)),
        };
        let length = list.length as i64;
        let from_start = if wanted < 0 { wanted + length } else { wanted };
        if !(0..length).contains(&from_start) {
            return Err(PyIndexError::new_err(format!(
                "list index {wanted} is out of range for {length} items"
            )));
        }
        list.at(py, from_start as u64)
    }

    fn __iter__(this: Bound<'_, Self>) -> ListIterator {
        ListIterator { list: this.unbind(), next: 0.into() }
    }

    fn __contains__(this: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        helper(this.py(), "contains")?.call1((this, value))?.extract()
    }

    fn __eq__<'py>(
        this: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let list = this.get();
        let Ok(other) = other.cast::<Self>() else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        let right = other.get();
        let is_same = list.memory.is(&right.memory)
            && (list.column, list.first, list.step) == (right.column, right.first, right.step);
        if is_same || list.length != right.length {
            let is_equal = list.length == right.length;
            return Ok(is_equal.into_pyobject(py)?.to_owned().into_any());
        }
        let dtype = |list: &Self| list.column().dtype().map(|dtype| dtype.text().to_owned());
        let is_scalars = |list: &Self| {
            let number = dtype(list).and_then(|text| text.chars().nth(1));
            list.column().kind() == ColumnKind::Numbers
                && number.is_some_and(|code| "biufc".contains(code))
        };
        if is_scalars(list)
            && is_scalars(right)
            && dtype(list) == dtype(right)
            && let (Some(one), Some(another)) = (list.stacked(py)?, right.stacked(py)?)
        {
            return py.import("numpy")?.call_method1("array_equal", (one, another));
        }
        helper(py, "equal_items")?.call1((this, other))
    }

    /// Returns the first place of a value, as that of a tuple. Raises ValueError if it is nowhere.
    #[pyo3(signature = (value, start=None, stop=None, /))]
    fn index<'py>(
        this: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helper(this.py(), "index")?.call1((this, value, start, stop))
    }

    /// Returns how often a value is there, as that of a tuple.
    #[pyo3(signature = (value, /))]
    fn count<'py>(
        this: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helper(this.py(), "count")?.call1((this, value))
    }

    fn __repr__(&self) -> String {
        let column = self.column();
        let mut text = format!("<shmarray.List of {} {}", self.length, kind_name(column.kind()));
        if let Some(dtype) = column.dtype() {
            text += &format!(" of {}", dtype.text());
        }
        if column.kind() == ColumnKind::Records {
            let names: Vec<_> = column.children().map(|field| field.name().to_owned()).collect();
            text += &format!(" of {}", names.join(", "));
        }
        text + ">"
    }

    /// What the items are: ``"numbers"``, ``"arrays"``, ``"strings"``, ``"bytes"``, ``"records"``,
    /// ``"lists"``, ``"pickles"`` or ``"nothing"``.
    #[getter]
    fn kind(&self) -> &'static str {
        kind_name(self.column().kind())
    }

    /// The dtype of numbers and arrays. ``None`` for anything else.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let column = self.column();
        column.dtype().map(|_| self.memory.get().dtype(py, column)).transpose()
    }

    /// The names of the fields of records. Empty for anything else.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let column = self.column();
        let is_records = column.kind() == ColumnKind::Records;
        let names = column.children().filter(|_| is_records).map(|field| field.name().to_owned());
        PyTuple::new(py, names.collect::<Vec<_>>())
    }

    /// The bytes of shared memory of the whole list, of which this may be a part.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.core().size_bytes()
    }

    /// The values of the items one after another: the numbers, the elements of all arrays, or the
    /// bytes of strings.
    ///
    /// Of a part of a list these are the values of all items, in which ``offsets`` says where the
    /// part's are; of numbers they are the part's.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.all_values(py)?;
        if self.column().kind() == ColumnKind::Numbers {
            return self.those_of(values);
        }
        Ok(values)
    }

    /// Where each item begins in the values, and last where they end: ``len`` + 1 numbers, which
    /// count elements, bytes or items.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let column = self.column();
        if self.step != 1 && self.length > 1 {
            return Err(value_error("a part of a list with a step has no offsets"));
        }
        let all = match column.common_shape() {
            Some(shape) => {
                let each = shape.iter().product::<u64>();
                let count = py.import("numpy")?.call_method1("arange", (column.len() + 1,))?;
                count.mul(each)?
            }
            None => {
                let range = column.offsets_range().map_err(to_py)?;
                let dtype = crate::dtypes::to_numpy(py, &i64::dtype())?;
                items::fixed_view(self.memory.bind(py), &dtype, range.start, column.len() + 1)?
            }
        };
        let (first, length) = (self.first as isize, self.length as isize);
        all.get_item(PySlice::new(py, first, first + length + 1, 1))
    }

    /// Returns a field of records: an ndarray of numbers or of arrays of one shape without None,
    /// and otherwise a list. Raises KeyError if there is no such field.
    fn field<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let Some(field) = self.column().field(name) else {
            let known = self.fields(py)?;
            return Err(PyKeyError::new_err(format!("no field {name:?} of {known}")));
        };
        let list = Self {
            memory: self.memory.clone_ref(py),
            column: field.column_number(),
            first: self.first,
            step: self.step,
            length: self.length,
        };
        match list.stacked(py)? {
            Some(array) => Ok(array),
            None => Ok(Bound::new(py, list)?.into_any()),
        }
    }

    /// Returns the same list, whose arrays can be written to or not. Raises ValueError if this
    /// process attached it read-only.
    #[pyo3(signature = (*, writeable))]
    fn view(&self, py: Python<'_>, writeable: bool) -> PyResult<Self> {
        let memory =
            ListMemory::new(py, self.core().clone(), writeable, self.memory.get().file.clone())?;
        Ok(Self { memory: Py::new(py, memory)?, ..*self })
    }

    /// Returns numbers, or arrays of one shape, as an ndarray without a copy. NumPy calls this.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        this: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let array = this.get().stacked(py)?;
        helper(py, "as_array")?.call1((this, array, dtype, copy))
    }

    /// Saves the list to a file, or the part that this is. The file appears under its path when it
    /// is complete, in place of an older one, and has a checksum. ``List.open`` opens it.
    ///
    /// >>> import shmarray
    /// >>> shmarray.List(["one", "two"]).save("words.list")
    /// >>> list(shmarray.List.open("words.list"))
    /// ['one', 'two']
    #[pyo3(signature = (path, /))]
    fn save(this: &Bound<'_, Self>, path: PathBuf) -> PyResult<()> {
        let (py, list) = (this.py(), this.get());
        if list.is_whole() {
            return py.detach(|| list.core().save(path)).map_err(to_py);
        }
        let column = build::column(py, Some(this), None)?;
        let save = || shmarray::List::create(column, &Options::new())?.save(path);
        py.detach(save).map_err(to_py)
    }

    /// Opens a list in a file that ``save`` wrote. The file is mapped: its pages are read when they
    /// are needed, once for all processes, so it need not fit into memory.
    ///
    /// With ``check`` all of it is read now, and compared with its checksum. With ``writeable``
    /// arrays that come out of it can be written to, in this process's own memory.
    ///
    /// A list in a file is pickled as its path, and opened again where that is unpickled. Raises
    /// FileNotFoundError, and ValueError for a file that is no list, naming the field.
    #[staticmethod]
    #[pyo3(signature = (path, /, *, check=false, writeable=false))]
    fn open(py: Python<'_>, path: PathBuf, check: bool, writeable: bool) -> PyResult<Self> {
        let (list, file) = open_file(py, path, |path| shmarray::List::open(path, check))?;
        let memory = Py::new(py, ListMemory::new(py, list, writeable, Some(file))?)?;
        Ok(Self::of_column(memory, 0, py))
    }

    /// Returns a list of the items of an array, a table, a series or a stream of Arrow: of any
    /// object with ``__arrow_c_array__`` or ``__arrow_c_stream__``, such as those of pyarrow,
    /// Polars, pandas and DuckDB. Each column is copied once, into shared memory.
    ///
    /// Rows of a table are records. int64, double and bool give Python's ``int``, ``float`` and
    /// ``bool``, other numbers scalars of NumPy; times with a time zone are in UTC, and dates count
    /// days. Lists of numbers are arrays, of one shape if they are of a fixed size, unless a number
    /// in one is None: then they are Python's lists. A map is a list of pairs.
    ///
    /// Dictionaries, run ends and views of lists are decoded by pyarrow, if it is installed, but
    /// those in a map are not. Raises TypeError for a type that a list has no items for, such as a
    /// decimal, and names the field; ValueError for a broken array; and what ``shmarray.List``
    /// raises.
    ///
    /// >>> import pyarrow, shmarray
    /// >>> table = pyarrow.table({"label": [3, None], "pixels": [[0.5, 1.5], []]})
    /// >>> shmarray.List.from_arrow(table)[0]
    /// {'label': 3, 'pixels': array([0.5, 1.5])}
    #[staticmethod]
    #[pyo3(signature = (obj, *, name=None, persist=false, mode=0o600))]
    fn from_arrow(
        obj: &Bound<'_, PyAny>,
        name: Option<String>,
        persist: bool,
        mode: i64,
    ) -> PyResult<Self> {
        let py = obj.py();
        let options = named("C", name, persist, mode)?;
        let column = arrow::column(obj)?;
        let (count, bytes) = (column.len(), column.size_bytes());
        let list = py.detach(|| shmarray::List::create(column, &options));
        let list = list.map_err(|error| build::does_not_fit(py, error, count, bytes))?;
        Self::whole(py, list, false)
    }

    /// Returns the list, or the part of one, as an array of pyarrow of the same memory, which lives
    /// as long as the array. Polars, pandas and DuckDB read that array, and
    /// ``pyarrow.array(items)`` makes the same one.
    ///
    /// * bool is ``arrow.bool8``; datetime64 and timedelta64 of s, ms, us and ns are timestamps and
    ///   durations. Other dtypes than numbers have no type in Arrow, nor have complex numbers;
    /// * arrays of one shape are of a fixed size, with several dimensions
    ///   ``arrow.fixed_shape_tensor``; those of one dimension large lists; any others structs of
    ///   ``data`` and ``shape``;
    /// * strings and bytes are large, records structs, lists large lists.
    ///
    /// Raises TypeError for what Arrow has no type for, such as pickles, and names the field;
    /// ValueError for a part with a step; ImportError without pyarrow.
    ///
    /// >>> import numpy, shmarray
    /// >>> items = shmarray.List([numpy.arange(3), None, numpy.arange(2)])
    /// >>> items.to_arrow().type
    /// LargeListType(large_list<item: int64>)
    /// >>> items[1:].to_arrow().to_pylist()
    /// [None, [0, 1]]
    fn to_arrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        helper(this.py(), "to_arrow")?.call1((this,))
    }

    /// Returns Arrow's description of the items, in a capsule. pyarrow and others call this.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrow::schema(py, self.column())
    }

    /// Returns the items as an array of Arrow of the same memory, in two capsules. pyarrow and
    /// others call this. The schema is never another one than that of ``__arrow_c_schema__``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let _ = requested_schema; // whoever asks for another one casts to it
        if self.step != 1 && self.length > 1 {
            let reason = "a part of a list with a step is no array of Arrow: copy it to a list";
            return Err(value_error(reason));
        }
        let first = if self.length == 0 { 0 } else { self.first as u64 };
        arrow::capsules(py, self.core(), self.column(), (first, self.length))
    }

    fn __reduce__<'py>(
        this: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, list) = (this.py(), this.get());
        let part = (list.column, list.first, list.step, list.length);
        let module = py.import(interned!(py, "shmarray._core"))?;
        let restore = match list.core().array() {
            Some(_) => module.getattr("list_of_bytes")?,
            None => module.getattr("list_of_file")?,
        };
        let arguments = bytes_and_writeable(list.memory.bind(py))?;
        let (from, is_writeable) = (arguments.get_item(0)?, arguments.get_item(1)?);
        Ok((restore, (from, part, is_writeable).into_pyobject(py)?))
    }

    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}

/// Opens a file, and notes what says that it still is that one.
fn open_file<T: Send>(
    py: Python<'_>,
    path: PathBuf,
    open: impl FnOnce(&PathBuf) -> shmarray::Result<T> + Send,
) -> PyResult<(T, ListFile)> {
    let path = std::path::absolute(path)?;
    let opened = py.detach(|| open(&path)).map_err(to_py)?;
    let identity = helper(py, "identity")?.call1((&path,))?.extract()?;
    Ok((opened, ListFile { path, identity }))
}

/// Refuses another file than the one that was pickled.
fn check_identity(memory: &ListMemory, identity: (u64, u64, i128)) -> PyResult<()> {
    match &memory.file {
        Some(file) if file.identity != identity => {
            let path = file.path.display();
            Err(value_error(format!("the file {path} was replaced or changed")))
        }
        _ => Ok(()),
    }
}

/// Returns what a list is pickled by: an array of its bytes, or its file; and whether its items may
/// be written to.
fn bytes_and_writeable<'py>(memory: &Bound<'py, ListMemory>) -> PyResult<Bound<'py, PyTuple>> {
    let py = memory.py();
    let is_writeable = memory.get().is_writeable;
    match (memory.get().list().array(), &memory.get().file) {
        (Some(array), _) => {
            let dtype = crate::dtypes::to_numpy(py, &u8::dtype())?;
            let bytes = items::view(memory, &dtype, 0, array.shape()[0])?;
            (bytes, is_writeable).into_pyobject(py)
        }
        (None, Some(file)) => ((file.path.clone(), file.identity), is_writeable).into_pyobject(py),
        (None, None) => Err(value_error("the list has neither an array nor a file")),
    }
}

/// Returns a class as it is written in annotations.
fn generic<'py>(
    class: &Bound<'py, PyType>,
    item: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    class.py().import("types")?.call_method1("GenericAlias", (class, item))
}

/// Returns a function of `shmarray._list`.
fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(interned!(py, "shmarray._list"))?.getattr(name)
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Numbers => "numbers",
        ColumnKind::Arrays => "arrays",
        ColumnKind::Strings => "strings",
        ColumnKind::Bytes => "bytes",
        ColumnKind::Records => "records",
        ColumnKind::Lists => "lists",
        ColumnKind::Pickles => "pickles",
        ColumnKind::Nothing => "nothing",
        _ => "items of a later version",
    }
}

/// Goes through the items of a list.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct ListIterator {
    list: Py<List>,
    next: std::sync::atomic::AtomicU64,
}

#[pymethods]
impl ListIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        use std::sync::atomic::Ordering::Relaxed;
        let list = self.list.get();
        let next = self.next.fetch_add(1, Relaxed);
        if next >= list.length {
            self.next.store(list.length, Relaxed);
            return Ok(None);
        }
        list.at(py, next).map(Some)
    }

    fn __length_hint__(&self) -> u64 {
        let next = self.next.load(std::sync::atomic::Ordering::Relaxed);
        self.list.get().length.saturating_sub(next)
    }
}

/// Returns the list or the dictionary that an array is, if it is one.
pub(crate) fn of_array<'py>(py: Python<'py>, array: &Array) -> PyResult<Option<Bound<'py, PyAny>>> {
    if *array.dtype() == DType::by_name(dict::DTYPE_NAME, 1).map_err(to_py)? {
        let dict = shmarray::Dict::of(array.clone()).map_err(to_py)?;
        return Ok(Some(Bound::new(py, Dict::of(py, dict, false, None)?)?.into_any()));
    }
    if *array.dtype() != list_dtype()? {
        return Ok(None);
    }
    let list = shmarray::List::of(array.clone()).map_err(to_py)?;
    Ok(Some(Bound::new(py, List::whole(py, list, false)?)?.into_any()))
}

/// Returns the handle of a whole list, or of a dictionary.
pub(crate) fn handle(list: &Bound<'_, PyAny>) -> PyResult<Option<Handle>> {
    let array = if let Ok(dict) = list.cast::<Dict>() {
        dict.get().array()
    } else if let Ok(list) = list.cast::<List>() {
        if !list.get().is_whole() {
            return Err(value_error("a part of a list has no handle: take that of the whole list"));
        }
        list.get().core().array()
    } else {
        return Ok(None);
    };
    match array {
        Some(array) => Ok(Some(Handle::new(array.descriptor()))),
        None => Err(value_error("a list in a file has no handle: others open it by its path")),
    }
}

fn list_dtype() -> PyResult<DType> {
    DType::by_name(DTYPE_NAME, 1).map_err(to_py)
}

/// Returns the list, or the part of one, whose bytes an array has. Those in private memory are
/// copied to shared memory.
#[pyfunction]
pub(crate) fn list_of_bytes<'py>(
    py: Python<'py>,
    bytes: &Bound<'py, PyAny>,
    part: (usize, i64, i64, u64),
    writeable: bool,
) -> PyResult<List> {
    let memory = Memory::of(bytes)?;
    let shared = |dtype: DType| match memory.in_segment(dtype.clone()) {
        Some(array) => Ok(array),
        None => memory.share(dtype, &Options::new()),
    };
    let list = match shmarray::List::of(shared(list_dtype()?)?) {
        // The values of a dictionary are a part of its list.
        Err(shmarray::Error::InvalidList { .. }) => {
            let dtype = DType::by_name(dict::DTYPE_NAME, 1).map_err(to_py)?;
            shmarray::Dict::of(shared(dtype)?).map(|dict| dict.as_list().clone())
        }
        list => list,
    }
    .map_err(to_py)?;
    let is_writeable = writeable && !list.array().is_some_and(Array::is_readonly);
    part_of(py, ListMemory::new(py, list, is_writeable, None)?, part)
}

/// Returns the list, or the part of one, that a file has. It must be the file that it was.
#[pyfunction]
pub(crate) fn list_of_file(
    py: Python<'_>,
    file: (PathBuf, (u64, u64, i128)),
    part: (usize, i64, i64, u64),
    writeable: bool,
) -> PyResult<List> {
    let (path, identity) = file;
    // The values of a dictionary are a part of its list.
    let open = |path: &PathBuf| {
        shmarray::List::open(path, false).or_else(|error| match error {
            shmarray::Error::InvalidFile { .. } => {
                shmarray::Dict::open(path, false).map(|dict| dict.as_list().clone())
            }
            other => Err(other),
        })
    };
    let (list, file) = open_file(py, path, open)?;
    let memory = ListMemory::new(py, list, writeable, Some(file))?;
    check_identity(&memory, identity)?;
    part_of(py, memory, part)
}

/// Returns the part of a list: the column, the first item, the distance to the next, and how many
/// there are.
fn part_of(py: Python<'_>, memory: ListMemory, part: (usize, i64, i64, u64)) -> PyResult<List> {
    let (column, first, step, length) = part;
    let Some(items) = memory.list().column(column) else {
        return Err(value_error(format!("the list has no column {column}")));
    };
    let last = length.checked_sub(1).map(|last| {
        i64::try_from(last).ok().and_then(|last| first.checked_add(step.checked_mul(last)?))
    });
    let is_there = |place: i64| u64::try_from(place).is_ok_and(|place| place < items.len());
    if last.is_some_and(|last| !is_there(first) || !last.is_some_and(is_there)) {
        let reason = format!("no items {first}, {step} apart, {length}, of {}", items.len());
        return Err(value_error(reason));
    }
    Ok(List { memory: Py::new(py, memory)?, column, first, step, length })
}
