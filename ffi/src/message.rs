//! `shma_pipe_*` and `shma_message_*`: the C functions that send arrays to other processes.
//!
//! Only Linux has pipes. Elsewhere none can be made.

pub(crate) mod fds;

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use shmarray::{Error, Message, Pipe, Received, Sent};

use crate::arguments::{Object, list, needed, produce, put};
use crate::array::{access_of, arrays as arrays_of, shma_access, shma_array};
use crate::error::{
    Failure, SHMA_CLOSED, SHMA_OK, SHMA_TIMED_OUT, guard, guard_outcome, shma_error, shma_status,
};
use crate::waiting::wait;

/// One end of a bidirectional pipe for arrays and bytes. Only on Linux.
///
/// Any number of processes may share an end, by fork, exec or a socket. Each message is received
/// whole and by one process. A message that no process can receive any more releases its arrays.
pub struct shma_pipe(Pipe);

impl Object for shma_pipe {}

/// A received message: arrays and bytes. It holds its arrays until it is closed.
pub struct shma_message(Message);

impl Object for shma_message {}

/// Creates a pipe and returns its two ends. Their fds are close-on-exec.
///
/// Fails with SHMA_ERROR_OS.
/// Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_pair(
    one_out: *mut *mut shma_pipe,
    other_out: *mut *mut shma_pipe,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        if one_out.is_null() {
            return Err(Failure::Null("one_out"));
        }
        let make = || {
            let (one, other) = Pipe::pair()?;
            // SAFETY: `put` needs an output that is valid for a write: `one_out` is not NULL
            // (checked above), so P4 of the crate applies.
            unsafe { put(one_out, shma_pipe(one)) };
            Ok(shma_pipe(other))
        };
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `other_out`.
        unsafe { produce("other_out", other_out, make) }
    })
}

/// Makes a pipe of an fd that came from another process, by exec or over a socket.
///
/// If the call succeeds, the pipe owns the fd; if it fails, the caller does. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if the fd is not the end of such a pipe, SHMA_ERROR_OS if it is not
/// open.
/// Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; the caller owns the fd if it is open.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_from_fd(
    fd: c_int,
    pipe_out: *mut *mut shma_pipe,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `take_over` needs an fd that the caller owns if it is open, which the C caller
        // guarantees by the `# Safety` section.
        let make = || unsafe { fds::take_over(fd) }.map(shma_pipe);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `pipe_out`.
        unsafe { produce("pipe_out", pipe_out, make) }
    })
}

/// Returns the pipe's fd, or -1 for NULL. The pipe owns it; use it to poll, and to pass a duplicate
/// to another process. It is readable if a message can be received or none can arrive any more.
#[unsafe(no_mangle)]
pub extern "C" fn shma_pipe_fd(pipe: Option<&shma_pipe>) -> c_int {
    pipe.map_or(-1, |pipe| fds::fd_of(&pipe.0))
}

/// Sends arrays and bytes. The message holds the arrays until it is received, even if this process
/// ends.
///
/// arrays has count elements and payload has payload_bytes; each may be NULL if its size is 0.
/// timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until the pipe has room.
/// Returns SHMA_TIMED_OUT if it had none in that time, SHMA_CLOSED if no process has the other end.
/// Fails with SHMA_ERROR_NO_SPACE if a payload of more than 160 KiB finds room neither in shared
/// memory nor in a memory file. Nothing was sent unless the status is 0.
///
/// Several threads may send at once: each message is sent whole, and those of one thread stay in
/// order.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_send(
    pipe: Option<&shma_pipe>,
    arrays: *const Option<NonNull<shma_array>>,
    count: usize,
    payload: *const c_void,
    payload_bytes: usize,
    timeout_ns: i64,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let pipe = &needed("pipe", pipe)?.0;
        // SAFETY: `arrays_of` needs NULL or `count` pointers that are NULL or to live arrays: P1
        // and P3 of the crate, which the C caller guarantees.
        let arrays = unsafe { arrays_of("arrays", arrays, count) }?;
        // SAFETY: `list` needs NULL or `payload_bytes` bytes that do not change during the call: P3
        // of the crate, which the C caller guarantees.
        let payload = unsafe { list("payload", payload.cast::<u8>(), payload_bytes) }?;
        Ok(match wait(timeout_ns, |left| pipe.send(payload, &arrays, left))? {
            Sent::Sent => SHMA_OK,
            Sent::TimedOut => SHMA_TIMED_OUT,
            Sent::Closed => SHMA_CLOSED,
            _ => return Err(Error::UNKNOWN_OUTCOME.into()),
        })
    })
}

/// Receives a message. The caller owns it and closes it with shma_message_close.
///
/// timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until a message arrives or
/// none can arrive any more. Returns SHMA_TIMED_OUT if none arrived in that time, SHMA_CLOSED if no
/// process has the other end and every message has been received. Fails with SHMA_ERROR_OS and
/// os_errno EMFILE if this process has no free fd, and with SHMA_ERROR_INVALID_ARGUMENT if the
/// received bytes are not a message.
///
/// Several threads may receive at once, also while others send: each message goes to one of them.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_pipe_receive(
    pipe: Option<&shma_pipe>,
    timeout_ns: i64,
    message_out: *mut *mut shma_message,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let pipe = &needed("pipe", pipe)?.0;
        if message_out.is_null() {
            return Err(Failure::Null("message_out"));
        }
        Ok(match wait(timeout_ns, |left| pipe.receive(left))? {
            Received::Message(message) => {
                // SAFETY: `put` needs an output that is valid for a write: `message_out` is not
                // NULL (checked above), so P4 of the crate applies.
                unsafe { put(message_out, shma_message(message)) };
                SHMA_OK
            }
            Received::TimedOut => SHMA_TIMED_OUT,
            Received::Closed => SHMA_CLOSED,
            _ => return Err(Error::UNKNOWN_OUTCOME.into()),
        })
    })
}

/// Closes this end of the pipe. If no process has it any more, calls at the other end return
/// SHMA_CLOSED once the messages for it have been received. If no process has either end, messages
/// that were not received are released.
///
/// No thread may wait at this end meanwhile: the call would not wake it.
#[unsafe(no_mangle)]
pub extern "C" fn shma_pipe_close(pipe: Option<Box<shma_pipe>>) {
    guard(None, || {
        drop(pipe);
        Ok(())
    });
}

/// Returns the bytes of a message and writes their number to bytes_out, which may be NULL. The
/// pointer is valid until the message is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_message_payload(
    message: Option<&shma_message>,
    bytes_out: Option<&mut usize>,
) -> *const c_void {
    let payload = message.map(|message| message.0.payload());
    if let Some(bytes) = bytes_out {
        *bytes = payload.map_or(0, <[u8]>::len);
    }
    payload.map_or(std::ptr::null(), |payload| payload.as_ptr().cast())
}

/// Returns the number of arrays in a message.
#[unsafe(no_mangle)]
pub extern "C" fn shma_message_count(message: Option<&shma_message>) -> usize {
    message.map_or(0, |message| message.0.descriptors().len())
}

/// Attaches an array of a message; index counts from 0. The caller owns the array and closes it
/// with shma_array_close. It stays valid after the message is closed.
///
/// Fails with SHMA_ERROR_OUT_OF_BOUNDS, or like shma_array_attach.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_message_array(
    message: Option<&shma_message>,
    index: usize,
    access: shma_access,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let message = &needed("message", message)?.0;
        let access = access_of(access)?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || Ok(shma_array(message.array(index, access)?))) }
    })
}

/// Closes a message and releases those of its arrays that were not attached.
#[unsafe(no_mangle)]
pub extern "C" fn shma_message_close(message: Option<Box<shma_message>>) {
    guard(None, || {
        drop(message);
        Ok(())
    });
}
