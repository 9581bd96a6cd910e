//! Slots on loan: taken without a message, filled in place, and published.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::end::{End, InUse};
use super::handle_text;
use super::head::{self, Meta};
use super::ring::Taken;
use super::wait::{self, Look};
use crate::array::Array;
use crate::header::format::{ChannelMode, Payload, WhenFull, now_ns};
use crate::memory::operation::Operation;
use crate::system;
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};
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
    array: Array,
    in_slot: InUse,
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
        self.in_slot.slot()
    }

    /// Whether clones or views of its array exist.
    #[must_use]
    pub fn has_views(&self) -> bool {
        self.in_slot.has_several_arrays()
    }

    /// Publishes the array, with at most [`MAX_META_BYTES`](crate::MAX_META_BYTES) bytes beside it.
    /// Returns the sequence number of the message; the first of a channel has 0.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the metadata is too long. The slot is given back then.
    pub fn publish(self, meta: &[u8]) -> Result<u64> {
        let bytes = self.array.layout().len() * self.array.dtype().itemsize();
        let meta = Meta::new(meta)?;
        self.publish_payload(&meta, self.array.shape(), bytes)
    }

    /// Publishes a payload of so many bytes.
    fn publish_payload(&self, meta: &Meta, shape: &[u64], payload_bytes: u64) -> Result<u64> {
        let taken = self.in_slot.end().ok_or_else(|| {
            Error::argument("loan", "it is the parent's of this process, or given back")
        })?;
        let end = &self.in_slot.end;
        let shape = match end.words.layout().payload {
            Payload::Varying => shape,
            Payload::Fixed | Payload::Handle => &[],
        };
        head::write((&end.words, taken.slot), now_ns(), meta, shape, payload_bytes);
        let number = end.ring.publish(taken);
        end.count_message();
        end.wake_receivers();
        Ok(end.sequence(number))
    }

    /// Gives the slot back, also if clones or views of its array exist. They must not be used from
    /// then on.
    pub fn cancel(self) {
        self.in_slot.give_back();
    }
}

/// Lends a slot with an array of a shape; without one, of the channel's.
pub(super) fn loan(
    end: Arc<End>,
    shape: Option<&[u64]>,
    timeout: Option<Duration>,
) -> Result<Loaned> {
    if end.words.layout().payload == Payload::Handle {
        return Err(Error::argument("channel", "its messages are handles: send a shared array"));
    }
    let layout = end.checked_layout(shape)?;
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
    meta: Meta,
    timeout: Option<Duration>,
) -> Result<Posted> {
    let operation = Operation::enter()?;
    let loan = match lend(end, None, timeout)? {
        Loaned::Loan(loan) => loan,
        Loaned::TimedOut => return Ok(Posted::TimedOut),
        Loaned::Full => return Ok(Posted::Full),
    };
    let end = &loan.in_slot.end;
    loop {
        let ticket = system::ticket_of(end.segment.directory(), end.words.layout().family)?;
        let descriptor = Descriptor { ticket: Some(ticket.id), ..array.descriptor() };
        let text = descriptor.to_handle();
        // The text comes first: whoever recovers the slot gives back the ticket that it finds.
        handle_text::write(end, loan.slot(), text.as_bytes())?;
        if array.hold_for_message(operation, ticket)? {
            let published = loan.publish_payload(&meta, &[], text.len() as u64);
            return published.map(Posted::Posted);
        }
    }
}

/// Takes a slot, and waits for one if the channel is made so.
fn lend(end: Arc<End>, layout: Option<Layout>, timeout: Option<Duration>) -> Result<Loaned> {
    end.become_sender();
    let must_not_wait = end.words.layout().when_full == WhenFull::Error;
    let found = if must_not_wait {
        let first = take(&end);
        first.or_else(|| {
            end.recover();
            take(&end)
        })
    } else {
        wait::wait(end.words.freed(), &end.slot_spins, timeout, |may_sleep| {
            end.check_open()?;
            let found = take(&end).or_else(|| {
                let has_recovered = may_sleep && end.recover_if_due();
                if has_recovered { take(&end) } else { None }
            });
            Ok(found.map_or(Look::Nothing, Look::Found))
        })?
    };
    let Some(taken) = found else {
        return Ok(if must_not_wait { Loaned::Full } else { Loaned::TimedOut });
    };
    if end.words.layout().payload == Payload::Handle {
        handle_text::discard(&end, taken.slot); // what the last message there held
    }
    let (in_slot, array) = InUse::begin(end, taken, layout);
    Ok(Loaned::Loan(Loan { array, in_slot }))
}

/// Takes a slot if there is one, or if a message may be dropped for it.
fn take(end: &End) -> Option<Taken> {
    let index = end.index;
    let layout = end.words.layout();
    let free = || end.ring.loan(index, |slot| end.ends.is_pinned(slot));
    let drops = layout.when_full == WhenFull::DropOldest;
    match layout.mode {
        ChannelMode::Queue => free().or_else(|| {
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
