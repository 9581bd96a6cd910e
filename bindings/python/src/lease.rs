//! The lease: what keeps a segment mapped under the ndarrays that lie in it.
//!
//! An ndarray made with `numpy.ndarray(shape, dtype, buffer=lease, …)` has the lease as its
//! `.base`; so has every view of it, at the end of its chain of bases. NumPy asks for the
//! buffer once, keeps its address, and releases it at once: therefore a lease has no close,
//! and gives its segment up only when Python drops it.
#![allow(unsafe_code)] // the buffer protocol

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::{Access, Array, DType, Descriptor, Layout};

use crate::error::to_py;
use crate::memory::ndarray;
use crate::{dtypes, memory};

/// To unmap so much takes longer than it may take to get the GIL again.
const SLOW_TO_DROP_BYTES: u64 = 8 << 20;
/// How many leases there are of each so large segment that this process has mapped, by its address.
static LARGE: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Keeps a segment mapped: the ``base`` of the arrays in it.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Lease {
    /// `None` only while it is dropped.
    array: Option<Array>,
}

impl Lease {
    pub(crate) fn new(array: Array) -> Self {
        if let Some(address) = if_large(&array) {
            let mut large = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
            *large.entry(address).or_default() += 1;
        }
        Self { array: Some(array) }
    }

    pub(crate) fn array(&self) -> &Array {
        self.array.as_ref().expect("a lease has its array until it is dropped")
    }
}

fn if_large(array: &Array) -> Option<usize> {
    let (start, bytes) = array.segment_data();
    (bytes >= SLOW_TO_DROP_BYTES).then_some(start.as_ptr() as usize)
}

/// Other threads of Python run while much memory is given back.
///
/// Python drops a lease with the GIL, and nobody has it any more: what others do meanwhile cannot
/// concern it. At the end of the interpreter only the thread that ends it comes here.
impl Drop for Lease {
    fn drop(&mut self) {
        let Some(array) = self.array.take() else { return };
        match if_large(&array).is_some_and(is_last) {
            true => give_back(array),
            false => drop(array),
        }
    }
}

/// Whether no other lease has that segment any more.
fn is_last(address: usize) -> bool {
    let mut large = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let left = large.get_mut(&address).map_or(0, |count| {
        *count -= 1;
        *count
    });
    if left == 0 {
        large.remove(&address);
    }
    left == 0
}

fn give_back(array: Array) {
    let mut array = Some(array);
    let _ = Python::try_attach(|py| py.detach(|| drop(array.take())));
    drop(array); // there is no interpreter any more
}

#[pymethods]
impl Lease {
    /// Whether its pages are protected from stores.
    #[getter]
    fn readonly(&self) -> bool {
        self.array().is_readonly()
    }

    /// The bytes of its elements.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.array().layout().len() * self.array().dtype().item_bytes()
    }

    /// Exports the data of the whole segment; read-only where its pages are.
    ///
    /// # Safety
    /// `view` may be filled: the interpreter vouches for it.
    unsafe fn __getbuffer__(
        lease: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let array = lease.get().array();
        let (start, bytes) = array.segment_data();
        let readonly = c_int::from(array.is_readonly());
        let data = start.as_ptr().cast();
        // SAFETY: the data stays mapped while `array` lives, which the view's reference to
        // `lease` sees to; its size fits, as it is mapped.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(view, lease.as_ptr(), data, bytes as isize, readonly, flags)
        };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(lease.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<lease of segment {}>", self.array().handle().segment)
    }
}

/// The memory of an array that was sent, where this process has it, and how it is laid out there.
pub(crate) struct ReceivedArray<'py> {
    memory: Bound<'py, PyAny>,
    layout: Layout,
    dtype: DType,
}

impl<'py> ReceivedArray<'py> {
    /// A lease; or a copy, where the array is this process's alone and is better copied.
    pub(crate) fn of(py: Python<'py>, handle: &Descriptor, access: Access) -> PyResult<Self> {
        let is_copied = access == Access::CopyOnWrite && shmarray::is_better_copied(handle);
        let access = if is_copied { Access::ReadOnly } else { access };
        let array = Array::attach_handle(handle, access).map_err(to_py)?;
        let (layout, dtype) = (array.layout().clone(), array.dtype().clone());
        let memory = match is_copied {
            true => memory::private_copy(py, &array.whole())?,
            false => Bound::new(py, Lease::new(array))?.into_any(),
        };
        Ok(Self { memory, layout, dtype })
    }

    pub(crate) fn into_memory(self) -> Bound<'py, PyAny> {
        self.memory
    }

    pub(crate) fn ndarray(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ndarray_over(&dtypes::to_numpy(py, &self.dtype)?, &self.memory, &self.layout)
    }
}

/// A plain ndarray over an array, whose base is the array's lease.
pub(crate) fn to_ndarray<'py>(
    dtype: &Bound<'py, PyAny>,
    array: Array,
) -> PyResult<Bound<'py, PyAny>> {
    let layout = array.layout().clone();
    ndarray_over(dtype, Bound::new(dtype.py(), Lease::new(array))?.as_any(), &layout)
}

fn ndarray_over<'py>(
    dtype: &Bound<'py, PyAny>,
    memory: &Bound<'py, PyAny>,
    layout: &Layout,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let shape = PyTuple::new(py, &layout.shape)?;
    let strides = PyTuple::new(py, &layout.strides)?;
    ndarray(py)?.call1((shape, dtype, memory, layout.offset, strides))
}
