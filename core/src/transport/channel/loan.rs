//! Slots on loan: taken without a message, filled in place, and published.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::end::End;
use super::handle_text;
use super::ring::Taken;
use super::slot::{self, Meta};
use super::slot_use;
use super::wait::{self, Look};
use crate::array::{Array, SlotShare};
use crate::header::format::{ChannelMode, Payload, WhenFull, now_ns};
use crate::value::error::{Error, Result};

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
    slot: u32,
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
        self.slot
    }

    /// Publishes the array, with at most [`MAX_META_BYTES`](crate::MAX_META_BYTES) bytes beside it.
    /// Returns the sequence number of the message; the first of a channel has 0.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the metadata is too long. The slot is given back then.
    pub fn publish(self, meta: &[u8]) -> Result<u64> {
        let bytes = self.array.layout().len() * self.array.dtype().itemsize();
        let (share, end) = self.parts().ok_or_else(over)?;
        publish(share, end, Meta::new(meta)?, self.array.shape(), bytes)
    }

    fn parts(&self) -> Option<(&SlotShare, &End)> {
        let share = self.array.slot_share()?;
        Some((share, share.owner()?))
    }

    /// Gives the slot back, also if clones or views of its array exist. They must not be used from
    /// then on.
    pub fn cancel(self) {
        let taken =
            self.parts().and_then(|(share, end)| slot_use::end_use(share, end).zip(Some(end)));
        taken.into_iter().for_each(|(taken, end)| end.give_back(taken));
    }
}

fn over() -> Error {
    Error::argument("loan", "it is the parent's of this process, or given back")
}

/// Publishes a slot whose payload was written.
pub(super) fn publish(
    share: &SlotShare,
    end: &End,
    meta: Meta,
    shape: &[u64],
    payload_bytes: u64,
) -> Result<u64> {
    let taken = slot_use::end_use(share, end).ok_or_else(over)?;
    let shape = match end.words.layout().payload {
        Payload::Varying => shape,
        Payload::Fixed | Payload::Handle => &[],
    };
    slot::write((&end.words, taken.slot), now_ns(), &meta, shape, payload_bytes);
    let number = end.ring.publish(taken);
    end.count_message();
    end.wake_receivers();
    Ok(end.sequence(number))
}

/// The outcome of a request for a slot, before it is an array.
pub(super) enum Slot {
    Taken(Taken),
    TimedOut,
    Full,
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
    Ok(match slot(&end, timeout)? {
        Slot::Taken(taken) => {
            let array = slot_use::array(end, taken, layout);
            let slot = taken.slot;
            Loaned::Loan(Loan { array, slot })
        }
        Slot::TimedOut => Loaned::TimedOut,
        Slot::Full => Loaned::Full,
    })
}

/// Takes a slot, and waits for one if the channel is made so.
pub(super) fn slot(end: &End, timeout: Option<Duration>) -> Result<Slot> {
    end.become_sender();
    let must_not_wait = end.words.layout().when_full == WhenFull::Error;
    let found = if must_not_wait {
        let first = take(end);
        first.or_else(|| {
            end.recover();
            take(end)
        })
    } else {
        wait::wait(end.words.freed(), &end.slot_spins, timeout, |may_sleep| {
            end.check_open()?;
            let found = take(end).or_else(|| {
                let has_recovered = may_sleep && end.recover_if_due();
                if has_recovered { take(end) } else { None }
            });
            Ok(found.map_or(Look::Nothing, Look::Found))
        })?
    };
    Ok(match found {
        Some(taken) => {
            if end.words.layout().payload == Payload::Handle {
                handle_text::discard(end, taken.slot); // what the last message there held
            }
            Slot::Taken(taken)
        }
        None if must_not_wait => Slot::Full,
        None => Slot::TimedOut,
    })
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
    }
}
