//! How objects are pickled.
#![allow(unsafe_code)] // memory that NumPy vouches for

use std::collections::BTreeMap;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyDict, PyTuple, PyType};
use shmarray::{Array, DType};

use super::extents::{self, Extent};
use super::gather::gather;
use crate::errors::to_py;
use crate::memory::{Facts, ndarray};
use crate::{dtypes, plain};

/// So small an array is in the stream whatever else is there.
const SMALL_BYTES: u64 = 16 << 10;
/// From this size on a copy of an array takes longer than to call for its buffer.
const BUFFER_BYTES: u64 = 4 << 10;

/// Says how objects are pickled: small arrays and buffers with their bytes in the stream, as NumPy does it but in half the
/// time; what is an array or a buffer otherwise, and what is of some other classes, as functions say; all else as ever.
///
/// A small array that lies within one before it is made of the same bytes where it arrives, and one that lies in
/// a large one of the memory of that. Where small arrays have memory in common in other ways, theirs would be of their
/// own: `have_common` says so afterwards.
#[pyclass(module = "shmarray._core")]
pub(crate) struct Reducer {
    /// Of arrays.
    ask: Py<PyAny>,
    /// By classes.
    others: Vec<Py<PyDict>>,
    ask_take: Py<PyAny>,
    /// How to make a read-only array.
    fixed: Py<PyAny>,
    small_bytes: u64,
    /// Whether views may be small: the owner of their memory may say how they are pickled.
    takes_views: bool,
    /// Where the small arrays lie, but for those within others.
    small: Vec<Extent>,
    /// The bytes of those without gaps: where they begin and end, and what the pickler has of them.
    bytes: BTreeMap<usize, (usize, Py<PyAny>)>,
    /// Where large arrays begin and end.
    large: BTreeMap<usize, usize>,
    /// How many bytes they have.
    taken: usize,
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
    ) -> Self {
        Self {
            ask,
            others,
            ask_take,
            fixed,
            small_bytes,
            takes_views,
            small: Vec::new(),
            bytes: BTreeMap::new(),
            large: BTreeMap::new(),
            taken: 0,
        }
    }

    /// As `pickle.Pickler.reducer_override`.
    #[pyo3(signature = (object, /))]
    fn reduce<'py>(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, kind) = (object.py(), object.get_type());
        if kind.is(plain::function(py)?) || kind.is(py.get_type::<PyType>()) {
            return Ok(py.NotImplemented().into_bound(py)); // as Python's pickler has it; there are some in each stream
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
            self.note_large(facts.extent());
        } else if !kind.is_subclass(ndarray)? {
            return Ok(py.NotImplemented().into_bound(py));
        }
        self.ask.bind(py).call1((object,))
    }

    /// As a pickler's `buffer_callback`: whether the stream is to have the buffer, since it is small.
    #[pyo3(signature = (buffer, /))]
    fn take<'py>(&mut self, buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = buffer.py();
        let memory = PyUntypedBuffer::get(buffer)?;
        let (address, bytes) = (memory.buf_ptr() as usize, memory.len_bytes());
        let is_small = bytes > 0
            && bytes as u64 <= self.small_bytes
            && (memory.is_c_contiguous() || memory.is_fortran_contiguous());
        if !is_small
            || Array::over_memory(address, DType::parse("|u1").map_err(to_py)?, &[bytes as u64], &[1]).is_some()
        {
            return self.ask_take.bind(py).call1((buffer,));
        }
        self.note(Extent::contiguous(address, bytes), bytes);
        Ok(true.into_pyobject(py)?.to_owned().into_any())
    }

    /// Begins a pickle.
    pub(super) fn begin(&mut self, small_bytes: u64) {
        self.small.clear();
        self.bytes.clear();
        self.large.clear();
        self.taken = 0;
        self.small_bytes = small_bytes;
    }

    /// Whether small arrays have memory in common with one another, or with other arrays.
    pub(super) fn have_common(&mut self, others: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
        if self.small.is_empty() {
            return Ok(false);
        }
        for other in others {
            self.small.extend(extent_of(&other)?);
        }
        Ok(extents::have_common(&mut self.small))
    }
}

impl Reducer {
    /// How many bytes of arrays are in the stream.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn small_bytes(&self) -> u64 {
        self.small_bytes
    }

    /// Whether the stream takes so much: a little always, and more while it is little altogether.
    fn is_small(&self, bytes: u64) -> bool {
        bytes <= self.small_bytes && (bytes <= SMALL_BYTES || self.taken as u64 + bytes <= self.small_bytes)
    }

    fn note(&mut self, extent: Extent, bytes: usize) {
        self.small.push(extent);
        self.taken += bytes;
    }

    fn note_large(&mut self, (mut low, mut high): (usize, usize)) {
        while let Some((&start, &end)) = self.large.range(..high).next_back().filter(|(_, end)| **end > low) {
            (low, high) = (low.min(start), high.max(end));
            self.large.remove(&start);
        }
        self.large.insert(low, high);
    }

    /// Whether some of it may lie in a large array.
    fn is_in_large(&self, (low, high): (usize, usize)) -> bool {
        self.large.range(..high).next_back().is_some_and(|(_, end)| *end > low)
    }

    /// The bytes in the stream that all of it lies in, and how far from their beginning on.
    fn bytes_around<'py>(&self, py: Python<'py>, (low, high): (usize, usize)) -> Option<(usize, Bound<'py, PyAny>)> {
        let (start, (end, bytes)) = self.bytes.range(..=low).next_back()?;
        (high <= *end).then(|| (low - start, bytes.bind(py).clone()))
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
        let is_view = !array.getattr(intern!(py, "base"))?.is_none();
        if is_view && (!self.takes_views || facts.is_in_segment()? || self.is_in_large(facts.extent())) {
            return Ok(None);
        }
        let (low, _) = facts.extent();
        if let Some((offset, bytes)) = self.bytes_around(py, facts.extent()) {
            return self.reduced(array, facts, bytes, offset + (facts.address() as usize - low), facts.strides());
        }
        if !facts.is_contiguous() {
            let Some(gathered) = gather(facts) else { return Ok(None) };
            self.note(Extent::of(facts), gathered.bytes.len());
            let bytes = PyByteArray::new(py, &gathered.bytes).into_any();
            return self.reduced(array, facts, bytes, gathered.offset, &gathered.strides);
        }
        let memory = match bytes >= BUFFER_BYTES && facts.is_writeable() && facts.is_numeric() {
            true => pickle_buffer(py)?.call1((array,))?, // which the pickler copies once; `take` notes where it lies
            false => {
                self.note(Extent::contiguous(low, bytes as usize), bytes as usize);
                // SAFETY: NumPy says that its elements are these bytes, and keeps them while `array` lives.
                let bytes = unsafe { std::slice::from_raw_parts(facts.address(), bytes as usize) };
                PyByteArray::new(py, bytes).into_any()
            }
        };
        self.bytes.insert(low, (low + bytes as usize, memory.clone().unbind()));
        self.reduced(array, facts, memory, facts.address() as usize - low, facts.strides())
    }

    /// How an array is made again of bytes: where it begins in them, and with which strides.
    fn reduced<'py>(
        &self,
        array: &Bound<'py, PyAny>,
        facts: &Facts<'py>,
        bytes: Bound<'py, PyAny>,
        offset: usize,
        strides: &[isize],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        let shape = PyTuple::new(py, facts.shape())?;
        let dtype = dtypes::told(&array.getattr(intern!(py, "dtype"))?)?;
        let arguments = match offset == 0 && facts.are_of_c_order(strides) {
            true => (shape, dtype, bytes).into_pyobject(py)?,
            false => (shape, dtype, bytes, offset, PyTuple::new(py, strides)?).into_pyobject(py)?,
        };
        let make = if facts.is_writeable() { ndarray(py)?.as_any() } else { self.fixed.bind(py) };
        Ok(Some((make, arguments).into_pyobject(py)?.into_any()))
    }
}

fn pickle_buffer(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static PICKLE_BUFFER: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    PICKLE_BUFFER.import(py, "pickle", "PickleBuffer")
}

/// Where an array or a buffer lies. `None` of what is neither.
fn extent_of(other: &Bound<'_, PyAny>) -> PyResult<Option<Extent>> {
    if other.get_type().is(ndarray(other.py())?) {
        return Ok(Some(Extent::of(&Facts::of(other)?)));
    }
    let array =
        other.py().import(intern!(other.py(), "numpy"))?.call_method1(intern!(other.py(), "frombuffer"), (other, "u1"));
    match array {
        Ok(array) => Ok(Some(Extent::of(&Facts::of(&array)?))),
        Err(_) => Ok(None), // the number of a part, which lies in shared memory
    }
}
