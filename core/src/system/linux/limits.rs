//! Limits of a process: page size, largest file, number of mappings, address space.
#![allow(unsafe_code)] // sysconf, getrlimit

use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::fd::without_fork;

/// The unit of memory protection.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man3/sysconf.3.html
pub(super) fn page_bytes() -> u64 {
    // SAFETY: `sysconf` takes a number and no pointer, and cannot fail for _SC_PAGESIZE.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// The size of the largest file that this process may make. For a larger one the kernel sends
/// SIGXFSZ, which ends a process that does not handle it.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/getrlimit.2.html
pub(super) fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer must be valid for an `rlimit`; `limit` is a local variable that the call
    // fills.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { u64::MAX } else { limit.rlim_cur as _ }
}

/// Opens a file when this process has as many fds as it may have: its soft limit is one higher
/// meanwhile, if the hard limit allows that.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/getrlimit.2.html
pub(super) fn with_one_more_fd<T>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer must be valid for an `rlimit`; `limit` is a local variable that the call
    // fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let higher = libc::rlimit { rlim_cur: limit.rlim_cur.saturating_add(1), ..limit };
    // SAFETY: the pointer must be valid for an `rlimit`; `higher` is a local variable.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &higher) };
    let opened = open();
    let mut now = limit;
    // SAFETY: the pointer must be valid for an `rlimit`; `now` is a local variable.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut now) };
    if now.rlim_cur == higher.rlim_cur {
        // SAFETY: the pointer must be valid for an `rlimit`; `limit` is a local variable.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
    opened
}

/// The address space that this process may have; `None` without a limit.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/getrlimit.2.html
fn address_space_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer must be valid for an `rlimit`; `limit` is a local variable that the call
    // fills.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as _)
}

/// The bytes of this machine's memory.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man3/sysconf.3.html
pub(super) fn memory_bytes() -> u64 {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: `sysconf` takes a number and no pointer; it returns -1 if the value is not
            // known.
            let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }.max(0) as u64;
            BYTES.store(pages * page_bytes(), Ordering::Relaxed);
            pages * page_bytes()
        }
        bytes => bytes,
    }
}

/// The memory in bytes that this process can still have: what is free on the machine, and in its
/// control group.
pub(crate) fn available_memory() -> u64 {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let of_group = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
    system.available_memory().min(of_group)
}

/// The part of the machine's memory that unused mappings of one kind may take in address space (one
/// half): the segments that exist have no more in a tmpfs of the usual size.
const CACHED_PART: u64 = 2;
/// The part of a process's limit on address space (one eighth).
const CACHED_PART_OF_LIMIT: u64 = 8;

/// The address space that the unused mappings of one kind may take.
pub(crate) fn most_cached_bytes() -> u64 {
    let most = memory_bytes() / CACHED_PART;
    address_space_limit().map_or(most, |limit| most.min(limit / CACHED_PART_OF_LIMIT))
}

/// Says which limit a mapping of so many bytes met. The caller has been refused it.
pub(super) fn why_not_mapped(bytes: u64) -> String {
    if let Some(limit) = address_space_limit()
        && bytes > limit.saturating_sub(address_space().unwrap_or(0))
    {
        return format!(
            "this process may have {limit} bytes of address space (ulimit -v, RLIMIT_AS)"
        );
    }
    let most = most_mappings();
    let found = count_mappings().unwrap_or(0);
    if found >= most {
        format!(
            "this process has {found} mappings, and vm.max_map_count is {most} \
             (sysctl -w vm.max_map_count={} raises it)",
            most.saturating_mul(4)
        )
    } else {
        "the system has no memory for it".to_owned()
    }
}

/// Returns the bytes of address space that this process has.
fn address_space() -> Option<u64> {
    let statm = without_fork(|| fs::read_to_string("/proc/self/statm")).ok()?;
    Some(statm.split(' ').next()?.parse::<u64>().ok()? * page_bytes())
}

/// Counts this process's mappings. Allocates nothing.
fn count_mappings() -> io::Result<usize> {
    without_fork(|| {
        let mut maps = File::open("/proc/self/maps")?;
        let mut part = [0; 4096];
        let mut lines = 0;
        while let count @ 1.. = maps.read(&mut part)? {
            lines += part[..count].iter().filter(|byte| **byte == b'\n').count();
        }
        Ok(lines)
    })
}

/// The number of mappings that the kernel allows this process.
pub(crate) fn most_mappings() -> usize {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let most = MOST.load(Ordering::Relaxed);
    if most > 0 {
        return most;
    }
    let text = without_fork(|| fs::read_to_string("/proc/sys/vm/max_map_count"));
    // 65530 is the default of Linux.
    let most = text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530);
    MOST.store(most, Ordering::Relaxed);
    most
}
