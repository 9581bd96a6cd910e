//! Leases: who holds a segment, in the segment itself, without a system call.
//!
//! PROTOCOL.md tells the whole protocol and why it is so; `tests/lifetime_model.rs` searches it.
//! This is its lock-free part: entries and the state word.
//!
//! | atomic | bits | moved by | ordering, partner |
//! |---|---|---|---|
//! | state | 0–2 state, 3–63 epoch | `set_live`: the creator before the segment can be seen. `close`: LIVE → CLOSING by who saw no entry held. `settle`: CLOSING → LIVE or DEAD by anybody who scanned after | SeqCst; with the entries as Dekker: `enter` stores its entry and loads the state, `close` stores the state and loads the entries |
//! | entry | holder << 1, held | 0 → holder: whoever claims it (`claim`). Held on and off, and back to 0: that holder alone. A dead holder's → 0: anybody, as one word (`clear_void`) | SeqCst; with the state |
//! | flags | PERSIST, BY_LOCK | PERSIST off: `unlink`, which closes afterwards. BY_LOCK on: `hold_by_lock`, which looks at the state afterwards | SeqCst; with the state, as an entry that is held |
//!
//! Invariants:
//! * I1 while an entry that was entered is held, the state is LIVE or CLOSING.
//! * I2 exactly one call of `close`, in any process, is told [`Closed::Dead`]; the segment is
//!   then its to unlink.

use std::sync::atomic::Ordering::SeqCst;

use crate::words::{BY_LOCK, PERSIST, Words};

const LIVE: u64 = 1;
const CLOSING: u64 = 2;
pub(crate) const DEAD: u64 = 4;
const STATES: u64 = 7;
const EPOCH: u64 = 8;
const HELD: u64 = 1;

/// A place in the lease table.
pub(crate) type Place = usize;

/// What came of an attempt to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Somebody holds it, or it persists.
    Held,
    /// It has just become dead, by this call.
    Dead,
    /// It was not alive.
    Gone,
}

/// The leases of one segment.
#[derive(Clone, Copy)]
pub(crate) struct Leases(pub(crate) Words);

impl Leases {
    /// The creator's last store before the segment can be seen.
    pub(crate) fn set_live(&self, flags: u64) {
        self.0.flags().store(flags, SeqCst);
        self.0.state().store(LIVE, SeqCst);
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.0.state().load(SeqCst) & STATES, LIVE | CLOSING)
    }

    /// A place of one's own; `None` when all are taken.
    pub(crate) fn claim(&self, holder: u64, about: u64) -> Option<Place> {
        let take = |place: &Place| {
            let word = &self.0.entries()[*place].holder;
            word.compare_exchange(0, holder << 1, SeqCst, SeqCst).is_ok()
        };
        let place = (0..self.0.entries().len()).find(take)?;
        self.0.entries()[place].about.store(about, SeqCst); // before it is first held
        Some(place)
    }

    /// Holds, if the segment is alive; else the place is free again.
    pub(crate) fn enter(&self, place: Place) -> bool {
        self.set_held(place);
        let live = self.look();
        if !live {
            self.leave(place);
        }
        live
    }

    /// The same without a look at the state: for who knows that somebody holds meanwhile.
    pub(crate) fn set_held(&self, place: Place) {
        self.0.entries()[place].holder.fetch_or(HELD, SeqCst);
    }

    /// No longer holds, and frees the place. Who leaves closes afterwards.
    pub(crate) fn leave(&self, place: Place) {
        self.0.entries()[place].holder.store(0, SeqCst);
    }

    /// From now on the segment is given back only by who has its lock exclusively. The caller has
    /// that lock shared. `false` when the segment is not alive.
    pub(crate) fn hold_by_lock(&self) -> bool {
        self.0.flags().fetch_or(BY_LOCK, SeqCst);
        self.look()
    }

    pub(crate) fn is_by_lock(&self) -> bool {
        self.0.entries().is_empty() || self.0.flags().load(SeqCst) & BY_LOCK != 0
    }

    /// Whether the state is LIVE, after settling what others left CLOSING.
    fn look(&self) -> bool {
        loop {
            let state = self.0.state().load(SeqCst);
            match state & STATES {
                LIVE => return true,
                CLOSING => drop(self.settle(state)),
                _ => return false,
            }
        }
    }

    /// Closes the segment if nobody holds it.
    pub(crate) fn close(&self) -> Closed {
        loop {
            let state = self.0.state().load(SeqCst);
            match state & STATES {
                LIVE if self.is_held() => return Closed::Held,
                LIVE => drop(self.advance(state, CLOSING)), // then it is settled, by us or another
                CLOSING => match self.settle(state) {
                    Some(DEAD) => return Closed::Dead,
                    Some(_) => return Closed::Held,
                    None => {}
                },
                _ => return Closed::Gone,
            }
        }
    }

    /// Scans, and ends this CLOSING; `None` when another was faster.
    fn settle(&self, closing: u64) -> Option<u64> {
        let next = if self.is_held() { LIVE } else { DEAD };
        self.advance(closing, next).then_some(next)
    }

    fn advance(&self, from: u64, to: u64) -> bool {
        let next = ((from & !STATES) + EPOCH) | to;
        self.0.state().compare_exchange(from, next, SeqCst, SeqCst).is_ok()
    }

    fn is_held(&self) -> bool {
        let held = self.0.entries().iter().any(|entry| entry.holder.load(SeqCst) & HELD != 0);
        held || self.is_by_lock() || self.0.flags().load(SeqCst) & PERSIST != 0
    }

    /// Frees the entries of the dead, held or not. `is_void` is asked of holder and about.
    pub(crate) fn clear_void(&self, is_void: impl Fn(u64, u64) -> bool) {
        for entry in self.0.entries() {
            let word = entry.holder.load(SeqCst);
            if word != 0 && is_void(word >> 1, entry.about.load(SeqCst)) {
                // The whole word: if its holder is another by now, it is not the dead one's.
                let _ = entry.holder.compare_exchange(word, 0, SeqCst, SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::NonNull;

    /// A header page in private memory.
    #[repr(align(8))]
    struct Page([u8; 4096]);

    #[allow(unsafe_code)]
    fn leases(page: &mut Page) -> Leases {
        let header = NonNull::from(&mut page.0).cast();
        // SAFETY: an aligned page with room for four entries, which outlives the test's use of it.
        let leases = Leases(unsafe { Words::new(header, 4) });
        leases.set_live(0);
        leases
    }

    #[test]
    fn the_last_to_leave_closes_and_nobody_enters_afterwards() {
        let mut page = Page([0; 4096]);
        let leases = leases(&mut page);
        let (a, b) = (leases.claim(11, 0).unwrap(), leases.claim(12, 0).unwrap());
        assert!(leases.enter(a) && leases.enter(b));
        leases.leave(a);
        assert_eq!(leases.close(), Closed::Held);
        leases.leave(b);
        assert_eq!((leases.close(), leases.close()), (Closed::Dead, Closed::Gone));
        let late = leases.claim(13, 0).unwrap();
        assert!(!leases.enter(late) && !leases.is_live());
    }

    #[test]
    fn a_closing_that_somebody_left_is_settled_by_the_next() {
        let mut page = Page([0; 4096]);
        let leases = leases(&mut page);
        assert!(leases.advance(LIVE, CLOSING)); // and its process died
        let place = leases.claim(11, 0).unwrap();
        assert!(leases.enter(place));
        assert_eq!(leases.close(), Closed::Held);
        leases.leave(place);
        assert!(leases.advance(leases.0.state().load(SeqCst), CLOSING));
        assert_eq!(leases.close(), Closed::Dead);
    }

    #[test]
    fn what_persists_or_is_held_by_lock_is_not_closed() {
        let mut page = Page([0; 4096]);
        let leases = leases(&mut page);
        leases.set_live(PERSIST);
        assert_eq!(leases.close(), Closed::Held);
        leases.set_live(0);
        assert!(leases.hold_by_lock());
        assert_eq!(leases.close(), Closed::Held);
    }

    #[test]
    fn only_the_dead_are_cleared_and_full_is_said() {
        let mut page = Page([0; 4096]);
        let leases = leases(&mut page);
        let places: Vec<_> = (1..=4).map(|holder| leases.claim(holder, holder * 10).unwrap()).collect();
        assert!(places.iter().all(|place| leases.enter(*place)));
        assert_eq!(leases.claim(5, 0), None);
        leases.clear_void(|holder, about| holder == 2 && about == 20);
        assert_eq!(leases.claim(5, 0), Some(places[1]));
        for place in places {
            leases.leave(place);
        }
        assert_eq!(leases.close(), Closed::Dead);
    }
}
