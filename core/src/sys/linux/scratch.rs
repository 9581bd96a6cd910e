//! Working memory that does not come from the C library's allocator.
//!
//! The allocator holds its lock while it maps a large allocation. A signal handler that forks at
//! that moment would wait for the lock for ever. Mapping the memory here takes no lock.
#![allow(unsafe_code)] // mmap, munmap

use std::io;
use std::ptr::NonNull;

/// Private memory of this process, zeroed at first and unmapped when dropped.
pub(super) struct Scratch {
    start: NonNull<u8>,
    bytes: usize,
}

impl Scratch {
    /// Maps `bytes` bytes.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/mmap.2.html
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the mapping must not replace another; the address is null and MAP_FIXED is not
        // set, so the kernel chooses a free range.
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
        // SAFETY: the range must be mapped, initialized and not aliased; `new` mapped `bytes`
        // zeroed bytes for this value alone, and `&mut self` excludes another slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: nobody may use the range afterwards; `new` mapped exactly this range, and slices
        // of it borrow `self`, which is being dropped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
