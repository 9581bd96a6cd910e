//! Huge pages in a tmpfs that gives them to who asks: one that is mounted with huge=advise.
//!
//! They come by a page fault in memory that asks for them, and not by fallocate(2): so what is large is
//! mapped and populated once, which reserves it as well. Where the mount says huge=within_size or
//! always, fallocate gives them, too, and nothing need be asked; where it says never, nothing helps.
#![allow(unsafe_code)] // mmap, madvise, ftruncate

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Directory;
use super::descriptor::without_fork;

/// Less than two of them is not worth it.
const LARGE_BYTES: u64 = 4 << 20;

/// Whether memory of that size gets huge pages there by asking.
pub(super) fn are_offered(directory: &Directory, bytes: u64) -> bool {
    bytes >= LARGE_BYTES && directory.gives_huge_pages_to_who_asks()
}

/// Whether a directory lies in a mount with huge=advise.
pub(super) fn by_advice(directory: &Path) -> bool {
    let Ok(facts) = fs::metadata(directory) else { return false };
    let device = format!("{}:{}", libc::major(facts.dev()), libc::minor(facts.dev()));
    let mounts = without_fork(|| fs::read_to_string("/proc/self/mountinfo")).unwrap_or_default();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&*device));
    let options = mount.and_then(|line| line.split(" - ").nth(1)?.split(' ').nth(2));
    options.is_some_and(|options| options.split(',').any(|option| option == "huge=advise"))
}

/// Asks for huge pages in a mapping. A refusal costs nothing but speed.
pub(super) fn ask(start: *mut u8, bytes: usize) {
    // SAFETY: advice on a mapping of the caller's.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Makes a new file `bytes` long with all its pages there, huge ones as far as there are some. When it
/// fails the caller reserves in the other way, and learns there what is wrong.
pub(super) fn populate(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    let (anywhere, length) = (std::ptr::null_mut(), usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?);
    // SAFETY: a new mapping, where the kernel likes.
    let start = unsafe {
        libc::mmap(anywhere, length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    ask(start.cast(), length);
    // SAFETY: the mapping from above; a page that cannot be had is an error, and no signal.
    let populated = unsafe { libc::madvise(start, length, libc::MADV_POPULATE_WRITE) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping from above, which nothing points into.
    unsafe { libc::munmap(start, length) };
    if populated == 0 { Ok(()) } else { Err(error) }
}
