//! Leases: which processes and messages hold a segment or a cell. They lie in shared memory itself,
//! so taking one needs no system call.
//!
//! PROTOCOL.md describes the whole protocol and gives its reasons; `tests/models/lifetime`
//! searches it. This module is its lock-free part: the entries and the state word.
//!
//! The atomics, their bits, what changes them and how those changes are ordered:
//!
//! **state**: bits 0–2 are the state, bits 3–63 the epoch, which grows by one at each transition.
//! AcqRel.
//!
//! | from | to | function |
//! |---|---|---|
//! | – | LIVE | `set_live`: the creator, before the segment can be seen |
//! | UNUSED, FREE | CLAIMED | `claim`: a process that has an entry |
//! | CLAIMED | LIVE | `begin_life`: the owner |
//! | CLAIMED | FREE | `unclaim`: the owner |
//! | LIVE | CLOSING | `close`: a process that saw no held entry. `close_unmapped`: any process |
//! | CLOSING | LIVE, DEAD, FREE, RETIRED | `settle`: any process that scanned the entries after it loaded CLOSING |
//! | CLOSING | LIVE, DEAD | `close_unmapped`: any process that then asked the kernel for the file's lock |
//! | CLAIMED, RETIRED | FREE | `recover`: any process that saw no entry |
//!
//! F1: the fence in `is_held` and in `close_unmapped` stands between a store (the state CLOSING, an
//! entry freed, PERSIST cleared) and the loads of the entries and the flags.
//!
//! **entry**: `owner << 1 | held`. AcqRel.
//! * 0 → an owner: the process that takes the entry (`take_entry`). Held on and off, and back to 0:
//!   that owner alone. A dead owner's entry → 0: any process, replacing the whole word
//!   (`clear_dead_entries`). A message's entry → 0: its receiver.
//!
//! F2: the fence in `settle_and_is_live`, and the one in `enter` after a refusal, stand between a
//! store (an entry held or freed, LOCK_ONLY set) and the load of the state. F1 and F2 are partners:
//! at least one of the two processes sees the other's store. This is the first half of Dekker's
//! algorithm (E. W. Dijkstra, "Cooperating sequential processes", EWD 123, 1965); the literature on
//! memory models calls the pair store buffering.
//!
//! **flags**: PERSIST, LOCK_ONLY, DECOMMITTED. Ordered as a held entry.
//! * PERSIST is cleared by `unlink`, which closes afterwards. LOCK_ONLY is set by `set_lock_only`,
//!   which looks at the state afterwards. DECOMMITTED belongs to the process that has claimed the
//!   cell.
//!
//! Invariants:
//! * I1 while an entry that was entered is held, the state is LIVE or CLOSING.
//! * I2 in each life exactly one call of `close` or `close_unmapped`, in any process, returns
//!   [`Closed::Last`]. Its caller then unlinks the segment, or puts the cell into a free list.
//! * I3 a CLAIMED cell has one owner, which has an entry that is not held. If the cell has no entry
//!   at all, its owner is dead.
//! * I4 no process touches FREE memory. The threads of an exiting process may still touch what that
//!   process held: such a cell is RETIRED until its entry, which is no longer held, belongs to a
//!   dead process.

use crate::header::control::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::header::control::{ControlWords, DECOMMITTED, LOCK_ONLY, PERSIST, fence};

/// A cell that was never used: its memory is as the kernel made it.
const UNUSED: u64 = 0;
/// A segment or cell that can be attached.
const LIVE: u64 = 1;
/// A process has seen no held entry, and looks again.
const CLOSING: u64 = 2;
/// A cell that can be claimed.
const FREE: u64 = 3;
/// A segment that has ended and only has to be unlinked.
pub(crate) const DEAD: u64 = 4;
/// A cell in which a process is making an array.
const CLAIMED: u64 = 5;
/// A cell that an exiting process held, whose threads may still touch it (I4).
const RETIRED: u64 = 6;
/// The bits of the state.
const STATE_MASK: u64 = 0b111;
/// One epoch, in the bits above the state.
const ONE_EPOCH: u64 = STATE_MASK + 1;
/// The bit of an entry that says that its owner holds.
const HELD: u64 = 1;

/// The index of an entry in a lease table.
pub(crate) type EntryIndex = usize;

/// The outcome of an attempt to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// A process or a message holds it, or it persists.
    Held,
    /// Nothing holds it any more, and this call ended it (I2).
    Last,
    /// It was not alive.
    Gone,
}

/// The kind of thing that the leases hold, and how its life ends.
#[derive(Clone, Copy)]
enum LeaseKind {
    /// A segment with one array. It ends DEAD.
    Segment,
    /// A cell. It ends FREE, to be used again.
    Cell,
    /// A slab, held by its cells that are in use and by its pool lease. It ends DEAD.
    Slab,
}

/// The leases of one segment or cell.
#[derive(Clone, Copy)]
pub(crate) struct Leases {
    pub(crate) control: ControlWords,
    kind: LeaseKind,
}

impl Leases {
    pub(crate) fn of_segment(control: ControlWords) -> Self {
        Self { control, kind: LeaseKind::Segment }
    }

    pub(crate) fn of_slab(control: ControlWords) -> Self {
        Self { control, kind: LeaseKind::Slab }
    }

    /// Returns the leases of one cell of a slab.
    pub(crate) fn cell(&self, cell: u32) -> Option<Self> {
        self.control.cell(cell).map(|control| Self { control, kind: LeaseKind::Cell })
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = Self> + '_ {
        self.control.cells().map(|control| Self { control, kind: LeaseKind::Cell })
    }

    /// Makes a new segment LIVE: the creator's last store before the segment can be seen.
    pub(crate) fn set_live(&self, flags: u64) {
        self.control.flags().store(flags, Relaxed);
        // Release: the flags and the header come before it. Its partner is the Acquire load of a
        // process that looks at the state.
        self.control.state().store(LIVE, Release);
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.control.state().load(Acquire) & STATE_MASK, LIVE | CLOSING)
    }

    /// Whether it has ended and only has to be unlinked.
    pub(crate) fn is_dead(&self) -> bool {
        self.control.state().load(Acquire) & STATE_MASK == DEAD
    }

    /// Takes an entry that is not held yet. `None` when all entries are taken.
    pub(crate) fn take_entry(&self, owner: u64, owner_info: u64) -> Option<EntryIndex> {
        self.take_entry_among(owner, owner_info, self.control.entries().len())
    }

    /// Takes and holds an entry for a message, while the caller holds as well. A quarter of the
    /// entries is left to processes.
    pub(crate) fn hold_for_message(&self, ticket: u64, owner_info: u64) -> bool {
        let entry = self.take_entry_among(ticket, owner_info, self.control.entries().len() * 3 / 4);
        entry.inspect(|entry| self.set_held(*entry)).is_some()
    }

    fn take_entry_among(&self, owner: u64, owner_info: u64, most: usize) -> Option<EntryIndex> {
        let entries = &self.control.entries()[..most];
        let entry = entries.iter().position(|entry| {
            entry.owner.load(Relaxed) == 0 && entry.owner.replace(0, owner << 1)
        })?;
        debug_assert!(
            owner != 0 && owner << 1 >> 1 == owner,
            "an owner is not zero and has 63 bits"
        );
        // Release: stored before the entry is first held. `clear_dead_entries` acquires it.
        entries[entry].owner_info.store(owner_info, Release);
        Some(entry)
    }

    /// Replaces the owner info of an entry.
    pub(crate) fn set_owner_info(&self, entry: EntryIndex, owner_info: u64) {
        // Release, as in `take_entry_among`.
        self.control.entries()[entry].owner_info.store(owner_info, Release);
    }

    /// Holds, if the segment is alive. Otherwise it frees the entry, and the caller must close: a
    /// cell that is alive again by then may have been left by processes that saw this entry.
    pub(crate) fn enter(&self, entry: EntryIndex) -> bool {
        self.set_held(entry);
        let live = self.settle_and_is_live();
        if !live {
            self.leave(entry);
            fence(SeqCst); // F2: the load is that of the close
        }
        live
    }

    /// Holds without a check of the state. For callers that know that the segment is held
    /// meanwhile.
    pub(crate) fn set_held(&self, entry: EntryIndex) {
        self.control.entries()[entry].owner.set(HELD);
    }

    /// Ends the hold and frees the entry. The caller closes afterwards.
    pub(crate) fn leave(&self, entry: EntryIndex) {
        // Release: this process's accesses to the memory come before it. Its partner is the Acquire
        // load in `has_held_entry`, by the process that ends this life. If the entry has another
        // owner by then, that owner's `take_entry` acquired this store and passes it on.
        self.control.entries()[entry].owner.store(0, Release);
    }

    /// Ends the hold of an exiting process, which may touch the memory until it is dead (I4).
    pub(crate) fn leave_at_exit(&self, entry: EntryIndex) {
        self.control.entries()[entry].owner.clear(HELD);
    }

    /// Gives back the ticket of a message that was received or is unwanted. The caller closes
    /// afterwards. `false` when the ticket has no entry, or was given back already.
    pub(crate) fn release_ticket(&self, ticket: u64) -> bool {
        self.control.entries().iter().any(|entry| entry.owner.replace(ticket << 1 | HELD, 0))
    }

    /// Sets LOCK_ONLY: from now on the segment ends only when the kernel reports that no process
    /// has the file's lock (`close_unmapped`). The caller has that lock, shared. Returns `false` if
    /// the segment is not alive.
    pub(crate) fn set_lock_only(&self) -> bool {
        self.control.flags().set(LOCK_ONLY);
        self.settle_and_is_live()
    }

    pub(crate) fn is_lock_only(&self) -> bool {
        let nobody_enters =
            matches!(self.kind, LeaseKind::Segment) && self.control.entries().is_empty();
        nobody_enters || self.control.flags().load(Acquire) & LOCK_ONLY != 0
    }

    /// Whether the state is LIVE. Settles a CLOSING that other processes left.
    pub(crate) fn settle_and_is_live(&self) -> bool {
        fence(SeqCst); // F2
        loop {
            let state = self.control.state().load(Acquire);
            match state & STATE_MASK {
                LIVE => return true,
                CLOSING => _ = self.settle(state), // by us or another
                _ => return false,
            }
        }
    }

    /// Ends the segment or cell if nothing holds it.
    pub(crate) fn close(&self) -> Closed {
        loop {
            let state = self.control.state().load(Acquire);
            match state & STATE_MASK {
                LIVE if self.is_held() => return Closed::Held,
                LIVE => _ = self.advance(state, CLOSING), // then it is settled, by us or another
                CLOSING => match self.settle(state) {
                    Some(LIVE) => return Closed::Held,
                    Some(_) => return Closed::Last,
                    None => {}
                },
                _ => return Closed::Gone,
            }
        }
    }

    /// Ends a segment that no process maps and no message holds. `is_unheld` checks both while the
    /// state is CLOSING. An attach takes the file's lock before it looks at the state, so at least
    /// one of the two sees the other. A closer that was overtaken starts over, because another one
    /// that found the segment held may have made it LIVE since.
    pub(crate) fn close_unmapped(&self, is_unheld: impl Fn() -> bool) -> Closed {
        loop {
            let found = self.control.state().load(Acquire);
            let closing = match found & STATE_MASK {
                LIVE if self.advance(found, CLOSING) => Self::next_word(found, CLOSING),
                LIVE => continue, // another process was faster
                CLOSING => found, // of a process that has died, or that maps it
                _ => return Closed::Gone,
            };
            fence(SeqCst); // F1: PERSIST is loaded and the kernel is asked afterwards
            let persists = self.control.flags().load(Acquire) & PERSIST != 0;
            if persists || !is_unheld() {
                // If it fails, a process that has attached since made it LIVE.
                let _ = self.advance(closing, LIVE);
                return Closed::Held;
            }
            if self.advance(closing, DEAD) {
                return Closed::Last;
            }
        }
    }

    /// Scans the entries and ends this CLOSING. `None` when another process was faster.
    fn settle(&self, closing: u64) -> Option<u64> {
        let next = if self.is_held() { LIVE } else { self.final_state() };
        self.advance(closing, next).then_some(next)
    }

    /// Returns the state that follows when nothing holds the segment or cell.
    fn final_state(&self) -> u64 {
        match self.kind {
            LeaseKind::Cell if self.has_entries() => RETIRED,
            LeaseKind::Cell => FREE,
            _ => DEAD,
        }
    }

    fn has_entries(&self) -> bool {
        self.control.entries().iter().any(|entry| entry.owner.load(Acquire) != 0)
    }

    /// Makes a transition. Returns whether the word was `from`.
    #[must_use]
    fn advance(&self, from: u64, to: u64) -> bool {
        self.control.state().replace(from, Self::next_word(from, to))
    }

    /// Returns the word with the next epoch. The epoch wraps, because a hostile process may have
    /// stored the largest.
    fn next_word(from: u64, to: u64) -> u64 {
        (from & !STATE_MASK).wrapping_add(ONE_EPOCH) | to
    }

    fn is_held(&self) -> bool {
        fence(SeqCst); // F1
        let used = || self.control.cells().any(|cell| is_used(cell.state().load(Acquire)));
        self.has_held_entry()
            || matches!(self.kind, LeaseKind::Slab) && used()
            || self.is_lock_only()
            || self.control.flags().load(Acquire) & PERSIST != 0
    }

    fn has_held_entry(&self) -> bool {
        self.control.entries().iter().any(|entry| entry.owner.load(Acquire) & HELD != 0)
    }

    /// Whether the slab has a pool lease.
    pub(crate) fn is_pooled(&self) -> bool {
        self.has_held_entry()
    }

    /// Whether anybody but this owner holds an entry.
    pub(crate) fn is_held_by_others(&self, me: u64) -> bool {
        let mut owners = self.control.entries().iter().map(|entry| entry.owner.load(Acquire));
        owners.any(|word| word & HELD != 0 && word >> 1 != me)
    }

    /// Whether any entry but this one is held.
    pub(crate) fn is_held_besides(&self, own: EntryIndex) -> bool {
        let mut entries = self.control.entries().iter().enumerate();
        entries.any(|(index, entry)| index != own && entry.owner.load(Acquire) & HELD != 0)
    }

    /// Frees the entries of dead owners, held or not. `is_dead_owner` takes the owner and its info.
    pub(crate) fn clear_dead_entries(&self, is_dead_owner: impl Fn(u64, u64) -> bool) {
        for entry in self.control.entries() {
            let word = entry.owner.load(Acquire);
            if word != 0 && is_dead_owner(word >> 1, entry.owner_info.load(Acquire)) {
                // The whole word is replaced: if the entry has a new owner by now, it stays.
                let _ = entry.owner.replace(word, 0);
            }
        }
    }
}

/// The life of a cell: unused or FREE, CLAIMED by one process, LIVE again.
impl Leases {
    /// Counts down the used cells of a slab, after the caller made one of them FREE. Ends the slab
    /// if none is in use.
    pub(crate) fn close_if_unused(&self) -> Closed {
        if self.control.used().add(-1) <= 0 { self.close() } else { Closed::Held }
    }

    /// Whether it can be claimed. The answer may be out of date.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.control.state().load(Acquire) & STATE_MASK, UNUSED | FREE)
    }

    /// Whether an array lies in it, or a process is about to make one.
    pub(crate) fn is_used(&self) -> bool {
        is_used(self.control.state().load(Acquire))
    }

    /// Whether the threads of an exiting process may still touch it (I4).
    pub(crate) fn is_retired(&self) -> bool {
        self.control.state().load(Acquire) & STATE_MASK == RETIRED
    }

    /// Whether it was never used, so that its memory is as the kernel made it.
    pub(crate) fn is_unused(&self) -> bool {
        self.control.state().load(Acquire) & STATE_MASK == UNUSED
    }

    /// Claims a free cell (I3). The caller has an entry that is not held.
    pub(crate) fn claim(&self) -> bool {
        let state = self.control.state().load(Acquire);
        matches!(state & STATE_MASK, UNUSED | FREE) && self.advance(state, CLAIMED)
    }

    /// Makes a claimed cell LIVE as another array, held by its owner.
    pub(crate) fn begin_life(&self, entry: EntryIndex, generation: u64, data_bytes: u64) {
        self.control.set_generation(generation);
        self.control.data_bytes().store(data_bytes, Relaxed);
        self.set_held(entry);
        self.control.flags().store(0, Relaxed);
        // AcqRel: all of the above comes before it. Its partner is the Acquire load of a process
        // that looks at the state.
        self.end_claim(LIVE);
    }

    /// Makes a claimed cell FREE again. The owner leaves its entry afterwards.
    pub(crate) fn unclaim(&self) {
        self.end_claim(FREE);
    }

    fn end_claim(&self, next: u64) {
        let claimed = self.control.state().load(Relaxed);
        let was_claimed = claimed & STATE_MASK == CLAIMED && self.advance(claimed, next);
        debug_assert!(was_claimed, "I3: only its owner changes a claimed cell");
    }

    /// Frees a cell that a dead process had claimed, or held when it exited (I3, I4). The caller
    /// has cleared the entries of dead owners before.
    ///
    /// Returns whether the cell is freed with DECOMMITTED set. The flag is set before memory is
    /// released and cleared after memory is reserved, so if a process died in between, the cell may
    /// have memory although the flag is set.
    pub(crate) fn recover(&self) -> bool {
        let state = self.control.state().load(Acquire);
        let is_orphan = matches!(state & STATE_MASK, CLAIMED | RETIRED) && !self.has_entries();
        is_orphan
            && self.advance(state, FREE)
            && self.control.flags().load(Acquire) & DECOMMITTED != 0
    }
}

fn is_used(state: u64) -> bool {
    !matches!(state & STATE_MASK, UNUSED | FREE | RETIRED)
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests;
