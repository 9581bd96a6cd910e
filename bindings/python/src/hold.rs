//! The hold: what keeps a segment mapped under the ndarrays that lie in it.
//!
//! An ndarray made with `numpy.ndarray(shape, dtype, buffer=hold, …)` has the hold as its
//! `.base`; so has every view of it, at the end of its chain of bases. NumPy asks for the
//! buffer once, keeps its address, and releases it at once: therefore a hold has no close,
//! and gives its segment up only when Python drops it.
#![allow(unsafe_code)] // the buffer protocol

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::Array;

use crate::memory::ndarray;

/// Keeps a segment mapped: the ``base`` of the arrays in it.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Hold {
    array: Array,
}

#[pymethods]
impl Hold {
    /// Exports the data of the whole segment; read-only where its pages are.
    ///
    /// # Safety
    /// `view` may be filled: the interpreter vouches for it.
    unsafe fn __getbuffer__(hold: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let array = &hold.get().array;
        let (start, bytes) = array.segment_data();
        let readonly = c_int::from(array.is_readonly());
        let data = start.as_ptr().cast();
        // SAFETY: the data stays mapped while `array` lives, which the view's reference to
        // `hold` sees to; its size fits, as it is mapped.
        let status = unsafe { ffi::PyBuffer_FillInfo(view, hold.as_ptr(), data, bytes as isize, readonly, flags) };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(hold.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<hold of segment {}>", self.array.handle().segment)
    }
}

/// A plain ndarray over an array, whose base is the array's hold.
pub(crate) fn to_ndarray<'py>(dtype: &Bound<'py, PyAny>, array: Array) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let layout = array.layout().clone();
    let hold = Bound::new(py, Hold { array })?;
    let shape = PyTuple::new(py, layout.shape)?;
    let strides = PyTuple::new(py, layout.strides)?;
    ndarray(py)?.call1((shape, dtype, hold, layout.offset, strides))
}
