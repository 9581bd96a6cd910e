//! Slots on loan: taken without a message, filled in place, and published.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::end::{End, InUse};
use super::handle_text;
use super::head;
use super::ring::Taken;
use super::wait::{self, Look};
use crate::array::Array;
use crate::header::format::{ChannelMode, Payload, WhenFull};
use crate::memory::operation::Operation;
use crate::system;
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};
use crate::value::name::ArrayName;
use crate::value::shape::Layout;

/// The outcome of a request for a slot.
#[derive(Debug)]
#[non_exhaustive]
pub enum Loaned {
    /// A slot to fill.
    Loan(Loan),
    /// No slot was free in that time.
    TimedOut,
    /// No slot is free, and the channel was created with [`WhenFull::Error`].
    Full,
}

/// The outcome of an attempt to send an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Posted {
    /// The message was published, with this sequence number.
    Posted(u64),
    /// No slot was free in that time.
    TimedOut,
    /// No slot is free, and the channel was created with [`WhenFull::Error`].
    Full,
}

/// The texts of the outcomes without a slot, for [`Loaned`] and [`Posted`].
const TIMED_OUT: &str = "no slot was free in that time";
const FULL: &str = "no slot of the channel is free";

impl fmt::Display for Loaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loan(_) => "a slot is on loan",
            Self::TimedOut => TIMED_OUT,
            Self::Full => FULL,
        })
    }
}

impl fmt::Display for Posted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Posted(_) => "the message was published",
            Self::TimedOut => TIMED_OUT,
            Self::Full => FULL,
        })
    }
}

/// A slot that a sender fills in place. Dropped without [`publish`](Self::publish) it is given
/// back, and nobody receives anything.
#[derive(Debug)]
pub struct Loan {
    /// It lies in the slot.
    array: Array,
}

impl Loan {
    /// Returns the array to fill. Its elements are what the slot's last message left. Clones and
    /// views of it must not be written after it was published: receivers read it.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Returns the number of the slot, below that of the channel's slots.
    #[must_use]
    pub fn slot(&self) -> u32 {
        InUse::of(&self.array).map_or(0, |in_use| in_use.slot()) // it lies in a slot
    }

    /// Whether clones or views of its array exist.
    #[must_use]
    pub fn has_views(&self) -> bool {
        InUse::of(&self.array).is_some_and(|in_use| in_use.has_several_arrays())
    }

    /// Publishes the array, with at most [`MAX_META_BYTES`](crate::MAX_META_BYTES) bytes beside it.
    /// Returns the sequence number of the message; the first of a channel has 0.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the metadata is too long. The slot is given back then.
    pub fn publish(self, meta: &[u8]) -> Result<u64> {
        head::check_meta(meta)?;
        let layout = self.array.layout();
        self.publish_payload(meta, &layout.shape, layout.len() * self.array.dtype().itemsize())
    }

    /// Publishes a payload of so many bytes.
    fn publish_payload(&self, meta: &[u8], shape: &[u64], payload_bytes: u64) -> Result<u64> {
        let in_use = InUse::of(&self.array);
        let taken = in_use.and_then(|in_use| in_use.end().map(|taken| (in_use.end, taken)));
        let (end, taken) = taken.ok_or_else(|| {
            Error::argument("loan", "it is the parent's of this process, or given back")
        })?;
        let shape = match end.words.layout().payload {
            Payload::Varying => shape,
            Payload::Fixed | Payload::Handle => &[],
        };
        head::write((&end.words, taken.slot), system::realtime_ns(), meta, shape, payload_bytes);
        let number = end.publish(taken);
        end.count_message();
        end.wake_receivers();
        Ok(end.sequence(number))
    }

    /// Gives the slot back, also if clones or views of its array exist. They must not be used from
    /// then on.
    pub fn cancel(self) {
        InUse::of(&self.array).iter().for_each(InUse::give_back);
    }
}

/// Lends a slot with an array of a shape; without one, of the channel's.
pub(super) fn loan(
    end: Arc<End>,
    shape: Option<&[u64]>,
    timeout: Option<Duration>,
) -> Result<Loaned> {
    let layout = match (end.words.layout().payload, shape) {
        (Payload::Fixed, None) => None,
        (Payload::Handle, _) => {
            let reason = "its messages are handles: send a shared array";
            return Err(Error::argument("channel", reason));
        }
        _ => end.checked_layout(shape)?,
    };
    lend(end, layout, timeout)
}

/// Waits until a loan would not wait. Returns whether that is so. The slot that it finds is given
/// back, which wakes the next sender.
pub(super) fn wait_until_free(end: Arc<End>, timeout: Option<Duration>) -> Result<bool> {
    let layout = match end.words.layout().payload {
        Payload::Handle => None,
        Payload::Fixed | Payload::Varying => end.checked_layout(None)?,
    };
    match lend(end, layout, timeout)? {
        Loaned::Loan(loan) => loan.cancel(),
        Loaned::TimedOut => return Ok(false),
        Loaned::Full => (), // a loan would say so at once
    }
    Ok(true)
}

/// Sends the handle of an array, with a ticket that holds it.
pub(super) fn send_handle(
    end: Arc<End>,
    array: &Array,
    meta: &[u8],
    timeout: Option<Duration>,
) -> Result<Posted> {
    head::check_meta(meta)?;
    let operation = Operation::enter()?;
    let loan = match lend(Arc::clone(&end), None, timeout)? {
        Loaned::Loan(loan) => loan,
        Loaned::TimedOut => return Ok(Posted::TimedOut),
        Loaned::Full => return Ok(Posted::Full),
    };
    loop {
        let ticket = system::ticket_of(end.segment.directory(), end.words.layout().family)?;
        let descriptor = Descriptor { ticket: Some(ticket.id), ..array.descriptor() };
        let text = descriptor.to_handle();
        // The text comes first: whoever recovers the slot gives back the ticket that it finds.
        handle_text::write(&end, loan.slot(), text.as_bytes())?;
        if array.hold_for_message(operation, ticket)? {
            let published = loan.publish_payload(meta, &[], text.len() as u64);
            return published.map(Posted::Posted);
        }
    }
}

/// Takes a slot, and waits for one if the channel is made so.
fn lend(end: Arc<End>, layout: Option<Layout>, timeout: Option<Duration>) -> Result<Loaned> {
    end.become_sender();
    let taken = match take(&end) {
        Some(taken) => taken,
        None if end.words.layout().when_full == WhenFull::Error => {
            end.recover();
            let Some(taken) = take(&end) else { return Ok(Loaned::Full) };
            taken
        }
        None => {
            let Some(taken) = wait_for_slot(&end, timeout)? else { return Ok(Loaned::TimedOut) };
            taken
        }
    };
    if end.words.layout().payload == Payload::Handle {
        handle_text::discard(&end, taken.slot); // what the last message there held
    }
    Ok(Loaned::Loan(Loan { array: InUse::begin(end, taken, layout) }))
}

/// Takes a slot as soon as there is one.
#[cold]
fn wait_for_slot(end: &End, timeout: Option<Duration>) -> Result<Option<Taken>> {
    wait::wait(end.words.freed(), &end.slot_spins, timeout, |may_sleep| {
        end.check_open()?;
        let found = take(end).or_else(|| {
            let has_recovered = may_sleep && end.recover_if_due();
            if has_recovered { take(end) } else { None }
        });
        if found.is_none() && may_sleep {
            say_if_nobody_receives(end);
        }
        Ok(found.map_or(Look::Nothing, Look::Found))
    })
}

/// Says once, after a while, that the wait for a slot may be for ever.
fn say_if_nobody_receives(end: &End) {
    let layout = end.words.layout();
    let next = end.ring.next_number();
    if layout.when_full != WhenFull::Block || end.ends.has_receivers() {
        return;
    }
    if end.unreceived.note(next, system::monotonic_ns()) {
        eprintln!(
            "shmarray: a sender waits for a slot of the channel {:?}: all {} are taken, and nobody \
             receives. A channel that is created with when_full=drop_oldest drops the oldest \
             message instead, and a timeout ends the wait.",
            end.segment.name().map_or("", ArrayName::as_str),
            layout.slots
        );
    }
}

/// Takes a slot if there is one, or if a message may be dropped for it.
fn take(end: &End) -> Option<Taken> {
    let index = end.index;
    let layout = end.words.layout();
    let free = || end.ring.loan(index, |slot| end.ends.is_pinned(slot));
    let drops = layout.when_full == WhenFull::DropOldest;
    match layout.mode {
        ChannelMode::Queue => end.take_free().or_else(|| {
            let oldest = drops.then(|| end.ring.loan_oldest(index)).flatten();
            oldest.inspect(|_| _ = end.words.dropped().add(1))
        }),
        ChannelMode::Broadcast => loop {
            if let Some(taken) = free() {
                return Some(taken);
            }
            if !end.ring.drop_oldest(|number| drops || end.ends.has_everybody_passed(number)) {
                return None;
            }
        },
        ChannelMode::Latest => {
            end.ring.drop_all_but_latest();
            let taken = free()?; // a slot that may be pinned, if there is one: they come first
            if taken.slot >= layout.pinnable() {
                end.recover_if_due(); // a dead receiver may have the others pinned
            }
            Some(taken)
        }
    }
}
