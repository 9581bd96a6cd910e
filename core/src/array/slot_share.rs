//! The reference count of a channel's slot: each array of this process that lies in it has a share.
//!
//! A *use* of a slot begins when this process takes the slot. It ends when the loan is published,
//! when the slot is given back, or when the last share is dropped. A share of an ended use does not
//! keep the slot.
//!
//! **word of a slot**, of one end of this process: bits 0–27 the shares, bits 28–63 the number of
//! the use, which wraps. AcqRel.
//!
//! | from | to | function |
//! |---|---|---|
//! | (u, 0) | (u, 1) | `begin`, by the thread that took the slot |
//! | (u, n) | (u, n + 1) | `clone` of a share of u |
//! | (u, n > 1) | (u, n − 1) | `drop` of a share of u |
//! | (u, 1) | (u + 1, 0) | `drop` of a share of u, which then gives the slot back |
//! | (u, n) | (u + 1, 0) | `end`, by the only thread that may publish it or give it back |

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::segment::Segment;
use crate::value::shape::Layout;

const COUNT_BITS: u32 = 28;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// More shares than there is memory for.
const MOST_SHARES: u64 = COUNT_MASK / 2;

fn count(word: u64) -> u64 {
    word & COUNT_MASK
}

fn use_number(word: u64) -> u64 {
    word >> COUNT_BITS
}

/// The word of the next use, which has no shares yet.
fn next_use(word: u64) -> u64 {
    ((word >> COUNT_BITS) + 1) << COUNT_BITS
}

/// What takes the slots of a channel, and gives them back.
pub(crate) trait SlotOwner: Any + Send + Sync {
    fn segment(&self) -> &Arc<Segment>;

    /// The layout of the array that is a slot's message, if all have the channel's shape.
    fn layout(&self, slot: u32) -> &Layout;

    /// The shares of a slot.
    fn shares(&self, slot: u32) -> &Shares;

    /// Gives a slot back whose use has ended.
    fn give_back(&self, slot: u32);
}

/// The word of a slot.
#[derive(Default)]
pub(crate) struct Shares(AtomicU64);

/// A share of the use of a slot.
pub(crate) struct SlotShare {
    owner: Arc<dyn SlotOwner>,
    slot: u32,
    /// The number of the use.
    number: u64,
}

impl SlotShare {
    /// Begins a use of a slot that `owner` has taken. No other share of a use exists.
    #[inline]
    pub(crate) fn begin(owner: Arc<dyn SlotOwner>, slot: u32) -> Self {
        let Shares(word) = owner.shares(slot);
        let before = word.load(Acquire);
        debug_assert_eq!(count(before), 0, "the slot was taken, so its last use has ended");
        word.store(before + 1, Release);
        Self { number: use_number(before), owner, slot }
    }

    /// Ends the use before its last share is dropped. Returns whether it had not ended. The caller
    /// gives the slot back, or publishes it; no other thread has a reference to this share.
    pub(crate) fn end(&self) -> bool {
        let word = self.word();
        let mut seen = word.load(Acquire);
        while use_number(seen) == self.number {
            if count(seen) == 1 {
                word.store(next_use(seen), Release); // no other share can be cloned or dropped
                return true;
            }
            match word.compare_exchange_weak(seen, next_use(seen), AcqRel, Acquire) {
                Ok(_) => return true,
                Err(found) => seen = found,
            }
        }
        false
    }

    fn word(&self) -> &AtomicU64 {
        &self.owner.shares(self.slot).0
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn owner<T: SlotOwner>(&self) -> Option<&T> {
        let owner: &dyn Any = &*self.owner;
        owner.downcast_ref()
    }

    pub(super) fn segment(&self) -> &Arc<Segment> {
        self.owner.segment()
    }

    pub(super) fn layout(&self) -> &Layout {
        self.owner.layout(self.slot)
    }
}

impl Clone for SlotShare {
    fn clone(&self) -> Self {
        let add = |seen| {
            let is_in_use = use_number(seen) == self.number;
            if is_in_use && count(seen) >= MOST_SHARES {
                std::process::abort(); // as an `Arc` does
            }
            is_in_use.then_some(seen + 1)
        };
        // Relaxed: this share keeps the slot meanwhile.
        let _ = self.word().fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        Self { owner: Arc::clone(&self.owner), ..*self }
    }
}

impl Drop for SlotShare {
    fn drop(&mut self) {
        let word = self.word();
        let mut seen = word.load(Acquire);
        while use_number(seen) == self.number {
            if count(seen) == 1 {
                word.store(next_use(seen), Release); // no other share can be cloned or dropped
                self.owner.give_back(self.slot);
                return;
            }
            match word.compare_exchange_weak(seen, seen - 1, AcqRel, Acquire) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;
    use crate::array::{Array, Options};
    use crate::value::dtype::DType;

    /// Owns one slot, and counts how often it was given back.
    struct Owner {
        array: Array,
        shares: Shares,
        given_back: AtomicUsize,
    }

    impl Owner {
        fn new() -> Arc<Self> {
            let dtype = DType::parse("|u1").unwrap();
            let array = Array::create(dtype, &[4], &Options::new()).unwrap();
            Arc::new(Self { array, shares: Shares::default(), given_back: AtomicUsize::new(0) })
        }

        fn given_back(&self) -> usize {
            self.given_back.load(Ordering::Acquire)
        }
    }

    impl SlotOwner for Owner {
        fn segment(&self) -> &Arc<Segment> {
            self.array.segment()
        }

        fn layout(&self, _: u32) -> &Layout {
            self.array.layout()
        }

        fn shares(&self, _: u32) -> &Shares {
            &self.shares
        }

        fn give_back(&self, _: u32) {
            self.given_back.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn begin(owner: &Arc<Owner>) -> SlotShare {
        SlotShare::begin(Arc::clone(owner) as Arc<dyn SlotOwner>, 0)
    }

    #[test]
    fn the_last_share_gives_the_slot_back() {
        let owner = Owner::new();
        let first = begin(&owner);
        let second = first.clone();
        drop(first);
        assert_eq!(owner.given_back(), 0);
        drop(second);
        assert_eq!(owner.given_back(), 1);
    }

    #[test]
    fn a_use_ends_once() {
        let owner = Owner::new();
        let share = begin(&owner);
        let other = share.clone();
        assert!(share.end());
        assert!(!share.end());
        assert!(!other.end());
        drop((share, other));
        assert_eq!(owner.given_back(), 0, "whoever ended the use gives the slot back");
    }

    #[test]
    fn shares_of_a_use_that_has_ended_change_nothing_in_the_next() {
        let owner = Owner::new();
        let old = begin(&owner);
        let copy = old.clone();
        assert!(old.end());
        let new = begin(&owner);
        let late = copy.clone();
        assert!(!late.end());
        drop((old, copy, late));
        assert_eq!(owner.given_back(), 0);
        assert!(new.end());
    }

    #[test]
    fn threads_that_clone_and_drop_give_the_slot_back_once() {
        let (rounds, clones) = if cfg!(miri) { (20, 3) } else { (2_000, 20) };
        let owner = Owner::new();
        for round in 1..=rounds {
            let share = begin(&owner);
            let threads = [share.clone(), share]
                .map(|share| thread::spawn(move || (0..clones).for_each(|_| drop(share.clone()))));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(owner.given_back(), round);
        }
    }

    #[test]
    fn a_thread_that_ends_a_use_beside_others_that_drop_their_shares_is_the_only_one() {
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        let owner = Owner::new();
        for _ in 0..rounds {
            let share = begin(&owner);
            let others: Vec<_> = (0..2)
                .map(|_| share.clone())
                .map(|share| thread::spawn(move || drop(share.clone())))
                .collect();
            assert!(share.end());
            let next = begin(&owner);
            others.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(next.end());
        }
        assert_eq!(owner.given_back(), 0);
    }
}
