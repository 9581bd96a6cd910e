//! Freezing: the data of an owned array become private memory of the same bytes, before a fork; and
//! the opposite, for memory to which nobody has stored.
//!
//! The file's pages are mapped privately, and moved to the place of the shared ones. Nobody stores
//! to the file any more, so the mapping is an exact snapshot in both processes, and the kernel
//! copies a page only where one of them stores to it. Stores that other threads make meanwhile are
//! kept, because the kernel replaces the mapping of a page and not its bytes.
//!
//! A signal handler that forks may have interrupted `malloc`, so nothing here allocates if it
//! succeeds.
#![allow(unsafe_code)] // mmap, mremap

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

use super::directory::{Directory, SEGMENT_PREFIX};
use super::fd::Fd;
use super::limits::with_one_more_fd;
use super::mmap::{self, Request};
use crate::value::name::SegmentId;

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A longer path is not opened.
const PATH_ROOM: usize = 1024;

/// The data of a mapping, and where they are in their file.
#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
    pub(super) directory: &'a Directory,
    pub(super) id: &'a SegmentId,
    pub(super) offset: usize,
}

/// What became of data that were to be frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// They are a private mapping of the file.
    Mapped,
    /// They are a copy, because the file could not be opened or mapped.
    Copied,
    /// Nothing has changed: there was no memory for either.
    Failed,
}

/// Makes shared data private.
///
/// # Safety
/// The data are a shared mapping of the caller's, of these bytes of the file.
pub(super) unsafe fn freeze(data: Data<'_>) -> Outcome {
    let made = map_privately(data).map(|start| (start, Outcome::Mapped));
    let Ok((from, outcome)) = made.or_else(|_| Ok::<_, io::Error>((copy(data)?, Outcome::Copied)))
    else {
        return Outcome::Failed;
    };
    // SAFETY: `from` was mapped just now, for this; the caller promises the same of the data.
    if unsafe { move_over(from, data) } {
        return outcome;
    }
    // SAFETY: nobody uses what was mapped above and not moved.
    unsafe { mmap::unmap(from.as_ptr(), data.bytes) };
    Outcome::Failed
}

/// Maps the same bytes of the file privately, elsewhere: a mapping over the data that failed could
/// leave nothing there.
fn map_privately(data: Data<'_>) -> io::Result<NonNull<u8>> {
    let file = open(data.directory, data.id, libc::O_RDONLY)?;
    // Without a reservation: most pages will never be copied. A hugetlbfs would kill a process that
    // finds no page later.
    let reserves = if data.directory.is_huge() { 0 } else { libc::MAP_NORESERVE };
    mmap::map(Request {
        fd: file.as_raw_fd(),
        offset: data.offset as u64,
        bytes: data.bytes,
        protection: WRITABLE,
        flags: libc::MAP_PRIVATE | reserves,
    })
}

/// Copies the data, where the file cannot be opened: another program removed it, or this process
/// has become another user. A store that another thread makes meanwhile may be lost.
fn copy(data: Data<'_>) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let copy =
        mmap::map(Request { fd: -1, offset: 0, bytes: data.bytes, protection: WRITABLE, flags })?;
    // SAFETY: both ranges are mapped, have these bytes and do not overlap, because `copy` was
    // mapped just now.
    unsafe { std::ptr::copy_nonoverlapping(data.start.as_ptr(), copy.as_ptr(), data.bytes) };
    Ok(copy)
}

/// Moves a mapping to the place of the data, whose mapping goes. Returns whether it could.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/mremap.2.html
///
/// # Safety
/// Both are mappings of the caller's of as many bytes, and every address in the data stays valid.
unsafe fn move_over(from: NonNull<u8>, data: Data<'_>) -> bool {
    let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let to = data.start.as_ptr().cast::<libc::c_void>();
    // SAFETY: the caller promises that both ranges are its own.
    let moved = unsafe { libc::mremap(from.as_ptr().cast(), data.bytes, data.bytes, moves, to) };
    moved != libc::MAP_FAILED
}

/// Puts a mapping that nothing can access where a child has no data.
///
/// # Safety
/// The range is the caller's, and nothing is mapped there.
pub(super) unsafe fn close_gap(start: NonNull<u8>, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let request = Request { fd: -1, offset: 0, bytes, protection: libc::PROT_NONE, flags };
    // SAFETY: the caller promises that nothing is there.
    let _ = unsafe { mmap::map_over(start, request) };
}

/// Makes private data shared again.
///
/// # Safety
/// The data are a private mapping of the caller's, of these bytes of the file, and no page of it
/// has a copy.
pub(super) unsafe fn thaw(data: Data<'_>) -> bool {
    let map = || {
        let file = open(data.directory, data.id, libc::O_RDWR)?;
        mmap::map(Request {
            fd: file.as_raw_fd(),
            offset: data.offset as u64,
            bytes: data.bytes,
            protection: WRITABLE,
            flags: libc::MAP_SHARED,
        })
    };
    let Ok(from) = map() else { return false };
    // SAFETY: `from` was mapped just now, for this; the caller promises the same of the data.
    let is_moved = unsafe { move_over(from, data) };
    if !is_moved {
        // SAFETY: nobody uses what was mapped above and not moved.
        unsafe { mmap::unmap(from.as_ptr(), data.bytes) };
    }
    is_moved
}

/// Opens a segment's file. A private mapping needs it for reading only.
fn open(directory: &Directory, id: &SegmentId, access: libc::c_int) -> io::Result<Fd> {
    let mut bytes = [0; PATH_ROOM]; // on the stack, which may be that of signal handlers
    let path = path_in(&mut bytes, directory, id).ok_or(io::ErrorKind::InvalidFilename)?;
    let open = || {
        let flags = access | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the path must end in zero, as a `CStr` does.
        let fd = unsafe { libc::open(path.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the fd was opened just now, and nobody else has it.
        Ok(unsafe { File::from_raw_fd(fd) })
    };
    Fd::open(|| match open() {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => with_one_more_fd(open),
        opened => opened,
    })
}

/// Writes the path of a segment's file. `None` if it is too long.
fn path_in<'a>(bytes: &'a mut [u8], directory: &Directory, id: &SegmentId) -> Option<&'a CStr> {
    let parts = [directory.path().as_os_str().as_bytes(), b"/", SEGMENT_PREFIX.as_bytes()];
    let mut at = 0;
    for part in parts.into_iter().chain([id.as_str().as_bytes(), b"\0"]) {
        bytes.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_with_nul(bytes.get(..at)?).ok()
}
