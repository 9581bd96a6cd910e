//! The reducer, which decides how each object is pickled.

use std::collections::BTreeMap;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyDict, PyTuple, PyType};
use shmarray::{Array, DType};

use super::extents::{self, Extent};
use super::gather::gather;
use crate::error::to_py;
use crate::memory::{Facts, ndarray};
use crate::{dtypes, plain};

/// An array of up to this size is in the stream, whatever else is there.
const SMALL_BYTES: u64 = 16 << 10;
/// From this size on, copying an array takes longer than asking it for its buffer.
const BUFFER_BYTES: u64 = 4 << 10;

/// Decides how objects are pickled. Small arrays and buffers have their bytes in the stream. Other
/// arrays, other buffers and objects of some classes are passed to functions. The pickler itself
/// writes everything else.
///
/// A small array that lies within an earlier small one is rebuilt from the same bytes, and one
/// within a large array from the large one's memory. The stream cannot express any other overlap.
/// `have_common` finds it afterwards, and the object is written again.
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
    /// The extents of the small arrays, except those within others.
    small: Vec<Extent>,
    /// The small arrays without gaps, by their addresses.
    kept: BTreeMap<usize, Kept>,
    /// Whether one of them was changed before another one in it was pickled.
    is_changed: bool,
    /// The extents of large arrays, by their addresses.
    large: BTreeMap<usize, usize>,
    /// The bytes of small arrays and buffers in the stream.
    taken: usize,
}

/// A small array without gaps that is in the stream.
struct Kept {
    array: Py<PyAny>,
    /// The address behind it.
    end: usize,
    digest: u64,
    /// The object with its bytes that the pickler has.
    bytes: Py<PyAny>,
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
            kept: BTreeMap::new(),
            is_changed: false,
            large: BTreeMap::new(),
            taken: 0,
        }
    }

    /// Works as `pickle.Pickler.reducer_override`.
    #[pyo3(signature = (object, /))]
    fn reduce<'py>(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, kind) = (object.py(), object.get_type());
        if kind.is(plain::function(py)?) || kind.is(py.get_type::<PyType>()) {
            // Most streams have some. The pickler writes them by itself.
            return Ok(py.NotImplemented().into_bound(py));
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

    /// Works as a pickler's `buffer_callback`. Returns true if the buffer is small and goes into
    /// the stream.
    #[pyo3(signature = (buffer, /))]
    fn take<'py>(&mut self, buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = buffer.py();
        let memory = PyUntypedBuffer::get(buffer)?;
        let (address, bytes) = (memory.buf_ptr() as usize, memory.len_bytes());
        let is_small = bytes > 0
            && self.is_small(bytes as u64)
            && (memory.is_c_contiguous() || memory.is_fortran_contiguous());
        if !is_small
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
        self.note(Extent::contiguous(address, bytes), bytes);
        Ok(true.into_pyobject(py)?.to_owned().into_any())
    }

    /// Begins a pickle.
    pub(super) fn begin(&mut self, small_bytes: u64) {
        self.small.clear();
        self.kept.clear();
        self.is_changed = false;
        self.large.clear();
        self.taken = 0;
        self.small_bytes = small_bytes;
    }

    /// Returns whether small arrays overlap with one another, or with other arrays.
    pub(super) fn have_common(&mut self, others: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
        if self.small.is_empty() {
            return Ok(false);
        }
        for other in others {
            self.small.extend(extent_of(&other)?.map(Extent::out_of_band));
        }
        Ok(self.is_changed || extents::have_common(&mut self.small))
    }
}

impl Reducer {
    /// Returns how many bytes of arrays are in the stream.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn small_bytes(&self) -> u64 {
        self.small_bytes
    }

    /// Returns whether this many bytes go into the stream: up to `SMALL_BYTES` always, more while
    /// all of them are at most `small_bytes`.
    fn is_small(&self, bytes: u64) -> bool {
        bytes <= self.small_bytes
            && (bytes <= SMALL_BYTES || self.taken as u64 + bytes <= self.small_bytes)
    }

    fn note(&mut self, extent: Extent, bytes: usize) {
        self.small.push(extent);
        self.taken += bytes;
    }

    fn note_large(&mut self, (mut low, mut high): (usize, usize)) {
        if low == high {
            return;
        }
        while let Some((&start, &end)) =
            self.large.range(..high).next_back().filter(|(_, end)| **end > low)
        {
            (low, high) = (low.min(start), high.max(end));
            self.large.remove(&start);
        }
        self.large.insert(low, high);
    }

    /// Returns whether some of it may lie in a large array.
    fn is_in_large(&self, (low, high): (usize, usize)) -> bool {
        self.large.range(..high).next_back().is_some_and(|(_, end)| *end > low)
    }

    /// Returns the bytes in the stream that contain all of an array, and the array's offset in
    /// them. Returns `None` if the receiver's array would not be aligned as this one is.
    fn bytes_around<'py>(
        &mut self,
        array: &Bound<'py, PyAny>,
        facts: &Facts<'py>,
    ) -> PyResult<Option<(usize, Bound<'py, PyAny>)>> {
        let py = array.py();
        let (low, high) = facts.extent();
        let Some((start, kept)) =
            self.kept.range(..=low).next_back().filter(|(_, kept)| high <= kept.end)
        else {
            return Ok(None);
        };
        let dtype = array.getattr(intern!(py, "dtype"))?;
        if start % dtype.getattr(intern!(py, "alignment"))?.extract::<usize>()?.max(1) != 0 {
            return Ok(None);
        }
        let whole = Facts::of(kept.array.bind(py))?;
        if whole.extent() != (*start, kept.end) {
            self.is_changed = true; // it got other memory meanwhile
            return Ok(None);
        }
        self.is_changed |= digest(whole.memory()) != kept.digest;
        Ok(Some((facts.address() as usize - start, kept.bytes.bind(py).clone())))
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
        if is_view
            && (!self.takes_views || facts.is_in_segment()? || self.is_in_large(facts.extent()))
        {
            return Ok(None);
        }
        if let Some((offset, bytes)) = self.bytes_around(array, facts)? {
            return self.reduced(array, facts, bytes, offset, facts.strides());
        }
        if !facts.is_contiguous() {
            let Some(gathered) = gather(facts) else { return Ok(None) };
            self.note(Extent::of(facts), gathered.bytes.len());
            let bytes = PyByteArray::new(py, &gathered.bytes).into_any();
            return self.reduced(array, facts, bytes, gathered.offset, &gathered.strides);
        }
        let start = facts.address() as usize;
        let memory = facts.memory();
        let buffer = match bytes >= BUFFER_BYTES && facts.is_writeable() && facts.is_numeric() {
            // The pickler copies it once, and `take` notes its extent. Numbers in another byte
            // order have no buffer.
            true => pickle_buffer(py)?.call1((array,)).ok(),
            false => None,
        };
        let object = buffer.unwrap_or_else(|| {
            self.note(Extent::contiguous(start, memory.len()), memory.len());
            PyByteArray::new(py, memory).into_any()
        });
        let bytes = object.clone().unbind();
        let kept = Kept {
            array: array.clone().unbind(),
            end: start + memory.len(),
            digest: digest(memory),
            bytes,
        };
        self.kept.insert(start, kept);
        self.reduced(array, facts, object, 0, facts.strides())
    }

    /// Returns how an array is rebuilt from bytes, at an offset and with strides.
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
        let dtype = dtypes::compact(&array.getattr(intern!(py, "dtype"))?)?;
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

/// Returns a digest, FNV-1a over words in four lanes. It is equal for different bytes once in
/// 2⁶⁴ cases.
fn digest(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut lanes = [0xcbf2_9ce4_8422_2325_u64; 4];
    let blocks = bytes.chunks_exact(32);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, word) in
            lanes.iter_mut().zip(block.chunks_exact(8).filter_map(<[u8]>::first_chunk))
        {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME);
        }
    }
    let rest = rest.iter().map(|byte| u64::from(*byte));
    lanes
        .into_iter()
        .chain(rest)
        .fold(bytes.len() as u64, |sum, part| (sum ^ part).wrapping_mul(PRIME))
}

/// Returns the extent of an array or a buffer, or `None` for any other object.
fn extent_of(other: &Bound<'_, PyAny>) -> PyResult<Option<Extent>> {
    if other.get_type().is(ndarray(other.py())?) {
        return Ok(Some(Extent::of(&Facts::of(other)?)));
    }
    let array = other
        .py()
        .import(intern!(other.py(), "numpy"))?
        .call_method1(intern!(other.py(), "frombuffer"), (other, "u1"));
    match array {
        Ok(array) => Ok(Some(Extent::of(&Facts::of(&array)?))),
        Err(_) => Ok(None), // the number of a part, which lies in shared memory
    }
}
