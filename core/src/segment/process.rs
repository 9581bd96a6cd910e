//! What happens to what this process holds when it forks and when it ends.
//!
//! A child holds what its parent held from its first instruction on: the parent makes the
//! child's entries before the fork, and what is locked here stays locked over it. At exit leases are
//! given back while the memory stays mapped, for whoever still runs.

use std::sync::Once;

use super::Segment;
use super::cells::{self, SHELVES};
use super::sweep::sweep_at_exit;
use super::table::{TABLE, Table};
use crate::sys::{self, MutexGuard};

/// At the first use.
pub(super) fn begin() {
    static FIRST_USE: Once = Once::new();
    FIRST_USE.call_once(|| sys::on_fork_and_exit(before_fork, after_in_parent, after_in_child, exit));
}

extern "C" fn before_fork() {
    let table = TABLE.lock();
    cells::before_fork();
    sys::before_fork();
    Table::for_each(&table, Segment::lend_to_child);
    MutexGuard::leak(table);
}

#[allow(unsafe_code)]
extern "C" fn after_in_parent() {
    sys::after_in_parent();
    // SAFETY: `before_fork` locked it in this thread.
    unsafe { SHELVES.force_unlock() };
    // SAFETY: the same.
    unsafe { TABLE.force_unlock() };
}

#[allow(unsafe_code)]
extern "C" fn after_in_child() {
    sys::after_in_child();
    // SAFETY: `before_fork` locked it in this thread, the only one of this process.
    Table::for_each(unsafe { &*TABLE.data_ptr() }, Segment::become_childs);
    // SAFETY: the same.
    if let Some(shelves) = unsafe { &mut *SHELVES.data_ptr() } {
        shelves.leave_to_parent();
    }
    sys::remake(&SHELVES);
    sys::remake(&TABLE);
}

extern "C" fn exit() {
    let table = TABLE.lock();
    // The memory stays mapped for whoever still runs.
    Table::for_each(&table, |segment| std::mem::forget(segment.leave_at_exit()));
    drop(table);
    cells::leave_at_exit();
    sweep_at_exit();
}
