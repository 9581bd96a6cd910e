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

/// A segment in memory until dropped: its header shared and to write, its data as asked for.
///
/// The data follows the header in memory, whatever their protection: so no segment's data
/// starts where another's ends, and an address, even of no elements, tells whose it is.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    header_bytes: usize,
    header_is_writable: bool,
    /// Where the file is, to be given back there.
    directory: Directory,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is in it is reached only
// through raw pointers and atomics.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; `&Mapping` only tells where it is.
unsafe impl Sync for Mapping {}

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

impl Mapping {
    pub(super) fn new(file: &super::File, access: Access, header_bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(file.bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (protection, sharing) = match access {
            Access::ReadWrite => (WRITABLE, libc::MAP_SHARED),
            Access::ReadOnly => (libc::PROT_READ, libc::MAP_SHARED),
            Access::CopyOnWrite => (WRITABLE, libc::MAP_PRIVATE),
        };
        let start = map(&file.file, std::ptr::null_mut(), bytes, protection, sharing)?;
        let (header_bytes, header_is_writable) = (header_bytes as usize, file.is_writable);
        let mapping = Self { start, bytes, header_bytes, header_is_writable, directory: file.directory.clone() };
        if access != Access::ReadWrite {
            let protection = if header_is_writable { WRITABLE } else { libc::PROT_READ };
            map(&file.file, start.as_ptr(), header_bytes.min(bytes), protection, libc::MAP_SHARED | libc::MAP_FIXED)?;
        }
        Ok(mapping)
    }

    /// The first byte of the header.
    pub(crate) fn header(&self) -> NonNull<u8> {
        self.start
    }

    /// The first byte of the data, or where it would be if there were any.
    pub(crate) fn data(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.header_bytes)
    }

    /// Whether this process may have an entry there.
    pub(crate) fn header_is_writable(&self) -> bool {
        self.header_is_writable
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, once; every pointer into it is kept behind a
        // `Segment`, which owns this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Maps the front of a file: where the kernel likes, or with MAP_FIXED over a part of `place`,
/// which is the caller's.
fn map(
    file: &File,
    place: *mut u8,
    bytes: usize,
    protection: libc::c_int,
    flags: libc::c_int,
) -> io::Result<NonNull<u8>> {
    let fd = file.as_raw_fd();
    // SAFETY: a new mapping, or one over pages that the caller has just mapped for himself.
    let start = unsafe { libc::mmap(place.cast(), bytes, protection, flags, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// The unit of memory protection.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a number and cannot fail for this one.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Makes the file `bytes` long with all its pages there.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    reserve_part(file, 0, bytes)
}

/// Reserves the pages of a part of a file.
pub(super) fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (mut done, bytes) = (offset, offset + bytes);
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

/// Frees the pages of a part of a file, also where others have them mapped.
pub(super) fn punch(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
}

fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, 0, offset, bytes)
}

fn fallocate(file: &File, mode: libc::c_int, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: numbers and an open descriptor; the kernel checks them.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, bytes as i64) } {
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
