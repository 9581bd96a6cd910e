//! Following a broadcast of another user: CHANNELS.md, *follow*.
//!
//! A follower writes nothing and holds nothing. It copies each message, and afterwards looks
//! whether the slot was given to another purpose meanwhile.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::time::Duration;

use super::ends::{LEFT_BY_CLOSE, SENDS, is_held_by_sender, senders_left};
use super::event::{Event, Readiness};
use super::handle_or_name::HandleOrName;
use super::head::SlotHead;
use super::options::Receives;
use super::reader::Reader;
use super::received::{Delivered, Delivery, WaitOutcome};
use super::ring::{Words, read_only};
use super::wait::{self, Look, SleepWord};
use crate::array::{Array, Options};
use crate::header::format::{CHANNEL_OFFSET, ChannelMode, LEFT_OFFSET, PUBLISHED_OFFSET, Payload};
use crate::system::{self, Directory, FutexPage, Mutex};
use crate::transport::spins::Spins;
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, Order};

/// The senders that were gone when the channel was opened.
struct Before {
    /// The number of the senders that had left.
    left: u64,
    /// The entries of the senders that had died, if no process held the segment.
    dead: Vec<u64>,
}

impl Before {
    fn of(reader: &Reader) -> Result<Self> {
        let is_held = reader.file.is_held();
        let ends = entries(reader)?;
        let dead = if is_held { Vec::new() } else { owners_of_senders(&ends) };
        Ok(Self { left: all_left(&ends), dead })
    }
}

/// Reads the entry and the roles of each end.
fn entries(reader: &Reader) -> Result<Vec<(u64, u64)>> {
    Ok(reader.ends()?.iter().map(|end| (end[0], end[2])).collect())
}

fn owners_of_senders(ends: &[(u64, u64)]) -> Vec<u64> {
    let senders = ends.iter().filter(|(owner, roles)| is_held_by_sender(*owner, *roles));
    senders.map(|(owner, _)| *owner).collect()
}

fn all_left(ends: &[(u64, u64)]) -> u64 {
    ends.iter().map(|(_, roles)| senders_left(*roles)).fold(0, u64::wrapping_add)
}

/// A broadcast that this process follows.
pub(super) struct Follower {
    pub(super) reader: Reader,
    page: FutexPage,
    spins: Spins,
    /// The number of the message that it receives next.
    next: AtomicU64,
    /// The number that the next message had when this was opened.
    first_new: u64,
    /// Whether a message was received that was published before this was opened.
    has_old_message: AtomicBool,
    /// The messages that were missed, and that the next delivery tells of.
    missed: AtomicU64,
    before: Before,
    is_closed: AtomicBool,
    /// The fd for event loops, once it was asked for. Locked where no fork can be: a child uses it.
    event: Mutex<Option<Arc<Event>>>,
    /// Locked while a thread makes the event.
    making_event: Mutex<()>,
}

impl Follower {
    /// Opens a broadcast that may be followed, from the next message on.
    pub(super) fn open(
        directory: &Directory,
        sought: &HandleOrName,
        receives: Receives,
    ) -> Result<Self> {
        let reader = Reader::open(directory, sought)?;
        let refuse = |reason: &str| Err(Error::argument("name", reason));
        if reader.layout.mode == ChannelMode::Queue || !reader.layout.is_followed {
            return refuse("the channel is another user's, and was not made to be followed");
        }
        if reader.layout.payload == Payload::Handle {
            return refuse("the channel is another user's, and so are the arrays of its messages");
        }
        let page_bytes = directory.page_bytes();
        let page = reader.file.futex_page(CHANNEL_OFFSET as u64 / page_bytes, page_bytes)?;
        let mode = reader.layout.mode;
        let history = match (receives.history(mode)?.unwrap_or(0), mode) {
            (_, ChannelMode::Latest) => 1,
            (history, _) => u64::from(history),
        };
        let before = Before::of(&reader)?;
        let mut follower = Self {
            reader,
            page,
            spins: Spins::default(),
            next: AtomicU64::new(0),
            first_new: 0,
            has_old_message: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            before,
            is_closed: AtomicBool::new(false),
            event: Mutex::new(None),
            making_event: Mutex::new(()),
        };
        follower.first_new = follower.reader.next_number()?;
        let oldest = u64::from(follower.reader.layout.ring_words);
        let first = follower.first_new.saturating_sub(history).max(oldest);
        follower.next.store(first.min(follower.first_new), atomic::Ordering::Relaxed);
        Ok(follower)
    }

    /// The error for a process that may only read.
    pub(super) fn refuse_to_send(&self) -> Error {
        self.reader.file.not_writable("write")
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(atomic::Ordering::Acquire) {
            Err(Error::argument("channel", "it is closed"))
        } else {
            Ok(())
        }
    }

    /// Receives a message, and waits for one.
    pub(super) fn receive(&self, timeout: Option<Duration>) -> Result<Delivered> {
        let found = wait::wait(self, &self.spins, timeout, |may_sleep| {
            self.check_open()?;
            if let Some(delivery) = self.take()? {
                return Ok(Look::Found(Some(delivery)));
            }
            if may_sleep && self.is_ended()? {
                return Ok(Look::Found(self.take()?));
            }
            Ok(Look::Nothing)
        })?;
        if !matches!(found, Some(None)) {
            self.clear_event();
        }
        Ok(match found {
            Some(Some(delivery)) => Delivered::Message(delivery),
            Some(None) => Delivered::Ended { died: self.has_last_sender_died()? },
            None => Delivered::TimedOut,
        })
    }

    /// Waits until the latest value is newer than the one with a sequence number, or than none.
    pub(super) fn wait_newer(
        &self,
        sequence: Option<u64>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome> {
        let first = u64::from(self.reader.layout.ring_words);
        let number = sequence.map_or(first, |sequence| sequence.saturating_add(first + 1));
        let is_newer = || self.reader.next_number().map(|next| next > number);
        let waited = wait::wait(self, &self.spins, timeout, |may_sleep| {
            self.check_open()?;
            if is_newer()? {
                return Ok(Look::Found(WaitOutcome::Newer));
            }
            if !may_sleep || !self.is_ended()? {
                return Ok(Look::Nothing);
            }
            if is_newer()? {
                return Ok(Look::Found(WaitOutcome::Newer)); // a sender publishes before it leaves
            }
            Ok(Look::Found(WaitOutcome::Ended { died: self.has_last_sender_died()? }))
        });
        waited.map(|awaited| awaited.unwrap_or(WaitOutcome::TimedOut))
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, atomic::Ordering::Release);
        match system::without_fork(|| self.event.lock().take()) {
            Some(event) if event.is_ours() => event.end(),
            inherited => std::mem::forget(inherited), // with its thread
        }
    }

    /// Returns the event, if this process has one.
    fn own_event(&self) -> Option<Arc<Event>> {
        let event = system::without_fork(|| self.event.lock().clone())?;
        if event.is_ours() {
            return Some(event);
        }
        std::mem::forget(event);
        None
    }

    /// Returns the event that is set while a receive need not wait.
    pub(super) fn event(self: &Arc<Self>) -> Result<Arc<Event>> {
        let _making = self.making_event.lock();
        if let Some(event) = self.own_event() {
            return Ok(event);
        }
        let made = Arc::new(Event::new(Arc::clone(self))?);
        let before = system::without_fork(|| self.event.lock().replace(Arc::clone(&made)));
        std::mem::forget(before); // the parent's, with its thread
        Ok(made)
    }

    /// Clears the event if there is one and nothing can be received.
    fn clear_event(&self) {
        if let Some(event) = self.own_event()
            && !self.is_ready(false).unwrap_or(true)
        {
            event.clear();
        }
    }

    /// Whether no process is a sender, and one has left since this was opened.
    fn is_ended(&self) -> Result<bool> {
        let is_held = self.reader.file.is_held();
        let ends = entries(&self.reader)?;
        let senders = owners_of_senders(&ends);
        // A sender may have joined in an entry that was copied already, before the last one left.
        if is_held && (!senders.is_empty() || ends != entries(&self.reader)?) {
            return Ok(false);
        }
        // Only dead senders are left here, since nobody holds the segment.
        let is_new = |owner| !self.before.dead.contains(owner);
        Ok(all_left(&ends) != self.before.left
            || senders.iter().any(is_new)
            || self.has_old_message.load(atomic::Ordering::Relaxed))
    }

    /// Whether the last sender died. Its entry is still held if no process has recovered it.
    fn has_last_sender_died(&self) -> Result<bool> {
        let has_sent = |(owner, roles)| is_held_by_sender(owner, roles) && roles & SENDS != 0;
        Ok(entries(&self.reader)?.into_iter().any(has_sent)
            || self.reader.field(LEFT_OFFSET)? != LEFT_BY_CLOSE)
    }

    /// Copies the next message if there is one, and counts those that were missed.
    fn take(&self) -> Result<Option<Delivery>> {
        if self.reader.layout.mode == ChannelMode::Latest {
            return self.take_latest();
        }
        let ring_words = u64::from(self.reader.layout.ring_words);
        // A sender that is faster than this reader, or an owner who writes nonsense, stops nobody.
        for _ in 0..=ring_words {
            let number = self.next.load(Acquire);
            let ring = self.reader.ring(number)?;
            if read_only::number(ring) < number {
                return Ok(None);
            }
            if read_only::number(ring) == number
                && let Some((array, head)) = self.copy(read_only::slot(ring), number)?
            {
                if !self.goes_on(number, number + 1) {
                    continue; // another thread has received it
                }
                return Ok(Some(self.delivery(array, &head, number)));
            }
            // What is older than a whole ring has gone.
            let next = (number + 1).max((read_only::number(ring) + 1).saturating_sub(ring_words));
            if self.goes_on(number, next) {
                // Those from before the opening are not missed, until one of them was received.
                let has_old = self.has_old_message.load(atomic::Ordering::Relaxed);
                let old = if has_old { 0 } else { self.first_new.saturating_sub(number) };
                self.missed
                    .fetch_add((next - number).saturating_sub(old), atomic::Ordering::Relaxed);
            }
        }
        Ok(None)
    }

    /// Copies the latest value, and counts those before it that were not received.
    fn take_latest(&self) -> Result<Option<Delivery>> {
        // As above; a later value wakes this process to try again.
        for _ in 0..=self.reader.layout.ring_words {
            let next = self.reader.next_number()?;
            if next <= u64::from(self.reader.layout.ring_words) {
                return Ok(None);
            }
            let number = next - 1;
            let ring = self.reader.ring(number)?;
            if read_only::number(ring) == number
                && let Some((array, head)) = self.copy(read_only::slot(ring), number)?
            {
                let before = self.next.fetch_max(next, AcqRel);
                let unseen = number.saturating_sub(before);
                self.missed.fetch_add(unseen, atomic::Ordering::Relaxed);
                return Ok(Some(self.delivery(array, &head, number)));
            }
        }
        Ok(None)
    }

    /// Returns the delivery of a message that was copied.
    fn delivery(&self, array: Array, head: &SlotHead, number: u64) -> Delivery {
        if number < self.first_new {
            self.has_old_message.store(true, atomic::Ordering::Relaxed);
        }
        let missed = self.missed.swap(0, atomic::Ordering::Relaxed);
        let sequence = number.wrapping_sub(u64::from(self.reader.layout.ring_words));
        Delivery::copied(array, head, sequence, missed)
    }

    /// Goes from one number to another. Returns false if another thread has gone on.
    fn goes_on(&self, from: u64, to: u64) -> bool {
        self.next.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    /// Copies the message with a number. `None` if its slot was given to another purpose.
    fn copy(&self, slot: u32, number: u64) -> Result<Option<(Array, SlotHead)>> {
        let words: Words = self.reader.slot_head(slot)?;
        if !read_only::has_message(&words, number) {
            return Ok(None);
        }
        let head = SlotHead::of(|index| words[index]);
        let dtype = &self.reader.header.dtype;
        let described = &self.reader.header.layout.shape;
        let shape = match self.reader.layout.payload {
            Payload::Varying => &head.shape,
            Payload::Fixed | Payload::Handle => described,
        };
        let layout = Layout::contiguous(shape, dtype.itemsize(), Order::C)?;
        if layout.check(dtype.itemsize(), self.reader.layout.slot_bytes).is_err() {
            return Ok(None); // not what a sender of this library writes
        }
        let is_whole = Cell::new(false);
        let copied = Array::create_by(dtype.clone(), shape, &Options::new(), &|bytes| {
            self.reader.payload(slot, bytes)?;
            let again = self.reader.slot_head(slot)?;
            is_whole.set(read_only::is_same_message(&words, &again, number));
            Ok(())
        })?;
        Ok(is_whole.get().then_some((copied, head)))
    }
}

impl Readiness for Follower {
    fn sleep_word(&self) -> &impl SleepWord {
        self
    }

    fn spins(&self) -> &Spins {
        &self.spins
    }

    fn is_ready(&self, may_sleep: bool) -> Result<bool> {
        self.check_open()?;
        let next = self.next.load(Acquire);
        let is_there = read_only::number(self.reader.ring(next)?) >= next;
        Ok(is_there || may_sleep && self.is_ended()?)
    }
}

impl SleepWord for Follower {
    /// It may not say that it sleeps: such a channel wakes at every publish.
    fn announce(&self) -> Result<u32> {
        self.reader.field(PUBLISHED_OFFSET).map(|word| word as u32)
    }

    fn word(&self) -> *const u32 {
        self.page.word(CHANNEL_OFFSET + PUBLISHED_OFFSET)
    }
}
