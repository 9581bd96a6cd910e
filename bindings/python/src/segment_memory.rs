//! The memory of a segment as Python's buffers and ndarrays see it.
//!
//! An ndarray made by `numpy.ndarray(shape, dtype, memory, …)` has the memory as its `.base`, and
//! so has the end of every view's chain of bases. NumPy asks for the buffer once, keeps its
//! address, and releases the buffer at once. The memory therefore has no close: the segment is
//! released only when Python drops it.
#![allow(unsafe_code)] // the buffer protocol

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::{Access, Array, DType, Descriptor, Layout};

use crate::dtypes;
use crate::error::{to_py, value_error};
use crate::first_use::interned;
use crate::memory::{Memory, ndarray, private_copy};

/// Unmapping this many bytes takes longer than getting the GIL again may take.
const SLOW_TO_DROP_BYTES: u64 = 8 << 20;
/// How many [`SegmentMemory`]s there are of each large segment, by its address.
static LARGE: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Keeps a segment mapped: the ``base`` of the arrays in it.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct SegmentMemory {
    /// `None` only while it is dropped.
    array: Option<Array>,
}

impl SegmentMemory {
    pub(crate) fn new(array: Array) -> Self {
        if let Some(address) = if_large(&array) {
            let mut large = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
            *large.entry(address).or_default() += 1;
        }
        Self { array: Some(array) }
    }

    pub(crate) fn array(&self) -> &Array {
        self.array.as_ref().expect("it has its array until it is dropped")
    }
}

fn if_large(array: &Array) -> Option<usize> {
    let (start, bytes) = array.segment_data();
    (bytes >= SLOW_TO_DROP_BYTES).then_some(start.as_ptr() as usize)
}

/// Releases large memory without the GIL, so that other threads of Python run meanwhile.
///
/// Python drops it with the GIL, and nobody refers to it any more, so other threads cannot use it.
/// At the end of the interpreter only the thread that ends it comes here.
impl Drop for SegmentMemory {
    fn drop(&mut self) {
        let Some(array) = self.array.take() else { return };
        if if_large(&array).is_some_and(is_last) { give_back(array) } else { drop(array) }
    }
}

/// Returns whether no other memory of that segment is left.
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
    drop(array); // reached with an array only if there is no interpreter any more
}

#[pymethods]
impl SegmentMemory {
    /// Whether its pages are protected from stores.
    #[getter]
    fn readonly(&self) -> bool {
        self.array().is_readonly()
    }

    /// Makes private memory that nobody else has this process's own, if no page of it was stored
    /// to.
    fn own(&self) -> bool {
        self.array().own()
    }

    /// The size of its elements in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.array().layout().len() * self.array().dtype().itemsize()
    }

    /// Exports the data of the whole segment, or of a channel's slot, read-only if its pages are.
    ///
    /// # Safety
    /// `view` points to a `Py_buffer` that may be written, as the interpreter guarantees for this
    /// slot.
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let array = this.get().array();
        let whole = array.whole();
        let data = whole.as_ptr().cast();
        let bytes = whole.shape()[0];
        let readonly = c_int::from(array.is_readonly());
        // SAFETY: `PyBuffer_FillInfo` needs memory that outlives the view. That of `whole` is
        // mapped while `array` lives, and `array` lives in `this`, to which the view gets a
        // reference. The size is that of a mapping, so it fits an isize.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(view, this.as_ptr(), data, bytes as isize, readonly, flags)
        };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<memory of segment {}>", self.array().descriptor().segment)
    }
}

/// The memory of an array that was received, and the array's layout in it.
pub(crate) struct ReceivedArray<'py> {
    memory: Bound<'py, PyAny>,
    layout: Layout,
    dtype: DType,
}

impl<'py> ReceivedArray<'py> {
    /// Attaches the array; takes a copy if the memory is private to this process and copying is
    /// better than mapping.
    pub(crate) fn of(py: Python<'py>, handle: &Descriptor, access: Access) -> PyResult<Self> {
        let is_copied = access.is_private() && shmarray::should_copy(handle);
        let access = if is_copied { Access::ReadOnly } else { access };
        let array = Array::attach_descriptor(handle, access).map_err(to_py)?;
        let layout = array.layout().clone();
        let dtype = array.dtype().clone();
        let memory = if is_copied {
            private_copy(py, &array.whole())?
        } else {
            Bound::new(py, SegmentMemory::new(array))?.into_any()
        };
        Ok(Self { memory, layout, dtype })
    }

    pub(crate) fn into_memory(self) -> Bound<'py, PyAny> {
        self.memory
    }

    pub(crate) fn ndarray(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ndarray_over(
            &dtypes::to_numpy(py, &self.dtype)?,
            self.dtype.itemsize(),
            &self.memory,
            &self.layout,
        )
    }
}

/// Returns a plain ndarray over an array, whose base keeps it.
pub(crate) fn to_ndarray<'py>(
    dtype: &Bound<'py, PyAny>,
    array: Array,
) -> PyResult<Bound<'py, PyAny>> {
    let mut layout = array.layout().clone();
    let itemsize = array.dtype().itemsize();
    if array.is_in_slot() {
        layout.offset -= array.whole().layout().offset; // the base exports the slot
    }
    ndarray_over(
        dtype,
        itemsize,
        Bound::new(dtype.py(), SegmentMemory::new(array))?.as_any(),
        &layout,
    )
}

/// Returns the array in a segment that an ndarray or a [`SegmentMemory`] is over, or ValueError if
/// it is in private memory, or in a slot of a channel.
pub(crate) fn shared(array: &Bound<'_, PyAny>) -> PyResult<Array> {
    if let Ok(memory) = array.cast_exact::<SegmentMemory>() {
        return Ok(memory.get().array().clone());
    }
    let memory = Memory::of(array)?;
    let dtype = dtypes::from_numpy(&array.getattr(interned!(array.py(), "dtype"))?)?;
    let has_none = "the array is in private memory, or in a slot of a channel, and has no handle: \
                    take that of shmarray.share(array)";
    memory.in_segment(dtype).ok_or_else(|| value_error(has_none))
}

/// Returns a plain ndarray over the buffer of an object, which is its base. The itemsize is the
/// dtype's.
pub(crate) fn ndarray_over<'py>(
    dtype: &Bound<'py, PyAny>,
    itemsize: u64,
    memory: &Bound<'py, PyAny>,
    layout: &Layout,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let shape = PyTuple::new(py, &layout.shape)?;
    if has_usual_strides(layout, itemsize) {
        return ndarray(py)?.call1((shape, dtype, memory, layout.offset));
    }
    let strides = PyTuple::new(py, &layout.strides)?;
    ndarray(py)?.call1((shape, dtype, memory, layout.offset, strides))
}

/// Whether NumPy gives an array of this shape the same strides if it is told none. To tell them
/// takes a tenth of a microsecond. Those of an array without elements are always told.
fn has_usual_strides(layout: &Layout, itemsize: u64) -> bool {
    let mut usual = itemsize as i64;
    let mut dims = layout.shape.iter().zip(&layout.strides).rev();
    dims.all(|(&length, &stride)| {
        let is_usual = length > 0 && stride == usual;
        usual = usual.wrapping_mul(length as i64);
        is_usual
    })
}
