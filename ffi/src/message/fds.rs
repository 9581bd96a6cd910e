//! The numbers of pipes' fds, where the system has fds.

use std::ffi::c_int;
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use shmarray::{Error, Pipe};

#[cfg(unix)]
use crate::arguments::invalid;
use crate::error::Failure;

#[cfg(unix)]
pub(crate) fn fd_of(owner: &impl AsFd) -> c_int {
    owner.as_fd().as_raw_fd()
}

/// Makes a pipe of an fd. A duplicate of the fd is tried first, so that a failure leaves it open.
///
/// # Safety
/// The caller owns the fd if it is open.
#[cfg(unix)]
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

#[cfg(not(unix))]
pub(crate) fn fd_of<T>(_owner: &T) -> c_int {
    -1 // there is no fd
}

/// Fails: this system has no fds.
///
/// # Safety
/// None: the number is not used.
#[cfg(not(unix))]
pub(super) unsafe fn take_over(_fd: c_int) -> Result<Pipe, Failure> {
    Err(Error::Unsupported { what: "pipes for arrays, on this platform" }.into())
}
