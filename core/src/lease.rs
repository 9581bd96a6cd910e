//! Leases: who holds a segment or a cell, in shared memory itself, without a system call.
//!
//! PROTOCOL.md tells the whole protocol and why it is so; `tests/lifetime_model.rs` searches it.
//! This is its lock-free part: entries and the state word.
//!
//! | atomic | bits | moved by | ordering, partner |
//! |---|---|---|---|
//! | state | 0–2 state, 3–63 epoch | `be_live`: the creator, before the array can be seen or from CLAIMED. `close`: LIVE → CLOSING by who saw no entry held. `settle`: CLOSING → LIVE or the end by anybody who scanned after. `claim`: FREE → CLAIMED by who has an entry. `recover`: CLAIMED or RETIRED → FREE by anybody who saw no entry | AcqRel. F1: the fence of `is_held` stands between a store (state CLOSING, an entry left, PERSIST cleared) and the loads of entries and flags |
//! | entry | owner << 1, held | 0 → holder: whoever takes the place (`place`). Held on and off, and back to 0: that holder alone. A dead holder's → 0: anybody, as one word (`clear_dead_entries`); a message's: who received it | AcqRel. F2: the fence of `look` stands between a store (entry held, LOCK_ONLY) and the load of the state. F1 and F2 are each other's partners, as in Dekker's algorithm: one of the two sees the other's store |
//! | flags | PERSIST, LOCK_ONLY, DECOMMITTED | PERSIST off: `unlink`, which closes afterwards. LOCK_ONLY on: `set_lock_only`, which looks at the state afterwards. DECOMMITTED: who claimed | as an entry that is held |
//!
//! Invariants:
//! * I1 while an entry that was entered is held, the state is LIVE or CLOSING.
//! * I2 of each life exactly one call of `close`, in any process, is told [`Closed::Last`]; what
//!   it ended is then its to give back.
//! * I3 CLAIMED has one owner, who has an entry, not held. Without any entry its owner is dead.
//! * I4 FREE memory is touched by nobody. What a process had held when it ended in the ordinary way
//!   its threads may still touch: that is RETIRED until its entry, not held, is the dead's.

use crate::control::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::control::{ControlWords, DECOMMITTED, LOCK_ONLY, PERSIST, fence};

const UNUSED: u64 = 0;
const LIVE: u64 = 1;
const CLOSING: u64 = 2;
const FREE: u64 = 3;
pub(crate) const DEAD: u64 = 4;
const CLAIMED: u64 = 5;
const RETIRED: u64 = 6;
const STATES: u64 = 7;
const EPOCH: u64 = 8;
const HELD: u64 = 1;

/// A place in the lease table.
pub(crate) type EntryIndex = usize;

/// What came of an attempt to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Somebody holds it, or it persists.
    Held,
    /// Nobody holds it any more, and this call was the one that ended it.
    Last,
    /// It was not alive.
    Gone,
}

/// What is held, and by what.
#[derive(Clone, Copy)]
enum Kind {
    /// A segment by its entries: it ends DEAD.
    Segment,
    /// A cell by its entries: it ends FREE, to be used again.
    Cell,
    /// A segment of cells by those that are in use, and by who keeps it: it ends DEAD.
    Slab,
}

/// The leases of one segment or cell.
#[derive(Clone, Copy)]
pub(crate) struct Leases {
    pub(crate) control: ControlWords,
    kind: Kind,
}

impl Leases {
    pub(crate) fn of_segment(control: ControlWords) -> Self {
        Self { control, kind: Kind::Segment }
    }

    pub(crate) fn of_slab(control: ControlWords) -> Self {
        Self { control, kind: Kind::Slab }
    }

    /// Those of one cell of a segment of cells.
    pub(crate) fn cell(&self, cell: u32) -> Option<Self> {
        self.control.cell(cell).map(|control| Self { control, kind: Kind::Cell })
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = Self> + '_ {
        self.control.cells().map(|control| Self { control, kind: Kind::Cell })
    }

    /// The creator's last store before a new segment can be seen.
    pub(crate) fn be_live(&self, flags: u64) {
        self.control.flags().store(flags, Relaxed);
        self.control.state().store(LIVE, Release); // F2's load
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.control.state().load(Acquire) & STATES, LIVE | CLOSING)
    }

    /// Whether it has ended, and is only to be unlinked.
    pub(crate) fn is_dead(&self) -> bool {
        self.control.state().load(Acquire) & STATES == DEAD
    }

    /// A place of one's own, not held yet; `None` when all are taken.
    pub(crate) fn take_entry(&self, owner: u64, owner_info: u64) -> Option<EntryIndex> {
        self.take_entry_among(owner, owner_info, self.control.entries().len())
    }

    /// A message's, held at once: the caller holds meanwhile. Some places are left to processes.
    pub(crate) fn hold_for_message(&self, ticket: u64, owner_info: u64) -> bool {
        let entry = self.take_entry_among(ticket, owner_info, self.control.entries().len() * 3 / 4);
        entry.inspect(|entry| self.set_held(*entry)).is_some()
    }

    fn take_entry_among(&self, owner: u64, owner_info: u64, most: usize) -> Option<EntryIndex> {
        let entries = &self.control.entries()[..most];
        let entry = entries.iter().position(|entry| {
            entry.owner.load(Relaxed) == 0 && entry.owner.replace(0, owner << 1)
        })?;
        entries[entry].owner_info.store(owner_info, Release); // before it is first held; `clear_dead_entries` loads it
        Some(entry)
    }

    /// What there is to know of who has this place is not what it was.
    pub(crate) fn set_owner_info(&self, entry: EntryIndex, owner_info: u64) {
        self.control.entries()[entry].owner_info.store(owner_info, Release);
    }

    /// Holds, if the segment is alive; else the place is free again, and who was refused closes: a
    /// cell that lives again by then may have been left by others who saw this entry.
    pub(crate) fn enter(&self, entry: EntryIndex) -> bool {
        self.set_held(entry);
        let live = self.look();
        if !live {
            self.leave(entry);
            fence(SeqCst); // F2: the load is that of the close
        }
        live
    }

    /// The same without a look at the state: for who knows that somebody holds meanwhile.
    pub(crate) fn set_held(&self, entry: EntryIndex) {
        self.control.entries()[entry].owner.set(HELD);
    }

    /// No longer holds, and frees the place. Who leaves closes afterwards.
    pub(crate) fn leave(&self, entry: EntryIndex) {
        self.control.entries()[entry].owner.store(0, Release);
    }

    /// No longer holds, but may touch what it held until it is dead (I4): a process that ends.
    pub(crate) fn leave_at_exit(&self, entry: EntryIndex) {
        self.control.entries()[entry].owner.clear(HELD);
    }

    /// A message was received, or is unwanted. Who gives its ticket back closes afterwards.
    /// `false` when it has no entry, or had been given back.
    pub(crate) fn give_back_ticket(&self, ticket: u64) -> bool {
        self.control.entries().iter().any(|entry| entry.owner.replace(ticket << 1 | HELD, 0))
    }

    /// From now on the segment is given back only by who has its file's lock exclusively. The
    /// caller has that lock shared. `false` when the segment is not alive.
    pub(crate) fn set_lock_only(&self) -> bool {
        self.control.flags().set(LOCK_ONLY);
        self.look()
    }

    pub(crate) fn is_lock_only(&self) -> bool {
        let nobody_enters = matches!(self.kind, Kind::Segment) && self.control.entries().is_empty();
        nobody_enters || self.control.flags().load(Acquire) & LOCK_ONLY != 0
    }

    /// Whether the state is LIVE, after settling what others left CLOSING.
    pub(crate) fn look(&self) -> bool {
        fence(SeqCst); // F2
        loop {
            let state = self.control.state().load(Acquire);
            match state & STATES {
                LIVE => return true,
                CLOSING => drop(self.settle(state)),
                _ => return false,
            }
        }
    }

    /// Ends it if nobody holds it.
    pub(crate) fn close(&self) -> Closed {
        loop {
            let state = self.control.state().load(Acquire);
            match state & STATES {
                LIVE if self.is_held() => return Closed::Held,
                LIVE => drop(self.advance(state, CLOSING)), // then it is settled, by us or another
                CLOSING => match self.settle(state) {
                    Some(LIVE) => return Closed::Held,
                    Some(_) => return Closed::Last,
                    None => {}
                },
                _ => return Closed::Gone,
            }
        }
    }

    /// Ends what no process maps and no message holds. `is_unheld` asks for both while the state is
    /// CLOSING: an attach takes the file's lock, then looks; so one of the two sees the other. A
    /// closer that was overtaken starts over: another that found it held may have made it LIVE
    /// since.
    pub(crate) fn close_unmapped(&self, is_unheld: impl Fn() -> bool) -> Closed {
        loop {
            let found = self.control.state().load(Acquire);
            let is_ours = match found & STATES {
                LIVE => true,
                CLOSING => false, // by a process that has died, or maps it
                _ => return Closed::Gone,
            };
            if is_ours && !self.advance(found, CLOSING) {
                continue;
            }
            let closing = if is_ours { Self::after(found, CLOSING) } else { found };
            fence(SeqCst); // F1: then PERSIST is loaded, and the kernel asked
            let persists = self.control.flags().load(Acquire) & PERSIST != 0;
            if persists || !is_unheld() {
                self.advance(closing, LIVE); // by us, or by a process that has attached since
                return Closed::Held;
            }
            if self.advance(closing, DEAD) {
                return Closed::Last;
            }
        }
    }

    /// Scans, and ends this CLOSING; `None` when another was faster.
    fn settle(&self, closing: u64) -> Option<u64> {
        let next = if self.is_held() { LIVE } else { self.end() };
        self.advance(closing, next).then_some(next)
    }

    /// What becomes of that which nobody holds.
    fn end(&self) -> u64 {
        match self.kind {
            Kind::Cell if self.has_entries() => RETIRED,
            Kind::Cell => FREE,
            _ => DEAD,
        }
    }

    fn has_entries(&self) -> bool {
        self.control.entries().iter().any(|entry| entry.owner.load(Acquire) != 0)
    }

    fn advance(&self, from: u64, to: u64) -> bool {
        self.control.state().replace(from, Self::after(from, to))
    }

    /// The word with the next epoch. Others write it: it may be the last.
    fn after(from: u64, to: u64) -> u64 {
        (from & !STATES).wrapping_add(EPOCH) | to
    }

    fn is_held(&self) -> bool {
        fence(SeqCst); // F1
        let used = || self.control.cells().any(|cell| is_used(cell.state().load(Acquire)));
        self.has_held_entry()
            || matches!(self.kind, Kind::Slab) && used()
            || self.is_lock_only()
            || self.control.flags().load(Acquire) & PERSIST != 0
    }

    fn has_held_entry(&self) -> bool {
        self.control.entries().iter().any(|entry| entry.owner.load(Acquire) & HELD != 0)
    }

    /// Of a segment of cells: whether its maker keeps it though no array is in it.
    pub(crate) fn is_pooled(&self) -> bool {
        self.has_held_entry()
    }

    /// Whether anybody but that holder has an entry that is held.
    pub(crate) fn is_held_by_others(&self, me: u64) -> bool {
        let words = self.control.entries().iter().map(|entry| entry.owner.load(Acquire));
        words.into_iter().any(|word| word & HELD != 0 && word >> 1 != me)
    }

    /// Frees the entries of the dead, held or not. `is_dead_owner` is asked of holder and about.
    pub(crate) fn clear_dead_entries(&self, is_dead_owner: impl Fn(u64, u64) -> bool) {
        for entry in self.control.entries() {
            let word = entry.owner.load(Acquire);
            if word != 0 && is_dead_owner(word >> 1, entry.owner_info.load(Acquire)) {
                // The whole word: if its holder is another by now, it is not the dead one's.
                let _ = entry.owner.replace(word, 0);
            }
        }
    }
}

/// A cell's life: FREE or never used, claimed by one, LIVE again.
impl Leases {
    /// Of a segment of cells: the caller has made one of them FREE. Ends it if none is in use.
    pub(crate) fn close_if_unused(&self) -> Closed {
        let used = self.control.used().add(u64::MAX) as i64;
        if used <= 0 { self.close() } else { Closed::Held }
    }

    /// Whether it can be claimed; the answer may be old.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.control.state().load(Acquire) & STATES, UNUSED | FREE)
    }

    /// Whether an array is in it, or somebody is about to make one.
    pub(crate) fn is_used(&self) -> bool {
        is_used(self.control.state().load(Acquire))
    }

    /// Whether a process that ends may still touch it.
    pub(crate) fn is_retired(&self) -> bool {
        self.control.state().load(Acquire) & STATES == RETIRED
    }

    /// Whether it was never used, and is as the kernel made it.
    pub(crate) fn is_unused(&self) -> bool {
        self.control.state().load(Acquire) & STATES == UNUSED
    }

    /// Owns a free cell (I3): `place` is the caller's, and not held.
    pub(crate) fn claim(&self) -> bool {
        let state = self.control.state().load(Acquire);
        matches!(state & STATES, UNUSED | FREE) && self.advance(state, CLAIMED)
    }

    /// What was claimed becomes another array, held by its owner.
    pub(crate) fn begin(&self, entry: EntryIndex, generation: u64, data_bytes: u64) {
        self.control.set_generation(generation);
        self.control.data_bytes().store(data_bytes, Relaxed);
        self.set_held(entry);
        self.control.flags().store(0, Release);
        self.advance(self.control.state().load(Relaxed), LIVE); // F2's load: all of it is before
    }

    /// What was claimed is free again. The owner leaves its place afterwards.
    pub(crate) fn unclaim(&self) {
        self.advance(self.control.state().load(Relaxed), FREE);
    }

    /// What a dead process had claimed, or held when it ended, is free again (I3, I4). The entries
    /// of the dead are cleared first.
    ///
    /// Whether it has memory its flags say as before: DECOMMITTED is set before memory goes and cleared
    /// after it was reserved. A crash in between leaves memory that DECOMMITTED denies: `true` then.
    pub(crate) fn recover(&self) -> bool {
        let state = self.control.state().load(Acquire);
        let is_orphan = matches!(state & STATES, CLAIMED | RETIRED) && !self.has_entries();
        is_orphan
            && self.advance(state, FREE)
            && self.control.flags().load(Acquire) & DECOMMITTED != 0
    }
}

fn is_used(state: u64) -> bool {
    !matches!(state & STATES, UNUSED | FREE | RETIRED)
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::format::SlabLayout;
    use std::ptr::NonNull;

    /// A header page and a page of heads in private memory.
    #[repr(align(8))]
    struct Pages([u8; 8192]);

    #[allow(unsafe_code)]
    fn words(pages: &mut Pages) -> ControlWords {
        let header = NonNull::from(&mut pages.0).cast();
        // SAFETY: aligned pages with room for four entries and eight heads, which outlive the use.
        unsafe {
            ControlWords::new(
                header,
                4,
                Some(SlabLayout { cell_bytes: 4096, cells: 8, head_bytes: 512 }),
            )
        }
    }

    fn leases(pages: &mut Pages) -> Leases {
        let leases = Leases::of_segment(words(pages));
        leases.be_live(0);
        leases
    }

    #[test]
    fn the_last_to_leave_closes_and_nobody_enters_afterwards() {
        let mut page = Pages([0; 8192]);
        let leases = leases(&mut page);
        let (a, b) = (leases.take_entry(11, 0).unwrap(), leases.take_entry(12, 0).unwrap());
        assert!(leases.enter(a) && leases.enter(b));
        leases.leave(a);
        assert_eq!(leases.close(), Closed::Held);
        leases.leave(b);
        assert_eq!((leases.close(), leases.close()), (Closed::Last, Closed::Gone));
        let late = leases.take_entry(13, 0).unwrap();
        assert!(!leases.enter(late) && !leases.is_live());
    }

    #[test]
    fn a_closing_that_somebody_left_is_settled_by_the_next() {
        let mut page = Pages([0; 8192]);
        let leases = leases(&mut page);
        assert!(leases.advance(LIVE, CLOSING)); // and its process died
        let entry = leases.take_entry(11, 0).unwrap();
        assert!(leases.enter(entry));
        assert_eq!(leases.close(), Closed::Held);
        leases.leave(entry);
        assert!(leases.advance(leases.control.state().load(SeqCst), CLOSING));
        assert_eq!(leases.close(), Closed::Last);
    }

    #[test]
    fn what_persists_or_is_held_lock_only_is_not_closed() {
        let mut page = Pages([0; 8192]);
        let leases = leases(&mut page);
        leases.be_live(PERSIST);
        assert_eq!(leases.close(), Closed::Held);
        leases.be_live(0);
        assert!(leases.set_lock_only());
        assert_eq!(leases.close(), Closed::Held);
    }

    #[test]
    fn only_the_dead_are_cleared_and_full_is_said() {
        let mut page = Pages([0; 8192]);
        let leases = leases(&mut page);
        let places: Vec<_> =
            (1..=4).map(|holder| leases.take_entry(holder, holder * 10).unwrap()).collect();
        assert!(places.iter().all(|entry| leases.enter(*entry)));
        assert_eq!(leases.take_entry(5, 0), None);
        leases.clear_dead_entries(|owner, owner_info| owner == 2 && owner_info == 20);
        assert_eq!(leases.take_entry(5, 0), Some(places[1]));
        for entry in places {
            leases.leave(entry);
        }
        assert_eq!(leases.close(), Closed::Last);
    }

    #[test]
    fn a_message_holds_until_its_ticket_is_given_back_once() {
        let mut page = Pages([0; 8192]);
        let leases = leases(&mut page);
        assert!((21..24).all(|ticket| leases.hold_for_message(ticket, 1)));
        assert!(!leases.hold_for_message(24, 1), "a quarter is left to processes");
        assert!(
            (21..24)
                .all(|ticket| leases.close() == Closed::Held && leases.give_back_ticket(ticket))
        );
        assert!(!leases.give_back_ticket(21));
        assert_eq!(leases.close(), Closed::Last);
    }

    #[test]
    fn a_cell_is_used_again_by_one_owner_and_stale_handles_are_refused() {
        let mut page = Pages([0; 8192]);
        let file = Leases::of_slab(words(&mut page));
        file.be_live(0);
        let cell = file.cell(7).unwrap();
        assert!(file.cell(8).is_none() && cell.is_unused());
        for generation in [5, 6] {
            let mine = cell.take_entry(11, 0).unwrap();
            assert!(cell.claim() && !cell.claim());
            let late = cell.take_entry(12, 0).unwrap();
            assert!(!cell.enter(late), "it is nobody's yet");
            cell.begin(mine, generation, 8);
            assert_eq!((cell.control.generation(), file.close()), (generation, Closed::Held));
            cell.leave(mine);
            assert_eq!((cell.close(), cell.close()), (Closed::Last, Closed::Gone));
        }
        assert_eq!(file.close(), Closed::Last);
        assert!(!file.look(), "nothing is made there any more");
    }

    #[test]
    fn what_a_process_held_at_its_end_is_used_again_only_when_it_is_dead() {
        let mut page = Pages([0; 8192]);
        let file = Leases::of_slab(words(&mut page));
        file.be_live(0);
        let cell = file.cell(0).unwrap();
        let entry = cell.take_entry(11, 0).unwrap();
        assert!(cell.claim());
        cell.begin(entry, 1, 8);
        cell.leave_at_exit(entry);
        assert_eq!(cell.close(), Closed::Last);
        cell.recover();
        assert!(cell.is_retired() && !cell.claim(), "its threads may still run");
        cell.clear_dead_entries(|holder, _| holder == 11);
        cell.recover();
        assert!(cell.is_free());
        assert_eq!(file.close(), Closed::Last, "and the file could have gone before");
    }

    #[test]
    fn what_a_dead_process_had_claimed_is_free_again_and_what_a_living_one_has_is_not() {
        let mut page = Pages([0; 8192]);
        let cell = Leases::of_slab(words(&mut page)).cell(0).unwrap();
        cell.take_entry(11, 0).unwrap();
        assert!(cell.claim());
        cell.recover();
        assert!(!cell.is_free());
        cell.clear_dead_entries(|holder, _| holder == 11);
        cell.recover();
        assert!(cell.is_free());
    }
}
