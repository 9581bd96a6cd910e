//! A file that this process may only read: another user's, or one on a mount for reading. It is
//! read by calls and neither locked nor accessed by a mapping, so that whoever may write it can
//! neither stop this process nor end it by shortening the file.
#![allow(unsafe_code)] // munmap

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use super::directory::Directory;
use super::lock;
use super::mmap::{self, Request};
use super::open::{check_owner, not_opened, open_existing};
use crate::system::interface::{Access, Lookup};
use crate::value::error::{Error, Result};

/// Such a file, open for reading.
#[derive(Debug)]
pub(crate) struct ForeignFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl ForeignFile {
    /// Opens a segment, whoever owns it.
    pub(crate) fn open(directory: &Directory, lookup: Lookup<'_>) -> Result<Self> {
        let path = match lookup {
            Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => directory.segment_path(id),
            Lookup::Name(name) => directory.name_path(name),
        };
        let opened = open_existing(&path, Access::ReadOnly);
        let opened = opened.map_err(|error| not_opened(&path, error))?;
        let file = File::from(opened.into_owned());
        let facts = file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        if !facts.is_file() {
            check_owner(lookup, &path, &facts)?; // it fails for what is no file
        }
        Ok(Self { file, path, bytes: facts.size() })
    }

    /// The size of the file when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads bytes from an offset on; fails if the file ends before.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| Error::os("pread", &self.path, error))
    }

    /// The error for an operation that would write.
    pub(crate) fn not_writable(&self, call: &'static str) -> Error {
        Error::os(call, &self.path, std::io::ErrorKind::PermissionDenied.into())
    }

    /// Whether any process has the file mapped as a segment.
    pub(crate) fn is_held(&self) -> bool {
        !lock::is_unheld(&self.file)
    }

    /// Maps a page for the address of a word at which this process sleeps.
    pub(crate) fn futex_page(&self, page: u64, page_bytes: u64) -> Result<FutexPage> {
        let bytes = page_bytes as usize;
        let offset = page * page_bytes;
        let fd = self.file.as_raw_fd();
        let protection = libc::PROT_READ;
        let flags = libc::MAP_SHARED;
        let start = mmap::map(Request { fd, offset, bytes, protection, flags })
            .map_err(|error| mmap::failed(&self.path, page_bytes, error))?;
        Ok(FutexPage { start: start.as_ptr(), bytes })
    }
}

/// A page whose words the kernel compares when this process sleeps, and which is never read here.
#[derive(Debug)]
pub(crate) struct FutexPage {
    start: *const u8,
    bytes: usize,
}

// SAFETY: the value must be usable in another thread; it is an address that nobody dereferences.
unsafe impl Send for FutexPage {}
// SAFETY: shared references must be usable by several threads at once; it is an address that nobody
// dereferences.
unsafe impl Sync for FutexPage {}

impl FutexPage {
    /// Returns the address of a word in the page.
    pub(crate) fn word(&self, offset: usize) -> *const u32 {
        self.start.wrapping_add(offset % self.bytes).cast()
    }
}

impl Drop for FutexPage {
    fn drop(&mut self) {
        // SAFETY: nobody may use the range afterwards; `futex_page` mapped exactly this range, and
        // its addresses are only given to the kernel.
        unsafe { mmap::unmap(self.start.cast_mut(), self.bytes) };
    }
}
