//! Words that processes share without a name, and wait on: a mapped memory file of the kernel.
//!
//! The file's size is sealed, so no process that has the file can remove a page of another's
//! mapping.
#![allow(unsafe_code)] // memfd_create, munmap

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::mmap::{self, Request};
use super::shared_futex::{sleep_at, wake_at};
use crate::value::error::{Error, Result};

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
/// The bytes before the words: the count of wake-ups and the number of waiting threads.
const FRONT_BYTES: usize = 64;

fn failed(call: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::os(call, "", error)
}

/// The words of such a file, zero at first. Hidden: it is for this project's bindings.
#[derive(Debug)]
pub struct SharedWords {
    file: OwnedFd,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value must be usable in another thread; its mapping belongs to the whole process and
// is accessed only through atomics, by `words` and `front`.
unsafe impl Send for SharedWords {}
// SAFETY: shared references must be usable by several threads at once; `words` and `front` give out
// references to atomics only.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Creates a file of `words` zeros.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/memfd_create.2.html
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn new(words: usize) -> Result<Self> {
        let bytes = words
            .checked_mul(8)
            .and_then(|bytes| bytes.checked_add(FRONT_BYTES))
            .ok_or_else(|| failed("ftruncate")(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: the name must be a NUL-terminated string; it is a C string literal, and the
        // kernel checks the flags.
        let fd = unsafe {
            libc::memfd_create(
                c"shmarray-words".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(failed("memfd_create")(io::Error::last_os_error()));
        }
        // SAFETY: `fd` must be open and owned by nobody else; `memfd_create` returned it just now,
        // and the error case was handled above.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(bytes as u64).map_err(failed("ftruncate"))?;
        // SAFETY: F_ADD_SEALS takes an open fd and a number; `file` owns the fd, and no pointer is
        // passed.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } < 0 {
            return Err(failed("fcntl(F_ADD_SEALS)")(io::Error::last_os_error()));
        }
        Self::map(file.into(), bytes)
    }

    /// Maps a file that another process created; fails if its size is not sealed.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/fcntl.2.html
    pub(crate) fn open(file: OwnedFd) -> Result<Self> {
        let file = File::from(file);
        // SAFETY: F_GET_SEALS takes an open fd and no argument; `file` owns the fd, and no pointer
        // is passed.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 {
            return Err(failed("fcntl(F_GET_SEALS)")(io::Error::last_os_error()));
        }
        let size = file.metadata().map_err(failed("fstat"))?.size();
        let bytes = usize::try_from(size).unwrap_or(0);
        if seals & SEALS != SEALS || bytes < FRONT_BYTES {
            return Err(Error::argument("fd", "it is not a sealed file of shared words"));
        }
        Self::map(file.into(), bytes)
    }

    /// Maps a whole file, whose size is sealed.
    fn map(file: OwnedFd, bytes: usize) -> Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = file.as_raw_fd();
        let start = mmap::map(Request { fd, offset: 0, bytes, protection, flags });
        Ok(Self { file, start: start.map_err(failed("mmap"))?, bytes })
    }

    /// The shared words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the result must lie in the mapping or at its end; `new` and `open` ensured that
        // the mapping has at least FRONT_BYTES.
        let first = unsafe { self.start.add(FRONT_BYTES) };
        // SAFETY: the range must be mapped and aligned while borrowed; `self` keeps the mapping,
        // which starts at a page boundary, and FRONT_BYTES is a multiple of 8. All processes access
        // it by atomics only.
        unsafe { std::slice::from_raw_parts(first.as_ptr().cast(), (self.bytes - FRONT_BYTES) / 8) }
    }

    /// Returns one of the two words before the shared ones.
    fn front(&self, index: usize) -> &AtomicU32 {
        debug_assert!(4 * index < FRONT_BYTES);
        // SAFETY: the result must lie in the mapping; callers pass 0 or 1, so the word ends before
        // FRONT_BYTES (asserted in debug builds), and `new` and `open` ensured that size.
        let word = unsafe { self.start.add(4 * index) };
        // SAFETY: the word must be mapped and aligned while borrowed; `self` keeps the mapping, the
        // offset is a multiple of 4, and all processes access it by atomics only.
        unsafe { word.cast().as_ref() }
    }

    /// Returns the count of wake-ups. A thread reads it before it checks whether it must wait.
    pub(crate) fn wakeups(&self) -> u32 {
        self.front(0).load(Ordering::SeqCst)
    }

    /// Wakes one waiting thread. If none waits, this makes no system call.
    pub(crate) fn wake_one(&self) {
        self.wake(1);
    }

    /// Wakes all waiting threads. If none waits, this makes no system call.
    pub(crate) fn wake_all(&self) {
        self.wake(i32::MAX);
    }

    fn wake(&self, most: i32) {
        self.front(0).fetch_add(1, Ordering::SeqCst);
        if self.front(1).load(Ordering::SeqCst) > 0 {
            wake_at(self.front(0).as_ptr(), most);
        }
    }

    /// Waits until the count of wake-ups is no longer `seen` or the time is over, unless `is_ready`
    /// says that there is nothing to wait for. A process that dies here leaves the number of
    /// waiting threads too high, so that others make a wake-up call in vain.
    pub(crate) fn wait(
        &self,
        seen: u32,
        most: Duration,
        is_ready: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        self.front(1).fetch_add(1, Ordering::SeqCst);
        let slept = if is_ready() { Ok(()) } else { sleep_at(self.front(0).as_ptr(), seen, most) };
        self.front(1).fetch_sub(1, Ordering::SeqCst);
        slept
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: nobody may use the range afterwards; `map` mapped exactly this range, and
        // references into it borrow `self`, which is being dropped.
        unsafe { mmap::unmap(self.start.as_ptr(), self.bytes) };
    }
}
