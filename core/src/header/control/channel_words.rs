//! The words of a channel in mapped memory, as atomics. FORMAT.md, "Channel, kind 3", has their
//! places.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::word::{ControlWord, Entry};
use crate::header::format::{
    CHANNEL_OFFSET, ChannelLayout, DROPPED_OFFSET, END_BYTES, ENDS_USED_OFFSET, FREED_OFFSET,
    HEAD_OFFSET, LEFT_OFFSET, PUBLISHED_OFFSET, SLOT_HEAD_BYTES, SOLE_OFFSET, TAIL_OFFSET,
};

/// The words of one mapped channel.
#[derive(Clone, Copy)]
pub(crate) struct ChannelWords {
    header: NonNull<u8>,
    layout: ChannelLayout,
    /// From the start of the header.
    data_offset: usize,
}

// SAFETY: the value must be usable in another thread; it points to memory of the whole process,
// which is accessed only through atomics.
unsafe impl Send for ChannelWords {}
// SAFETY: shared references must be usable by several threads at once; the methods give out
// references to atomics only.
unsafe impl Sync for ChannelWords {}

impl ChannelWords {
    /// `header` is the 8-aligned start of a mapped header, which stays mapped while this value is
    /// used, and in which the parts of `layout` lie. The data begin at `data_offset`.
    pub(crate) unsafe fn new(
        header: NonNull<u8>,
        layout: ChannelLayout,
        data_offset: usize,
    ) -> Self {
        Self { header, layout, data_offset }
    }

    pub(crate) fn layout(&self) -> &ChannelLayout {
        &self.layout
    }

    fn word(&self, offset: usize) -> &ControlWord {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: the offset stays in bounds: it is that of a word of the fields, the ring, a slot
        // or an end, whose indices the callers below keep under their number, and which lie in the
        // header, as the caller of `new` promised.
        let word = unsafe { self.header.add(offset) };
        // SAFETY: the word is mapped and aligned, as the caller of `new` promised. Other processes
        // may write these bytes, but only as atomics (FORMAT.md), as a `ControlWord` is.
        unsafe { word.cast().as_ref() }
    }

    fn field(&self, offset: usize) -> &ControlWord {
        self.word(CHANNEL_OFFSET + offset)
    }

    /// The number of the next message.
    pub(crate) fn tail(&self) -> &ControlWord {
        self.field(TAIL_OFFSET)
    }

    /// The number of the oldest message that was not taken or dropped.
    pub(crate) fn head(&self) -> &ControlWord {
        self.field(HEAD_OFFSET)
    }

    pub(crate) fn published(&self) -> &ControlWord {
        self.field(PUBLISHED_OFFSET)
    }

    pub(crate) fn freed(&self) -> &ControlWord {
        self.field(FREED_OFFSET)
    }

    pub(crate) fn dropped(&self) -> &ControlWord {
        self.field(DROPPED_OFFSET)
    }

    pub(crate) fn left(&self) -> &ControlWord {
        self.field(LEFT_OFFSET)
    }

    /// One more than the number of the last end that was ever in use.
    pub(crate) fn ends_used(&self) -> &ControlWord {
        self.field(ENDS_USED_OFFSET)
    }

    /// Whether the channel has a sole sender. It lies beside words that seldom change, since every
    /// loan and every receive loads it.
    pub(crate) fn sole(&self) -> &ControlWord {
        self.field(SOLE_OFFSET)
    }

    /// The ring's word of a message.
    pub(crate) fn ring(&self, number: u64) -> &ControlWord {
        let index = number as usize & (self.layout.ring_words as usize - 1);
        self.word(self.layout.ring_offset as usize + 8 * index)
    }

    /// A word of a slot's head. The slot's number may have been read from memory that others write.
    pub(crate) fn slot_head(&self, slot: u32, index: usize) -> &ControlWord {
        debug_assert!(index < SLOT_HEAD_BYTES as usize / 8);
        let slot = slot.min(self.layout.slots - 1);
        self.word((self.layout.slots_offset + slot * SLOT_HEAD_BYTES) as usize + 8 * index)
    }

    /// Makes the processor load a slot's head and the start of its payload at the same time, before
    /// they are needed one after the other. The slot's number is below that of the slots.
    pub(crate) fn prefetch(&self, slot: u32) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};

            use crate::header::format::ChannelMode;
            let (head, payload) = self.addresses(slot);
            // SAFETY: a prefetch does nothing that a program can see, and fails for no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(payload) };
            match self.layout.mode {
                // SAFETY: a prefetch fails for no address. A receiver writes this word next.
                ChannelMode::Queue => unsafe { _mm_prefetch::<_MM_HINT_ET0>(head) },
                // SAFETY: a prefetch does nothing that a program can see, and never fails.
                ChannelMode::Broadcast | ChannelMode::Latest => unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(head)
                },
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (slot, self.data_offset);
    }

    /// Makes the processor take the head of a slot and the start of its payload to itself, before a
    /// sender needs them one after the other.
    pub(crate) fn prefetch_for_loan(&self, slot: u32) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};

            let (head, payload) = self.addresses(slot);
            // SAFETY: a prefetch does nothing that a program can see, and fails for no address.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(head) };
            // SAFETY: as before.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(payload) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = slot;
    }

    /// The addresses of a slot's head and of its payload, for a prefetch.
    #[cfg(target_arch = "x86_64")]
    fn addresses(&self, slot: u32) -> (*const i8, *const i8) {
        let address = |offset| self.header.as_ptr().wrapping_add(offset).cast_const().cast();
        let head = (self.layout.slots_offset + slot * SLOT_HEAD_BYTES) as usize;
        let payload = self.data_offset + slot as usize * self.layout.slot_bytes as usize;
        (address(head), address(payload))
    }

    /// The offset of an end. Its number may have been read from memory that others write.
    fn end_offset(&self, end: u32) -> usize {
        let end = end.min(self.layout.ends - 1);
        (self.layout.ends_offset + end * END_BYTES) as usize
    }

    fn end(&self, end: u32, offset: usize) -> &ControlWord {
        self.word(self.end_offset(end) + offset)
    }

    pub(crate) fn entry(&self, end: u32) -> &Entry {
        // SAFETY: the offset stays in bounds, because the end lies in the header.
        let entry = unsafe { self.header.add(self.end_offset(end)) };
        // SAFETY: an entry is two words, both of which lie in the end and are atomics, as `word`
        // says.
        unsafe { entry.cast().as_ref() }
    }

    pub(crate) fn roles(&self, end: u32) -> &ControlWord {
        self.end(end, 16)
    }

    /// The number of messages that an end has sent or received, for people. Others often read the
    /// entry and the roles, so it lies in another line of the processors' caches.
    pub(crate) fn count(&self, end: u32) -> &ControlWord {
        self.end(end, 72)
    }

    /// The number of messages that an end has missed, for people.
    pub(crate) fn missed(&self, end: u32) -> &ControlWord {
        self.end(end, 80)
    }

    /// The time from the sending of a message to its reception, in nanoseconds, for people.
    pub(crate) fn latency(&self, end: u32) -> &ControlWord {
        self.end(end, 88)
    }

    /// The number of the next message of a sole sender.
    pub(crate) fn next(&self, end: u32) -> &ControlWord {
        self.end(end, 96)
    }

    /// Which loan a sole sender publishes, or published last.
    pub(crate) fn mark(&self, end: u32) -> &ControlWord {
        self.end(end, 104)
    }

    pub(crate) fn cursor(&self, end: u32) -> &ControlWord {
        self.end(end, 64)
    }

    /// The pins of an end, of the 64 slots that a slot is one of.
    pub(crate) fn pins(&self, end: u32, slot: u32) -> &ControlWord {
        self.end(end, 128 + 8 * (slot as usize / 64 % 16))
    }
}
