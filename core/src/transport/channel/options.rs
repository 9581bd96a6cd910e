//! The options of a new channel, and of one that is opened.

use crate::header::format::{
    ChannelLayout, ChannelMode, LEAST_SLOTS_OF_LATEST, MAX_ENDS, MAX_SLOTS, Payload,
    SLOT_ALIGNMENT, WhenFull,
};
use crate::memory::segment::CreationOptions;
use crate::value::error::{Error, Result};
use crate::value::name::random_bits;

/// From when on an opened channel receives a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Receives {
    /// From its first [`receive`](crate::Channel::receive) on, if it ever receives.
    Later,
    /// From its opening on.
    Now,
    /// From its opening on, and before that the last so many messages of which the slots have not
    /// been needed for others. With as many slots as messages under way and so many more, all.
    WithHistory(u32),
}

impl From<bool> for Receives {
    fn from(receives: bool) -> Self {
        if receives { Self::Now } else { Self::Later }
    }
}

impl Receives {
    /// Returns how many earlier messages a receiver of a channel with this mode receives. `None` if
    /// it receives from its first receive on.
    pub(super) fn history(self, mode: ChannelMode) -> Result<Option<u32>> {
        match (self, mode) {
            (Self::Later, _) | (Self::Now | Self::WithHistory(0), ChannelMode::Queue) => Ok(None),
            (Self::Now, ChannelMode::Broadcast | ChannelMode::Latest) => Ok(Some(0)),
            (Self::WithHistory(history), ChannelMode::Broadcast) => Ok(Some(history)),
            (Self::WithHistory(0), ChannelMode::Latest) => Ok(Some(0)),
            (Self::WithHistory(_), ChannelMode::Queue | ChannelMode::Latest) => {
                let reason = format!("the channel is no broadcast: its mode is \"{mode}\"");
                Err(Error::argument("history", reason))
            }
        }
    }
}

/// Options of a new channel, each set by the method of its name.
///
/// ```
/// use shmarray::{ChannelMode, ChannelOptions, WhenFull};
/// let options = ChannelOptions::new()
///     .slots(4)
///     .mode(ChannelMode::Broadcast)
///     .when_full(WhenFull::DropOldest);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ChannelOptions {
    pub(super) slots: u32,
    pub(super) mode: ChannelMode,
    pub(super) when_full: WhenFull,
    pub(super) varying: bool,
    pub(super) exist_ok: bool,
    pub(super) ends: u32,
    persist: bool,
    file_mode: u32,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelOptions {
    /// Returns the options of an ordinary channel: a queue of 8 slots in which senders wait.
    pub const fn new() -> Self {
        Self {
            slots: 8,
            mode: ChannelMode::Queue,
            when_full: WhenFull::Block,
            varying: false,
            exist_ok: false,
            ends: 128,
            persist: false,
            file_mode: 0o600,
        }
    }

    /// Sets the number of slots, at most 1023. A message takes one until it was received by all
    /// that it goes to, and released.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Sets the receivers that a message goes to.
    pub fn mode(mut self, mode: ChannelMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what a sender does when all slots are taken.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Sets whether each message has a shape of its own, of at most 8 dimensions. The shape of the
    /// channel is the largest then.
    pub fn varying(mut self, varying: bool) -> Self {
        self.varying = varying;
        self
    }

    /// Sets whether an existing channel of the same description is opened instead.
    pub fn exist_ok(mut self, exist_ok: bool) -> Self {
        self.exist_ok = exist_ok;
        self
    }

    /// Sets how many processes and threads can have the channel open, at most 1023.
    pub fn ends(mut self, ends: u32) -> Self {
        self.ends = ends;
        self
    }

    /// Sets whether the channel outlives every process, until its name is unlinked.
    pub fn persist(mut self, persist: bool) -> Self {
        self.persist = persist;
        self
    }

    /// Sets the permission bits of the segment. With 0644, say, other users can follow a broadcast.
    pub fn file_mode(mut self, file_mode: u32) -> Self {
        self.file_mode = file_mode;
        self
    }

    /// Refuses options that a channel of handles cannot have.
    pub(super) fn check_for_handles(&self) -> Result<()> {
        if self.persist {
            let reason = "the arrays of a channel of handles end with the last process that has it";
            return Err(Error::argument("persist", reason));
        }
        if self.mode == ChannelMode::Latest {
            let reason = "a message of a channel of handles is received once, so it is no value \
                          that many read";
            return Err(Error::argument("mode", reason));
        }
        Ok(())
    }

    pub(super) fn creation(&self) -> Result<CreationOptions> {
        let bits = self.file_mode;
        let refuse = |reason: String| Err(Error::argument("file_mode", reason));
        if bits & !0o644 != 0 || bits & 0o600 != 0o600 {
            return refuse(format!("{bits:#o} is not 0600, 0640, 0604 or 0644"));
        }
        if bits != 0o600 && self.mode == ChannelMode::Queue {
            return refuse("other users can follow a broadcast, and not a queue".to_owned());
        }
        Ok(CreationOptions { name: None, persist: self.persist, mode: bits })
    }

    /// Returns the layout of a channel whose slots have so many bytes.
    pub(super) fn layout(&self, payload: Payload, bytes: u64) -> Result<ChannelLayout> {
        let within = |argument, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                Ok(())
            } else {
                Err(Error::argument(argument, format!("{value} is not from 1 to {most}")))
            }
        };
        within("slots", self.slots, MAX_SLOTS)?;
        if self.mode == ChannelMode::Latest && self.slots < LEAST_SLOTS_OF_LATEST {
            let reason = format!("the latest value needs at least {LEAST_SLOTS_OF_LATEST}");
            return Err(Error::argument("slots", reason));
        }
        within("ends", self.ends, MAX_ENDS)?;
        let slot_bytes = bytes.max(1).checked_next_multiple_of(SLOT_ALIGNMENT);
        let too_large = || Error::argument("shape", "an array of this size cannot be mapped");
        let layout = ChannelLayout {
            mode: self.mode,
            when_full: self.when_full,
            payload,
            slots: self.slots,
            slot_bytes: slot_bytes.ok_or_else(too_large)?,
            ring_words: 0,
            ends: self.ends,
            is_followed: self.file_mode != 0o600,
            family: random_bits()? >> 44,
            ring_offset: 0,
            ends_offset: 0,
            slots_offset: 0,
        };
        Ok(layout.placed())
    }
}
