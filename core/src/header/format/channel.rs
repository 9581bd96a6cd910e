//! The layout of a channel: kind 3 of FORMAT.md.

use std::fmt;
use std::mem::{offset_of, size_of};
use std::str::FromStr;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::constants::{KIND_CHANNEL, MAX_HEADER_BYTES, MAX_SLOTS, PAGE_BYTES, SLOT_HEAD_BYTES};
use super::preamble::{Preamble, invalid};
use crate::value::error::{Error, Result};

/// The offset of the channel's own fields in the header.
pub(crate) const CHANNEL_OFFSET: usize = PAGE_BYTES as usize;
/// The offsets of the words that change, from the channel's own fields on.
pub(crate) const TAIL_OFFSET: usize = 128;
pub(crate) const HEAD_OFFSET: usize = 256;
pub(crate) const PUBLISHED_OFFSET: usize = 384;
pub(crate) const FREED_OFFSET: usize = 512;
pub(crate) const DROPPED_OFFSET: usize = 640;
pub(crate) const LEFT_OFFSET: usize = 648;
pub(crate) const ENDS_USED_OFFSET: usize = 656;
pub(crate) const SOLE_OFFSET: usize = 664;
/// The size of the channel's own fields, with the words.
const FIELDS_BYTES: usize = 1024;
/// The size of an end.
pub(crate) const END_BYTES: u32 = 256;
/// The most ends. Their numbers have ten bits, and one value stands for none.
pub(crate) const MAX_ENDS: u32 = 1023;
/// The most bytes of metadata, and the most dimensions of a message of varying shape.
pub(crate) const META_BYTES: usize = 64;
pub(crate) const SLOT_NDIM: usize = 8;
/// The least slots of a channel of the latest value: one that may be pinned, one with the value,
/// and one for the next.
pub(crate) const LEAST_SLOTS_OF_LATEST: u32 = 3;
/// Families have numbers below this.
const FAMILIES: u64 = 1 << 20;
/// The most bytes that the homes of a sole sender's messages have, if they are more than two.
const MOST_HOME_BYTES: u64 = 1 << 20;
/// The word of a free slot that had no message yet: no end, in the bits from 3 on.
const FIRST_SLOT_WORD: u64 = 1023 << 3;
/// The bits of a ring word that are the slot.
const RING_SLOT_BITS: u32 = 10;

/// The fields of a channel that never change.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Fields {
    mode: U32,
    when_full: U32,
    payload: U32,
    ring_words: U32,
    ends: U32,
    end_bytes: U32,
    ring_offset: U32,
    ends_offset: U32,
    slots_offset: U32,
    is_followed: U32,
    family: U64,
}

const _: () = {
    assert!(offset_of!(Fields, ring_words) == 12);
    assert!(offset_of!(Fields, slots_offset) == 32);
    assert!(offset_of!(Fields, family) == 40);
    assert!(size_of::<Fields>() <= TAIL_OFFSET && SOLE_OFFSET + 8 <= FIELDS_BYTES);
    let most = CHANNEL_OFFSET
        + FIELDS_BYTES
        + 8 * (MAX_SLOTS as usize + 1)
        + END_BYTES as usize * (MAX_ENDS as usize + 1)
        + SLOT_HEAD_BYTES as usize * MAX_SLOTS as usize;
    assert!(most <= MAX_HEADER_BYTES as usize);
};

/// The receivers that a message goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChannelMode {
    /// One of them. Each message is received once.
    #[default]
    Queue = 1,
    /// All of them: each receives every message from when it joined.
    Broadcast = 2,
    /// All of them: each reads the last message, as often as it likes. No sender waits for them.
    Latest = 3,
}

/// What a sender does when all slots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// It waits.
    #[default]
    Block = 1,
    /// It drops the oldest message, and receivers are told how many they missed.
    DropOldest = 2,
    /// It returns at once, and says that the channel is full.
    Error = 3,
}

impl ChannelMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Broadcast, Self::Latest];

    /// Returns the word that every language has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Broadcast => "broadcast",
            Self::Latest => "latest",
        }
    }
}

impl WhenFull {
    /// All that a sender can do.
    pub const ALL: [Self; 3] = [Self::Block, Self::DropOldest, Self::Error];

    /// Returns the word that every language has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::DropOldest => "drop_oldest",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for ChannelMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ChannelMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| Error::none_of("mode", text, &Self::ALL.map(Self::name)))
    }
}

impl FromStr for WhenFull {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|when_full| when_full.name() == text);
        found.ok_or_else(|| Error::none_of("when_full", text, &Self::ALL.map(Self::name)))
    }
}

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// An array of the description's shape.
    Fixed = 1,
    /// An array in C order, of the shape in the slot's head.
    Varying = 2,
    /// The handle of an array, with its ticket.
    Handle = 3,
}

/// The layout of a channel: what it is, and where its parts lie in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelLayout {
    pub(crate) mode: ChannelMode,
    pub(crate) when_full: WhenFull,
    pub(crate) payload: Payload,
    pub(crate) slots: u32,
    /// The size of a slot's payload, with what fills it up.
    pub(crate) slot_bytes: u64,
    /// A power of two, at least `slots`.
    pub(crate) ring_words: u32,
    pub(crate) ends: u32,
    pub(crate) is_followed: bool,
    /// The family of the channel's tickets: f of FORMAT.md.
    pub(crate) family: u64,
    pub(crate) ring_offset: u32,
    pub(crate) ends_offset: u32,
    pub(crate) slots_offset: u32,
}

impl ChannelLayout {
    /// The end of the fields and the words, in the header.
    pub(super) const FIELDS_END: u64 = (CHANNEL_OFFSET + FIELDS_BYTES) as u64;

    /// Places the parts of a new channel one after the other.
    pub(crate) fn placed(mut self) -> Self {
        self.ring_words = self.slots.next_power_of_two();
        self.ring_offset = (CHANNEL_OFFSET + FIELDS_BYTES) as u32;
        self.ends_offset = (self.ring_offset + 8 * self.ring_words).next_multiple_of(END_BYTES);
        self.slots_offset = self.ends_offset + self.ends * END_BYTES;
        self
    }

    /// Returns how many slots may be pinned, from the first one on.
    pub(crate) fn pinnable(&self) -> u32 {
        match self.mode {
            ChannelMode::Queue => 0,
            ChannelMode::Broadcast => self.slots,
            ChannelMode::Latest => self.slots / 2,
        }
    }

    /// Returns in how many slots, from the first one on, a sole sender publishes: a power of two.
    /// More than these its messages do not touch, however many slots there are. `None` if there is
    /// no sole sender in such a channel.
    pub(crate) fn homes(&self) -> Option<u32> {
        let may_be_sole = self.mode == ChannelMode::Queue && !self.is_followed && self.slots > 1;
        let most = (MOST_HOME_BYTES / self.slot_bytes.max(1)).clamp(2, u64::from(MAX_SLOTS));
        may_be_sole.then(|| 1 << self.slots.min(most as u32).ilog2())
    }

    /// Returns the size of the header up to the end of the last part.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.slots_offset) + u64::from(self.slots) * u64::from(SLOT_HEAD_BYTES)
    }

    /// Returns the slots as the preamble has them: size, number, size of a head.
    pub(super) fn cells(&self) -> (u64, u32, u32) {
        (self.slot_bytes, self.slots, SLOT_HEAD_BYTES)
    }

    /// Writes the fields, and the first values of the words, to the bytes of a new header.
    pub(super) fn write(&self, header: &mut [u8]) {
        let mut fields = Fields::new_zeroed();
        fields.mode = (self.mode as u32).into();
        fields.when_full = (self.when_full as u32).into();
        fields.payload = (self.payload as u32).into();
        fields.ring_words = self.ring_words.into();
        fields.ends = self.ends.into();
        fields.end_bytes = END_BYTES.into();
        fields.ring_offset = self.ring_offset.into();
        fields.ends_offset = self.ends_offset.into();
        fields.slots_offset = self.slots_offset.into();
        fields.is_followed = u32::from(self.is_followed).into();
        fields.family = self.family.into();
        let mut put = |at: usize, part: &[u8]| header[at..at + part.len()].copy_from_slice(part);
        put(CHANNEL_OFFSET, fields.as_bytes());
        let first = u64::from(self.ring_words);
        put(CHANNEL_OFFSET + TAIL_OFFSET, &first.to_le_bytes());
        put(CHANNEL_OFFSET + HEAD_OFFSET, &first.to_le_bytes());
        for number in 0..self.ring_words {
            let word = u64::from(number) << RING_SLOT_BITS;
            put((self.ring_offset + 8 * number) as usize, &word.to_le_bytes());
        }
        for slot in 0..self.slots {
            let at = self.slots_offset + slot * SLOT_HEAD_BYTES;
            put(at as usize, &FIRST_SLOT_WORD.to_le_bytes());
        }
    }

    /// Validates the fields in a copied header. `None` if it is not a channel's.
    pub(super) fn read(label: &str, preamble: &Preamble, bytes: &[u8]) -> Result<Option<Self>> {
        if preamble.kind.get() != KIND_CHANNEL {
            return Ok(None);
        }
        let own = bytes.get(CHANNEL_OFFSET..).unwrap_or_default();
        let (fields, _) = Fields::read_from_prefix(own)
            .map_err(|_| invalid(label, "header_bytes", "room for a channel", bytes.len()))?;
        let layout = fields.layout(label, preamble)?;
        let parts = [
            ("ring_offset", layout.ring_offset, 8 * layout.ring_words),
            ("ends_offset", layout.ends_offset, END_BYTES * layout.ends),
            ("slots_offset", layout.slots_offset, SLOT_HEAD_BYTES * layout.slots),
        ];
        for (field, start, size) in parts {
            let end = u64::from(start) + u64::from(size);
            let fits = u64::from(start) >= Self::FIELDS_END
                && start.is_multiple_of(8)
                && end <= preamble.header_bytes.get();
            if !fits {
                return Err(invalid(label, field, "a multiple of 8 in the header", start));
            }
        }
        Ok(Some(layout))
    }
}

impl Fields {
    fn layout(&self, label: &str, preamble: &Preamble) -> Result<ChannelLayout> {
        let slots = preamble.cells.get();
        let mode = match self.mode.get() {
            1 => ChannelMode::Queue,
            2 => ChannelMode::Broadcast,
            3 => ChannelMode::Latest,
            other => return Err(invalid(label, "mode", "1 to 3", other)),
        };
        let when_full = match self.when_full.get() {
            1 => WhenFull::Block,
            2 => WhenFull::DropOldest,
            3 => WhenFull::Error,
            other => return Err(invalid(label, "when_full", "1 to 3", other)),
        };
        let payload = match self.payload.get() {
            1 => Payload::Fixed,
            2 => Payload::Varying,
            3 => Payload::Handle,
            other => return Err(invalid(label, "payload", "1 to 3", other)),
        };
        if mode == ChannelMode::Latest && payload == Payload::Handle {
            return Err(invalid(label, "payload", "1 or 2 for the latest value", self.payload));
        }
        if mode == ChannelMode::Latest && slots < LEAST_SLOTS_OF_LATEST {
            let expected = format!("at least {LEAST_SLOTS_OF_LATEST} for the latest value");
            return Err(invalid(label, "cells", expected, slots));
        }
        let ring_words = self.ring_words.get();
        let ends = self.ends.get();
        if !ring_words.is_power_of_two() || !(slots..=MAX_SLOTS + 1).contains(&ring_words) {
            let expected = format!("a power of two from {slots} to {}", MAX_SLOTS + 1);
            return Err(invalid(label, "ring_words", expected, ring_words));
        }
        if !(1..=MAX_ENDS).contains(&ends) {
            return Err(invalid(label, "ends", format!("1 to {MAX_ENDS}"), ends));
        }
        if self.end_bytes.get() != END_BYTES {
            return Err(invalid(label, "end_bytes", END_BYTES.to_string(), self.end_bytes));
        }
        if self.is_followed.get() > 1 {
            return Err(invalid(label, "is_followed", "0 or 1", self.is_followed));
        }
        if self.family.get() >= FAMILIES {
            return Err(invalid(label, "family", "a number below 2^20", self.family));
        }
        Ok(ChannelLayout {
            mode,
            when_full,
            payload,
            slots,
            slot_bytes: preamble.cell_bytes.get(),
            ring_words,
            ends,
            is_followed: self.is_followed.get() == 1,
            family: self.family.get(),
            ring_offset: self.ring_offset.get(),
            ends_offset: self.ends_offset.get(),
            slots_offset: self.slots_offset.get(),
        })
    }
}
