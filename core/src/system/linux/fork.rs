//! Forks: the handlers, the count of forks, and forks that could not be prepared.
//!
//! A signal handler may fork while its own thread is inside a lock of this library, and the fork
//! cannot wait for that thread. Such a fork takes no lock, and its child is *orphaned*: it may exec
//! or exit, and every call of this library in it is an error.
#![allow(unsafe_code)] // pthread_atfork

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(crate) use super::fd::before_fork as close_gate;
pub(crate) use super::mutex::free_in_child;
pub(crate) use super::mutex::is_inside;
pub(crate) use super::registry::{
    after_in_child, after_in_parent, child_owner, close_opened, is_known_dead, register_child,
    registered,
};

thread_local! {
    /// Whether the fork that is in progress in this thread took no locks.
    static IS_UNPREPARED: Cell<bool> = const { Cell::new(false) };
}

static IS_ORPHANED: AtomicBool = AtomicBool::new(false);

/// Whether a signal handler forked this process while its thread was inside this library, so that
/// the library's state may be incomplete here.
pub(crate) fn is_orphaned() -> bool {
    IS_ORPHANED.load(Ordering::Relaxed)
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs between a forked child and its parent. A value that stores it can
/// tell later whether it was inherited.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Called before a fork. Returns `false` if no lock may be taken for it.
pub(crate) fn can_prepare() -> bool {
    IS_UNPREPARED.with(|is| is.set(is_inside() || is_orphaned()));
    !IS_UNPREPARED.with(Cell::get)
}

/// Called in the parent after a fork. Returns `false` if the fork was not prepared.
pub(crate) fn was_prepared() -> bool {
    !IS_UNPREPARED.with(|is| is.replace(false))
}

/// Called in the child after a fork. Returns `false` if the fork was not prepared; the child is
/// orphaned then.
pub(crate) fn was_prepared_in_child() -> bool {
    let was_prepared = was_prepared();
    FORKS.fetch_add(1, Ordering::Relaxed);
    IS_ORPHANED.fetch_or(!was_prepared, Ordering::Relaxed);
    was_prepared
}

/// Registers handlers that run at every fork and at exit. Raw `clone` and `_Fork` run none.
///
/// # References
/// - [pthread_atfork(3)]
/// - [atexit(3)]
///
/// [pthread_atfork(3)]: https://man7.org/linux/man-pages/man3/pthread_atfork.3.html
/// [atexit(3)]: https://man7.org/linux/man-pages/man3/atexit.3.html
pub(crate) fn on_fork_and_exit(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
    exit: extern "C" fn(),
) {
    // SAFETY: the functions must exist whenever a fork calls them; they belong to this library, and
    // the C library removes the handlers when dlclose unloads it.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // SAFETY: the function must exist when the process exits; it belongs to this library, and
    // dlclose runs and removes the handlers of a library that it unloads.
    unsafe { libc::atexit(exit) };
}
