//! Working memory that does not come from the C library's allocator.
//!
//! The allocator holds its lock while it maps a large allocation. A signal handler that forks at
//! that moment would wait for the lock for ever. Mapping the memory here takes no lock.
#![allow(unsafe_code)] // munmap

use std::io;
use std::ptr::NonNull;

use super::mmap::{self, Request};

/// Private memory of this process, zeroed at first and unmapped when dropped.
pub(super) struct Scratch {
    start: NonNull<u8>,
    bytes: usize,
}

impl Scratch {
    /// Maps `bytes` bytes.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = mmap::map(Request { fd: -1, offset: 0, bytes, protection, flags })?;
        Ok(Self { start, bytes })
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the range must be mapped, initialized and not aliased; `new` mapped `bytes`
        // zeroed bytes for this value alone, and `&mut self` excludes another slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: nobody may use the range afterwards; `new` mapped exactly this range, and slices
        // of it borrow `self`, which is being dropped.
        unsafe { mmap::unmap(self.start.as_ptr(), self.bytes) };
    }
}
