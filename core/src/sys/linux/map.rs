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

/// A segment in memory, shared, until dropped: its header to write, its data as asked for.
pub(crate) struct Mapping {
    header: Pages,
    /// Of their own when they are protected otherwise than the header.
    data: Option<Pages>,
    header_bytes: usize,
    header_is_writable: bool,
    /// Where the file is, to be given back there.
    directory: Directory,
}

impl Mapping {
    pub(super) fn new(file: &super::File, access: Access, header_bytes: u64) -> io::Result<Self> {
        let whole = access == Access::ReadWrite;
        let front_bytes = if whole { file.bytes } else { header_bytes };
        let protection = if file.is_writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let header = Pages::map(&file.file, 0, front_bytes, protection)?;
        let apart = !whole && file.bytes > header_bytes;
        let data_bytes = file.bytes.saturating_sub(header_bytes);
        let data = apart.then(|| Pages::map(&file.file, header_bytes, data_bytes, libc::PROT_READ)).transpose()?;
        let (header_is_writable, directory) = (file.is_writable, file.directory.clone());
        Ok(Self { header, data, header_bytes: header_bytes as usize, header_is_writable, directory })
    }

    /// The first byte of the header.
    pub(crate) fn header(&self) -> NonNull<u8> {
        self.header.start
    }

    /// The first byte of the data, or where it would be if there were any.
    pub(crate) fn data(&self) -> *mut u8 {
        let behind = self.header.start.as_ptr().wrapping_add(self.header_bytes);
        self.data.as_ref().map_or(behind, |data| data.start.as_ptr())
    }

    /// Whether this process may have an entry there.
    pub(crate) fn header_is_writable(&self) -> bool {
        self.header_is_writable
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }
}

/// Pages of a file.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is in it is reached only
// through raw pointers and atomics.
unsafe impl Send for Pages {}
// SAFETY: as for Send; `&Pages` only tells where they are.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(file: &File, offset: u64, bytes: u64, protection: libc::c_int) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (anywhere, fd, offset) = (std::ptr::null_mut(), file.as_raw_fd(), offset as libc::off_t);
        // SAFETY: a new mapping at a place the kernel chooses touches no memory of ours.
        let start = unsafe { libc::mmap(anywhere, bytes, protection, libc::MAP_SHARED, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, once; every pointer into it is kept behind a
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
