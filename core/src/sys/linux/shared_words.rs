//! Words that processes share without a name, and wait at: a file of the kernel's own, mapped.
//!
//! Its size is sealed: nobody who has the file can take a page from under another's mapping.
#![allow(unsafe_code)] // memfd_create, mmap, futex

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
/// The count of wake-ups and the number of waiting threads come before the words.
const FRONT_BYTES: usize = 64;

/// The words of a file. Zeros at first.
#[derive(Debug)]
pub(crate) struct SharedWords {
    file: OwnedFd,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, and is reached through atomics only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    pub(crate) fn new(words: usize) -> io::Result<Self> {
        let bytes = words
            .checked_mul(8)
            .and_then(|bytes| bytes.checked_add(FRONT_BYTES))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: takes a C string and a number.
        let fd = unsafe {
            libc::memfd_create(
                c"shmarray-words".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new fd.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(bytes as u64)?;
        // SAFETY: takes numbers.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Self::map(file.into(), bytes)
    }

    /// Those of a file that another process made.
    pub(crate) fn open(file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        // SAFETY: takes numbers.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let bytes = usize::try_from(file.metadata()?.size()).map_err(io::Error::other)?;
        if seals < 0 || seals & SEALS != SEALS || bytes < FRONT_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no file of shared words",
            ));
        }
        Self::map(file.into(), bytes)
    }

    fn map(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, anywhere.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start_at) if start != libc::MAP_FAILED => {
                Ok(Self { file, start: start_at, bytes })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: inside the mapping.
        let first = unsafe { self.start.add(FRONT_BYTES) };
        // SAFETY: mapped while `self` lives, and aligned; all who have the file touch it by atomics
        // only.
        unsafe { std::slice::from_raw_parts(first.as_ptr().cast(), (self.bytes - FRONT_BYTES) / 8) }
    }

    fn front(&self, index: usize) -> &AtomicU32 {
        debug_assert!(4 * index < FRONT_BYTES);
        // SAFETY: inside the mapping.
        let word = unsafe { self.start.add(4 * index) };
        // SAFETY: as for `words`.
        unsafe { word.cast().as_ref() }
    }

    /// The count of wake-ups. A thread reads it before it looks whether it must wait.
    pub(crate) fn wakeups(&self) -> u32 {
        self.front(0).load(Ordering::SeqCst)
    }

    /// Wakes one waiting thread. Without one this is no system call.
    pub(crate) fn wake_one(&self) {
        self.front(0).fetch_add(1, Ordering::SeqCst);
        if self.front(1).load(Ordering::SeqCst) > 0 {
            // SAFETY: the kernel uses the address alone.
            unsafe { libc::syscall(libc::SYS_futex, self.front(0).as_ptr(), libc::FUTEX_WAKE, 1) };
        }
    }

    /// Waits until the count of wake-ups is no longer `seen`, or the time is over, unless `look`
    /// says that there is nothing to wait for. A process that dies here only makes others wake
    /// nobody.
    pub(crate) fn wait(
        &self,
        seen: u32,
        most: Duration,
        look: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        self.front(1).fetch_add(1, Ordering::SeqCst);
        let slept = if look() { Ok(()) } else { self.sleep(seen, most) };
        self.front(1).fetch_sub(1, Ordering::SeqCst);
        slept
    }

    fn sleep(&self, seen: u32, most: Duration) -> io::Result<()> {
        let most = libc::timespec {
            tv_sec: most.as_secs() as libc::time_t,
            tv_nsec: most.subsec_nanos().into(),
        };
        // SAFETY: an aligned word and a time that outlive the call; the kernel compares the word
        // and sleeps.
        let done = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.front(0).as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &raw const most,
            )
        };
        let error = io::Error::last_os_error();
        match done < 0 && error.kind() == io::ErrorKind::Interrupted {
            true => Err(error),
            false => Ok(()), // woken, too late to sleep, or the time is over
        }
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped, once; what points there borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
