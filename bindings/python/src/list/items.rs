//! The items of a list as Python's objects.
#![allow(unsafe_code)] // the buffer protocol

use std::ffi::c_int;
use std::path::PathBuf;

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView, PySlice, PyString, PyTuple};
use shmarray::{Array, Column, ColumnKind, ItemType, List, MAX_NDIM};

use crate::dtypes;
use crate::error::{to_py, value_error};
use crate::first_use::{FirstUse, interned};
use crate::memory::ndarray;
use crate::segment_memory::SegmentMemory;

/// What Python needs of a column again and again.
struct Facts {
    name: Py<PyString>,
    /// `None` if this process has no such dtype.
    dtype: Option<Py<PyAny>>,
    /// Makes an object of a class of the values of its fields.
    make: FirstUse<Py<PyAny>>,
}

/// A file, and what says that it still is that one.
#[derive(Clone)]
pub(super) struct ListFile {
    pub(super) path: PathBuf,
    /// Its size in bytes, its inode, and when it was changed, in nanoseconds.
    pub(super) identity: (u64, u64, i128),
}

/// Keeps a list: the ``base`` of its items that are arrays.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct ListMemory {
    list: List,
    facts: Vec<Facts>,
    pub(super) is_writeable: bool,
    /// The first byte of the list.
    start: usize,
    /// Dropped last: it may unmap the segment. `None` for a list in a file.
    _segment: Option<SegmentMemory>,
    /// The file that the list is in.
    pub(super) file: Option<ListFile>,
}

impl ListMemory {
    pub(super) fn new(
        py: Python<'_>,
        list: List,
        is_writeable: bool,
        file: Option<ListFile>,
    ) -> PyResult<Self> {
        if is_writeable && list.array().is_some_and(Array::is_readonly) {
            return Err(value_error("the list was attached read-only"));
        }
        let columns = (0..).map_while(|number| list.column(number));
        let facts = columns.map(|column| {
            Ok(Facts {
                name: PyString::intern(py, column.name()).unbind(),
                dtype: known_dtype(py, column)?,
                make: FirstUse::new(),
            })
        });
        let facts = facts.collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            facts,
            is_writeable,
            start: list.as_ptr() as usize,
            _segment: list.array().cloned().map(SegmentMemory::new),
            file,
            list,
        })
    }

    pub(super) fn list(&self) -> &List {
        &self.list
    }

    pub(super) fn column(&self, number: usize) -> Column<'_> {
        self.list.column(number).expect("a view has a column of its list")
    }

    fn facts(&self, column: Column<'_>) -> &Facts {
        &self.facts[column.column_number()]
    }

    pub(super) fn dtype<'py>(
        &self,
        py: Python<'py>,
        column: Column<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (&self.facts(column).dtype, column.dtype()) {
            (Some(dtype), _) => Ok(dtype.bind(py).clone()),
            (None, Some(dtype)) => dtypes::to_numpy(py, dtype),
            (None, None) => Err(value_error("the column has no dtype")),
        }
    }
}

/// Returns a column's dtype if this process has it.
fn known_dtype(py: Python<'_>, column: Column<'_>) -> PyResult<Option<Py<PyAny>>> {
    let Some(dtype) = column.dtype() else { return Ok(None) };
    match dtypes::to_numpy(py, dtype) {
        Ok(dtype) => Ok(Some(dtype.unbind())),
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        Err(error) => Err(error), // such as Ctrl-C
    }
}

#[pymethods]
impl ListMemory {
    /// Exports the bytes of the list, read-only unless its items are to be written.
    ///
    /// # Safety
    /// `view` points to a `Py_buffer` that may be written, as the interpreter guarantees for this
    /// slot.
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = this.get();
        let bytes = memory.list.size_bytes() as isize;
        let readonly = c_int::from(!memory.is_writeable);
        // SAFETY: `PyBuffer_FillInfo` needs memory that outlives the view. The list's bytes are
        // mapped while its array lives, and that lives in `this`, to which the view gets a
        // reference. The size is that of a mapping, so it fits an isize.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                this.as_ptr(),
                memory.start as *mut _,
                bytes,
                readonly,
                flags,
            )
        };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }
}

/// Returns an item of a column.
pub(super) fn item<'py>(
    memory: &Bound<'py, ListMemory>,
    column: Column<'_>,
    index: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = memory.py();
    if column.is_none(index).map_err(to_py)? {
        return Ok(py.None().into_bound(py));
    }
    match column.kind() {
        ColumnKind::Numbers => number(memory, column, index),
        ColumnKind::Arrays => array(memory, column, index),
        ColumnKind::Strings => {
            Ok(PyString::new(py, &column.string(index).map_err(to_py)?).into_any())
        }
        ColumnKind::Bytes => Ok(PyBytes::new(py, &column.bytes(index).map_err(to_py)?).into_any()),
        ColumnKind::Records => record(memory, column, index),
        ColumnKind::Lists => {
            let range = column.list(index).map_err(to_py)?;
            let Some(child) = column.children().next() else { return no_such_kind(column) };
            let items = range.map(|at| item(memory, child, at));
            let items = items.collect::<PyResult<Vec<_>>>()?;
            match column.item_type() {
                ItemType::Tuple => Ok(PyTuple::new(py, items)?.into_any()),
                _ => Ok(PyList::new(py, items)?.into_any()),
            }
        }
        ColumnKind::Pickles => unpickle(memory, column, index),
        _ => no_such_kind(column),
    }
}

/// A later version may have more kinds.
fn no_such_kind<'py>(column: Column<'_>) -> PyResult<Bound<'py, PyAny>> {
    Err(value_error(format!("this library does not read {:?}", column.kind())))
}

fn number<'py>(
    memory: &Bound<'py, ListMemory>,
    column: Column<'_>,
    index: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = memory.py();
    let is_scalar = *column.item_type() == ItemType::Scalar;
    let text = column.dtype().map_or("", |dtype| dtype.text());
    if is_scalar {
        let mut bytes = [0; 16];
        let size = match text {
            "|b1" => 1,
            "<c16" => 16,
            _ => 8,
        };
        column.copy_item(index, &mut bytes[..size]).map_err(to_py)?;
        let eight = |at: usize| std::array::from_fn(|byte| bytes[at + byte]);
        match text {
            "<i8" => return Ok(i64::from_le_bytes(eight(0)).into_pyobject(py)?.into_any()),
            "<f8" => return Ok(f64::from_le_bytes(eight(0)).into_pyobject(py)?.into_any()),
            "|b1" => return Ok((bytes[0] != 0).into_pyobject(py)?.to_owned().into_any()),
            "<c16" => {
                let (real, imaginary) =
                    (f64::from_le_bytes(eight(0)), f64::from_le_bytes(eight(8)));
                return Ok(pyo3::types::PyComplex::from_doubles(py, real, imaginary).into_any());
            }
            _ => {} // not what this library writes
        }
    }
    let (start, _) = column.item_ptr(index).map_err(to_py)?;
    let offset = start as usize - memory.get().start;
    let dtype = memory.get().dtype(py, column)?;
    let scalar = ndarray(py)?.call1((PyTuple::empty(py), dtype, memory, offset))?;
    scalar.get_item(PyTuple::empty(py))
}

fn array<'py>(
    memory: &Bound<'py, ListMemory>,
    column: Column<'_>,
    index: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = memory.py();
    let mut shape = [0; MAX_NDIM];
    let shape = shape.get_mut(..column.ndim()).unwrap_or_default();
    column.read_shape(index, shape).map_err(to_py)?;
    let (start, _) = column.item_ptr(index).map_err(to_py)?;
    let offset = start as usize - memory.get().start;
    let dtype = memory.get().dtype(py, column)?;
    ndarray(py)?.call1((PyTuple::new(py, &*shape)?, dtype, memory, offset))
}

/// Returns so many elements from a byte of the list on as an ndarray that nobody may write to: what
/// says where the items are, and texts.
pub(super) fn fixed_view<'py>(
    memory: &Bound<'py, ListMemory>,
    dtype: &Bound<'py, PyAny>,
    start: u64,
    count: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let array = view(memory, dtype, start, count)?;
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array)
}

/// Returns so many elements from a byte of the list on as an ndarray.
pub(super) fn view<'py>(
    memory: &Bound<'py, ListMemory>,
    dtype: &Bound<'py, PyAny>,
    start: u64,
    count: u64,
) -> PyResult<Bound<'py, PyAny>> {
    ndarray(memory.py())?.call1((count, dtype, memory, start))
}

fn record<'py>(
    memory: &Bound<'py, ListMemory>,
    column: Column<'_>,
    index: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = memory.py();
    let fields = column.children();
    match column.item_type() {
        ItemType::Tuple => {
            let values = fields.map(|field| item(memory, field, index));
            Ok(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        ItemType::Class(class) => {
            let make = memory.get().facts(column).make.get_or_try_make(py, || {
                let maker = py.import(interned!(py, "shmarray._list"))?;
                let names = column.children().map(|field| field.name().to_owned());
                let names = PyTuple::new(py, names.collect::<Vec<_>>())?;
                maker.call_method1("maker", (class, names)).map(Bound::unbind)
            })?;
            let values = fields.map(|field| item(memory, field, index));
            make.bind(py).call1((PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?,))
        }
        _ => {
            let dict = PyDict::new(py);
            for field in fields {
                dict.set_item(&memory.get().facts(field).name, item(memory, field, index)?)?;
            }
            Ok(dict.into_any())
        }
    }
}

fn unpickle<'py>(
    memory: &Bound<'py, ListMemory>,
    column: Column<'_>,
    index: u64,
) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: FirstUse<Py<PyAny>> = FirstUse::new();
    let py = memory.py();
    let (stream, buffers) = column.pickle(index).map_err(to_py)?;
    let whole = PyMemoryView::from(memory)?;
    let part = |range: std::ops::Range<u64>| {
        whole.get_item(PySlice::new(py, range.start as isize, range.end as isize, 1))
    };
    let buffers = buffers.into_iter().map(part).collect::<PyResult<Vec<_>>>()?;
    let keywords = PyDict::new(py);
    keywords.set_item(interned!(py, "buffers"), buffers)?;
    LOADS.import(py, "pickle", "loads")?.call((part(stream)?,), Some(&keywords))
}
