//! What the system lets a process have: page size, largest file, most mappings.
#![allow(unsafe_code)] // sysconf, getrlimit

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fd::without_fork;

/// The unit of memory protection.
pub(super) fn page_bytes() -> u64 {
    // SAFETY: takes a number and cannot fail for this one.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// The largest file that this process may make: beyond it the kernel sends SIGXFSZ, which ends a
/// process that does not expect it.
pub(super) fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` has room for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { u64::MAX } else { limit.rlim_cur }
}

/// How many mappings the kernel lets this process have.
pub(crate) fn most_mappings() -> usize {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let most = MOST.load(Ordering::Relaxed);
    if most > 0 {
        return most;
    }
    let told = without_fork(|| fs::read_to_string("/proc/sys/vm/max_map_count"));
    let most = told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530); // what Linux begins with
    MOST.store(most, Ordering::Relaxed);
    most
}
