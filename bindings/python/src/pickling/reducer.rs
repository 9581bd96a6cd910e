//! The reducer, which decides how each object is pickled.
#![allow(unsafe_code)] // core reads memory that NumPy describes; the classes of Python's C API

use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyTuple, PyType};
use shmarray::{Array, DType, Layout, Order, gather};

use crate::allocator::has_finalizer;
use crate::error::{to_py, value_error};
use crate::first_use::{FirstUse, interned};
use crate::memory::{Facts, ndarray};
use crate::{dtypes, plain};

/// An array of up to this size is in the stream, whatever else is there.
const SMALL_BYTES: u64 = 16 << 10;
/// From this size on, an array that is born shared is moved. To allocate one, send it and drop it
/// takes 217 to 253 µs by moving, and by copies 207 to 228 for 512 KiB and 263 to 302 for 1 MB: six
/// medians each, of 300 messages in one process.
const MOVED_LEAST_BYTES: u64 = 512 << 10;
/// From this size on, copying an array takes longer than asking it for its buffer.
const BUFFER_BYTES: u64 = 4 << 10;

/// Decides how objects are pickled. Small arrays and buffers have their bytes in the stream. Other
/// arrays, other buffers and objects of some classes are passed to functions. The pickler itself
/// writes everything else.
///
/// Each array has bytes of its own, also if another one lies in the same memory.
#[pyclass(module = "shmarray._core")]
pub(crate) struct Reducer {
    /// Reduces arrays.
    ask: Py<PyAny>,
    /// Reducers by class.
    others: Vec<Py<PyDict>>,
    ask_take: Py<PyAny>,
    /// Rebuilds a read-only array.
    fixed: Py<PyAny>,
    small_bytes: u64,
    /// Whether views may be small. If not, the owner of their memory decides how they are pickled.
    takes_views: bool,
    read_only: ReadOnly,
    /// The bytes of small arrays and buffers in the stream.
    inline_bytes: usize,
    /// Whether the message is offered the memory of arrays, so that even small ones may be moved.
    #[pyo3(get, set)]
    is_offered: bool,
    /// Whether an object was met that has a finalizer, while memory is offered.
    #[pyo3(get)]
    has_finalizers: bool,
}

/// Which private read-only arrays are read-only at the receiver: `_codec._parts.ReadOnly`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadOnly {
    None,
    Buffers,
    All,
}

impl ReadOnly {
    fn of_number(number: u8) -> PyResult<Self> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Buffers),
            2 => Ok(Self::All),
            _ => Err(value_error("invalid read_only: it is 0, 1 or 2")),
        }
    }

    /// Returns whether the receiver's array is read-only.
    fn keeps(self, array: &Bound<'_, PyAny>, facts: &Facts<'_>) -> PyResult<bool> {
        Ok(match self {
            _ if facts.is_writeable() => false,
            Self::None => false,
            Self::Buffers => {
                facts.is_contiguous() && pickle_buffer(array.py())?.call1((array,)).is_ok()
            }
            Self::All => true,
        })
    }
}

#[pymethods]
impl Reducer {
    #[new]
    fn new(
        ask: Py<PyAny>,
        others: Vec<Py<PyDict>>,
        ask_take: Py<PyAny>,
        fixed: Py<PyAny>,
        small_bytes: u64,
        takes_views: bool,
        read_only: u8,
    ) -> PyResult<Self> {
        let read_only = ReadOnly::of_number(read_only)?;
        Ok(Self {
            ask,
            others,
            ask_take,
            fixed,
            small_bytes,
            takes_views,
            read_only,
            inline_bytes: 0,
            is_offered: false,
            has_finalizers: false,
        })
    }

    /// Works as `pickle.Pickler.reducer_override`.
    #[pyo3(signature = (object, /))]
    fn reduce<'py>(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        let kind = object.get_type();
        if kind.is(plain::function(py)?) || kind.is(py.get_type::<PyType>()) {
            // Most streams have some. The pickler writes them by itself.
            return Ok(py.NotImplemented().into_bound(py));
        }
        if self.is_offered && !self.has_finalizers {
            self.has_finalizers = has_finalizer(object)?;
        }
        for reducers in &self.others {
            if let Ok(Some(reduce)) = reducers.bind(py).get_item(&kind) {
                return reduce.call1((object,));
            }
        }
        let ndarray = ndarray(py)?;
        if kind.is(ndarray) {
            let facts = Facts::of(object)?;
            if let Some(reduced) = self.reduce_small(object, &facts)? {
                return Ok(reduced);
            }
        } else if !is_subclass(&kind, ndarray) {
            return Ok(py.NotImplemented().into_bound(py));
        }
        self.ask.bind(py).call1((object,))
    }

    /// Works as a pickler's `buffer_callback`. Returns true if the buffer is small and goes into
    /// the stream.
    #[pyo3(signature = (buffer, /))]
    fn take<'py>(&mut self, buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = buffer.py();
        let memory = PyUntypedBuffer::get(buffer)?;
        let address = memory.buf_ptr() as usize;
        let bytes = memory.len_bytes();
        let is_small = bytes > 0
            && self.is_small(bytes as u64)
            && (memory.is_c_contiguous() || memory.is_fortran_contiguous());
        if !is_small
            || self.is_born_shared(bytes as u64, address)
            || Array::over_memory(
                address,
                DType::parse("|u1").map_err(to_py)?,
                &[bytes as u64],
                &[1],
            )
            .is_some()
        {
            return self.ask_take.bind(py).call1((buffer,));
        }
        self.inline_bytes += bytes;
        Ok(true.into_pyobject(py)?.to_owned().into_any())
    }

    /// Begins a pickle.
    pub(super) fn begin(&mut self, small_bytes: u64) {
        self.inline_bytes = 0;
        self.small_bytes = small_bytes;
        self.is_offered = false;
        self.has_finalizers = false;
    }
}

impl Reducer {
    /// Returns how many bytes of arrays are in the stream.
    pub(super) fn inline_bytes(&self) -> usize {
        self.inline_bytes
    }

    pub(super) fn small_bytes(&self) -> u64 {
        self.small_bytes
    }

    /// Returns whether this many bytes go into the stream: up to `SMALL_BYTES` always, more while
    /// all of them are at most `small_bytes`.
    fn is_small(&self, bytes: u64) -> bool {
        bytes <= self.small_bytes
            && (bytes <= SMALL_BYTES || self.inline_bytes as u64 + bytes <= self.small_bytes)
    }

    /// Whether so many bytes at an address can be moved rather than copied.
    fn is_born_shared(&self, bytes: u64, address: usize) -> bool {
        self.is_offered && bytes >= MOVED_LEAST_BYTES && shmarray::allocator::has(address)
    }

    fn reduce_small<'py>(
        &mut self,
        array: &Bound<'py, PyAny>,
        facts: &Facts<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        let bytes = facts.bytes();
        if bytes == 0 || !self.is_small(bytes) || facts.has_objects(array)? {
            return Ok(None);
        }
        if self.is_born_shared(bytes, facts.address() as usize) {
            return Ok(None);
        }
        let is_view = !array.getattr(interned!(py, "base"))?.is_none();
        if is_view && (!self.takes_views || facts.is_in_segment()?) {
            return Ok(None);
        }
        if !facts.is_contiguous() {
            let itemsize = facts.itemsize();
            let layout = facts.layout();
            let dense = match layout.without_gaps(itemsize) {
                Some(dense) => dense,
                // Elements that nobody can change may overlap at the receiver, too.
                None if self.read_only.keeps(array, facts)? => return Ok(None),
                None => Layout::contiguous(&layout.shape, itemsize, Order::C).map_err(to_py)?,
            };
            self.inline_bytes += bytes as usize;
            let copy = PyByteArray::new_with(py, bytes as usize, |room| {
                // SAFETY: `gather` needs elements that can be read: NumPy describes those of
                // `array`, which `facts` keeps alive. `room` is new memory.
                unsafe { gather(facts.address(), &layout, &dense, itemsize, room) }.map_err(to_py)
            })?;
            let place = (!dense.is_contiguous(itemsize, Order::C)).then_some(&dense);
            return self.reduced(array, facts, copy.into_any(), place);
        }
        let memory = facts.memory();
        let buffer = if bytes >= BUFFER_BYTES && facts.is_writeable() && facts.is_numeric() {
            // The pickler copies it once, and `take` counts it. Numbers in another byte order have
            // no buffer.
            pickle_buffer(py)?.call1((array,)).ok()
        } else {
            None
        };
        let bytes = buffer.unwrap_or_else(|| {
            self.inline_bytes += memory.len();
            PyByteArray::new(py, memory).into_any()
        });
        let place = (!facts.is_c_contiguous()).then(|| facts.layout());
        self.reduced(array, facts, bytes, place.as_ref())
    }

    /// Returns how an array is rebuilt from bytes: in C order, or as a layout says.
    fn reduced<'py>(
        &self,
        array: &Bound<'py, PyAny>,
        facts: &Facts<'py>,
        bytes: Bound<'py, PyAny>,
        place: Option<&Layout>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        let shape = PyTuple::new(py, facts.shape())?;
        let dtype = dtypes::compact(&array.getattr(interned!(py, "dtype"))?)?;
        let arguments = match place {
            None => (shape, dtype, bytes).into_pyobject(py)?,
            Some(place) => {
                let strides = PyTuple::new(py, &place.strides)?;
                (shape, dtype, bytes, place.offset, strides).into_pyobject(py)?
            }
        };
        let make = if self.read_only.keeps(array, facts)? {
            self.fixed.bind(py)
        } else {
            ndarray(py)?.as_any()
        };
        Ok(Some((make, arguments).into_pyobject(py)?.into_any()))
    }
}

/// Returns whether a class is derived from another, which has no say in that itself.
fn is_subclass(class: &Bound<'_, PyType>, of: &Bound<'_, PyType>) -> bool {
    // SAFETY: `PyType_IsSubtype` needs two classes, which both arguments are.
    unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), of.as_type_ptr()) != 0 }
}

fn pickle_buffer(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static PICKLE_BUFFER: FirstUse<Py<PyType>> = FirstUse::new();
    PICKLE_BUFFER.import(py, "pickle", "PickleBuffer")
}
