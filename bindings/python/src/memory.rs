//! The memory of an ndarray: where it is, and what core can do with it.
#![allow(unsafe_code)] // core reads the memory that NumPy vouches for

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use shmarray::{Array, DType, Layout, Options};

use crate::dtypes;
use crate::errors::{expected, to_py, value_error};

/// The elements of an ndarray.
///
/// Invariant M1: it borrows a `numpy.ndarray`, no subclass, so that all elements of `layout`
/// from `address` on can be read while it lives.
pub(crate) struct Memory<'a, 'py> {
    array: &'a Bound<'py, PyAny>,
    address: usize,
    layout: Layout,
}

impl<'a, 'py> Memory<'a, 'py> {
    /// Establishes M1, or a TypeError.
    pub(crate) fn of(array: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if !is_ndarray(array)? {
            return Err(expected("a plain numpy.ndarray (numpy.asarray makes one of a subclass)", array));
        }
        let (address, _) = array.getattr("__array_interface__")?.get_item("data")?.extract::<(usize, bool)>()?;
        let layout = Layout {
            shape: array.getattr("shape")?.extract()?,
            strides: array.getattr("strides")?.extract()?,
            offset: 0,
        };
        Ok(Self { array, address, layout })
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
        self.array.py().detach(copy).map_err(to_py)
    }
}

/// The array in a segment that an ndarray is; ValueError when it is in private memory.
pub(crate) fn shared(array: &Bound<'_, PyAny>) -> PyResult<Array> {
    let memory = Memory::of(array)?;
    let dtype = dtypes::from_numpy(&array.getattr("dtype")?)?;
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
