//! Receiving a message: a view of its slot, or the array that its handle names.

use std::sync::Arc;
use std::time::Duration;

use super::end::End;
use super::event::Source;
use super::handle_text;
use super::hold::SlotHold;
use super::ring::{Found, Taken};
use super::slot::{Meta, SlotHead};
use super::wait::{self, Look};
use crate::array::Array;
use crate::control::Ordering::{Acquire, Relaxed};
use crate::error::Result;
use crate::format::{ChannelMode, Payload, now_ns};

/// One message in so many has its latency measured.
const MEASURED: u64 = 16;

/// The outcome of an attempt to receive from a channel.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
#[non_exhaustive]
pub enum Delivered {
    /// A message.
    Message(View),
    /// No message came in that time.
    TimedOut,
    /// No process sends any more, and all that was sent has been received.
    #[non_exhaustive]
    Ended {
        /// Whether the last sender died without closing.
        died: bool,
    },
}

/// A message that was received: a view of it in its slot, which it keeps until it is dropped.
#[derive(Debug)]
pub struct View {
    array: Array,
    time_ns: u64,
    meta: Meta,
    sequence: u64,
    missed: u64,
    /// The slot, unless the array lies elsewhere: the message was a handle, or is a copy.
    hold: Option<Arc<SlotHold>>,
}

impl View {
    /// A copy of a message that this process may not hold.
    pub(super) fn copied(array: Array, head: &SlotHead, sequence: u64, missed: u64) -> Self {
        Self { array, time_ns: head.time_ns, meta: head.meta, sequence, missed, hold: None }
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
    /// `None` if it lies elsewhere: the message was a handle, or is a copy.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.hold.as_ref().map(|hold| hold.taken.slot)
    }

    /// Gives the slot back, also if clones or views of its array exist. They must not be used from
    /// then on.
    pub fn release(self) {
        if let Some(hold) = &self.hold {
            hold.give_back();
        }
    }
}

/// Receives a message, and waits for one.
pub(super) fn receive(end: &Arc<End>, timeout: Option<Duration>) -> Result<Delivered> {
    end.become_receiver();
    let mut missed = 0;
    let mut delivered = Delivered::TimedOut;
    let waited = wait::wait(end.words.published(), end.spins(), timeout, |may_sleep| {
        end.check_open()?;
        if take(end, &mut missed, &mut delivered)? {
            return Ok(Look::Found(()));
        }
        if !may_sleep {
            return Ok(Look::Nothing);
        }
        end.recover_if_due();
        if end.has_no_senders() {
            // A sender publishes before it leaves.
            if !take(end, &mut missed, &mut delivered)? {
                delivered = Delivered::Ended { died: end.has_last_sender_died() };
            }
            return Ok(Look::Found(()));
        }
        Ok(Look::Nothing)
    });
    waited.inspect_err(|_| end.keep_missed(missed))?;
    match delivered {
        Delivered::Message(_) => end.clear_event(),
        Delivered::TimedOut => {
            end.clear_event();
            end.keep_missed(missed);
        }
        Delivered::Ended { .. } => {}
    }
    Ok(delivered)
}

/// Takes the next message if there is one, and adds to the count of those that were missed. Returns
/// whether there was one.
fn take(end: &Arc<End>, missed: &mut u64, delivered: &mut Delivered) -> Result<bool> {
    loop {
        let undelivered = end.undelivered.take_oldest();
        let found = undelivered.or_else(|| match end.words.layout().mode {
            ChannelMode::Queue => end.ring.take(end.index),
            ChannelMode::Broadcast => next(end, missed),
        });
        let Some(taken) = found else { return Ok(false) };
        if end.words.layout().mode == ChannelMode::Queue {
            let dropped = end.take_dropped();
            if dropped > 0 {
                *missed = missed.saturating_add(dropped);
                end.words.missed(end.index).add(dropped as i64);
            }
        }
        let hold = SlotHold::of_message(end, taken);
        let head = SlotHead::read(&end.words, taken.slot);
        let array = array(end, &hold, &head).inspect_err(|_| {
            if hold.take() {
                end.undelivered.push(taken);
            }
            end.keep_missed(std::mem::take(missed));
        });
        let Some(array) = array? else {
            *missed += 1; // the array of a handle is gone: somebody else removed its memory
            continue;
        };
        end.note_message(taken.number);
        end.words.count(end.index).add(1);
        if taken.number % MEASURED == 0 {
            let latency = now_ns().saturating_sub(head.time_ns);
            end.words.latency(end.index).store(latency, Relaxed);
        }
        let is_elsewhere = end.words.layout().payload == Payload::Handle;
        *delivered = Delivered::Message(View {
            array,
            time_ns: head.time_ns,
            meta: head.meta,
            sequence: end.sequence(taken.number),
            missed: std::mem::take(missed).saturating_add(end.take_kept_missed()),
            hold: (!is_elsewhere).then_some(hold),
        });
        return Ok(true);
    }
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

/// Returns the array of a message. `None` if it was one of a handle, and is gone.
fn array(end: &Arc<End>, hold: &Arc<SlotHold>, head: &SlotHead) -> Result<Option<Array>> {
    match end.words.layout().payload {
        Payload::Fixed => hold.array(&end.segment.described().1.shape).map(Some),
        Payload::Varying => hold.array(end.checked_shape(Some(&head.shape))?).map(Some),
        Payload::Handle => {
            let attached = handle_text::attach(end, hold.taken.slot)?;
            if attached.is_some() {
                hold.give_back();
            }
            Ok(attached)
        }
    }
}
