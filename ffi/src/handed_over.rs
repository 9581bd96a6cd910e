//! `shma_handed_over_*` and `shma_channel_hand_over`: the C functions that hand an end of a channel
//! over to another process.

use std::ffi::{CString, c_char, c_int};

use shmarray::HandedOver;

use crate::arguments::{Object, invalid, needed, produce};
use crate::channel::shma_channel;
use crate::error::{guard, shma_error, shma_status};
use crate::message::fds;

/// An end of a channel that is under way to another process. It counts as an end of the channel
/// until that process has opened it, or until all copies of its fd are closed.
pub struct shma_handed_over {
    handed_over: HandedOver,
    handle: CString,
}

impl Object for shma_handed_over {}

/// Hands an end over to another process, as one hands an end of a pipe to a child.
///
/// The other process opens it by shma_channel_open with shma_handed_over_handle, and has a copy of
/// shma_handed_over_fd until then: it inherits the fd, or receives it. After it has started, this
/// process calls shma_handed_over_close. Without it, a channel that this process closes before the
/// other one has opened it has ended. Fails with SHMA_ERROR_INVALID_ARGUMENT if all ends are in use
/// or the channel is closed, and with SHMA_ERROR_UNSUPPORTED for another user's channel, of which
/// the handle is enough.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_hand_over(
    channel: Option<&shma_channel>,
    handed_over_out: *mut *mut shma_handed_over,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let channel = &needed("channel", channel)?.channel;
        let make = || {
            let handed_over = channel.hand_over()?;
            let handle = CString::new(handed_over.handle());
            let handle = handle.map_err(|_| invalid("channel", "its handle has a zero".into()))?;
            Ok(shma_handed_over { handed_over, handle })
        };
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `handed_over_out`.
        unsafe { produce("handed_over_out", handed_over_out, make) }
    })
}

/// Returns the handle by which one process opens the end, a line of text. Valid until
/// shma_handed_over_close.
#[unsafe(no_mangle)]
pub extern "C" fn shma_handed_over_handle(handed_over: Option<&shma_handed_over>) -> *const c_char {
    handed_over.map_or(std::ptr::null(), |handed_over| handed_over.handle.as_ptr())
}

/// Returns the fd that holds the end, which is close-on-exec and closed by shma_handed_over_close.
/// Returns -1 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn shma_handed_over_fd(handed_over: Option<&shma_handed_over>) -> c_int {
    handed_over.map_or(-1, |handed_over| fds::fd_of(&handed_over.handed_over))
}

/// Closes this process's copy of the fd. If it is the last and nobody has opened the end, the end
/// is as that of a process that died.
#[unsafe(no_mangle)]
pub extern "C" fn shma_handed_over_close(handed_over: Option<Box<shma_handed_over>>) {
    guard(None, || {
        drop(handed_over);
        Ok(())
    });
}
