//! Tensors of other frameworks as memory of ndarrays, where NumPy's `from_dlpack` lacks the dtype.
#![allow(unsafe_code)] // capsules, and structs of C

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shmarray::dlpack::{self, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_READ_ONLY};

use crate::error::to_py;

const NAME: &CStr = c"dltensor_versioned";
/// Of a capsule whose tensor has another owner: its destructor does nothing.
const USED: &CStr = c"used_dltensor_versioned";

/// A tensor of another framework: the base of an ndarray that shows it.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct ForeignTensor {
    tensor: Tensor,
    dtype: String,
    itemsize: u64,
    address: usize,
    shape: Vec<u64>,
    strides: Vec<i64>,
}

/// A tensor that is given back when this is dropped.
struct Tensor(NonNull<DLManagedTensorVersioned>);

// SAFETY: the tensor is not changed here, and by DLPack's contract any thread may give it back.
unsafe impl Send for Tensor {}
// SAFETY: the same.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Takes the tensor of a capsule, which `__dlpack__` has returned.
    fn of(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: the call needs the GIL, which `capsule` shows, and a name that ends in zero.
        let is_one = unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) } != 0;
        if !is_one {
            let refused = "__dlpack__ has returned no tensor of DLPack 1";
            return Err(PyTypeError::new_err(refused));
        }
        // SAFETY: it is a capsule of that name, as was found just now.
        let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()) };
        // SAFETY: it is a capsule, and the name lives for ever.
        let renamed = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) };
        match NonNull::new(tensor.cast()) {
            Some(tensor) if renamed == 0 => Ok(Self(tensor)),
            _ => Err(PyErr::fetch(capsule.py())),
        }
    }

    fn get(&self) -> &DLManagedTensorVersioned {
        // SAFETY: the tensor lives until it is given back, when this is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Some(deleter) = self.get().deleter {
            // SAFETY: nobody else gives it back, because the capsule was renamed.
            unsafe { deleter(self.0.as_ptr()) };
        }
    }
}

#[pymethods]
impl ForeignTensor {
    #[new]
    fn new(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let tensor = Tensor::of(capsule)?;
        // SAFETY: by DLPack's contract the tensor has as many numbers as dimensions.
        let found = unsafe { dlpack::read(tensor.get()) }.map_err(to_py)?;
        Ok(Self {
            dtype: found.dtype.text().to_owned(),
            itemsize: found.dtype.itemsize(),
            address: found.data as usize,
            shape: found.layout.shape,
            strides: found.layout.strides,
            tensor,
        })
    }

    /// The dtype's text, as in a handle.
    #[getter]
    fn dtype(&self) -> &str {
        &self.dtype
    }

    /// The elements as bytes, for NumPy.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let is_read_only = self.tensor.get().flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", format!("|V{}", self.itemsize))?;
        interface.set_item("data", (self.address, is_read_only))?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("strides", PyTuple::new(py, &self.strides)?)?;
        Ok(interface)
    }
}
