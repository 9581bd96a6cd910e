//! Receiving a message: a view of its slot, or the array that its handle names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::end::{End, InUse};
use super::event::Readiness;
use super::handle_text;
use super::head::{Meta, SlotHead};
use super::ring::{Found, Latest, Taken};
use super::wait::{self, Look};
use crate::array::{Array, Options};
use crate::header::control::Ordering::{Acquire, Relaxed};
use crate::header::format::{ChannelMode, Payload};
use crate::system;
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
            Self::Ended { died: false } => ENDED,
            Self::Ended { died: true } => ENDED_BY_DEATH,
        })
    }
}

/// The outcome of a wait for a newer value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// There is a newer value.
    Newer,
    /// No newer value came in that time.
    TimedOut,
    /// No process sends any more, and there is no newer value.
    #[non_exhaustive]
    Ended {
        /// Whether the last sender died without closing.
        died: bool,
    },
}

impl fmt::Display for WaitOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Newer => "there is a newer value",
            Self::TimedOut => "no newer value came in that time",
            Self::Ended { died: false } => ENDED,
            Self::Ended { died: true } => ENDED_BY_DEATH,
        })
    }
}

/// The texts of the end of a stream, for [`Delivered`] and [`WaitOutcome`].
const ENDED: &str = "the stream has ended: every sender has closed";
const ENDED_BY_DEATH: &str = "the stream has ended: the last sender died";

/// A message that was received: it lies in its slot, which it keeps until it is dropped.
#[derive(Debug)]
pub struct Delivery {
    /// It lies in the slot, unless the message was a handle, or is a copy.
    array: Array,
    time_ns: u64,
    meta: Meta,
    sequence: u64,
    missed: u64,
}

impl Delivery {
    /// A copy of a message that this process may not hold.
    pub(super) fn copied(array: Array, head: &SlotHead, sequence: u64, missed: u64) -> Self {
        Self { array, time_ns: head.time_ns, meta: head.meta, sequence, missed }
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

    /// Returns the time since the message was published, by the system's clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_nanos(system::realtime_ns().saturating_sub(self.time_ns))
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
        InUse::of(&self.array).map(|in_use| in_use.slot())
    }

    /// Gives the slot back, also if clones or views of its array exist. They must not be used from
    /// then on.
    pub fn release(self) {
        InUse::of(&self.array).iter().for_each(InUse::give_back);
    }
}

/// The array of a message that does not lie in its slot, and the message's head: the message is the
/// handle of the array, or the array is a copy.
struct OutOfSlot {
    array: Array,
    head: SlotHead,
}

/// Waits until the latest value is newer than the one with a sequence number, or than none.
pub(super) fn wait_newer(
    end: &Arc<End>,
    sequence: Option<u64>,
    timeout: Option<Duration>,
) -> Result<WaitOutcome> {
    end.become_receiver();
    let first = u64::from(end.words.layout().ring_words);
    let number = sequence.map_or(first, |sequence| sequence.saturating_add(first + 1));
    let waited = wait::wait(end.words.published(), end.spins(), timeout, |may_sleep| {
        end.check_open()?;
        if end.ring.has_published(number) {
            return Ok(Look::Found(WaitOutcome::Newer));
        }
        if !may_sleep {
            return Ok(Look::Nothing);
        }
        end.recover_if_due();
        Ok(match end.has_no_senders() {
            // A sender publishes before it leaves.
            true if end.ring.has_published(number) => Look::Found(WaitOutcome::Newer),
            true => Look::Found(WaitOutcome::Ended { died: end.has_last_sender_died() }),
            false => Look::Nothing,
        })
    });
    waited.map(|awaited| awaited.unwrap_or(WaitOutcome::TimedOut))
}

/// Receives a message, and waits for one.
pub(super) fn receive(end: Arc<End>, timeout: Option<Duration>) -> Result<Delivered> {
    end.become_receiver();
    let mut missed = 0;
    let mut out_of_slot = None;
    let first = take(&end, &mut missed, &mut out_of_slot);
    let found = match first {
        Ok(None) => wait_for_message(&end, timeout, &mut missed, &mut out_of_slot),
        first => first.map(Some),
    };
    match found.inspect_err(|_| end.keep_missed(missed))? {
        Some(Some(taken)) => {
            end.clear_event();
            delivery(end, taken, out_of_slot, missed).map(Delivered::Message)
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

/// Takes the next message as soon as there is one: `None` in that time, `Some(None)` if the stream
/// has ended.
#[cold]
fn wait_for_message(
    end: &Arc<End>,
    timeout: Option<Duration>,
    missed: &mut u64,
    out_of_slot: &mut Option<OutOfSlot>,
) -> Result<Option<Option<Taken>>> {
    wait::wait(end.words.published(), end.spins(), timeout, |may_sleep| {
        end.check_open()?;
        let mut take = || take(end, missed, out_of_slot);
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
    })
}

/// Takes the next message if there is one, and adds to the count of those that were missed.
#[inline]
fn take(
    end: &Arc<End>,
    missed: &mut u64,
    out_of_slot: &mut Option<OutOfSlot>,
) -> Result<Option<Taken>> {
    if end.words.layout().mode == ChannelMode::Latest {
        return take_latest(end, missed, out_of_slot);
    }
    loop {
        let undelivered = end.slots.take_undelivered();
        let found = undelivered.or_else(|| match end.words.layout().mode {
            ChannelMode::Queue => end.ring.take(end.index),
            ChannelMode::Broadcast | ChannelMode::Latest => next(end, missed),
        });
        let Some(taken) = found else { return Ok(None) };
        end.note_message(taken.number);
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
            *out_of_slot = Some(OutOfSlot { array, head });
            return Ok(Some(taken));
        }
        *missed += 1; // the array is gone: somebody else removed its memory
    }
}

/// Returns the delivery of a message that an end has taken.
#[inline]
fn delivery(
    end: Arc<End>,
    taken: Taken,
    out_of_slot: Option<OutOfSlot>,
    missed: u64,
) -> Result<Delivery> {
    let (array, head) = match out_of_slot {
        Some(OutOfSlot { array, head }) => (Some(array), head),
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
    end.count_message();
    if taken.number.is_multiple_of(MEASURED) {
        let latency = system::realtime_ns().saturating_sub(head.time_ns);
        end.words.latency(end.index).store(latency, Relaxed);
    }
    let sequence = end.sequence(taken.number);
    let missed = missed.saturating_add(end.take_kept_missed());
    let array = array.unwrap_or_else(|| InUse::begin(end, taken, first));
    Ok(Delivery { array, time_ns: head.time_ns, meta: head.meta, sequence, missed })
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
                count_missed(end, end.missed_of(number, count), missed);
                end.wake_senders(); // one may have seen the slot pinned for a moment
            }
        }
    }
}

fn count_missed(end: &End, count: u64, missed: &mut u64) {
    if count > 0 {
        *missed = missed.saturating_add(count);
        end.words.missed(end.index).add(count as i64);
    }
}

/// Takes the latest value, which it pins, or copies if it may not be pinned.
fn take_latest(
    end: &Arc<End>,
    missed: &mut u64,
    out_of_slot: &mut Option<OutOfSlot>,
) -> Result<Option<Taken>> {
    if let Some(earlier) = end.slots.take_undelivered() {
        end.give_back(earlier);
    }
    let find = || {
        let _receiving = end.receiving.lock();
        end.ring.latest(end.index)
    };
    let taken = loop {
        match find() {
            Latest::Nothing => return Ok(None),
            Latest::Pinned(taken) => break taken,
            Latest::Unpinned(taken) => {
                if let Some(copied) = copy(end, taken)? {
                    *out_of_slot = Some(copied);
                    break taken;
                } // otherwise a later value was published
            }
        }
    };
    end.note_message(taken.number);
    let unseen = end.advance_cursor(taken.number);
    count_missed(end, unseen, missed);
    Ok(Some(taken))
}

/// Copies the latest value. `None` if it was overwritten meanwhile.
#[allow(unsafe_code)]
fn copy(end: &Arc<End>, taken: Taken) -> Result<Option<OutOfSlot>> {
    let head = SlotHead::read(&end.words, taken.slot);
    if !end.ring.is_whole(taken) {
        return Ok(None);
    }
    let first = match end.words.layout().payload {
        Payload::Varying => end.checked_layout(Some(&head.shape))?,
        Payload::Fixed | Payload::Handle => None,
    };
    let fixed = || end.fixed_layout(taken.slot).clone();
    let layout = first.map_or_else(fixed, |first| end.in_slot(taken.slot, first));
    let (dtype, _) = end.segment.described();
    let source = end.segment.data_start().as_ptr();
    // SAFETY: the layout was checked against the slot, which the end keeps mapped. A sender may
    // write there meanwhile: then the bytes are some of its bytes, and are thrown away below.
    let array = unsafe { Array::share(source, dtype.clone(), &layout, &Options::new())? };
    Ok(end.ring.is_whole(taken).then_some(OutOfSlot { array, head }))
}
