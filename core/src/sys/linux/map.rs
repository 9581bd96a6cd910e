//! Mapping a file, and reserving its pages first.
#![allow(unsafe_code)] // mmap, munmap, fallocate

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use super::{Access, Directory};

/// One reservation at the most, so that a signal costs no more than one of them again.
const STEP_BYTES: u64 = 256 << 20;

/// A whole file in memory, shared, until dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Where the file is, to be given back there.
    directory: Directory,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is in it is reached only
// through raw pointers and atomics.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; `&Mapping` only tells where it is.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(file: &File, bytes: u64, access: Access, directory: Directory) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let protection = match access {
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            Access::ReadOnly => libc::PROT_READ,
        };
        let (anywhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping at a place the kernel chooses touches no memory of ours.
        let start = unsafe { libc::mmap(anywhere, bytes, protection, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, directory })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, once; every pointer into it is kept behind a
        // `Segment`, which owns this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The unit of memory protection.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a number and cannot fail for this one.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Makes the file `bytes` long with all its pages there.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let step = STEP_BYTES.min(bytes - done);
        match allocate(file, done, step) {
            Ok(()) => done += step,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return write_zeros(file, done, bytes),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: numbers and an open descriptor; the kernel checks them.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, bytes as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// For file systems without `fallocate`.
fn write_zeros(file: &File, mut offset: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    while offset < end {
        let step = (end - offset).min(zeros.len() as u64);
        file.write_all_at(&zeros[..step as usize], offset)?;
        offset += step;
    }
    Ok(())
}
