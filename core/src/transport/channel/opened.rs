//! The mapping of a channel in this process, which its ends share.

use std::sync::Arc;

use super::ends::{Ends, HELD, LEFT_BY_DEATH};
use super::ring::Ring;
use super::wait;
use crate::array::Array;
use crate::header::control::Ordering::{Acquire, SeqCst};
use crate::header::control::{ChannelWords, fence};
use crate::header::format::{ChannelMode, Payload, SLOT_NDIM};
use crate::memory::segment::Segment;
use crate::system;
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, Order};

/// A mapped channel.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) segment: Arc<Segment>,
    pub(super) words: ChannelWords,
    pub(super) ring: Ring,
    pub(super) ends: Ends,
    /// The layout of the array in each slot, where all have the channel's shape.
    layouts: Arc<[Layout]>,
}

impl Opened {
    /// `None` if the segment is not a channel's.
    pub(super) fn new(segment: Arc<Segment>) -> Option<Self> {
        let words = segment.channel_words()?;
        let (_, described) = segment.described();
        let slots = match words.layout().payload {
            Payload::Fixed | Payload::Handle => 0..words.layout().slots,
            Payload::Varying => 0..0,
        };
        let offset = |slot: u32| u64::from(slot) * words.layout().slot_bytes;
        let layouts =
            slots.map(|slot| Layout { offset: offset(slot), ..described.clone() }).collect();
        Some(Self { ring: Ring::new(words), ends: Ends::new(words), words, layouts, segment })
    }

    /// Returns the descriptor of the channel.
    pub(super) fn descriptor(&self) -> Descriptor {
        let (dtype, layout) = self.segment.described();
        Descriptor {
            segment: self.segment.text(),
            generation: self.segment.generation(),
            dtype: dtype.clone(),
            layout: layout.clone(),
            ticket: None,
        }
    }

    /// Returns the layout of the array in a slot, if all have the channel's shape.
    pub(super) fn fixed_layout(&self, slot: u32) -> &Layout {
        self.layouts.get(slot as usize).unwrap_or(self.segment.described().1)
    }

    /// Moves a layout from the first slot to another.
    pub(super) fn in_slot(&self, slot: u32, first: Layout) -> Layout {
        debug_assert!(slot < self.words.layout().slots, "the ring looks at no other");
        Layout { offset: u64::from(slot) * self.words.layout().slot_bytes, ..first }
    }

    /// Returns an array over bytes of a slot, which does not keep the slot.
    pub(super) fn bytes(&self, slot: u32, count: u64) -> Result<Array> {
        let (dtype, _) = self.segment.described();
        let first = Layout::contiguous(&[count], dtype.itemsize(), Order::C)?;
        let segment = Arc::clone(&self.segment);
        Ok(Array::of(segment, dtype.clone(), self.in_slot(slot, first)))
    }

    /// Returns the layout, in the first slot, of a message with this shape; without a shape, of one
    /// with the channel's. Returns `None` if all messages of the channel have one layout.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the channel does not allow the shape.
    pub(super) fn checked_layout(&self, shape: Option<&[u64]>) -> Result<Option<Layout>> {
        let (dtype, described) = self.segment.described();
        let wrong = |reason: String| Err(Error::argument("shape", reason));
        let payload = self.words.layout().payload;
        if payload == Payload::Fixed && shape.is_none_or(|shape| *shape == described.shape) {
            return Ok(None);
        }
        let shape = shape.unwrap_or(&described.shape);
        match payload {
            Payload::Fixed => {
                wrong(format!("{shape:?} is not the channel's {:?}", described.shape))
            }
            Payload::Handle => wrong("messages of this channel are handles".to_owned()),
            Payload::Varying => {
                let room = described.len() * dtype.itemsize();
                match Layout::contiguous(shape, dtype.itemsize(), Order::C) {
                    _ if shape.len() > SLOT_NDIM => {
                        wrong(format!("{} dimensions are more than {SLOT_NDIM}", shape.len()))
                    }
                    Ok(layout) if layout.check(dtype.itemsize(), room).is_ok() => Ok(Some(layout)),
                    _ => wrong(format!(
                        "{shape:?} does not fit the {room} bytes of {:?}",
                        described.shape
                    )),
                }
            }
        }
    }

    /// Returns the number of a message for people.
    pub(super) fn sequence(&self, number: u64) -> u64 {
        number.wrapping_sub(u64::from(self.words.layout().ring_words))
    }

    /// Whether the last sender died.
    pub(super) fn has_last_sender_died(&self) -> bool {
        self.words.left().load(Acquire) == LEFT_BY_DEATH
    }

    pub(super) fn wake_receivers(&self) {
        match self.words.layout() {
            layout if layout.is_followed => wait::wake_unseen(self.words.published()),
            layout => wait::wake(self.words.published(), layout.mode != ChannelMode::Queue),
        }
    }

    pub(super) fn wake_senders(&self) {
        wait::wake(self.words.freed(), false);
    }

    /// Closes the ends of this process, which exits. They stay until it is dead: its other threads
    /// may be inside the channel.
    pub(super) fn close_at_exit(segment: &Segment) {
        let owner = system::process_owner(segment.directory());
        let (Some(words), Some(owner)) = (segment.channel_words(), owner) else { return };
        for end in 0..words.layout().ends {
            if words.entry(end).owner.load(Acquire) == owner.id << 1 | HELD {
                close_end(&words, end);
            }
        }
    }
}

/// Records that an end does nothing any more, except that it keeps what it has.
pub(super) fn close_end(words: &ChannelWords, end: u32) {
    Ends::new(*words).leave(end);
    wake_all(words);
}

/// Wakes everybody, after an end has left.
pub(super) fn wake_all(words: &ChannelWords) {
    fence(SeqCst); // C5
    wait::wake(words.published(), true);
    wait::wake(words.freed(), true);
}
