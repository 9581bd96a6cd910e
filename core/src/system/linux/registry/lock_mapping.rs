//! A mapping that keeps locks of the registry, whatever happens to fds.
#![allow(unsafe_code)] // madvise, unmapping

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::super::mmap::{self, Request};

/// A mapping of the registry that only keeps a lock: its address and its size.
pub(super) struct LockMapping(pub(super) *mut libc::c_void, pub(super) usize);

// SAFETY: the value must be usable in another thread; it is the address of a mapping of the whole
// process, and it is never dereferenced.
unsafe impl Send for LockMapping {}

impl LockMapping {
    /// Maps a page of the registry, which keeps the file's locks.
    pub(super) fn map(file: &File) -> io::Result<Self> {
        let fd = file.as_raw_fd();
        // A page. In a hugetlbfs it is a huge page, because madvise refuses a part of one.
        let bytes = file.metadata()?.blksize() as usize;
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        let start = mmap::map_with_spare(Request { fd, offset: 0, bytes, protection, flags })?;
        Ok(Self(start.as_ptr().cast(), bytes))
    }

    /// Keeps forked children from inheriting the mapping.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/madvise.2.html
    pub(super) fn exclude_from_forks(&self) {
        // SAFETY: the range must belong to this mapping; `LockMapping::map` returned address and
        // size, and MADV_DONTFORK changes no memory.
        unsafe { libc::madvise(self.0, self.1, libc::MADV_DONTFORK) };
    }

    /// Unmaps the page. The lock stays if a forked child has the mapping, too.
    pub(super) fn unmap(self) {
        // SAFETY: nobody may use the range afterwards; `LockMapping::map` mapped it, it is never
        // dereferenced, and `self` is consumed here.
        unsafe { mmap::unmap(self.0.cast(), self.1) };
    }
}
