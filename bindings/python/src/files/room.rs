//! Private memory of NumPy's that core fills.
#![allow(unsafe_code)] // memory that NumPy has just allocated

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shmarray::{Layout, Order};

use crate::first_use::interned;
use crate::memory::{Memory, ndarray};

/// A new ndarray of which nobody else knows, so that its memory is a slice.
pub(crate) struct Room<'py> {
    array: Bound<'py, PyAny>,
    start: *mut u8,
    bytes: usize,
}

impl<'py> Room<'py> {
    /// Allocates an ndarray for so many bytes of elements.
    pub(crate) fn new(
        dtype: &Bound<'py, PyAny>,
        layout: &Layout,
        order: Order,
        bytes: u64,
    ) -> PyResult<Self> {
        let py = dtype.py();
        let options = PyDict::new(py);
        options.set_item(interned!(py, "order"), if order == Order::F { "F" } else { "C" })?;
        let shape = PyTuple::new(py, &layout.shape)?;
        // `numpy.empty` would make items of one byte of those that have none.
        let array = ndarray(py)?.call((shape, dtype), Some(&options))?;
        let start = Memory::of(&array)?.address() as *mut u8;
        Ok(Self { array, start, bytes: bytes as usize })
    }

    /// Returns the memory of the elements.
    pub(crate) fn slice(&mut self) -> &mut [u8] {
        match self.bytes {
            0 => &mut [],
            // SAFETY: NumPy has allocated these bytes in `new`, for as many elements of the
            // dtype's size as core's header counts. Only this value refers to the ndarray, until
            // `filled` gives it out, which ends the borrow.
            bytes => unsafe { std::slice::from_raw_parts_mut(self.start, bytes) },
        }
    }

    /// Returns the ndarray.
    pub(crate) fn filled(self) -> Bound<'py, PyAny> {
        self.array
    }
}

/// Forbids stores through an array.
pub(super) fn make_readonly(array: &Bound<'_, PyAny>) -> PyResult<()> {
    let options = PyDict::new(array.py());
    options.set_item(interned!(array.py(), "write"), false)?;
    array.call_method(interned!(array.py(), "setflags"), (), Some(&options)).map(drop)
}
