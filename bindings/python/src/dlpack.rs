//! Tensors of other frameworks as memory of ndarrays. NumPy's `from_dlpack` lacks dtypes, and
//! all arrays of NumPy 2.2's are read-only.
#![allow(unsafe_code)] // capsules, and structs of C

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shmarray::dlpack::{
    self, DLManagedTensor, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_READ_ONLY, DLPackVersion,
    Foreign,
};

use crate::error::to_py;

/// The names of a capsule with a tensor, and of one whose tensor has another owner.
const NAMES: [&CStr; 2] = [c"dltensor_versioned", c"used_dltensor_versioned"];
/// The same before DLPack 1.0.
const EARLIER_NAMES: [&CStr; 2] = [c"dltensor", c"used_dltensor"];

/// The name of the capsule with a type's [`ExchangeApi`].
const EXCHANGE: &CStr = c"dlpack_exchange_api";

/// The start of `DLPackExchangeAPI` of DLPack 1.3: functions in C of a framework's type.
#[repr(C)]
struct ExchangeApi {
    version: DLPackVersion,
    /// The same for an earlier major version, or null. Versions share the fields up to here.
    earlier: *const ExchangeApi,
    _allocator: *const c_void,
    from_py_object:
        unsafe extern "C" fn(*mut ffi::PyObject, *mut *mut DLManagedTensorVersioned) -> c_int,
}

/// A tensor of another framework: the base of an ndarray that shows it.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct ForeignTensor {
    dtype: String,
    itemsize: u64,
    address: usize,
    is_read_only: bool,
    shape: Vec<u64>,
    strides: Vec<i64>,
    _tensor: Tensor,
}

/// A tensor that is given back when this is dropped.
enum Tensor {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Earlier(NonNull<DLManagedTensor>),
}

// SAFETY: the tensor is not changed here, and by DLPack's contract any thread may give it back.
unsafe impl Send for Tensor {}
// SAFETY: the same.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Takes the tensor of a capsule, which `__dlpack__` has returned.
    fn of(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(tensor) = taken(capsule, NAMES)? {
            return Ok(Self::Versioned(tensor));
        }
        let earlier = taken(capsule, EARLIER_NAMES)?.map(Self::Earlier);
        earlier.ok_or_else(|| PyTypeError::new_err("__dlpack__ has returned no tensor"))
    }

    /// Takes the tensor of an object whose type has a table of functions for that.
    fn exchanged(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(capsule) = object.get_type().getattr_opt("__dlpack_c_exchange_api__")? else {
            return Ok(None);
        };
        // SAFETY: the call needs the GIL, which `object` shows, and a name that ends in zero.
        let api = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), EXCHANGE.as_ptr()) };
        let mut api = api.cast_const().cast::<ExchangeApi>();
        let found = loop {
            // SAFETY: a framework keeps its tables for as long as the process lives, and all
            // versions have these fields.
            match unsafe { api.as_ref() } {
                None => match PyErr::take(object.py()) {
                    Some(error) => return Err(error),
                    None => return Ok(None), // all are of later versions
                },
                Some(table) if table.version.major == 1 => break table,
                Some(table) => api = table.earlier,
            }
        };
        let mut tensor = ptr::null_mut();
        // SAFETY: the object is of the type that has the table, and the output is a local.
        let failed = unsafe { (found.from_py_object)(object.as_ptr(), &raw mut tensor) } != 0;
        match NonNull::new(tensor) {
            Some(tensor) if !failed => Ok(Some(Self::Versioned(tensor))),
            _ => Err(PyErr::take(object.py()).unwrap_or_else(|| {
                PyTypeError::new_err("__dlpack_c_exchange_api__ has given no tensor")
            })),
        }
    }

    fn read(&self) -> shmarray::Result<Foreign> {
        match self {
            Self::Versioned(tensor) => {
                // SAFETY: the tensor lives until it is given back, when this is dropped.
                let tensor = unsafe { tensor.as_ref() };
                // SAFETY: by DLPack's contract it has as many numbers as dimensions.
                unsafe { dlpack::read(tensor) }
            }
            Self::Earlier(tensor) => {
                // SAFETY: the tensor lives until it is given back, when this is dropped.
                let tensor = unsafe { tensor.as_ref() };
                // SAFETY: by DLPack's contract it has as many numbers as dimensions.
                unsafe { dlpack::read_with_flags(&tensor.dl_tensor, 0) }
            }
        }
    }

    /// Whether the elements must not be written. One from before DLPack 1.0 does not say it: as in
    /// NumPy it counts as such.
    fn is_read_only(&self) -> bool {
        match self {
            Self::Versioned(tensor) => {
                // SAFETY: the tensor lives until it is given back, when this is dropped.
                let flags = unsafe { tensor.as_ref() }.flags;
                flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0
            }
            Self::Earlier(_) => true,
        }
    }
}

/// Takes the tensor of a capsule that has the first name, and gives it the second.
fn taken<T>(capsule: &Bound<'_, PyAny>, names: [&'static CStr; 2]) -> PyResult<Option<NonNull<T>>> {
    let [name, used] = names.map(CStr::as_ptr);
    // SAFETY: the call needs the GIL, which `capsule` shows, and a name that ends in zero.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name) } == 0 {
        return Ok(None);
    }
    // SAFETY: it is a capsule of that name, as was found just now.
    let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) };
    // SAFETY: it is a capsule, and the name lives for ever.
    let renamed = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used) };
    match NonNull::new(tensor.cast()) {
        Some(tensor) if renamed == 0 => Ok(Some(tensor)),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        match *self {
            Self::Versioned(tensor) => {
                // SAFETY: the tensor lives until it is given back, here.
                if let Some(deleter) = unsafe { tensor.as_ref() }.deleter {
                    // SAFETY: nobody else gives it back, because the capsule was renamed.
                    unsafe { deleter(tensor.as_ptr()) };
                }
            }
            Self::Earlier(tensor) => {
                // SAFETY: the tensor lives until it is given back, here.
                if let Some(deleter) = unsafe { tensor.as_ref() }.deleter {
                    // SAFETY: nobody else gives it back, because the capsule was renamed.
                    unsafe { deleter(tensor.as_ptr()) };
                }
            }
        }
    }
}

impl ForeignTensor {
    fn showing(tensor: Tensor) -> PyResult<Self> {
        let found = tensor.read().map_err(to_py)?;
        Ok(Self {
            dtype: found.dtype.text().to_owned(),
            itemsize: found.dtype.itemsize(),
            address: found.data as usize,
            shape: found.layout.shape,
            strides: found.layout.strides,
            is_read_only: tensor.is_read_only(),
            _tensor: tensor,
        })
    }
}

#[pymethods]
impl ForeignTensor {
    /// Returns the tensor of a capsule, which `__dlpack__` has returned.
    #[new]
    fn new(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::showing(Tensor::of(capsule)?)
    }

    /// Returns the tensor of an object whose type has DLPack's table of functions, else `None`.
    #[staticmethod]
    fn exchanged(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Tensor::exchanged(object)?.map(Self::showing).transpose()
    }

    /// The dtype's text, as in a handle.
    #[getter]
    fn dtype(&self) -> &str {
        &self.dtype
    }

    /// The elements as bytes, for NumPy.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", format!("|V{}", self.itemsize))?;
        interface.set_item("data", (self.address, self.is_read_only))?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("strides", PyTuple::new(py, &self.strides)?)?;
        Ok(interface)
    }
}
