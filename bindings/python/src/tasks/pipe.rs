//! Pipes that carry arrays, and the messages that are received from them.
#![allow(unsafe_code)] // an fd from Python, and a payload that Python views

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyBrokenPipeError, PyEOFError, PyIndexError, PyOSError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use shmarray::{Access, Array, Descriptor, Sent};

use crate::error::{timed_out, to_py, value_error};
use crate::memory::LARGE_BYTES;
use crate::parse_access;
use crate::pickling::bytes_of;
use crate::plain::PlainPayload;
use crate::segment_memory::{self, ReceivedArray};
use crate::wait::wait;

use super::queue_tasks::QueueTasks;

// The numbers of Linux.
const EBADF: i32 = 9;
const EPIPE: i32 = 32;

/// Nothing before the payload.
const NO_FRONT: &[u8] = &[];
/// The first opcode of every stream.
const PROTO: u8 = 0x80;
/// A payload of at least this size is viewed, not copied into an object of Python.
const VIEWED_BYTES: usize = 4 << 10;

/// What is in front of an object's payload, the payload, and the message unless the payload is all.
type ReceivedObject<'py> = (Bound<'py, PyBytes>, Bound<'py, PyAny>, Option<Bound<'py, Message>>);

/// One end of a pipe that carries arrays and bytes in both directions.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Pipe {
    /// `None` after `close`. A thread that is waiting keeps the end until it is done.
    end: Mutex<Option<Arc<shmarray::Pipe>>>,
}

impl Pipe {
    fn new(end: shmarray::Pipe) -> Self {
        Self { end: Mutex::new(Some(Arc::new(end))) }
    }

    pub(crate) fn open(&self) -> PyResult<Arc<shmarray::Pipe>> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.clone().ok_or_else(|| PyOSError::new_err((EBADF, "the pipe is closed")))
    }

    /// Receives a message, which is a task if there are `tasks`.
    fn next(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        tasks: Option<&QueueTasks>,
    ) -> PyResult<shmarray::Message> {
        let end = self.open()?;
        let tasks = tasks.map(|tasks| Ok::<_, PyErr>((tasks, tasks.entry()?))).transpose()?;
        let attempt = |left| match tasks {
            Some((tasks, entry)) => tasks.tasks.receive(entry, &end, left),
            None => end.receive(left),
        };
        let received = match timeout {
            Some(0.0) => attempt(Some(Duration::ZERO)).map_err(to_py)?,
            _ => wait(py, timeout, attempt)?,
        };
        match received {
            shmarray::Received::Message(message) => {
                if let Some((tasks, _)) = tasks {
                    tasks.add_got();
                }
                Ok(message)
            }
            ref outcome @ shmarray::Received::TimedOut => Err(timed_out(outcome)),
            ref outcome @ shmarray::Received::Closed => {
                Err(PyEOFError::new_err(outcome.to_string()))
            }
            _ => Err(to_py(shmarray::Error::UNKNOWN_OUTCOME)),
        }
    }
}

#[pymethods]
impl Pipe {
    /// Returns the two ends of a new pipe, whose fds are not inherited.
    #[staticmethod]
    fn pair() -> PyResult<(Self, Self)> {
        let (one, other) = shmarray::Pipe::pair().map_err(to_py)?;
        Ok((Self::new(one), Self::new(other)))
    }

    /// Returns the end of an fd, which the pipe owns from then on. If this raises, the caller still
    /// owns it.
    #[staticmethod]
    fn from_fd(fd: RawFd) -> PyResult<Self> {
        shmarray::Pipe::from_fd(copy_of(fd)?).map_err(to_py)?;
        // SAFETY: `copy_of` has found that `fd` is open, and the caller passes its ownership on.
        let end = shmarray::Pipe::from_fd(unsafe { OwnedFd::from_raw_fd(fd) });
        end.map(Self::new).map_err(to_py)
    }

    /// Returns the fd, which the pipe still owns.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.open()?.as_fd().as_raw_fd())
    }

    /// Closes this end. A thread that waits here goes on until it is done.
    fn close(&self) {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(end);
    }

    /// Sends bytes, or pieces of bytes that follow one another; arrays of shared memory, which the
    /// message holds from then on; and copies of fds. When they are sent, a list of pieces is
    /// emptied, and the task of `tasks` that the message is is in the pipe, before a signal's
    /// handler can raise.
    #[pyo3(signature = (payload, arrays, timeout=None, fds=Vec::new(), tasks=None))]
    fn send(
        &self,
        payload: &Bound<'_, PyAny>,
        arrays: Vec<Bound<'_, PyAny>>,
        timeout: Option<f64>,
        fds: Vec<RawFd>,
        tasks: Option<&QueueTasks>,
    ) -> PyResult<()> {
        let end = self.open()?;
        let pieces = pieces_of(payload)?;
        let pieces = pieces.iter().map(memory_of).collect::<PyResult<Vec<&[u8]>>>()?;
        let arrays = arrays.iter().map(segment_memory::shared).collect::<PyResult<Vec<_>>>()?;
        let arrays: Vec<&Array> = arrays.iter().collect();
        let fds = fds.into_iter().map(copy_of).collect::<PyResult<Vec<_>>>()?;
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let attempt = |left| end.send_vectored(&pieces, &arrays, &fds, left);
        let sent = match timeout {
            Some(0.0)
                if pieces.iter().map(|piece| piece.len()).sum::<usize>() < LARGE_BYTES as usize =>
            {
                attempt(Some(Duration::ZERO)).map_err(to_py)?
            }
            _ => wait(payload.py(), timeout, attempt)?,
        };
        match sent {
            Sent::Sent => {
                tasks.map_or(Ok(()), QueueTasks::set_in_pipe)?;
                match payload.cast::<PyList>() {
                    Ok(pieces) => pieces.del_slice(0, pieces.len()),
                    Err(_) => Ok(()),
                }
            }
            sent => Err(not_sent(&sent)),
        }
    }

    /// Sends an object if it is plain, or a text or bytes of up to `text_bytes`, as `encode_plain`
    /// encodes it, behind `front`. Returns whether there was room in that time, and `None` if the
    /// object is no such object.
    #[pyo3(signature = (object, text_bytes, reducers, front=NO_FRONT, timeout=None))]
    fn send_plain<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        text_bytes: usize,
        reducers: &Bound<'py, PyTuple>,
        front: &[u8],
        timeout: Option<f64>,
    ) -> PyResult<Option<bool>> {
        let Some(payload) = PlainPayload::of(object, text_bytes, reducers)? else {
            return Ok(None);
        };
        let end = self.open()?;
        let [one, two, three] = payload.pieces()?;
        let pieces = [front, one, two, three];
        let attempt = |left| end.send_vectored(&pieces, &[], &[], left);
        let sent = match attempt(Some(Duration::ZERO)).map_err(to_py)? {
            Sent::TimedOut if timeout != Some(0.0) => wait(object.py(), timeout, attempt)?,
            sent => sent,
        };
        match sent {
            Sent::Sent => Ok(Some(true)),
            Sent::TimedOut => Ok(Some(false)),
            sent => Err(not_sent(&sent)),
        }
    }

    /// Receives a message. Returns its bytes, or a view of them if they are many, and the message.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, Message>)> {
        let mut message = self.next(py, timeout, None)?;
        let fds = message.take_fds();
        Message::with(py, message, 0, fds)
    }

    /// Receives a message of which the first `front_bytes` are not its object's. Returns these, the
    /// payload and the message; or these, the stream and `None` if the message has nothing else.
    /// With `tasks` the message is one of them.
    #[pyo3(signature = (front_bytes=0, timeout=None, tasks=None))]
    fn receive_object<'py>(
        &self,
        py: Python<'py>,
        front_bytes: usize,
        timeout: Option<f64>,
        tasks: Option<&QueueTasks>,
    ) -> PyResult<ReceivedObject<'py>> {
        let mut message = self.next(py, timeout, tasks)?;
        let fds = message.take_fds();
        let (front, payload) = message
            .payload()
            .split_at_checked(front_bytes)
            .ok_or_else(|| value_error("invalid message: it is too short"))?;
        let front = PyBytes::new(py, front);
        let is_stream = fds.is_empty() && message.descriptors().is_empty() && is_stream(payload);
        if is_stream && payload.len() < VIEWED_BYTES {
            return Ok((front, PyBytes::new(py, payload).into_any(), None));
        }
        let (payload, message) = Message::with(py, message, front_bytes, fds)?;
        Ok((front, payload, (!is_stream).then_some(message)))
    }
}

/// Returns whether a payload is the stream of a pickle and its length.
fn is_stream(payload: &[u8]) -> bool {
    let Some((stream, length)) = payload.split_last_chunk() else { return false };
    stream.first() == Some(&PROTO) && u64::from_le_bytes(*length) == stream.len() as u64
}

/// Holds the arrays that were received. An array that was taken out lives on by itself.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Message {
    message: shmarray::Message,
    /// How many bytes are in front of the object's payload.
    front_bytes: usize,
    fds: Mutex<Vec<OwnedFd>>,
}

impl Message {
    /// Returns the payload behind the front and the message.
    fn with(
        py: Python<'_>,
        message: shmarray::Message,
        front_bytes: usize,
        fds: Vec<OwnedFd>,
    ) -> PyResult<(Bound<'_, PyAny>, Bound<'_, Self>)> {
        let message = Bound::new(py, Self { message, front_bytes, fds: Mutex::new(fds) })?;
        let payload = message.get().payload();
        match payload.len() {
            0..VIEWED_BYTES => Ok((PyBytes::new(py, payload).into_any(), message)),
            _ => Ok((PyMemoryView::from(message.as_any())?.into_any(), message)),
        }
    }

    fn payload(&self) -> &[u8] {
        &self.message.payload()[self.front_bytes..]
    }

    fn handle(&self, index: i64) -> PyResult<&Descriptor> {
        let found =
            usize::try_from(index).ok().and_then(|index| self.message.descriptors().get(index));
        found.ok_or_else(|| {
            PyIndexError::new_err(format!("no array {index} in a message of {}", self.__len__()))
        })
    }
}

#[pymethods]
impl Message {
    /// Exports the payload. The view keeps the message, and with it the arrays.
    ///
    /// # Safety
    /// `view` points to a `Py_buffer` that may be written, as the interpreter guarantees for this
    /// slot.
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let payload = this.get().payload();
        let start = payload.as_ptr().cast_mut().cast();
        // SAFETY: `PyBuffer_FillInfo` needs memory that outlives the view. The view gets a
        // reference to `this`, whose payload is never changed or freed before. The interpreter
        // passes a valid `view`.
        let done = unsafe {
            ffi::PyBuffer_FillInfo(view, this.as_ptr(), start, payload.len() as isize, 1, flags)
        };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(this.py())) }
    }

    fn __len__(&self) -> usize {
        self.message.descriptors().len()
    }

    /// Takes the fds of the message, which the caller closes.
    fn take_fds(&self) -> Vec<RawFd> {
        let mut fds = self.fds.lock().unwrap_or_else(PoisonError::into_inner);
        fds.drain(..).map(IntoRawFd::into_raw_fd).collect()
    }

    /// Returns one of the arrays as a plain ndarray. `mode` is "r+", "r" or, for private memory,
    /// "c" or "own".
    #[pyo3(signature = (index, mode="r+"))]
    fn array<'py>(&self, py: Python<'py>, index: i64, mode: &str) -> PyResult<Bound<'py, PyAny>> {
        ReceivedArray::of(py, self.handle(index)?, parse_access(mode)?)?.ndarray(py)
    }

    /// Returns the memory of one of the arrays: a `SegmentMemory`, or an ndarray of bytes if
    /// private memory is better copied.
    fn memory<'py>(&self, py: Python<'py>, index: i64, mode: &str) -> PyResult<Bound<'py, PyAny>> {
        ReceivedArray::of(py, self.handle(index)?, parse_access(mode)?)
            .map(ReceivedArray::into_memory)
    }

    /// Returns a copy of one of the arrays as bytes, in C order. Other threads of Python run
    /// meanwhile.
    fn read<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyBytes>> {
        // A mapping with this access stays cached for the next message. A read-only one does not.
        let array =
            Array::attach_descriptor(self.handle(index)?, Access::ReadWrite).map_err(to_py)?;
        let length = array.layout().len() * array.dtype().itemsize();
        PyBytes::new_with(py, length as usize, |bytes| {
            py.detach(|| array.read_into(bytes)).map_err(to_py)
        })
    }
}

fn not_sent(outcome: &Sent) -> PyErr {
    match outcome {
        Sent::TimedOut => timed_out(outcome),
        Sent::Closed => PyBrokenPipeError::new_err((EPIPE, outcome.to_string())),
        _ => to_py(shmarray::Error::UNKNOWN_OUTCOME),
    }
}

/// Returns a new fd of the same open file.
pub(crate) fn copy_of(fd: RawFd) -> PyResult<OwnedFd> {
    if fd < 0 {
        return Err(value_error(format!("invalid fd: {fd} is negative")));
    }
    // SAFETY: `borrow_raw` needs an fd that is not -1, which was checked above. The kernel reports
    // an fd that is not open, and the borrow ends with this statement.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    // pyo3's own conversion has no errno.
    copy.map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))
}

/// Returns the pieces of a payload as objects whose memory cannot change: `bytes` and texts as they
/// are, other buffers as copies. A text is sent as UTF-8.
fn pieces_of<'py>(payload: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let fixed = |piece: &Bound<'py, PyAny>| {
        if piece.is_exact_instance_of::<PyString>() {
            Ok(piece.clone())
        } else {
            bytes_of(piece).map(Bound::into_any)
        }
    };
    if let Ok(pieces) = payload.cast::<PyTuple>() {
        return pieces.iter().map(|piece| fixed(&piece)).collect();
    }
    match payload.cast::<PyList>() {
        Ok(pieces) => pieces.iter().map(|piece| fixed(&piece)).collect(),
        Err(_) => Ok(vec![fixed(payload)?]),
    }
}

/// Returns the memory of one of `pieces_of`.
fn memory_of<'a>(piece: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    match piece.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.as_bytes()),
        Err(_) => Ok(piece.cast::<PyBytes>()?.as_bytes()),
    }
}
