//! A sender that waits for ever, because nobody receives: it says so.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long a channel is full, and has no new message, before a sender says that nobody receives.
pub(super) const PATIENCE_NS: u64 = 10_000_000_000;

/// What an end remembers of its looks at a channel that is full. A wait may be many short ones, one
/// after the other: bindings look for signals in between.
#[derive(Debug, Default)]
pub(super) struct Unreceived {
    /// The number of the next message at the last look.
    number: AtomicU64,
    /// When the channel was first seen full with that number.
    since_ns: AtomicU64,
    was_said: AtomicBool,
}

impl Unreceived {
    /// Notes that no slot is free. Returns whether that is so for long, once.
    pub(super) fn note(&self, next_number: u64, now_ns: u64) -> bool {
        let is_first = self.since_ns.load(Ordering::Relaxed) == 0;
        if self.number.swap(next_number, Ordering::Relaxed) != next_number || is_first {
            self.since_ns.store(now_ns, Ordering::Relaxed);
        }
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(since_ns) >= PATIENCE_NS
            && !self.was_said.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_and_only_while_nothing_is_published() {
        let seen = Unreceived::default();
        assert!(!seen.note(5, 1));
        assert!(!seen.note(5, PATIENCE_NS));
        assert!(!seen.note(6, PATIENCE_NS + 1)); // a message was published
        assert!(!seen.note(6, 2 * PATIENCE_NS));
        assert!(seen.note(6, 2 * PATIENCE_NS + 1));
        assert!(!seen.note(6, 9 * PATIENCE_NS));
    }
}
