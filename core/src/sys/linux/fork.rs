//! What a fork needs of the system: handlers, a child's registration, and forks that come too
//! early.
//!
//! A signal handler that forks while its own thread is inside of a lock of this library cannot wait
//! for itself. Such a fork takes no lock, and its child is *orphaned*: it may exec or exit, and
//! every call of this library there is an error.
#![allow(unsafe_code)] // pthread_atfork

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(crate) use super::fd::before_fork as close_gate;
pub(crate) use super::mutex::free_in_child;
pub(crate) use super::mutex::is_inside;
pub(crate) use super::registry::{
    after_in_child, after_in_parent, ask_no_more, child_owner, is_known_dead, register_child,
    registered,
};

thread_local! {
    /// Whether the fork that is under way in this thread took no locks.
    static IS_UNPREPARED: Cell<bool> = const { Cell::new(false) };
}

static IS_ORPHANED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked by a signal handler inside of this library: nothing here is
/// whole.
pub(crate) fn is_orphaned() -> bool {
    IS_ORPHANED.load(Ordering::Relaxed)
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Another number in each forked child than in its parent: what notes it knows later whether it was inherited.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Before a fork: `false` when no lock may be taken for it.
pub(crate) fn can_prepare() -> bool {
    IS_UNPREPARED.with(|is| is.set(is_inside() || is_orphaned()));
    !IS_UNPREPARED.with(Cell::get)
}

/// After it, in the parent: `false` when nothing was prepared.
pub(crate) fn was_prepared() -> bool {
    !IS_UNPREPARED.with(|is| is.replace(false))
}

/// After it, in the child: the same. A child that nothing was prepared for is orphaned.
pub(crate) fn was_prepared_in_child() -> bool {
    let was_prepared = was_prepared();
    FORKS.fetch_add(1, Ordering::Relaxed);
    IS_ORPHANED.fetch_or(!was_prepared, Ordering::Relaxed);
    was_prepared
}

/// Has the handlers run at every fork and at exit. Raw `clone` and `_Fork` run none.
pub(crate) fn on_fork_and_exit(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
    exit: extern "C" fn(),
) {
    // SAFETY: functions of this library, which stays loaded: the C library undoes this at dlclose.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // SAFETY: the same functions' library; the C library undoes this at dlclose, too.
    unsafe { libc::atexit(exit) };
}
