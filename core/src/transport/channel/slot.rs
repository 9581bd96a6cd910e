//! What keeps each slot that an end of this process has taken.
//!
//! The arrays that lie in a slot keep it. A *use* of a slot begins when this process takes the
//! slot. It ends when the loan is published, when the slot is given back, or when the last of its
//! arrays is dropped. An array of an ended use does not keep the slot. A message that could not be
//! delivered is kept for the next receive.
//!
//! **word of a slot**: bits 0–27 the arrays, bits 28–63 the number of the use, which wraps. AcqRel.
//!
//! | from | to | function |
//! |---|---|---|
//! | (u, 0) | (u, 1) | `begin`, by the thread that took the slot |
//! | (u, n) | (u, n + 1) | `add` of an array of u |
//! | (u, n > 1) | (u, n − 1) | `remove` of an array of u |
//! | (u, 1) | (u + 1, 0) | `remove` of an array of u, whose caller then gives the slot back |
//! | (u, n) | (u + 1, 0) | `end`, by the only thread that may publish it or give it back |

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::ring::Taken;
use crate::array::UseId;
use crate::system::Mutex;

const COUNT_BITS: u32 = 28;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// More arrays than there is memory for.
const MOST_ARRAYS: u64 = COUNT_MASK / 2;

fn count(word: u64) -> u64 {
    word & COUNT_MASK
}

fn use_number(word: u64) -> u64 {
    word >> COUNT_BITS
}

/// The word of the next use, which has no arrays yet.
fn next_use(word: u64) -> u64 {
    ((word >> COUNT_BITS) + 1) << COUNT_BITS
}

/// The uses of one slot.
#[derive(Default)]
struct Uses(AtomicU64);

impl Uses {
    /// Begins a use with one array. Returns its number.
    #[inline]
    fn begin(&self) -> u64 {
        let before = self.0.load(Acquire);
        debug_assert_eq!(count(before), 0, "the slot was taken, so its last use has ended");
        self.0.store(before + 1, Release);
        use_number(before)
    }

    fn add(&self, number: u64) {
        let add = |seen| {
            let is_in_use = use_number(seen) == number;
            if is_in_use && count(seen) >= MOST_ARRAYS {
                std::process::abort(); // as an `Arc` does
            }
            is_in_use.then_some(seen + 1)
        };
        // Relaxed: the array that is cloned keeps the slot meanwhile.
        let _ = self.0.fetch_update(Relaxed, Relaxed, add);
    }

    /// Returns whether it was the last array of the use, which has ended by this.
    fn remove(&self, number: u64) -> bool {
        self.change(number, |seen| seen - 1) == Some(1)
    }

    /// Returns whether the use had not ended.
    fn end(&self, number: u64) -> bool {
        self.change(number, next_use).is_some()
    }

    /// Changes the word of a use that has several arrays to `next`, and ends a use that has one.
    /// Returns how many it had. `None` if it has ended.
    fn change(&self, number: u64, next: impl Fn(u64) -> u64) -> Option<u64> {
        let mut seen = self.0.load(Acquire);
        while use_number(seen) == number {
            if count(seen) == 1 {
                self.0.store(next_use(seen), Release); // no other array can be cloned or dropped
                return Some(1);
            }
            match self.0.compare_exchange_weak(seen, next(seen), AcqRel, Acquire) {
                Ok(_) => return Some(count(seen)),
                Err(found) => seen = found,
            }
        }
        None
    }
}

/// One slot.
#[derive(Default)]
struct OwnSlot {
    uses: Uses,
    /// The slot's word in the ring when it was taken. It is written before a use begins and read
    /// after it has ended, and the word of the uses orders the two.
    word: AtomicU64,
}

/// The slots of a channel, as an end of this process has them.
pub(super) struct OwnSlots {
    slots: Box<[OwnSlot]>,
    undelivered: Mutex<Vec<Taken>>,
    /// Whether a message is undelivered. As long as none is, nothing is locked.
    has_undelivered: AtomicBool,
}

impl OwnSlots {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            slots: (0..slots).map(|_| OwnSlot::default()).collect(),
            undelivered: Mutex::default(),
            has_undelivered: AtomicBool::new(false),
        }
    }

    /// Begins the use of a slot that was taken, with its first array.
    #[inline]
    pub(super) fn begin(&self, taken: Taken) -> UseId {
        let own = &self.slots[taken.slot as usize];
        own.word.store(taken.to_bits(), Relaxed);
        UseId { slot: taken.slot, number: own.uses.begin() }
    }

    /// Counts one more array.
    pub(super) fn add(&self, id: UseId) {
        self.slots[id.slot as usize].uses.add(id.number);
    }

    /// Whether a use has several arrays.
    pub(super) fn has_several(&self, id: UseId) -> bool {
        let word = self.slots[id.slot as usize].uses.0.load(Acquire);
        use_number(word) == id.number && count(word) > 1
    }

    /// Counts one array less. Returns the slot if it was the last: the caller gives it back.
    pub(super) fn remove(&self, id: UseId) -> Option<Taken> {
        let own = &self.slots[id.slot as usize];
        own.uses.remove(id.number).then(|| own.taken(id.slot))
    }

    /// Ends a use before its last array is dropped. Returns the slot unless the use had ended: the
    /// caller publishes it or gives it back.
    pub(super) fn end(&self, id: UseId) -> Option<Taken> {
        let own = &self.slots[id.slot as usize];
        own.uses.end(id.number).then(|| own.taken(id.slot))
    }

    pub(super) fn has_undelivered(&self) -> bool {
        self.has_undelivered.load(Acquire)
    }

    /// Keeps a message that could not be delivered, for want of fds, say.
    pub(super) fn push_undelivered(&self, taken: Taken) {
        let mut undelivered = self.undelivered.lock();
        undelivered.push(taken);
        self.has_undelivered.store(true, Release);
    }

    #[inline]
    pub(super) fn take_undelivered(&self) -> Option<Taken> {
        if self.has_undelivered() { self.pop_undelivered() } else { None }
    }

    #[cold]
    fn pop_undelivered(&self) -> Option<Taken> {
        let mut undelivered = self.undelivered.lock();
        let oldest = (0..undelivered.len()).min_by_key(|index| undelivered[*index].number)?;
        let taken = undelivered.swap_remove(oldest);
        self.has_undelivered.store(!undelivered.is_empty(), Release);
        Some(taken)
    }
}

impl OwnSlot {
    /// Returns what was taken last. `slot` is its number.
    fn taken(&self, slot: u32) -> Taken {
        Taken::of_bits(slot, self.word.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    /// One slot, and how often it was given back.
    #[derive(Default)]
    struct CountedSlot {
        uses: Uses,
        given_back: AtomicUsize,
    }

    impl CountedSlot {
        fn given_back(&self) -> usize {
            self.given_back.load(Acquire)
        }
    }

    /// Stands for an array that lies in the slot.
    struct InSlot {
        slot: Arc<CountedSlot>,
        number: u64,
    }

    fn begin(slot: &Arc<CountedSlot>) -> InSlot {
        InSlot { slot: Arc::clone(slot), number: slot.uses.begin() }
    }

    impl InSlot {
        fn end(&self) -> bool {
            self.slot.uses.end(self.number)
        }
    }

    impl Clone for InSlot {
        fn clone(&self) -> Self {
            self.slot.uses.add(self.number);
            Self { slot: Arc::clone(&self.slot), number: self.number }
        }
    }

    impl Drop for InSlot {
        fn drop(&mut self) {
            if self.slot.uses.remove(self.number) {
                self.slot.given_back.fetch_add(1, AcqRel);
            }
        }
    }

    #[test]
    fn the_last_array_gives_the_slot_back() {
        let slot = Arc::default();
        let first = begin(&slot);
        let second = first.clone();
        drop(first);
        assert_eq!(slot.given_back(), 0);
        drop(second);
        assert_eq!(slot.given_back(), 1);
    }

    #[test]
    fn a_use_ends_once() {
        let slot = Arc::default();
        let array = begin(&slot);
        let other = array.clone();
        assert!(array.end());
        assert!(!array.end());
        assert!(!other.end());
        drop((array, other));
        assert_eq!(slot.given_back(), 0, "the caller of `end` gives the slot back");
    }

    #[test]
    fn arrays_of_a_use_that_has_ended_change_nothing_in_the_next() {
        let slot = Arc::default();
        let old = begin(&slot);
        let copy = old.clone();
        assert!(old.end());
        let new = begin(&slot);
        let late = copy.clone();
        assert!(!late.end());
        drop((old, copy, late));
        assert_eq!(slot.given_back(), 0);
        assert!(new.end());
    }

    #[test]
    fn threads_that_clone_and_drop_give_the_slot_back_once() {
        let (rounds, clones) = if cfg!(miri) { (20, 3) } else { (2_000, 20) };
        let slot = Arc::default();
        for round in 1..=rounds {
            let array = begin(&slot);
            let threads = [array.clone(), array]
                .map(|array| thread::spawn(move || (0..clones).for_each(|_| drop(array.clone()))));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(slot.given_back(), round);
        }
    }

    #[test]
    fn a_thread_that_ends_a_use_beside_others_that_drop_their_arrays_is_the_only_one() {
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        let slot = Arc::default();
        for _ in 0..rounds {
            let array = begin(&slot);
            let others: Vec<_> = (0..2)
                .map(|_| array.clone())
                .map(|array| thread::spawn(move || drop(array.clone())))
                .collect();
            assert!(array.end());
            let next = begin(&slot);
            others.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(next.end());
        }
        assert_eq!(slot.given_back(), 0);
    }
}
