//! Forks: what a child inherits.
//!
//! A child holds what its parent held from its first instruction on. The parent makes the child's
//! entries before the fork, with every lock of this library taken, so that the child finds
//! consistent tables. PROTOCOL.md describes what a crash at each step leaves.
//!
//! * `before` takes the locks, registers the child, makes its entries, freezes owned arrays, and
//!   waits until no fd of this library is open.
//! * `in_parent` leaves the child's registration to the child, and releases the locks.
//! * `in_child` takes over the entries and the registration, and frees the locks. It allocates
//!   nothing.

use super::held::{Segment, TABLE, Table};
use super::hold::{Hold, hold_lock_only};
use crate::memory::mapping::MAPPINGS;
use crate::memory::slab::{self, FREE_LISTS};
use crate::system::{self, MutexGuard, fork};

pub(crate) extern "C" fn before() {
    if !fork::can_prepare() {
        return;
    }
    let table = TABLE.lock();
    slab::before_fork();
    MutexGuard::leak(MAPPINGS.lock());
    fork::register_child();
    Table::for_each(&table, Segment::hold_for_child);
    fork::close_opened();
    MutexGuard::leak(table);
    fork::close_gate();
}

#[allow(unsafe_code)]
pub(crate) extern "C" fn in_parent() {
    if !fork::was_prepared() {
        return;
    }
    fork::after_in_parent();
    // SAFETY: this thread owns the lock: `before` locked it here and leaked the guard, and nobody
    // has unlocked it since.
    unsafe { MAPPINGS.force_unlock() };
    // SAFETY: this thread owns the lock: `before` locked it here and leaked the guard, and nobody
    // has unlocked it since.
    unsafe { FREE_LISTS.force_unlock() };
    // SAFETY: this thread owns the lock: `before` locked it here and leaked the guard, and nobody
    // has unlocked it since.
    unsafe { TABLE.force_unlock() };
}

#[allow(unsafe_code)]
pub(crate) extern "C" fn in_child() {
    if !fork::was_prepared_in_child() {
        return;
    }
    fork::after_in_child();
    system::operations::forget_others();
    // SAFETY: nothing else accesses the data, because `before` took its lock in this thread, which
    // is the only one of this process.
    Table::for_each(unsafe { &*TABLE.data_ptr() }, Segment::take_over_in_child);
    // SAFETY: nothing else accesses the data, because `before` took its lock in this thread, which
    // is the only one of this process.
    if let Some(lists) = unsafe { &mut *FREE_LISTS.data_ptr() } {
        lists.leave_to_parent();
    }
    fork::free_in_child(&MAPPINGS);
    fork::free_in_child(&FREE_LISTS);
    fork::free_in_child(&TABLE);
}

impl Segment {
    /// Takes an entry for the child that is about to be forked, and freezes what this process has
    /// alone. Allocates nothing.
    fn hold_for_child(&self) {
        let leases = self.leases();
        let owner = fork::child_owner(self.directory()).filter(|_| !self.is_lock_only());
        let entry = owner.and_then(|child| {
            leases.take_entry(child.id, child.info).or_else(|| {
                let is_dead = |owner, info| fork::is_known_dead(self.directory(), owner, info);
                leases.clear_dead_entries(is_dead); // of earlier children
                leases.take_entry(child.id, child.info)
            })
        });
        match entry {
            Some(entry) => leases.set_held(entry), // this process holds meanwhile, so it is alive
            None if self.mapped.header_is_writable() => hold_lock_only(&leases, &self.mapped),
            None => {} // a reader's segment is LOCK_ONLY already
        }
        self.set_childs_hold(entry.map_or(Hold::LockOnly, Hold::Entry));
        self.mapped.freeze();
    }

    /// Takes over, in the child, the entry that the parent made for it. Allocates nothing.
    fn take_over_in_child(&self) {
        self.mapped.close_gap_in_child();
        let Hold::Entry(entry) = self.take_childs_hold() else { return };
        if let Some(me) = fork::registered(self.directory()) {
            self.leases().set_owner_info(entry, me.info); // the parent could not know the pid
        }
    }
}
