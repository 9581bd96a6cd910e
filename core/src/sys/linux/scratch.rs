//! Working memory that does not come from the C library's allocator.
//!
//! The allocator holds its lock while it maps a large block. A signal handler that forks at that
//! moment waits for the lock for ever. Mapping the memory here takes no lock.
#![allow(unsafe_code)] // mmap, munmap

use std::io;
use std::ptr::NonNull;

/// Zeros at first; of this process alone, and unmapped when dropped.
pub(super) struct Scratch {
    start: NonNull<u8>,
    bytes: usize,
}

impl Scratch {
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, bytes })
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` mapped so many, which nobody else has.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped, once; what borrowed it is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
