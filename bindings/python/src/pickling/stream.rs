//! The stream, which a pickler writes to.
#![allow(unsafe_code)] // memory that a pickler passes by the buffer protocol

use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString, PyTuple};
use shmarray::{Array, DType, Options};

use crate::error::to_py;
use crate::memory::LARGE_BYTES;
use crate::segment_memory::SegmentMemory;

/// A new segment has this much more room than necessary: after its last large part a pickle has a
/// few more bytes.
const SPARE_BYTES: usize = 4 << 10;
/// While the stream is shorter than this, each new segment doubles it. After that it adds a
/// quarter.
const DOUBLED_BYTES: usize = 16 << 20;

/// The stream of a pickle: in private memory while it is short, else in segments of shared memory,
/// which a message takes as they are. A large piece lies in one segment. Pieces that find no room
/// in shared memory follow the segments.
#[pyclass(module = "shmarray._core")]
pub(crate) struct Stream {
    segments: Vec<FilledSegment>,
    /// The pieces that follow the segments.
    rest: Vec<Py<PyBytes>>,
    rest_bytes: usize,
    /// The limit of the rest, unless shared memory is full.
    rest_most: usize,
    /// The error because of which there will be no more segments.
    failure: Option<PyErr>,
}

struct FilledSegment {
    array: Array,
    used: usize,
}

impl FilledSegment {
    fn new(room: usize) -> shmarray::Result<Self> {
        let options = Options::new().uninitialized(true);
        Ok(Self { array: Array::create(DType::parse("|u1")?, &[room as u64], &options)?, used: 0 })
    }

    fn room(&self) -> usize {
        self.array.layout().len() as usize - self.used
    }

    fn write(&mut self, bytes: &[u8]) -> shmarray::Result<()> {
        // SAFETY: `write_bytes` needs that nobody else uses the array. It was created in `new`, and
        // its handle has not been given to anybody yet.
        unsafe { self.array.write_bytes(self.used as u64, bytes) }?;
        self.used += bytes.len();
        Ok(())
    }
}

impl Stream {
    /// Returns whether all of it is in private memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.segments.is_empty() && self.failure.is_none()
    }

    /// Returns whether this many bytes more go into the rest.
    fn is_for_rest(&self, bytes: usize) -> bool {
        self.failure.is_some()
            || (self.segments.is_empty() && self.rest_bytes + bytes <= self.rest_most)
    }

    fn add_to_rest(&mut self, piece: &Bound<'_, PyBytes>) {
        self.rest.push(piece.clone().unbind());
        self.rest_bytes += piece.as_bytes().len();
    }

    /// Adds bytes. `piece` is the object they lie in, if it may be kept instead of a copy.
    /// `are_fixed` means that nobody can change them.
    fn write_bytes(
        &mut self,
        py: Python<'_>,
        bytes: &[u8],
        piece: Option<&Bound<'_, PyBytes>>,
        are_fixed: bool,
    ) -> PyResult<usize> {
        if !self.is_for_rest(bytes.len()) {
            match self.write_to_segments(py, bytes, are_fixed) {
                Ok(()) => return Ok(bytes.len()),
                Err(error) => self.failure = Some(error),
            }
        }
        match piece {
            Some(piece) => self.add_to_rest(piece),
            None => self.add_to_rest(&PyBytes::new(py, bytes)),
        }
        Ok(bytes.len())
    }

    /// Moves the rest into the segments, and adds bytes. Other threads of Python run meanwhile.
    fn write_to_segments(&mut self, py: Python<'_>, bytes: &[u8], are_fixed: bool) -> PyResult<()> {
        let rest: Vec<&[u8]> = self.rest.iter().map(|piece| piece.as_bytes(py)).collect();
        let segments = &mut self.segments;
        let behind = self.rest_bytes;
        let mut write = || write_behind(segments, &rest, behind, bytes);
        let written =
            if are_fixed && bytes.len() as u64 >= LARGE_BYTES { py.detach(write) } else { write() };
        drop(rest);
        written.map_err(to_py)?;
        self.rest.clear();
        self.rest_bytes = 0;
        Ok(())
    }
}

/// Adds the rest and then `bytes` to the segments, in one piece.
fn write_behind(
    segments: &mut Vec<FilledSegment>,
    rest: &[&[u8]],
    rest_bytes: usize,
    bytes: &[u8],
) -> shmarray::Result<()> {
    let needed = rest_bytes + bytes.len();
    if segments.last().is_none_or(|last| last.room() < needed) {
        let written = segments.iter().map(|segment| segment.used).sum::<usize>() + rest_bytes;
        let growth = if written < DOUBLED_BYTES { written } else { written / 4 };
        segments.push(FilledSegment::new(needed.max(growth) + SPARE_BYTES)?);
    }
    if let Some(last) = segments.last_mut() {
        rest.iter().try_for_each(|piece| last.write(piece))?;
        last.write(bytes)?;
    }
    Ok(())
}

#[pymethods]
impl Stream {
    #[new]
    fn new(rest_most: usize) -> Self {
        Self { segments: Vec::new(), rest: Vec::new(), rest_bytes: 0, rest_most, failure: None }
    }

    /// Adds bytes, or a text as UTF-8.
    #[pyo3(signature = (data, /))]
    fn write(&mut self, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = data.py();
        let piece = data.cast::<PyBytes>();
        if let Ok(piece) = piece
            && self.is_for_rest(piece.as_bytes().len())
        {
            self.add_to_rest(piece);
            return Ok(piece.as_bytes().len());
        }
        if let Ok(text) = data.cast::<PyString>() {
            return self.write_bytes(py, text.to_str()?.as_bytes(), None, true);
        }
        let memory = PyUntypedBuffer::get(data)?;
        if memory.len_bytes() == 0 {
            return Ok(0); // the address may be null
        }
        if !memory.is_c_contiguous() && !memory.is_fortran_contiguous() {
            return self.write(bytes_of(data)?.as_any());
        }
        // SAFETY: `memory` is a contiguous buffer of `len_bytes` initialized bytes that it keeps
        // alive. Nobody changes them meanwhile: either they are `bytes`, or this thread keeps the
        // GIL.
        let bytes = unsafe {
            std::slice::from_raw_parts(memory.buf_ptr().cast::<u8>(), memory.len_bytes())
        };
        let piece = piece.ok();
        self.write_bytes(py, bytes, piece, piece.is_some())
    }

    /// Returns how many bytes it has.
    pub(super) fn tell(&self) -> usize {
        self.segments.iter().map(|segment| segment.used).sum::<usize>() + self.rest_bytes
    }

    /// Returns the segments, with how many bytes of each are used.
    fn segments(&self) -> Vec<(SegmentMemory, usize)> {
        self.segments
            .iter()
            .map(|segment| (SegmentMemory::new(segment.array.clone()), segment.used))
            .collect()
    }

    /// Returns the rest of the stream in pieces. The last piece is `table` and the length of the
    /// rest.
    pub(super) fn payload<'py>(
        &self,
        py: Python<'py>,
        table: &[u8],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let length = (self.rest_bytes as u64).to_le_bytes();
        let last = PyBytes::new_with(py, table.len() + length.len(), |bytes| {
            bytes[..table.len()].copy_from_slice(table);
            bytes[table.len()..].copy_from_slice(&length);
            Ok(())
        })?;
        PyTuple::new(
            py,
            self.rest.iter().map(|piece| piece.bind(py).clone()).chain([last]).collect::<Vec<_>>(),
        )
    }

    /// Returns all of it, if there are no segments.
    fn getvalue<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let pieces: Vec<&[u8]> = self.rest.iter().map(|piece| piece.as_bytes(py)).collect();
        PyBytes::new(py, &pieces.concat())
    }

    /// Returns the error because of which some of it is not in shared memory.
    fn failure(&self, py: Python<'_>) -> Option<PyErr> {
        self.failure.as_ref().map(|error| error.clone_ref(py))
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.rest_most);
    }
}

/// Returns the bytes of a bytes-like object. Mutable ones are copied, so that they cannot change.
pub(crate) fn bytes_of<'py>(payload: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match payload.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => Ok(PyMemoryView::from(payload)?.call_method0("tobytes")?.cast_into()?),
    }
}
