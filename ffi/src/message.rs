//! `shma_pipe_*` and `shma_message_*`: arrays on their way to another process, for C.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use shmarray::{Error, Message, Pipe, Received, Sent};

use crate::arguments::{invalid, list, needed, produce, put};
use crate::array::{access_of, shma_access, shma_array};
use crate::error::{
    Failure, SHMA_CLOSED, SHMA_OK, SHMA_TIMED_OUT, guard, guard_outcome, shma_error,
};

/// One end of a pipe that carries arrays and bytes, both ways.
///
/// Any number of processes may share an end, by fork, exec or a socket: each message is received
/// once, and whole. A message that nobody can receive any more gives its arrays back. On Linux.
pub struct shma_pipe(Pipe);

/// Arrays and bytes that were received. It holds its arrays until it is closed.
pub struct shma_message(Message);

/// For timeout_ns: as long as it takes. So does any other negative number.
pub const SHMA_NO_TIMEOUT: i64 = -1;

fn timeout_of(timeout_ns: i64) -> Option<Duration> {
    u64::try_from(timeout_ns).ok().map(Duration::from_nanos)
}

/// A new pipe: its two ends. Their fds close on exec.
///
/// Fails with SHMA_ERROR_OS.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_pair(
    one_out: *mut *mut shma_pipe,
    other_out: *mut *mut shma_pipe,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        if one_out.is_null() {
            return Err(Failure::Null("one_out"));
        }
        let make = || {
            let (one, other) = Pipe::pair()?;
            // SAFETY: not NULL, so C's caller promises that it can be written.
            unsafe { put(one_out, shma_pipe(one)) };
            Ok(shma_pipe(other))
        };
        // SAFETY: C's caller promises what the header says.
        unsafe { produce("other_out", other_out, make) }
    })
}

/// An end that came from another process: by exec, or over a socket.
///
/// The fd is the pipe's from then on. When this fails it is still yours. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT when it is no end of such a pipe, SHMA_ERROR_OS when it is not open.
///
/// # Safety
/// Pointers are NULL or to what their types say; the fd is the caller's to give.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_from_fd(
    fd: c_int,
    pipe_out: *mut *mut shma_pipe,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: C's caller promises what the header says.
        let make = || unsafe { take_over(fd) }.map(shma_pipe);
        // SAFETY: as above.
        unsafe { produce("pipe_out", pipe_out, make) }
    })
}

/// The pipe of an fd, which is taken only when there is one: first a copy is tried.
///
/// # Safety
/// The fd is the caller's to give.
unsafe fn take_over(fd: c_int) -> Result<Pipe, Failure> {
    if fd < 0 {
        return Err(invalid("fd", format!("{fd} is no fd")));
    }
    // SAFETY: not negative; where it is not open the kernel says so.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    Pipe::from_fd(copy.map_err(|source| Error::Os {
        call: "fcntl(F_DUPFD_CLOEXEC)",
        path: "".into(),
        source,
    })?)?;
    // SAFETY: it is open and the caller's to give.
    Ok(Pipe::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })?)
}

/// The pipe's fd, which stays the pipe's: to poll, and to hand a copy of to other
/// processes. It is readable when a message can be received, or none will ever be. -1 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn shma_pipe_fd(pipe: Option<&shma_pipe>) -> c_int {
    pipe.map_or(-1, |pipe| pipe.0.as_fd().as_raw_fd())
}

/// Sends arrays and bytes. Until they are received the message holds the arrays, whoever ends.
///
/// arrays has count of them, and may be NULL when there are none; so may payload. timeout_ns is in
/// nanoseconds; SHMA_NO_TIMEOUT waits until there is room. SHMA_TIMED_OUT when there was no room in
/// that time, SHMA_CLOSED when nobody has the other end. Fails with SHMA_ERROR_NO_SPACE, and with
/// SHMA_ERROR_OS and os_errno EINTR when a signal's handler ran meanwhile. Unless the status is 0
/// nothing was sent.
///
/// # Safety
/// Pointers are NULL or to what their types say; there are count arrays and payload_bytes bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_send(
    pipe: Option<&shma_pipe>,
    arrays: *const Option<&shma_array>,
    count: usize,
    payload: *const c_void,
    payload_bytes: usize,
    timeout_ns: i64,
    error: Option<&mut shma_error>,
) -> i32 {
    guard_outcome(error, || {
        let pipe = &needed("pipe", pipe)?.0;
        // SAFETY: C's caller promises what the header says.
        let arrays = unsafe { list("arrays", arrays, count) }?;
        let arrays = arrays.iter().map(|&array| Ok(&needed("arrays", array)?.0));
        let arrays = arrays.collect::<Result<Vec<_>, Failure>>()?;
        // SAFETY: as above.
        let payload = unsafe { list("payload", payload.cast::<u8>(), payload_bytes) }?;
        Ok(match pipe.send(payload, &arrays, timeout_of(timeout_ns))? {
            Sent::Sent => SHMA_OK,
            Sent::TimedOut => SHMA_TIMED_OUT,
            Sent::Closed => SHMA_CLOSED,
        })
    })
}

/// Receives a message, which is yours until shma_message_close.
///
/// timeout_ns is in nanoseconds; SHMA_NO_TIMEOUT waits until there is a message, or there can be
/// none. SHMA_TIMED_OUT when none came in that time, SHMA_CLOSED when nobody has the other end and
/// all that was sent has been received. Fails with SHMA_ERROR_OS: os_errno EINTR when a signal's
/// handler ran meanwhile, EMFILE when this process has no fd left. With
/// SHMA_ERROR_INVALID_ARGUMENT when what came is no message.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_receive(
    pipe: Option<&shma_pipe>,
    timeout_ns: i64,
    message_out: *mut *mut shma_message,
    error: Option<&mut shma_error>,
) -> i32 {
    guard_outcome(error, || {
        let pipe = &needed("pipe", pipe)?.0;
        if message_out.is_null() {
            return Err(Failure::Null("message_out"));
        }
        Ok(match pipe.receive(timeout_of(timeout_ns))? {
            Received::Message(message) => {
                // SAFETY: not NULL, so C's caller promises that it can be written.
                unsafe { put(message_out, shma_message(message)) };
                SHMA_OK
            }
            Received::TimedOut => SHMA_TIMED_OUT,
            Received::Closed => SHMA_CLOSED,
        })
    })
}

/// Lets this end go. When no process has it any more, the other end is told; when none has
/// either, what was not received is given back.
#[unsafe(no_mangle)]
pub extern "C" fn shma_pipe_close(pipe: Option<Box<shma_pipe>>) {
    guard(None, || {
        drop(pipe);
        Ok(())
    });
}

/// The bytes of a message, and how many: bytes_out may be NULL. They live as long as the message.
#[unsafe(no_mangle)]
pub extern "C" fn shma_message_payload(
    message: Option<&shma_message>,
    bytes_out: Option<&mut usize>,
) -> *const c_void {
    let payload = message.map(|message| message.0.payload());
    bytes_out.map(|bytes| *bytes = payload.map_or(0, <[u8]>::len)).unwrap_or_default();
    payload.map_or(std::ptr::null(), |payload| payload.as_ptr().cast())
}

/// The number of arrays in a message.
#[unsafe(no_mangle)]
pub extern "C" fn shma_message_count(message: Option<&shma_message>) -> usize {
    message.map_or(0, |message| message.0.descriptors().len())
}

/// One of a message's arrays, counted from 0. It is yours until shma_array_close, and outlives the
/// message.
///
/// Fails with SHMA_ERROR_OUT_OF_BOUNDS, or as shma_array_attach.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_message_array(
    message: Option<&shma_message>,
    index: usize,
    access: shma_access,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        let (message, access) = (&needed("message", message)?.0, access_of(access)?);
        // SAFETY: C's caller promises what the header says.
        unsafe { produce("array_out", array_out, || Ok(shma_array(message.array(index, access)?))) }
    })
}

/// Lets a message go, and with it those of its arrays that were not asked for.
#[unsafe(no_mangle)]
pub extern "C" fn shma_message_close(message: Option<Box<shma_message>>) {
    guard(None, || {
        drop(message);
        Ok(())
    });
}
