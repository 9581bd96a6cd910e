//! Huge pages in a tmpfs that gives them to who asks: one that is mounted with huge=advise.
//!
//! They come by a page fault in memory that asks for them, and not by fallocate(2): so what is
//! large is mapped and populated once, which reserves it as well, as long as they come fast. Where
//! the mount says huge=within_size or always, fallocate gives them, too, and nothing need be asked;
//! where it says never, nothing helps.
#![allow(unsafe_code)] // mmap, madvise, ftruncate

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::fd::without_fork;

/// Less than two of them is not worth it.
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

/// Asks for huge pages in a mapping. A refusal costs nothing but speed.
pub(super) fn ask(start: *mut u8, bytes: usize) {
    // SAFETY: advice on a mapping of the caller's.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// So many bytes are populated before the clock is looked at: some huge pages.
const STEP_BYTES: usize = 8 << 20;

/// Makes a new file `bytes` long, with huge pages from its start on as far as there are some that
/// come fast. Returns how much has its pages. The rest the caller reserves in the other way, and
/// learns there what is wrong.
///
/// A huge page costs what clearing it costs, unless the kernel has to move others for it, or a
/// hypervisor to find memory that this machine has not touched before: then twenty times as much.
/// Small pages that were used before are the better ones then. `clock_ns` counts the time that this
/// thread runs.
pub(super) fn populate(file: &File, bytes: u64, clock_ns: impl Fn() -> u64) -> u64 {
    let Ok(length) = usize::try_from(bytes) else { return 0 };
    if file.set_len(bytes).is_err() {
        return 0;
    }
    let anywhere = std::ptr::null_mut();
    // SAFETY: a new mapping, where the kernel likes.
    let start = unsafe {
        libc::mmap(
            anywhere,
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return 0;
    }
    ask(start.cast(), length);
    let (mut done, mut before) = (0, clock_ns());
    while done < length {
        let step = STEP_BYTES.min(length - done);
        // SAFETY: a part of the mapping from above; a page that cannot be had is an error, and no
        // signal.
        if unsafe { libc::madvise(start.wrapping_byte_add(done), step, libc::MADV_POPULATE_WRITE) }
            != 0
        {
            break;
        }
        done += step;
        let now = clock_ns();
        if are_slow(step, now.saturating_sub(before)) {
            break;
        }
        before = now;
    }
    // SAFETY: the mapping from above, which nothing points into.
    unsafe { libc::munmap(start, length) };
    done as u64
}

/// Whether small pages come faster: to reserve them, and to map each at its first store, takes a
/// nanosecond for a byte.
fn are_slow(bytes: usize, took_ns: u64) -> bool {
    took_ns > bytes as u64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const BYTES: u64 = 3 * STEP_BYTES as u64 + 4096;

    /// What is populated, and what memory the file has then, by a clock that goes so far at each
    /// look.
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
