//! How long an array in a slot of a channel may be used.
//!
//! It may be used within its block, and so may its views; then the slot gets other messages. Ruby
//! counts no references, so a view that a block leaves behind does not keep the slot, as one of
//! NumPy's does: until the next collection all slots would be taken by such views. It is closed
//! with the block instead. A method that runs without Ruby's lock, and exported memory, *hold* the
//! slot: it is given back after them.
//!
//! **word**: bit 0 *over*, the other bits count the holds. AcqRel: what is done with the memory
//! comes before it is given back.
//!
//! | from | to | by |
//! |---|---|---|
//! | (open, n) | (open, n + 1) | `hold` |
//! | (any, n) | (the same, n + 1) | a clone of a hold |
//! | (any, n) | (the same, n − 1) | the drop of a hold, which gives the slot back after (over, 1) |
//! | (open, n) | (over, n) | `end`, which gives the slot back if n is 0 |
//! | (open, n) | (over, n) | `publish`, which has what was on loan |
//!
//! A kept use never ends: its slot is given back when the last array that has it is dropped.
#![allow(unsafe_code)] // a box behind an atomic pointer

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use shmarray::{Array, Delivery, Loan};

const OVER: usize = 1;
const HOLD: usize = 2;

/// A slot that this process has.
pub(crate) enum Slot {
    Loan(Loan),
    Delivery(Delivery),
}

/// The use of a slot by its arrays.
pub(crate) struct SlotUse {
    word: AtomicUsize,
    /// Null after it was taken. No lock: a fork in another Ractor could leave it taken in the
    /// child.
    slot: AtomicPtr<Slot>,
}

const fn is_send<T: Send>() {}
const _: () = is_send::<Slot>(); // any thread may give it back

impl SlotUse {
    /// Begins the use of a slot.
    pub(crate) fn begin(slot: Slot) -> Arc<Self> {
        let slot = AtomicPtr::new(Box::into_raw(Box::new(slot)));
        Arc::new(Self { word: AtomicUsize::new(0), slot })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.word.load(Acquire) & OVER != 0
    }

    /// Holds the slot. Returns `None` if the use is over.
    fn hold(self: &Arc<Self>) -> Option<Hold> {
        let add = |word| (word & OVER == 0).then_some(word + HOLD);
        self.word.fetch_update(AcqRel, Acquire, add).ok()?;
        Some(Hold(Arc::clone(self)))
    }

    /// Ends the use, and gives the slot back; if something holds it, that does so later.
    pub(crate) fn end(&self) {
        if self.word.fetch_or(OVER, AcqRel) == 0 {
            self.give_back();
        }
    }

    /// Ends the use of a slot on loan. Returns the loan, unless the use had ended.
    pub(crate) fn publish(&self) -> Option<Loan> {
        if self.word.fetch_or(OVER, AcqRel) & OVER != 0 {
            return None;
        }
        match *self.take()? {
            Slot::Loan(loan) => Some(loan),
            Slot::Delivery(_) => None,
        }
    }

    fn give_back(&self) {
        match self.take().map(|slot| *slot) {
            Some(Slot::Loan(loan)) => loan.cancel(),
            Some(Slot::Delivery(delivery)) => delivery.release(),
            None => (),
        }
    }

    fn take(&self) -> Option<Box<Slot>> {
        let slot = self.slot.swap(ptr::null_mut(), AcqRel);
        // SAFETY: a pointer that is not null is from `Box::into_raw` in `begin`, and the swap lets
        // one caller have it.
        (!slot.is_null()).then(|| unsafe { Box::from_raw(slot) })
    }
}

impl Drop for SlotUse {
    fn drop(&mut self) {
        self.give_back(); // of a kept array, or of a fiber that is never resumed
    }
}

/// A hold of a slot, which is not given back before this is dropped.
pub(crate) struct Hold(Arc<SlotUse>);

impl Clone for Hold {
    fn clone(&self) -> Self {
        self.0.word.fetch_add(HOLD, Relaxed); // the hold that is cloned keeps the slot meanwhile
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.word.fetch_sub(HOLD, AcqRel) == HOLD | OVER {
            self.0.give_back();
        }
    }
}

/// What an object of an array has to do with a slot.
#[derive(Clone, Default)]
pub(crate) enum Part {
    /// Its memory lies in no slot.
    #[default]
    None,
    /// It may be used until the use is over.
    Within(Arc<SlotUse>),
    /// It holds the slot.
    Holds(Hold),
}

impl Part {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Within(slot) if slot.is_over())
    }

    /// Returns the part of a view of what this holds.
    pub(crate) fn within(self) -> Self {
        match self {
            Self::Holds(hold) => Self::Within(Arc::clone(&hold.0)),
            other => other,
        }
    }

    /// Holds the slot, if there is one. Returns `None` if the array may not be used any more.
    pub(crate) fn hold(&self) -> Option<Self> {
        match self {
            Self::Within(slot) => slot.hold().map(Self::Holds),
            other => Some(other.clone()),
        }
    }
}

/// An array for as long as a method uses it, or as its memory is exported.
#[derive(Clone)]
pub(crate) struct Held {
    array: Arc<Array>,
    part: Part,
}

impl Held {
    /// `part` holds the slot, if there is one.
    pub(crate) fn new(array: impl Into<Arc<Array>>, part: Part) -> Self {
        Self { array: array.into(), part }
    }

    /// Returns the array, and what holds its slot.
    pub(crate) fn into_parts(self) -> (Arc<Array>, Part) {
        (self.array, self.part)
    }
}

impl Deref for Held {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.array
    }
}
