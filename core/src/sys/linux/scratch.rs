//! Memory to work in, which the allocator knows nothing of.
//!
//! The C library's allocator holds its lock while it asks the system for much memory, and `fork` in a handler of a
//! signal that comes then would wait for that lock for ever. This memory is had without it.
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
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
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
