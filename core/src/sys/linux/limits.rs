//! Limits of a process: page size, largest file, number of mappings.
#![allow(unsafe_code)] // sysconf, getrlimit

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// The number of mappings that the kernel allows this process.
pub(crate) fn most_mappings() -> usize {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let most = MOST.load(Ordering::Relaxed);
    if most > 0 {
        return most;
    }
    let told = without_fork(|| fs::read_to_string("/proc/sys/vm/max_map_count"));
    // 65530 is the default of Linux.
    let most = told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530);
    MOST.store(most, Ordering::Relaxed);
    most
}
