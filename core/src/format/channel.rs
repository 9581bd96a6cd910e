//! The layout of a channel: kind 3 of FORMAT.md.

use std::mem::{offset_of, size_of};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::constants::{MAX_HEADER_BYTES, PAGE_BYTES};
use super::invalid;
use crate::error::Result;

/// The offset of the channel's own fields in the header.
pub(crate) const CHANNEL_OFFSET: usize = PAGE_BYTES as usize;
/// The offsets of the words that change, from the channel's own fields on.
pub(crate) const TAIL_OFFSET: usize = 128;
pub(crate) const HEAD_OFFSET: usize = 256;
pub(crate) const PUBLISHED_OFFSET: usize = 384;
pub(crate) const FREED_OFFSET: usize = 512;
pub(crate) const DROPPED_OFFSET: usize = 640;
pub(crate) const JOINED_OFFSET: usize = 648;
pub(crate) const LEFT_OFFSET: usize = 656;
/// The size of the channel's own fields, with the words.
const FIELDS_BYTES: usize = 1024;
/// The size of an end, and that of a slot's head.
pub(crate) const END_BYTES: u32 = 256;
pub(crate) const SLOT_HEAD_BYTES: u32 = 256;
/// The most slots and ends. Their numbers have ten bits, and one value stands for none.
pub(crate) const MAX_SLOTS: u32 = 1023;
pub(crate) const MAX_ENDS: u32 = 1023;
/// The most bytes of metadata, and the most dimensions of a message of varying shape.
pub(crate) const META_BYTES: usize = 64;
pub(crate) const SLOT_NDIM: usize = 8;
/// The payload of a slot begins at a multiple of this.
pub(crate) const SLOT_ALIGNMENT: u64 = 64;

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
    assert!(size_of::<Fields>() <= TAIL_OFFSET && LEFT_OFFSET + 8 <= FIELDS_BYTES);
    let most = CHANNEL_OFFSET
        + FIELDS_BYTES
        + 8 * (MAX_SLOTS as usize + 1)
        + (END_BYTES * MAX_ENDS) as usize
        + (SLOT_HEAD_BYTES * MAX_SLOTS) as usize;
    assert!(most <= MAX_HEADER_BYTES as usize);
};

/// Which receivers a message goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelMode {
    Queue = 1,
    Broadcast = 2,
}

/// What a sender does that finds no free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    Block = 1,
    DropOldest = 2,
    Fail = 3,
}

/// What lies in a slot.
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
    /// The family of the channel's tickets.
    pub(crate) family: u64,
    pub(crate) ring_offset: u32,
    pub(crate) ends_offset: u32,
    pub(crate) slots_offset: u32,
}

impl ChannelLayout {
    /// Places the parts of a new channel one after the other.
    pub(crate) fn place(mut self) -> Self {
        self.ring_words = self.slots.next_power_of_two();
        self.ring_offset = (CHANNEL_OFFSET + FIELDS_BYTES) as u32;
        self.ends_offset = (self.ring_offset + 8 * self.ring_words).next_multiple_of(END_BYTES);
        self.slots_offset = self.ends_offset + self.ends * END_BYTES;
        self
    }

    /// Returns the size of the header up to the end of the last part.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.slots_offset) + u64::from(self.slots) * u64::from(SLOT_HEAD_BYTES)
    }

    /// Writes the fields, the ring and the slots' first words to the bytes of a new header.
    pub(crate) fn write(&self, header: &mut [u8]) {
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
        let own = fields.as_bytes();
        header[CHANNEL_OFFSET..CHANNEL_OFFSET + own.len()].copy_from_slice(own);
    }
}
