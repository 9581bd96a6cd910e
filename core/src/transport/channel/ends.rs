//! The ends of a channel, as all processes see them: their roles, cursors and pins.
//!
//! An entry is as in a lease table: `owner << 1 | held`.

use crate::header::control::ChannelWords;
use crate::header::control::Ordering::{Acquire, Relaxed, Release};

/// The bits of an end's roles. An end without any is undecided, and counts as a sender.
///
/// The bits from 8 on count the senders that have left this entry.
pub(super) const SENDS: u64 = 1;
pub(super) const RECEIVES: u64 = 2;
/// It was closed, and stays until its last loan or delivery was given back.
pub(super) const CLOSED: u64 = 4;
const BITS: u64 = SENDS | RECEIVES | CLOSED;
const LEFT_SHIFT: u32 = 8;
/// How the last sender left.
const NONE_LEFT: u64 = 0;
pub(super) const LEFT_BY_CLOSE: u64 = 1;
pub(super) const LEFT_BY_DEATH: u64 = 2;
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

    /// Clears the roles of an entry that nobody else has, for its next end.
    pub(super) fn clear_roles(&self, end: u32) {
        let roles = self.words.roles(end);
        roles.store(roles.load(Relaxed) & !BITS, Relaxed);
    }

    /// Records that this process's end does nothing any more, and counts it if it was a sender.
    pub(super) fn leave(&self, end: u32) {
        loop {
            let roles = self.words.roles(end).load(Acquire);
            if roles & CLOSED != 0 {
                return;
            }
            if may_send(roles) {
                self.store_how_left(roles, LEFT_BY_CLOSE);
            }
            if self.words.roles(end).replace(roles, left(roles)) {
                return;
            }
        }
    }

    /// Counts the end of a dead process if it was a sender. `has_exited` says whether that process
    /// is known to have ended by itself. Several processes may recover the same end; only the first
    /// compare-and-swap succeeds, because it changes the count.
    pub(super) fn count_dead(&self, end: u32, owner: u64, has_exited: bool) {
        let roles = self.words.roles(end).load(Acquire);
        let is_still_its = self.words.entry(end).owner.load(Acquire) == owner;
        if is_still_its && is_held_by_sender(owner, roles) {
            let how = if has_exited { LEFT_BY_CLOSE } else { LEFT_BY_DEATH };
            self.store_how_left(roles, how);
            let _ = self.words.roles(end).replace(roles, left(roles)); // or another process did
        }
    }

    /// Stores how a sender leaves, before it is counted.
    fn store_how_left(&self, roles: u64, how: u64) {
        if roles & SENDS != 0 {
            self.words.left().store(how, Release);
        } else {
            // An end that has sent tells more about the stream, so its word stays.
            let _ = self.words.left().replace(NONE_LEFT, how);
        }
    }

    /// Returns how many senders have left so far, of the entries but one, or `None` while
    /// one of them is a sender.
    pub(super) fn senders_left_if_none_but(&self, own: u32) -> Option<u64> {
        let mut before = None;
        loop {
            let (left, entries) = self.look_for_sender(own)?;
            if before == Some(entries) {
                return Some(left);
            }
            // Another may have joined in an entry that this has passed, and this one left then.
            before = Some(entries);
        }
    }

    /// Looks at the ends but one until it finds a sender. Returns how many have left, and a hash of
    /// the entries that it has seen.
    fn look_for_sender(&self, own: u32) -> Option<(u64, u64)> {
        let mut left = 0_u64;
        let mut entries = 0_u64;
        for end in self.all().filter(|end| *end != own) {
            let roles = self.words.roles(end).load(Acquire);
            let owner = self.words.entry(end).owner.load(Acquire);
            if is_held_by_sender(owner, roles) {
                return None;
            }
            left = left.wrapping_add(senders_left(roles));
            entries = entries.rotate_left(5).wrapping_mul(HASH_FACTOR) ^ owner;
            entries = entries.rotate_left(5).wrapping_mul(HASH_FACTOR) ^ roles;
        }
        Some((left, entries))
    }

    /// Returns how many senders have left so far, of the entries but one.
    pub(super) fn senders_left_but(&self, own: u32) -> u64 {
        let others = self.all().filter(|end| *end != own);
        let left = others.map(|end| senders_left(self.words.roles(end).load(Acquire)));
        left.fold(0, u64::wrapping_add)
    }

    /// Whether no held end but one has sent. One that was closed may still publish a loan.
    pub(super) fn is_sole_sender(&self, own: u32) -> bool {
        let sends = |end| self.words.roles(end).load(Acquire) & SENDS != 0;
        !self.all().any(|end| end != own && self.is_held(end) && sends(end))
    }

    /// Whether an end but one is open.
    pub(super) fn is_any_open_but(&self, own: u32) -> bool {
        let is_open = |end| self.words.roles(end).load(Acquire) & CLOSED == 0;
        self.all().any(|end| end != own && self.is_held(end) && is_open(end))
    }

    /// Whether an end but one is open, or was closed and still has a loan or a delivery.
    pub(super) fn is_any_held_but(&self, own: u32) -> bool {
        self.all().any(|end| end != own && self.is_held(end))
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

    /// Whether an open end has received, or waits to.
    pub(super) fn has_receivers(&self) -> bool {
        let receives = |end| self.words.roles(end).load(Acquire) & (RECEIVES | CLOSED) == RECEIVES;
        self.all().any(|end| self.is_held(end) && receives(end))
    }
}

/// Whether an end with these roles has sent, or may, and was not closed.
fn may_send(roles: u64) -> bool {
    roles & BITS == 0 || has_sent(roles)
}

/// Whether an end with these roles has sent, and was not closed.
pub(super) fn has_sent(roles: u64) -> bool {
    roles & (SENDS | CLOSED) == SENDS
}

/// The senders that have left an entry with these roles.
pub(super) fn senders_left(roles: u64) -> u64 {
    roles >> LEFT_SHIFT
}

/// The roles of an end that has left.
fn left(roles: u64) -> u64 {
    (roles | CLOSED) + (u64::from(may_send(roles)) << LEFT_SHIFT)
}

/// Whether an entry and its roles are those of a held end that is a sender.
pub(super) fn is_held_by_sender(owner: u64, roles: u64) -> bool {
    owner & HELD != 0 && may_send(roles)
}

/// The bit of a slot in the pins of an end.
pub(super) fn pin(slot: u32) -> u64 {
    1 << (slot % 64)
}
