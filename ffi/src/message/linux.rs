//! Pipes of Linux: those of core, and their fds.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use shmarray::Error;
pub(super) use shmarray::{Message, Pipe, Received, Sent};

use crate::arguments::invalid;
use crate::error::Failure;

/// Succeeds: this system has pipes for arrays.
pub(super) fn check() -> Result<(), Failure> {
    Ok(())
}

pub(super) fn fd_of(pipe: &Pipe) -> c_int {
    pipe.as_fd().as_raw_fd()
}

/// Makes a pipe of an fd. A duplicate of the fd is tried first, so that a failure leaves it open.
///
/// # Safety
/// The caller owns the fd if it is open.
pub(super) unsafe fn take_over(fd: c_int) -> Result<Pipe, Failure> {
    if fd < 0 {
        return Err(invalid("fd", format!("{fd} is negative")));
    }
    // SAFETY: `borrow_raw` needs an fd that is not -1 (checked above) and that stays open, as the
    // caller owns it. If it is not open, only the duplication below uses it, and fails with EBADF.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    Pipe::from_fd(copy.map_err(|source| Error::Os {
        call: "fcntl(F_DUPFD_CLOEXEC)",
        path: "".into(),
        source,
    })?)?;
    // SAFETY: `from_raw_fd` needs an open fd that the caller owns: its duplication above has shown
    // that it is open, and the `# Safety` section requires the ownership.
    Ok(Pipe::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })?)
}
