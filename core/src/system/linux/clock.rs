//! The system's clock and a thread's.
#![allow(unsafe_code)] // clock_gettime

use std::time::Duration;

/// Returns the system's monotonic clock in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the system's monotonic clock in nanoseconds as it was at the kernel's last tick, at most
/// 10 ms ago. Reading it is faster.
pub(crate) fn coarse_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// Returns the time in nanoseconds since 1970, by the system's clock.
pub(crate) fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Returns the CPU time of this thread in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns a duration as the kernel takes it.
pub(super) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    }
}

/// Returns a clock's time in nanoseconds.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/clock_gettime.2.html
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer must be valid for a `timespec`; `time` is a local variable, and Linux
    // always has these clocks, so the call fills it.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec as u64 // none is before 1970
}
