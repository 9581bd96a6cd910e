//! Huge pages in a tmpfs that provides them on request: one that is mounted with huge=advise.
//!
//! Such pages are allocated by a page fault in a mapping with MADV_HUGEPAGE, and not by
//! fallocate(2). A large file is therefore mapped and populated once, which reserves its memory as
//! well, as long as huge pages come fast. In a mount with huge=within_size or always, fallocate
//! allocates them, too, and no request is needed. In a mount with huge=never there are none.
#![allow(unsafe_code)] // munmap, madvise

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::fd::without_fork;
use super::mmap::{self, Request};

/// The smallest file for which huge pages are worth the request: two of them.
pub(super) const LARGE_BYTES: u64 = 4 << 20;

/// Whether a directory lies in a mount with huge=advise.
pub(super) fn by_advice(directory: &Path) -> bool {
    let Ok(facts) = fs::metadata(directory) else { return false };
    let device = format!("{}:{}", libc::major(facts.dev()), libc::minor(facts.dev()));
    let mounts = without_fork(|| fs::read_to_string("/proc/self/mountinfo")).unwrap_or_default();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&*device));
    let options = mount.and_then(|line| line.split(" - ").nth(1)?.split(' ').nth(2));
    options.is_some_and(|options| options.split(',').any(|option| option == "huge=advise"))
}

/// Requests huge pages for a mapping. A refusal costs only speed.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/madvise.2.html
pub(super) fn ask(start: *mut u8, bytes: usize) {
    // SAFETY: the range must be mapped by the caller; both callers pass a mapping that they have
    // just made, and the advice changes no bytes.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// The bytes that are populated before the clock is read again: several huge pages.
const STEP_BYTES: usize = 8 << 20;

/// Makes a new file `bytes` long and populates it with huge pages from its start, as far as there
/// are some and they come fast. Returns how many bytes have pages. The caller reserves the rest
/// with small pages, and that call reports any error.
///
/// A huge page costs the time of clearing it, unless the kernel must move other pages for it, or a
/// hypervisor must find memory that this machine has not used before: then it costs twenty times as
/// much, and small pages that were used before are better. `clock_ns` returns the CPU time of this
/// thread.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/madvise.2.html
pub(super) fn populate(file: &File, bytes: u64, clock_ns: impl Fn() -> u64) -> u64 {
    let Ok(length) = usize::try_from(bytes) else { return 0 };
    if file.set_len(bytes).is_err() {
        return 0;
    }
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let fd = file.as_raw_fd();
    let request = Request { fd, offset: 0, bytes: length, protection, flags };
    let Ok(start) = mmap::map(request) else { return 0 };
    let start = start.as_ptr().cast::<libc::c_void>();
    ask(start.cast(), length);
    let mut done = 0;
    let mut before = clock_ns();
    while done < length {
        let step = STEP_BYTES.min(length - done);
        // SAFETY: the range must lie in the mapping made above; `done + step` is at most `length`,
        // and a page that cannot be allocated is an error, not a signal.
        if unsafe { libc::madvise(start.wrapping_byte_add(done), step, libc::MADV_POPULATE_WRITE) }
            != 0
        {
            break;
        }
        done += step;
        let now = clock_ns();
        if is_slower_than_small_pages(step, now.saturating_sub(before)) {
            break;
        }
        before = now;
    }
    // SAFETY: nobody may use the range afterwards; it is the mapping made above, and its address
    // has not left this function.
    unsafe { mmap::unmap(start.cast(), length) };
    done as u64
}

/// Whether small pages would be faster: to reserve them and to map each at its first store takes a
/// nanosecond per byte.
fn is_slower_than_small_pages(bytes: usize, took_ns: u64) -> bool {
    took_ns > bytes as u64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const BYTES: u64 = 3 * STEP_BYTES as u64 + 4096;

    /// Returns the populated bytes and the memory of the file, with a clock that advances by that
    /// much at each reading.
    fn populated(each_look_ns: u64) -> (u64, u64) {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let now = Cell::new(0);
        let done = populate(&file, BYTES, || now.replace(now.get() + each_look_ns));
        assert_eq!(file.metadata().unwrap().len(), BYTES);
        (done, file.metadata().unwrap().blocks() * 512)
    }

    #[test]
    fn pages_that_come_fast_are_populated_to_the_end() {
        assert_eq!(populated(STEP_BYTES as u64 / 10), (BYTES, BYTES));
    }

    #[test]
    fn pages_that_come_slowly_are_left_to_be_reserved_as_small_ones() {
        let step = STEP_BYTES as u64;
        assert_eq!(populated(20 * step), (step, step));
    }
}
