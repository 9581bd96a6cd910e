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
/// An odd number with many bits.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
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
        let mut before = None;
        loop {
            let (has_sender, entries) = self.look_for_sender(own);
            if has_sender || before == Some(entries) {
                return has_sender;
            }
            // Another may have joined in an entry that this has passed, and this one left then.
            before = Some(entries);
        }
    }

    /// Looks at the ends but one until it finds one that sends, or may. Returns also a hash of the
    /// entries that it has seen.
    fn look_for_sender(&self, own: u32) -> (bool, u64) {
        let mut entries = 0_u64;
        for end in self.all().filter(|end| *end != own) {
            let (roles, owner) =
                (self.words.roles(end).load(Acquire), self.words.entry(end).owner.load(Acquire));
            let may_send = roles == 0 || roles & (SENDS | CLOSED) == SENDS;
            if may_send && owner & HELD != 0 {
                return (true, entries);
            }
            entries = entries.rotate_left(5).wrapping_mul(HASH_FACTOR) ^ owner;
            entries = entries.rotate_left(5).wrapping_mul(HASH_FACTOR) ^ roles;
        }
        (false, entries)
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
