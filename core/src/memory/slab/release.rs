//! Cells that have become free, and slabs that this process no longer needs.

use std::sync::Arc;

use super::free_lists;
use super::owned::Slab;
use super::reclaim::{Decommit, SweepMode, decommit, end_slab, recover_all};
use crate::header::control::Ordering;
use crate::header::lease::{Closed, Leases};
use crate::memory::mapping::Mapped;
use crate::system::{self, Directory, Liveness};

/// The most free cells that keep their memory in a slab that is not pooled.
const MAX_WARM_CELLS: i64 = 16;

/// Counts a cell that this process has freed, and ends the slab if that was its last. Returns a
/// slab that this process no longer needs; the caller drops it when nothing is locked.
pub(crate) fn freed(mapped: &Mapped, cell: u32) -> Option<Slab> {
    let whole = mapped.leases();
    if whole.close_if_unused() == Closed::Last {
        return end(mapped);
    }
    if whole.control.warm().add(1) > MAX_WARM_CELLS && !whole.is_pooled() {
        decommit(mapped, Decommit::Warm);
        if whole.close() == Closed::Last {
            return end(mapped); // another process freed the last cell while ours were claimed
        }
    }
    free_lists::put_back(&mapped.header.id, cell);
    None
}

fn end(mapped: &Mapped) -> Option<Slab> {
    end_slab(mapped);
    forget(mapped)
}

/// Stops giving cells out of a slab that is LOCK_ONLY, because its maker's own mapping would hold
/// it.
pub(crate) fn forget(mapped: &Mapped) -> Option<Slab> {
    free_lists::take(&mapped.header.id)
}

/// Releases pooled slabs without arrays: all of them, or those that were not used since the last
/// call. Returns the bytes of the slabs that ended.
pub(crate) fn release_idle(is_all: bool) -> u64 {
    if is_all {
        end_all(free_lists::take_all(Slab::is_in_use))
    } else {
        end_all(free_lists::take_idle())
    }
}

/// Releases slabs that are LOCK_ONLY, slabs that are not pooled and that only the free lists have
/// mapped, and, when memory is wanted, pooled ones that only the free lists have mapped. Returns
/// the bytes of the slabs that ended.
pub(crate) fn release_unused(mode: SweepMode) -> u64 {
    end_all(free_lists::take_all(|slab| {
        let in_use = Arc::strong_count(&slab.mapped) > 1;
        let is_pooled = slab.pool_lease.is_some() && mode == SweepMode::DeadOnly;
        !slab.mapped.leases().is_lock_only() && (in_use || is_pooled)
    }))
}

fn end_all(slabs: Vec<Slab>) -> u64 {
    slabs.into_iter().map(|mut slab| if slab.leave() { slab.bytes() } else { 0 }).sum()
}

/// Gives back all pool leases at the exit of this process. Slabs with an array of this process stay
/// mapped, because its threads may still run.
pub(crate) fn leave_at_exit() {
    drop(free_lists::take_all(|_| false));
}

/// Takes slabs out of the free lists whose files cannot be found any more: another program removed
/// them, or they belong to another user since this process has become one. A new array there could
/// not be found by its handle. Returns whether there were any.
pub(super) fn forget_removed(directory: &Directory) -> bool {
    let is_findable =
        |slab: &Slab| system::is_findable(slab.mapped.directory(), &slab.mapped.header.id);
    let gone = free_lists::take_all(is_findable);
    if gone.iter().any(|slab| !system::is_found(slab.mapped.directory(), &slab.mapped.header.id)) {
        system::warn_of_removed_files(directory);
    }
    !gone.is_empty()
}

/// Frees what dead processes left in a slab and, as the mode says, memory of its free cells.
/// Returns the bytes that went back, and whether the slab ended.
pub(crate) fn sweep(mapped: &Mapped, mode: SweepMode, liveness: &Liveness) -> (u64, bool) {
    let whole = mapped.leases();
    let counted_before = whole.control.used().load(Ordering::Relaxed);
    let is_flagged_in_vain = recover_all(mapped, liveness);
    let used = whole.cells().filter(Leases::is_used).count();
    // Stored only if no process has counted meanwhile: the process that frees the last cell must
    // see that it is the last.
    let _ = whole.control.used().replace(counted_before, used as u64);
    let bytes = match mode {
        _ if is_flagged_in_vain => decommit(mapped, Decommit::EvenFlagged),
        SweepMode::AlsoIdle => decommit(mapped, Decommit::All),
        SweepMode::DeadOnly if whole.is_pooled() => 0,
        SweepMode::DeadOnly => decommit(mapped, Decommit::Warm),
    };
    // A process that freed the last cell meanwhile found those claimed that are decommitted here,
    // and left the slab to this close. Or the slab is DEAD, and the process that ended it died
    // before it unlinked it.
    let ends = whole.close() == Closed::Last || whole.is_dead();
    if ends {
        drop(end(mapped));
    }
    (bytes, ends)
}
