//! Messages that were taken and could not be delivered, for want of fds, say. The next receive
//! tries again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::ring::Taken;
use crate::system::Mutex;

/// Undelivered messages. As long as there are none, nothing is locked.
#[derive(Default)]
pub(super) struct Undelivered {
    any: AtomicBool,
    messages: Mutex<Vec<Taken>>,
}

impl Undelivered {
    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    pub(super) fn push(&self, taken: Taken) {
        let mut messages = self.messages.lock();
        messages.push(taken);
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn take_oldest(&self) -> Option<Taken> {
        if self.is_empty() {
            return None;
        }
        let mut messages = self.messages.lock();
        let oldest = (0..messages.len()).min_by_key(|index| messages[*index].number)?;
        let taken = messages.swap_remove(oldest);
        self.any.store(!messages.is_empty(), Ordering::Release);
        Some(taken)
    }
}
