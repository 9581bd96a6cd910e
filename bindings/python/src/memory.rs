//! The memory of an ndarray: where it is, and what core can do with it.
#![allow(unsafe_code)] // core reads the memory that NumPy vouches for

use std::ffi::{c_char, c_int, c_void};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyType};
use shmarray::{Array, DType, Layout, Options};

use crate::dtypes;
use crate::errors::{expected, to_py, value_error};
use crate::hold::Hold;

/// What is over this many bytes is copied or given back while other threads of Python run. For
/// less it is not worth it: to get the GIL again is to wait for another's turn to end.
pub(crate) const LARGE_BYTES: u64 = 64 << 10;

/// `PyArrayInterface`, which an ndarray's `__array_struct__` points to.
///
/// Source: NumPy reference, "The array interface protocol", "C-struct access".
#[repr(C)]
struct Interface {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *const c_void,
    descr: *const c_void,
}

/// `NPY_ARRAY_WRITEABLE`.
const WRITEABLE: c_int = 0x400;

/// The elements of an ndarray.
///
/// Invariant M1: it borrows a `numpy.ndarray`, no subclass, so that all elements of `layout`
/// from `address` on can be read while it lives.
pub(crate) struct Memory<'a, 'py> {
    array: &'a Bound<'py, PyAny>,
    address: usize,
    item_bytes: u64,
    is_writeable: bool,
    layout: Layout,
}

impl<'a, 'py> Memory<'a, 'py> {
    /// Establishes M1, or a TypeError.
    pub(crate) fn of(array: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if !is_ndarray(array)? {
            return Err(expected("a plain numpy.ndarray (numpy.asarray makes one of a subclass)", array));
        }
        let capsule = array.getattr(intern!(array.py(), "__array_struct__"))?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(None)?.cast::<Interface>();
        // SAFETY: it is an ndarray's own, and lives as long as the capsule.
        let interface = unsafe { pointer.as_ref() };
        let (Ok(dimensions), 2) = (usize::try_from(interface.nd), interface.two) else {
            return Err(value_error("the array's __array_struct__ is of another version"));
        };
        // SAFETY: NumPy has `nd` numbers there.
        let shape = unsafe { numbers(interface.shape, dimensions) };
        // SAFETY: as above.
        let strides = unsafe { numbers(interface.strides, dimensions) };
        let shape = shape.iter().map(|count| *count as u64).collect();
        let layout = Layout { shape, strides: strides.iter().map(|step| *step as i64).collect(), offset: 0 };
        let (item_bytes, is_writeable) = (interface.itemsize as u64, interface.flags & WRITEABLE != 0);
        Ok(Self { array, address: interface.data as usize, item_bytes, is_writeable, layout })
    }

    /// What the ndarray's flag says.
    pub(crate) fn is_writeable(&self) -> bool {
        self.is_writeable
    }

    /// The array of items without a meaning in the segment that this is memory of, if it is.
    pub(crate) fn items_in_segment(&self) -> PyResult<Option<Array>> {
        Ok(self.in_segment(dtypes::of_size(self.item_bytes)?))
    }

    /// The array in the segment that this is memory of, if it is.
    pub(crate) fn in_segment(&self, dtype: DType) -> Option<Array> {
        Array::over_memory(self.address, dtype, &self.layout.shape, &self.layout.strides)
    }

    /// A copy in shared memory. Other threads of Python run meanwhile.
    pub(crate) fn share(&self, dtype: DType, options: &Options) -> PyResult<Array> {
        let (address, layout) = (self.address, &self.layout);
        // SAFETY: M1, and `self` keeps the ndarray alive until the copy is done.
        let copy = || unsafe { Array::share(address as *const u8, dtype, layout, options) };
        match self.layout.len() * self.item_bytes {
            0..LARGE_BYTES => copy(),
            _ => self.array.py().detach(copy),
        }
        .map_err(to_py)
    }
}

/// A copy of an array's bytes in memory of this process's own: an ndarray of bytes. Other threads of Python
/// run meanwhile.
pub(crate) fn private_copy<'py>(py: Python<'py>, bytes: &Array) -> PyResult<Bound<'py, PyAny>> {
    let count = bytes.layout().len();
    let copy = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "empty"), (count, "u1"))?;
    let address = Memory::of(&copy)?.address;
    // SAFETY: `empty` has allocated so many bytes, which nobody else has yet, and keeps them while `copy` lives.
    let room = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, count as usize) };
    match count {
        0..LARGE_BYTES => bytes.read_into(room),
        _ => py.detach(|| bytes.read_into(room)),
    }
    .map_err(to_py)?;
    Ok(copy)
}

/// As many numbers as there are at an address; NumPy has none there when it needs none.
///
/// # Safety
/// There are so many, as long as `'a`.
unsafe fn numbers<'a>(start: *const isize, count: usize) -> &'a [isize] {
    match count {
        0 => &[],
        // SAFETY: the caller vouches for it.
        _ => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// The array in a segment that an ndarray is, or a hold has; ValueError when it is in private memory.
pub(crate) fn shared(array: &Bound<'_, PyAny>) -> PyResult<Array> {
    if let Ok(hold) = array.cast_exact::<Hold>() {
        return Ok(hold.get().array().clone());
    }
    let memory = Memory::of(array)?;
    let dtype = dtypes::from_numpy(&array.getattr(intern!(array.py(), "dtype"))?)?;
    let private = "the array is in private memory and has no handle: take that of shmarray.share(array)";
    memory.in_segment(dtype).ok_or_else(|| value_error(private))
}

/// Whether it is a `numpy.ndarray` and no subclass.
pub(crate) fn is_ndarray(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.get_type().is(ndarray(object.py())?))
}

/// The class `numpy.ndarray`.
pub(crate) fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    NDARRAY.import(py, "numpy", "ndarray")
}
