//! Receiving a message: a view of its slot, or the array that its handle names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::end::{End, InUse};
use super::event::Readiness;
use super::handle_text;
use super::head::{Meta, SlotHead};
use super::ring::{Found, Taken};
use super::wait::{self, Look};
use crate::array::Array;
use crate::header::control::Ordering::{Acquire, Relaxed};
use crate::header::format::{ChannelMode, Payload, now_ns};
use crate::value::error::Result;

/// One message in so many has its latency measured.
const MEASURED: u64 = 16;

/// The outcome of an attempt to receive from a channel.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
#[non_exhaustive]
pub enum Delivered {
    /// A message.
    Message(Delivery),
    /// No message came in that time.
    TimedOut,
    /// No process sends any more, and all that was sent has been received.
    #[non_exhaustive]
    Ended {
        /// Whether the last sender died without closing.
        died: bool,
    },
}

impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message(_) => "a message was received",
            Self::TimedOut => "no message came in that time",
            Self::Ended { died: false } => "the stream has ended: every sender has closed",
            Self::Ended { died: true } => "the stream has ended: the last sender died",
        })
    }
}

/// A message that was received: it lies in its slot, which it keeps until it is dropped.
#[derive(Debug)]
pub struct Delivery {
    array: Array,
    /// The slot in which the array lies. `None` if the message was a handle, or is a copy.
    in_slot: Option<InUse>,
    time_ns: u64,
    meta: Meta,
    sequence: u64,
    missed: u64,
}

impl Delivery {
    /// A copy of a message that this process may not hold.
    pub(super) fn copied(array: Array, head: &SlotHead, sequence: u64, missed: u64) -> Self {
        let in_slot = None;
        Self { array, in_slot, time_ns: head.time_ns, meta: head.meta, sequence, missed }
    }

    /// Returns the array. Its clones and views keep the slot, too.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Returns the number of the message: 0 for the first of a channel, and 1 more for each
    /// message after it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns when the message was published, in nanoseconds since 1970.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Returns the bytes that were sent beside the array.
    #[must_use]
    pub fn meta(&self) -> &[u8] {
        self.meta.as_bytes()
    }

    /// Returns how many messages were dropped since the one that was received before. In a queue
    /// one of the receivers is told of each.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the number of the slot in which the array lies, below that of the channel's slots.
    /// `None` if it lies in no slot: the message was a handle, or is a copy.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.in_slot.as_ref().map(InUse::slot)
    }

    /// Gives the slot back, also if clones or views of its array exist. They must not be used from
    /// then on.
    pub fn release(self) {
        self.in_slot.iter().for_each(InUse::give_back);
    }
}

/// A message that is the handle of an array. Its slot was given back.
struct ByHandle {
    array: Array,
    head: SlotHead,
}

/// Receives a message, and waits for one.
pub(super) fn receive(end: Arc<End>, timeout: Option<Duration>) -> Result<Delivered> {
    end.become_receiver();
    let mut missed = 0;
    let mut by_handle = None;
    let waited = wait::wait(end.words.published(), end.spins(), timeout, |may_sleep| {
        end.check_open()?;
        let mut take = || take(&end, &mut missed, &mut by_handle);
        if let Some(taken) = take()? {
            return Ok(Look::Found(Some(taken)));
        }
        if !may_sleep {
            return Ok(Look::Nothing);
        }
        end.recover_if_due();
        if end.has_no_senders() {
            return take().map(Look::Found); // a sender publishes before it leaves
        }
        Ok(Look::Nothing)
    });
    match waited.inspect_err(|_| end.keep_missed(missed))? {
        Some(Some(taken)) => {
            end.clear_event();
            delivery(end, taken, by_handle, missed).map(Delivered::Message)
        }
        Some(None) => {
            end.keep_missed(missed);
            Ok(Delivered::Ended { died: end.has_last_sender_died() })
        }
        None => {
            end.clear_event();
            end.keep_missed(missed);
            Ok(Delivered::TimedOut)
        }
    }
}

/// Takes the next message if there is one, and adds to the count of those that were missed.
fn take(
    end: &Arc<End>,
    missed: &mut u64,
    by_handle: &mut Option<ByHandle>,
) -> Result<Option<Taken>> {
    loop {
        let undelivered = end.slots.take_undelivered();
        let found = undelivered.or_else(|| match end.words.layout().mode {
            ChannelMode::Queue => end.ring.take(end.index),
            ChannelMode::Broadcast => next(end, missed),
        });
        let Some(taken) = found else { return Ok(None) };
        if end.words.layout().mode == ChannelMode::Queue {
            let dropped = end.take_dropped();
            if dropped > 0 {
                *missed = missed.saturating_add(dropped);
                end.words.missed(end.index).add(dropped as i64);
            }
        }
        if end.words.layout().payload != Payload::Handle {
            return Ok(Some(taken));
        }
        let head = SlotHead::read(&end.words, taken.slot);
        let attached = handle_text::attach(end, taken.slot);
        let array = attached.inspect_err(|_| end.slots.push_undelivered(taken))?;
        end.give_back(taken);
        if let Some(array) = array {
            *by_handle = Some(ByHandle { array, head });
            return Ok(Some(taken));
        }
        *missed += 1; // the array is gone: somebody else removed its memory
    }
}

/// Returns the delivery of a message that an end has taken.
fn delivery(
    end: Arc<End>,
    taken: Taken,
    by_handle: Option<ByHandle>,
    missed: u64,
) -> Result<Delivery> {
    let (array, head) = match by_handle {
        Some(ByHandle { array, head }) => (Some(array), head),
        None => (None, SlotHead::read(&end.words, taken.slot)),
    };
    let first = match end.words.layout().payload {
        Payload::Varying => end.checked_layout(Some(&head.shape)),
        Payload::Fixed | Payload::Handle => Ok(None),
    };
    let first = first.inspect_err(|_| {
        end.slots.push_undelivered(taken);
        end.keep_missed(missed);
    })?;
    end.note_message(taken.number);
    end.count_message();
    if taken.number.is_multiple_of(MEASURED) {
        let latency = now_ns().saturating_sub(head.time_ns);
        end.words.latency(end.index).store(latency, Relaxed);
    }
    let sequence = end.sequence(taken.number);
    let missed = missed.saturating_add(end.take_kept_missed());
    let (array, in_slot) = match array {
        Some(array) => (array, None),
        None => {
            let (in_slot, array) = InUse::begin(end, taken, first);
            (array, Some(in_slot))
        }
    };
    Ok(Delivery { array, in_slot, time_ns: head.time_ns, meta: head.meta, sequence, missed })
}

/// Receives the next message of a broadcast.
fn next(end: &End, missed: &mut u64) -> Option<Taken> {
    let _receiving = end.receiving.lock();
    loop {
        let number = end.words.cursor(end.index).load(Acquire);
        match end.ring.receive(end.index, number) {
            Found::Nothing => return None,
            Found::Message(taken) => return Some(taken),
            Found::Missed(count) => {
                *missed = missed.saturating_add(count);
                end.words.missed(end.index).add(count as i64);
                end.wake_senders(); // one may have seen the slot pinned for a moment
            }
        }
    }
}
