//! The use of a slot by an end of this process, which the arrays in the slot have shares of.

use std::sync::Arc;

use super::end::End;
use super::ring::Taken;
use crate::array::{Array, Shares, SlotOwner, SlotShare};
use crate::memory::segment::Segment;
use crate::value::shape::Layout;

/// Begins a use of a slot that an end has taken.
#[inline]
pub(super) fn begin(end: Arc<End>, taken: Taken) -> SlotShare {
    end.own_slot(taken.slot).note(taken);
    SlotShare::begin(end, taken.slot)
}

/// Returns the array in a slot that an end has taken. `first` is what `checked_layout` returned.
#[inline]
pub(super) fn array(end: Arc<End>, taken: Taken, first: Option<Layout>) -> Array {
    let layout = first.map(|first| end.in_slot(taken.slot, first));
    Array::in_slot(begin(end, taken), layout)
}

/// Ends the use of a slot. Returns what the end has taken, unless it was given back before.
pub(super) fn end_use(share: &SlotShare, end: &End) -> Option<Taken> {
    let taken = share.end().then(|| end.own_slot(share.slot()).taken(share.slot()));
    taken.filter(|_| end.is_ours()) // otherwise the slot is the parent's
}

impl SlotOwner for End {
    fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    fn layout(&self, slot: u32) -> &Layout {
        self.fixed_layout(slot)
    }

    fn shares(&self, slot: u32) -> &Shares {
        &self.own_slot(slot).shares
    }

    fn give_back(&self, slot: u32) {
        if self.is_ours() {
            Self::give_back(self, self.own_slot(slot).taken(slot));
        }
    }
}
