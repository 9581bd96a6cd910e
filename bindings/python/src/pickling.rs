//! What a pickler of messages writes to, and what it asks how an array is pickled.
//!
//! Python's pickler, in C, calls both for each object that it does not know: so they are not in Python.
#![allow(unsafe_code)] // memory that NumPy vouches for

use pyo3::buffer::PyUntypedBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyTuple, PyType};
use shmarray::{Array, DType, Options};

use crate::errors::to_py;
use crate::hold::Hold;
use crate::memory::{Facts, LARGE_BYTES, ndarray};
use crate::{dtypes, messages, plain};

/// What a new buffer has beside what it is made for: a pickle has a few bytes behind its last large part.
const SPARE_BYTES: usize = 4 << 10;
/// Up to this size of a stream its next buffer is as large as all of it, beyond that a quarter.
const DOUBLED_BYTES: usize = 16 << 20;
/// So small an array is in the stream whatever else is there.
const SMALL_BYTES: u64 = 16 << 10;
/// From this size on a copy of an array takes longer than to call for its buffer.
const BUFFER_BYTES: u64 = 4 << 10;

/// The stream of a pickle: the pickler's own bytes while it is short, else buffers of shared memory, which a
/// message takes as they are. A buffer has room for what is large in one piece; what finds no room in shared
/// memory comes behind the buffers.
#[pyclass(module = "shmarray._core")]
pub(crate) struct Stream {
    buffers: Vec<Buffer>,
    /// What is behind them, in pieces that nobody copies.
    rest: Vec<Py<PyBytes>>,
    rest_bytes: usize,
    /// What the rest has at most, unless shared memory is full.
    rest_most: usize,
    /// Why there will be no more buffers.
    failure: Option<PyErr>,
}

struct Buffer {
    array: Array,
    used: usize,
}

impl Buffer {
    fn new(room: usize) -> shmarray::Result<Self> {
        let options = Options { uninitialized: true, ..Options::default() };
        Ok(Self { array: Array::create(DType::parse("|u1")?, &[room as u64], &options)?, used: 0 })
    }

    fn room(&self) -> usize {
        self.array.layout().len() as usize - self.used
    }

    fn write(&mut self, bytes: &[u8]) -> shmarray::Result<()> {
        // SAFETY: this array is new, and nobody else has it.
        unsafe { self.array.write_bytes(self.used as u64, bytes) }?;
        self.used += bytes.len();
        Ok(())
    }
}

impl Stream {
    fn bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.used).sum::<usize>() + self.rest_bytes
    }

    /// Whether the rest takes so many bytes more.
    fn is_for_rest(&self, bytes: usize) -> bool {
        self.failure.is_some() || (self.buffers.is_empty() && self.rest_bytes + bytes <= self.rest_most)
    }

    fn add_to_rest(&mut self, piece: &Bound<'_, PyBytes>) {
        self.rest.push(piece.clone().unbind());
        self.rest_bytes += piece.as_bytes().len();
    }

    /// Adds bytes to the buffers, and what of the stream is not there yet. Other threads of Python run meanwhile.
    fn write_to_buffers(&mut self, py: Python<'_>, bytes: &[u8], are_fixed: bool) -> PyResult<()> {
        let rest: Vec<&[u8]> = self.rest.iter().map(|piece| piece.as_bytes(py)).collect();
        let (buffers, behind) = (&mut self.buffers, self.rest_bytes);
        let mut write = || write_behind(buffers, &rest, behind, bytes);
        let written = if are_fixed && bytes.len() as u64 >= LARGE_BYTES { py.detach(write) } else { write() };
        drop(rest);
        written.map_err(to_py)?;
        self.rest.clear();
        self.rest_bytes = 0;
        Ok(())
    }
}

/// Adds to buffers what follows them and then `bytes`, in one piece.
fn write_behind(buffers: &mut Vec<Buffer>, rest: &[&[u8]], rest_bytes: usize, bytes: &[u8]) -> shmarray::Result<()> {
    let needed = rest_bytes + bytes.len();
    if buffers.last().is_none_or(|last| last.room() < needed) {
        let written = buffers.iter().map(|buffer| buffer.used).sum::<usize>() + rest_bytes;
        let growth = if written < DOUBLED_BYTES { written } else { written / 4 };
        buffers.push(Buffer::new(needed.max(growth) + SPARE_BYTES)?);
    }
    if let Some(last) = buffers.last_mut() {
        rest.iter().try_for_each(|piece| last.write(piece))?;
        last.write(bytes)?;
    }
    Ok(())
}

#[pymethods]
impl Stream {
    #[new]
    fn new(rest_most: usize) -> Self {
        Self { buffers: Vec::new(), rest: Vec::new(), rest_bytes: 0, rest_most, failure: None }
    }

    /// Adds bytes.
    #[pyo3(signature = (data, /))]
    fn write(&mut self, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = data.py();
        let piece = data.cast::<PyBytes>();
        let memory = PyUntypedBuffer::get(data)?;
        if memory.len_bytes() == 0 {
            return Ok(0); // there need be no memory
        }
        if !memory.is_c_contiguous() && !memory.is_fortran_contiguous() {
            return self.write(messages::bytes_of(data)?.as_any());
        }
        // SAFETY: it has so many bytes there, and nobody changes them meanwhile: this thread keeps the GIL, if it
        // is not `bytes`.
        let bytes = unsafe { std::slice::from_raw_parts(memory.buf_ptr().cast::<u8>(), memory.len_bytes()) };
        if !self.is_for_rest(bytes.len()) {
            match self.write_to_buffers(py, bytes, piece.is_ok()) {
                Ok(()) => return Ok(bytes.len()),
                Err(error) => self.failure = Some(error),
            }
        }
        match piece {
            Ok(piece) => self.add_to_rest(piece),
            Err(_) => self.add_to_rest(&PyBytes::new(py, bytes)),
        }
        Ok(bytes.len())
    }

    /// How many bytes it has.
    fn tell(&self) -> usize {
        self.bytes()
    }

    /// The buffers, with how many bytes of each are used.
    fn buffers(&self) -> Vec<(Hold, usize)> {
        self.buffers.iter().map(|buffer| (Hold::new(buffer.array.clone()), buffer.used)).collect()
    }

    /// What is behind the buffers, in pieces; the last is what is to follow that, and how long the first of the two is.
    fn payload<'py>(&self, py: Python<'py>, table: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        let length = (self.rest_bytes as u64).to_le_bytes();
        let last = PyBytes::new_with(py, table.len() + length.len(), |bytes| {
            bytes[..table.len()].copy_from_slice(table);
            bytes[table.len()..].copy_from_slice(&length);
            Ok(())
        })?;
        PyTuple::new(py, self.rest.iter().map(|piece| piece.bind(py).clone()).chain([last]).collect::<Vec<_>>())
    }

    /// All of it, where there are no buffers.
    fn getvalue<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let pieces: Vec<&[u8]> = self.rest.iter().map(|piece| piece.as_bytes(py)).collect();
        PyBytes::new(py, &pieces.concat())
    }

    /// Why some of it is not in a buffer that should be.
    fn failure(&self, py: Python<'_>) -> Option<PyErr> {
        self.failure.as_ref().map(|error| error.clone_ref(py))
    }

    /// It is empty.
    fn clear(&mut self) {
        *self = Self::new(self.rest_most);
    }
}

/// Says how objects are pickled: small arrays and buffers with their bytes in the stream, as NumPy does it but in half the
/// time; what is an array or a buffer otherwise, and what has Arrow's memory, as functions say; all else as ever.
///
/// What is small has memory of its own where it arrives. So where small arrays have memory in common, or with
/// others, that was not the way: `have_common` says so afterwards.
#[pyclass(module = "shmarray._core")]
pub(crate) struct Reducer {
    ask: Py<PyAny>,
    ask_take: Py<PyAny>,
    /// How to make a read-only array.
    fixed: Py<PyAny>,
    small_bytes: u64,
    /// Whether views may be small: the owner of their memory may say how they are pickled.
    takes_views: bool,
    /// Where the small arrays lie: the first address, and that behind the last.
    small: Vec<(usize, usize)>,
    /// How many bytes they have.
    taken: usize,
}

#[pymethods]
impl Reducer {
    #[new]
    fn new(ask: Py<PyAny>, ask_take: Py<PyAny>, fixed: Py<PyAny>, small_bytes: u64, takes_views: bool) -> Self {
        Self { ask, ask_take, fixed, small_bytes, takes_views, small: Vec::new(), taken: 0 }
    }

    /// As `pickle.Pickler.reducer_override`.
    #[pyo3(signature = (object, /))]
    fn reduce<'py>(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, kind) = (object.py(), object.get_type());
        let is_array = kind.is(ndarray(py)?);
        if is_array {
            if let Some(reduced) = self.reduce_small(object)? {
                return Ok(reduced);
            }
        }
        match is_array || is_asked_for(&kind)? {
            true => self.ask.bind(py).call1((object,)),
            false => Ok(py.NotImplemented().into_bound(py)),
        }
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
        self.note(address, bytes);
        Ok(true.into_pyobject(py)?.to_owned().into_any())
    }

    /// Begins a pickle.
    fn begin(&mut self, small_bytes: u64) {
        self.small.clear();
        self.taken = 0;
        self.small_bytes = small_bytes;
    }

    /// How many bytes of arrays are in the stream.
    fn taken(&self) -> usize {
        self.taken
    }

    /// Whether small arrays have memory in common with one another, or with other arrays.
    fn have_common(&mut self, others: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
        if self.small.is_empty() {
            return Ok(false);
        }
        for other in others {
            if let Some(extent) = extent_of(&other)? {
                self.small.push(extent);
            }
        }
        self.small.sort_unstable();
        Ok(self.small.windows(2).any(|pair| pair[1].0 < pair[0].1))
    }
}

impl Reducer {
    /// Whether the stream takes so much: a little always, and more while it is little altogether.
    fn is_small(&self, bytes: u64) -> bool {
        bytes <= self.small_bytes && (bytes <= SMALL_BYTES || self.taken as u64 + bytes <= self.small_bytes)
    }

    fn note(&mut self, address: usize, bytes: usize) {
        self.small.push((address, address + bytes));
        self.taken += bytes;
    }

    fn reduce_small<'py>(&mut self, array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        let facts = Facts::of(array)?;
        let bytes = facts.bytes();
        if bytes == 0 || !self.is_small(bytes) || facts.has_objects(array)? {
            return Ok(None);
        }
        if !array.getattr(intern!(py, "base"))?.is_none() && (!self.takes_views || facts.is_in_segment()?) {
            return Ok(None);
        }
        if !facts.is_contiguous() {
            return if facts.is_numeric() && facts.is_simple() { self.reduce_copy(array, &facts) } else { Ok(None) };
        }
        let memory = match bytes >= BUFFER_BYTES && facts.is_writeable() && facts.is_numeric() {
            true => pickle_buffer(py)?.call1((array,))?, // which the pickler copies once; `take` notes where it lies
            false => {
                self.note(facts.address() as usize, bytes as usize);
                // SAFETY: NumPy says that its elements are these bytes, and keeps them while `array` lives.
                let bytes = unsafe { std::slice::from_raw_parts(facts.address(), bytes as usize) };
                PyByteArray::new(py, bytes).into_any()
            }
        };
        let shape = PyTuple::new(py, facts.shape())?;
        let dtype = dtypes::told(&array.getattr(intern!(py, "dtype"))?)?;
        let arguments = match facts.is_in_c_order() {
            true => (shape, dtype, memory).into_pyobject(py)?,
            false => (shape, dtype, memory, 0, PyTuple::new(py, facts.strides())?).into_pyobject(py)?,
        };
        let make = if facts.is_writeable() { ndarray(py)?.as_any() } else { self.fixed.bind(py) };
        Ok(Some((make, arguments).into_pyobject(py)?.into_any()))
    }

    /// Of what is not contiguous, if a copy of the same order is. It lies where the array does, to whoever asks.
    fn reduce_copy<'py>(
        &mut self,
        array: &Bound<'py, PyAny>,
        facts: &Facts<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        let copy = array.call_method1(intern!(py, "copy"), ("K",))?;
        if !Facts::of(&copy)?.is_contiguous() {
            return Ok(None);
        }
        if !facts.is_writeable() {
            copy.call_method1(intern!(py, "setflags"), (false,))?;
        }
        let noted = self.small.len();
        let reduced = self.reduce_small(&copy)?;
        self.small.truncate(noted); // its memory may be another's soon
        self.small.push(facts.extent());
        Ok(reduced)
    }
}

fn pickle_buffer(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static PICKLE_BUFFER: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    PICKLE_BUFFER.import(py, "pickle", "PickleBuffer")
}

/// Whether the function is to say how objects of a class are pickled: arrays of other classes, and what pandas
/// and Polars have in Arrow's memory.
fn is_asked_for(kind: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = kind.py();
    if kind.is(plain::function(py)?) || kind.is(py.get_type::<PyType>()) {
        return Ok(false); // of these there are some in each stream
    }
    if kind.is_subclass(ndarray(py)?)? {
        return Ok(true);
    }
    let module = kind.getattr(intern!(py, "__module__"))?;
    let Ok(module) = module.extract::<&str>() else { return Ok(false) };
    let is_named = |start| kind.name().and_then(|name| Ok(name.to_str()?.starts_with(start)));
    Ok(module.starts_with("polars.") || (module.starts_with("pandas.") && is_named("Arrow")?))
}

/// The first address of what an array or a buffer lies in, and that behind the last. `None` of what is neither.
fn extent_of(other: &Bound<'_, PyAny>) -> PyResult<Option<(usize, usize)>> {
    if other.get_type().is(ndarray(other.py())?) {
        return Ok(Some(Facts::of(other)?.extent()));
    }
    let array =
        other.py().import(intern!(other.py(), "numpy"))?.call_method1(intern!(other.py(), "frombuffer"), (other, "u1"));
    match array {
        Ok(array) => Ok(Some(Facts::of(&array)?.extent())),
        Err(_) => Ok(None), // the number of a part, which lies in shared memory
    }
}
