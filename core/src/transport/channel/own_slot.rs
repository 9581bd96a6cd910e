//! The state of a slot that an end of this process has loaned or received.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ring::Taken;
use crate::array::Shares;

/// A slot of an end.
#[derive(Default)]
pub(super) struct OwnSlot {
    pub(super) shares: Shares,
    /// The slot's word from when it was taken. It is written before a use begins and read when it
    /// ends, and the word of the shares orders the two.
    word: AtomicU64,
}

impl OwnSlot {
    pub(super) fn note(&self, taken: Taken) {
        self.word.store(taken.to_bits(), Relaxed);
    }

    /// Returns what was taken last. `slot` is its number.
    pub(super) fn taken(&self, slot: u32) -> Taken {
        Taken::of_bits(slot, self.word.load(Relaxed))
    }
}
