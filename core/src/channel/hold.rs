//! A slot that this process has: on loan, or with a message that it received.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::end::End;
use super::ring::Taken;
use crate::array::Array;
use crate::error::Result;
use crate::sys;

/// A slot that is kept until this value is dropped, or is given back before. Each array that lies
/// in the slot has a share of it.
pub(super) struct SlotHold {
    pub(super) end: Arc<End>,
    pub(super) taken: Taken,
    is_message: bool,
    is_given_back: AtomicBool,
}

impl SlotHold {
    pub(super) fn of_loan(end: &Arc<End>, taken: Taken) -> Arc<Self> {
        Self::new(end, taken, false)
    }

    pub(super) fn of_message(end: &Arc<End>, taken: Taken) -> Arc<Self> {
        Self::new(end, taken, true)
    }

    fn new(end: &Arc<End>, taken: Taken, is_message: bool) -> Arc<Self> {
        let (end, is_given_back) = (Arc::clone(end), AtomicBool::new(false));
        Arc::new(Self { end, taken, is_message, is_given_back })
    }

    /// Takes the slot out of this value's care. Returns whether it still was in it.
    pub(super) fn take(&self) -> bool {
        !self.is_given_back.swap(true, Ordering::AcqRel)
    }

    /// Gives the slot back, unless that was done before.
    pub(super) fn give_back(&self) {
        if !self.take() || !self.end.is_ours() || sys::is_orphaned() {
            return; // a forked child's copy: the slot is its parent's
        }
        match self.is_message {
            true => self.end.give_back(self.taken),
            false => self.end.cancel(self.taken),
        }
    }

    /// Returns the array of this shape in the slot. It keeps the slot.
    pub(super) fn array(self: &Arc<Self>, shape: &[u64]) -> Result<Array> {
        let keep = Arc::clone(self) as Arc<dyn Any + Send + Sync>;
        match self.end.fixed_layout(self.taken.slot) {
            Some(layout) => Ok(self.end.array_of(layout, Some(keep))),
            None => self.end.array(self.taken.slot, shape, Some(keep)),
        }
    }
}

impl std::fmt::Debug for SlotHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotHold({})", self.taken.slot)
    }
}

impl Drop for SlotHold {
    fn drop(&mut self) {
        self.give_back();
    }
}
