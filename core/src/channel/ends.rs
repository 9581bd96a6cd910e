//! The ends of a channel, as all processes see them: their roles, cursors and pins.
//!
//! An entry is as in a lease table: `owner << 1 | held`.

use crate::control::ChannelWords;
use crate::control::Ordering::Acquire;

/// The bits of an end's roles. An end without any is undecided, and counts as a sender.
pub(super) const SENDS: u64 = 1;
pub(super) const RECEIVES: u64 = 2;
/// It was closed, and stays until its last loan or view was given back.
pub(super) const CLOSED: u64 = 4;
/// The bit of an entry that says that its owner has the end now.
pub(super) const HELD: u64 = 1;

/// The ends of one mapped channel.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    words: ChannelWords,
}

impl Ends {
    pub(super) fn new(words: ChannelWords) -> Self {
        Self { words }
    }

    /// The ends that may be in use.
    pub(super) fn all(&self) -> std::ops::Range<u32> {
        0..(self.words.ends_used().load(Acquire) as u32).min(self.words.layout().ends)
    }

    fn is_held(&self, end: u32) -> bool {
        self.words.entry(end).owner.load(Acquire) & HELD != 0
    }

    /// Whether an end sends, and was not closed.
    pub(super) fn sends(&self, end: u32) -> bool {
        self.words.roles(end).load(Acquire) & (SENDS | CLOSED) == SENDS
    }

    /// Whether any end but one sends, or may.
    pub(super) fn has_sender_but(&self, own: u32) -> bool {
        self.all().filter(|end| *end != own).any(|end| {
            let is_undecided = self.words.roles(end).load(Acquire) == 0;
            (is_undecided || self.sends(end)) && self.is_held(end)
        })
    }

    /// Whether a held end has this slot pinned.
    pub(super) fn is_pinned(&self, slot: u32) -> bool {
        let pins = |end| self.words.pins(end, slot).load(Acquire) & pin(slot) != 0;
        self.all().any(|end| self.is_held(end) && pins(end))
    }

    /// Whether every end that receives has received, or missed, the message with a number.
    pub(super) fn has_everybody_passed(&self, number: u64) -> bool {
        self.all().all(|end| {
            let receives = self.words.roles(end).load(Acquire) & (RECEIVES | CLOSED) == RECEIVES;
            !self.is_held(end) || !receives || self.words.cursor(end).load(Acquire) > number
        })
    }
}

/// The bit of a slot in the pins of an end.
pub(super) fn pin(slot: u32) -> u64 {
    1 << (slot % 64)
}
