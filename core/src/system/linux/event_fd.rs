//! An fd that is readable while something may be received: for `poll`, epoll and event loops.
#![allow(unsafe_code)] // eventfd

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An event of the kernel, set or not.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    /// Returns one that is not set.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/eventfd.2.html
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call cannot touch memory, because it takes plain numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` must be open and owned by nobody else; `eventfd` returned it just now, and
        // the error case was handled above.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub(crate) fn set(&self) {
        let _ = (&self.0).write_all(&1u64.to_ne_bytes()); // it fails only when it is set
    }

    pub(crate) fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]); // it fails only when it is not set
    }

    /// Returns the fd's number, for programs that wait for it.
    pub(crate) fn number(&self) -> c_int {
        self.0.as_raw_fd()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Blocks every signal for this thread: handlers run in the program's own threads.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man3/pthread_sigmask.3.html
pub(crate) fn block_signals() {
    // SAFETY: zeros must be a valid value; a set of signals is an array of bits.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer must be valid for a set; `all` is a local variable that the call fills.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: the pointers must be valid or null; `all` is a local variable, which is only read.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut()) };
}
