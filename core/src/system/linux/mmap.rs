//! The one place where this backend maps and unmaps memory.
//!
//! A process that can map no more could not unlink a name or sweep either, for which a header must
//! be mapped. So it keeps a spare page, mapped for nothing, and gives it up for such a mapping. The
//! first unmapping after that makes a spare page again. `SPARE` is null, the page's address, or
//! `USED`; the kernel orders what threads do with one mapping, so all accesses are Relaxed.
#![allow(unsafe_code)] // mmap, munmap

use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::limits::{page_bytes, why_not_mapped};
use crate::system::shortage::or_after_relief;
use crate::value::error::Error;

/// The memory to be mapped: a part of a file, or private memory of the process.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// -1 for private memory.
    pub(super) fd: RawFd,
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) protection: libc::c_int,
    pub(super) flags: libc::c_int,
}

/// Maps memory at an address that the kernel chooses. If this process can map no more, it gives up
/// what it keeps for speed and asks once more.
pub(super) fn map(request: Request) -> io::Result<NonNull<u8>> {
    let request = Request { flags: request.flags & !libc::MAP_FIXED, ..request };
    // SAFETY: the mapping must not replace another; without MAP_FIXED the kernel chooses a free
    // range.
    or_after_relief(|| unsafe { ask(null_mut(), request) })
}

/// Does the same, and gives up the spare page if it must: for a mapping of a moment.
pub(super) fn map_with_spare(request: Request) -> io::Result<NonNull<u8>> {
    match map(request) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory && gave_up_spare() => map(request),
        mapped => mapped,
    }
}

/// Unmaps memory.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/munmap.2.html
///
/// # Safety
/// The range belongs to the caller, and nobody uses it afterwards.
pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: nobody may use the range afterwards; the caller promises it.
    unsafe { libc::munmap(start.cast(), bytes) };
    if SPARE.load(Ordering::Relaxed) == USED {
        keep_spare();
    }
}

static SPARE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Stands for a page that was given up. No page is there.
const USED: *mut u8 = std::ptr::without_provenance_mut(1);

/// Maps the spare page, if there is none. Allocates nothing.
pub(super) fn keep_spare() {
    let before = SPARE.load(Ordering::Relaxed);
    if !before.is_null() && before != USED {
        return;
    }
    // A page that is shared with nobody merges with no other mapping.
    let (protection, flags) = (libc::PROT_NONE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    let request = Request { fd: -1, offset: 0, bytes: page_bytes() as usize, protection, flags };
    // SAFETY: the mapping must not replace another; without MAP_FIXED the kernel chooses a free
    // range.
    let Ok(page) = (unsafe { ask(null_mut(), request) }) else { return };
    let stored =
        SPARE.compare_exchange(before, page.as_ptr(), Ordering::Relaxed, Ordering::Relaxed);
    if stored.is_err() {
        // SAFETY: nobody may use the range afterwards; it was mapped above, and another thread's
        // page was stored instead.
        unsafe { libc::munmap(page.as_ptr().cast(), request.bytes) };
    }
}

/// Unmaps the spare page. Returns whether there was one.
fn gave_up_spare() -> bool {
    let page = SPARE.load(Ordering::Relaxed);
    let is_page = !page.is_null() && page != USED;
    let is_taken =
        is_page && SPARE.compare_exchange(page, USED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_taken {
        // SAFETY: nobody may use the range afterwards; `keep_spare` mapped it, its address was only
        // in `SPARE`, and this thread took it from there.
        unsafe { libc::munmap(page.cast(), page_bytes() as usize) };
    }
    is_taken
}

/// Maps memory over a range that is mapped already.
///
/// # Safety
/// The range belongs to the caller, which has not given it out.
pub(super) unsafe fn map_over(start: NonNull<u8>, request: Request) -> io::Result<NonNull<u8>> {
    let request = Request { flags: request.flags | libc::MAP_FIXED, ..request };
    // SAFETY: the mapping must replace no memory in use; the caller promises that the range is its
    // own.
    or_after_relief(|| unsafe { ask(start.as_ptr(), request) })
}

/// Asks the kernel for a mapping.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/mmap.2.html
///
/// # Safety
/// With MAP_FIXED the range from `address` on belongs to the caller.
unsafe fn ask(address: *mut u8, request: Request) -> io::Result<NonNull<u8>> {
    let Request { fd, offset, bytes, protection, flags } = request;
    // SAFETY: the mapping must not replace memory in use; without MAP_FIXED the kernel chooses a
    // free range, and with it the caller promises that the range is its own.
    let start =
        unsafe { libc::mmap(address.cast(), bytes, protection, flags, fd, offset as libc::off_t) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// The error for a file that could not be mapped.
pub(super) fn failed(path: &Path, bytes: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Error::CannotMap {
            bytes,
            path: path.to_owned(),
            limit: why_not_mapped(bytes),
            source: error,
        },
        _ => Error::os("mmap", path, error),
    }
}
