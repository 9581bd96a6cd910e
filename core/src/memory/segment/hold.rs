//! Holding a segment or a cell and giving it back: a lease and what follows from it.

use crate::header::lease::{Closed, EntryIndex, Leases};
use crate::memory::mapping::Mapped;
use crate::memory::slab::{self, Slab};
use crate::system::{self, Liveness, Owner};
use crate::value::name::SegmentText;

/// How a process holds a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// By an entry of the lease table.
    Entry(EntryIndex),
    /// By the mapping's lock alone: no entry was free, or the table is not writable.
    LockOnly,
}

/// Holds a mapped segment or cell: by an entry, or by the mapping's lock alone if there is none.
/// `None` when it is not alive.
pub(super) fn enter(leases: &Leases, mapped: &Mapped, cell: Option<u32>) -> Option<Hold> {
    if !mapped.header_is_writable() {
        return (leases.is_lock_only() && leases.is_live()).then_some(Hold::LockOnly);
    }
    let directory = mapped.directory();
    let take_entry = |me: Owner| {
        leases.take_entry(me.id, me.info).or_else(|| {
            clear_dead(leases, &Liveness::of(directory));
            leases.take_entry(me.id, me.info)
        })
    };
    match system::process_owner(directory).and_then(take_entry) {
        Some(entry) if leases.enter(entry) => Some(Hold::Entry(entry)),
        Some(_) => {
            // The next life of a cell may have ended meanwhile, and this entry kept it from being
            // freed.
            drop(end_if_unheld(mapped, cell, leases));
            None
        }
        None => {
            mapped.leases().set_lock_only();
            leases.set_lock_only().then_some(Hold::LockOnly)
        }
    }
}

/// Makes a segment or cell LOCK_ONLY, and the file that it lies in. It is alive meanwhile.
pub(super) fn hold_lock_only(leases: &Leases, mapped: &Mapped) {
    leases.set_lock_only();
    mapped.leases().set_lock_only();
}

fn clear_dead(leases: &Leases, liveness: &Liveness) {
    leases.clear_dead_entries(|owner, info| liveness.is_dead_owner(owner, info));
}

/// Clears the entries of dead processes, and closes.
pub(crate) fn clear_dead_and_close(leases: &Leases, liveness: &Liveness) -> Closed {
    clear_dead(leases, liveness);
    leases.close()
}

/// Ends a segment or a cell that nothing holds any more. Returns a slab that this process no longer
/// needs; the caller drops it when nothing is locked.
pub(super) fn end_if_unheld(mapped: &Mapped, cell: Option<u32>, leases: &Leases) -> Option<Slab> {
    end_if_unheld_or_dead(mapped, cell, leases, true)
}

/// Does the same. `asks` says whether others who hold it are asked whether they live.
pub(super) fn end_if_unheld_or_dead(
    mapped: &Mapped,
    cell: Option<u32>,
    leases: &Leases,
    asks: bool,
) -> Option<Slab> {
    let me = || system::process_owner(mapped.directory()).map_or(0, |me| me.id);
    let closed = match leases.close() {
        Closed::Held if asks && !leases.is_lock_only() && leases.is_held_by_others(me()) => {
            clear_dead_and_close(leases, &Liveness::of(mapped.directory()))
        }
        closed => closed,
    };
    match (closed, cell) {
        (Closed::Last, None) => {
            mapped.decommit_channel();
            mapped.discard();
        }
        (Closed::Last, Some(cell)) => return slab::freed(mapped, cell),
        (Closed::Held, Some(_)) if leases.is_lock_only() => return slab::forget(mapped),
        _ => {}
    }
    None
}

/// Gives back a message's ticket: its entry, or its link. Returns whether it was there.
pub(super) fn release_ticket(
    mapped: &Mapped,
    cell: Option<u32>,
    leases: &Leases,
    ticket: u64,
) -> bool {
    let of = SegmentText { id: mapped.header.id, cell };
    leases.release_ticket(ticket)
        || leases.is_lock_only() && system::unlink_ticket(mapped.directory(), &of, ticket)
}
