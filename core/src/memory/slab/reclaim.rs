//! Giving memory of a slab back to the system: what dead processes had, free cells, the whole slab.

use crate::header::control::{DECOMMITTED, Ordering};
use crate::header::lease::Leases;
use crate::memory::mapping::Mapped;
use crate::system::{self, Liveness};

/// The extent of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepMode {
    /// It takes what dead processes held.
    DeadOnly,
    /// Also memory that living processes keep in their pools and do not use, because memory is
    /// wanted.
    AlsoIdle,
}

/// The free cells whose memory is released.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decommit {
    /// Cells that were used.
    Warm,
    /// Also cells that were never used.
    All,
    /// Also cells that are DECOMMITTED already, because a process died between the flag and the
    /// release.
    EvenFlagged,
}

impl Decommit {
    fn takes(self, cell: &Leases) -> bool {
        let is_flagged = cell.control.flags().load(Ordering::Acquire) & DECOMMITTED != 0;
        cell.is_free()
            && (self != Self::Warm || !cell.is_unused())
            && (self == Self::EvenFlagged || !is_flagged)
    }
}

/// Gives the memory of free cells back to the system. Returns the number of bytes.
pub(super) fn decommit(mapped: &Mapped, which: Decommit) -> u64 {
    let owner = system::process_owner(mapped.directory());
    let Some(me) = owner.filter(|_| mapped.header_is_writable()) else { return 0 };
    let whole = mapped.leases();
    let mut claimed = Vec::new();
    for (cell, leases) in whole.cells().enumerate() {
        if which.takes(&leases)
            && claimed.try_reserve(1).is_ok() // a cell without room here keeps its memory
            && let Some(entry) = leases.take_entry(me.id, me.info)
        {
            if leases.claim() {
                claimed.push((cell as u32, leases, entry))
            } else {
                leases.leave(entry)
            }
        }
    }
    whole.control.warm().store(0, Ordering::Relaxed);
    // DECOMMITTED is set before the memory is released. A process that sees the flag in between
    // reserves memory that is there already.
    claimed.iter().for_each(|(_, leases, _)| leases.control.flags().set(DECOMMITTED));
    let start = mapped.header.header_bytes;
    let part = |cell: u32| (start + mapped.part(Some(cell)).0, mapped.part(Some(cell)).1);
    let parts: Vec<_> = claimed.iter().map(|(cell, ..)| part(*cell)).collect();
    let released = system::decommit(mapped.directory(), &mapped.header.id, &parts);
    for (_, leases, entry) in claimed {
        leases.unclaim();
        leases.leave(entry);
    }
    released.map_or(0, |()| parts.iter().map(|(_, bytes)| bytes).sum())
}

/// Frees what dead processes had in a slab. Returns whether one of them died between setting
/// DECOMMITTED and releasing the memory ([`Leases::recover`]).
pub(super) fn recover_all(mapped: &Mapped, liveness: &Liveness) -> bool {
    let whole = mapped.leases();
    let is_dead = |owner, info| liveness.is_dead_owner(owner, info);
    let mut is_flagged_in_vain = false;
    whole.clear_dead_entries(is_dead);
    for cell in whole.cells().filter(|cell| !cell.is_unused()) {
        cell.clear_dead_entries(is_dead);
        is_flagged_in_vain |= cell.recover();
        cell.close();
    }
    is_flagged_in_vain
}

/// Releases a slab that has ended, though other processes may have it mapped. Memory that the
/// threads of an exiting process may still touch is released with that process.
pub(super) fn end_slab(mapped: &Mapped) {
    let is_touched = || mapped.leases().cells().any(|cell| cell.is_retired());
    if is_touched() {
        // Some of those processes may have ended by now.
        recover_all(mapped, &Liveness::of(mapped.directory()));
    }
    if !is_touched() {
        let data = (mapped.header.header_bytes, mapped.part(None).1);
        let _ = system::decommit(mapped.directory(), &mapped.header.id, &[data]);
    }
    mapped.discard();
}
