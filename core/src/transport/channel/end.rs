//! An end: the entry by which one process sends to a channel or receives from it.
//!
//! CHANNELS.md has the steps. An entry is as in a lease table: `owner << 1 | held`.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::time::Duration;

use super::ends::{Ends, HELD, RECEIVES, SENDS, has_sent};
use super::event::{Event, Readiness};
use super::handle_text;
use super::opened::{Opened, close_end, wake_all};
use super::recovery;
use super::ring::Taken;
use super::slot::OwnSlots;
use super::sole::{Session, SoleWord};
use super::unreceived::Unreceived;
use super::wait::SleepWord;
use crate::array::{Array, SlotRef, Slots, UseId};
use crate::header::control::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::header::control::{ChannelWords, fence};
use crate::header::format::{ChannelMode, Payload};
use crate::memory::segment::Segment;
use crate::system::{self, FamilyLock, Mutex, Owner};
use crate::transport::spins::Spins;
use crate::value::error::{Error, Result};
use crate::value::shape::Layout;

/// The shortest time between two recoveries by one end. It is a tick of the coarse clock shorter
/// than the time between two looks of a process that waits, so that each look recovers.
const BETWEEN_RECOVERIES: Duration = Duration::from_millis(90);

/// An end that this process has, until its last loan and its last delivery are dropped.
pub(super) struct End {
    opened: Opened,
    pub(super) index: u32,
    /// The number of forks that led to this process: a forked child has no part in the end.
    fork: u32,
    /// The looks for a message, and for a slot, before this end sleeps.
    message_spins: Spins,
    pub(super) slot_spins: Spins,
    pub(super) unreceived: Unreceived,
    /// Locked while a thread receives a message of a broadcast: the end has one cursor.
    pub(super) receiving: Mutex<()>,
    is_closed: AtomicBool,
    /// The senders that had left when this end was opened.
    left_before: u64,
    /// The number that the next message had when this end was opened.
    first_new: u64,
    /// Whether this end has received a message that was published before it was opened.
    has_old_message: AtomicBool,
    /// When this end last recovered, in nanoseconds of the coarse clock.
    recovered_ns: AtomicU64,
    pub(super) slots: OwnSlots,
    session: Session,
    /// The messages that were missed, and that the next delivery tells of.
    missed: AtomicU64,
    /// The fd for event loops, once it was asked for.
    event: Mutex<Option<Arc<Event>>>,
    /// Whether there is an event. A receive locks nothing to learn that there is none.
    has_event: AtomicBool,
    /// Keeps the channel's tickets, if it has any.
    _family: Option<FamilyLock>,
    _segment_use: SegmentUse,
}

/// The use of a segment by an end. The last one of this process gives its lease back.
pub(super) struct SegmentUse(Arc<Segment>);

impl SegmentUse {
    /// `None` if this process has given its lease back: it attaches the segment once more.
    pub(super) fn begin(segment: &Arc<Segment>) -> Option<Self> {
        segment.add_end().then(|| Self(Arc::clone(segment)))
    }
}

impl Drop for SegmentUse {
    fn drop(&mut self) {
        self.0.remove_end();
    }
}

impl Deref for End {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.opened
    }
}

impl End {
    /// Takes an end: that which was handed over with a ticket, if it is there. With a history it
    /// receives a broadcast from that many messages before the next one on, or from that on which
    /// followed the handing over.
    pub(super) fn join(
        opened: Opened,
        segment_use: SegmentUse,
        history: Option<u32>,
        ticket: Option<u64>,
    ) -> Result<Self> {
        let directory = opened.segment.directory();
        let words = opened.words;
        let owner = system::process_owner(directory).ok_or(Error::Unsupported {
            what: "a channel where this process cannot lock the registry",
        })?;
        let family = match words.layout().payload {
            Payload::Handle => Some(FamilyLock::new(directory, words.layout().family)?),
            Payload::Fixed | Payload::Varying => None,
        };
        recovery::recover(&opened); // counts the senders that are dead already, and frees entries
        let adopted = ticket.and_then(|ticket| Self::adopt(&words, ticket, owner));
        let index = adopted.map_or_else(|| Self::take_index(&opened, owner), Ok)?;
        let left_before = match adopted {
            Some(index) => {
                let left = words.count(index).load(Relaxed);
                words.count(index).store(0, Relaxed);
                left
            }
            None => opened.ends.senders_left_but(index),
        };
        let mut end = Self {
            index,
            fork: system::forks(),
            message_spins: Spins::default(),
            slot_spins: Spins::default(),
            unreceived: Unreceived::default(),
            receiving: Mutex::new(()),
            is_closed: AtomicBool::new(false),
            left_before,
            first_new: opened.ring.next_number(),
            has_old_message: AtomicBool::new(false),
            recovered_ns: AtomicU64::new(0),
            slots: OwnSlots::new(words.layout().slots),
            session: Session::new(),
            event: Mutex::new(None),
            has_event: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            _family: family,
            _segment_use: segment_use,
            opened,
        };
        if adopted.is_none() {
            let Some(first_new) = hold(&end.opened, index, owner, history) else {
                let segment = Arc::clone(&end.segment);
                std::mem::forget(end); // another process took this one for dead: the entry is free
                segment.remove_end();
                return Err(Error::argument("channel", "the registry was replaced meanwhile"));
            };
            end.first_new = first_new;
        }
        end.segment.at_exit(Opened::close_at_exit);
        Ok(end)
    }

    /// Makes an end for a message, which hands it over to another process.
    pub(super) fn hand_over(&self, receives: bool, ticket: Owner) -> Result<()> {
        recovery::recover(&self.opened);
        let index = Self::take_index(&self.opened, ticket)?;
        // Until it is opened, its count is that of the senders that have left before.
        self.words.count(index).store(self.ends.senders_left_but(index), Relaxed);
        let is_receiver = self.roles() & (SENDS | RECEIVES) == RECEIVES;
        let history = (receives || is_receiver).then_some(0);
        hold(&self.opened, index, ticket, history)
            .map(drop)
            .ok_or_else(|| Error::argument("channel", "the registry was replaced meanwhile"))
    }

    /// Takes over the end that was handed over with a ticket. The owner info of its message leads
    /// to the same registry as that of this process, which is stored afterwards.
    fn adopt(words: &ChannelWords, ticket: u64, owner: Owner) -> Option<u32> {
        let handed_over = ticket << 1 | HELD;
        Ends::new(*words).all().find(|end| {
            let entry = words.entry(*end);
            let is_adopted = entry.owner.load(Acquire) == handed_over
                && system::is_same_registry(entry.owner_info.load(Acquire), owner.info)
                && entry.owner.replace(handed_over, owner.id << 1 | HELD);
            if is_adopted {
                entry.owner_info.store(owner.info, Release);
            }
            is_adopted
        })
    }

    /// Removes the name of a channel that all have closed, and that only lives for what they keep.
    pub(super) fn remove_name_if_closed(&self) {
        if !self.ends.is_any_open_but(self.index) && !self.segment.persists() {
            self.segment.remove_name();
        }
    }

    /// Whether all others have closed the channel, and only keep what they have.
    pub(super) fn have_others_closed(&self) -> bool {
        fence(SeqCst); // C7: this end is held
        !self.ends.is_any_open_but(self.index)
            && self.ends.is_any_held_but(self.index)
            && !self.segment.persists()
    }

    fn take_index(opened: &Opened, owner: Owner) -> Result<u32> {
        let most = opened.words.layout().ends;
        Self::take_entry(&opened.words, owner)
            .ok_or_else(|| Error::argument("channel", format!("all of its {most} ends are in use")))
    }

    fn take_entry(words: &ChannelWords, owner: Owner) -> Option<u32> {
        let index = (0..words.layout().ends).find(|end| {
            let entry = &words.entry(*end).owner;
            if entry.load(Relaxed) != 0 {
                return false;
            }
            Self::count_used(words, u64::from(*end) + 1);
            entry.replace(0, owner.id << 1)
        })?;
        words.entry(index).owner_info.store(owner.info, Release);
        Ends::new(*words).clear_roles(index);
        words.count(index).store(0, Relaxed);
        words.missed(index).store(0, Relaxed);
        words.latency(index).store(0, Relaxed);
        (0..words.layout().slots).step_by(64).for_each(|slot| {
            words.pins(index, slot).store(0, Relaxed);
        });
        Some(index)
    }

    /// Makes the number of ends that were ever in use at least `count`, before one more is used.
    fn count_used(words: &ChannelWords, count: u64) {
        loop {
            let seen = words.ends_used().load(Acquire);
            if seen >= count || words.ends_used().replace(seen, count) {
                return;
            }
        }
    }

    /// Whether this process has joined with this end, and is no child of the one that has. An
    /// orphan has no end: it was forked after each that it inherited, and joins none.
    pub(super) fn is_ours(&self) -> bool {
        self.fork == system::forks()
    }

    /// Takes over the dropped messages of a queue that no receiver was told of.
    pub(super) fn take_dropped(&self) -> u64 {
        let dropped = self.words.dropped();
        match dropped.load(Acquire) {
            0 => 0,
            count if dropped.replace(count, 0) => count,
            _ => 0, // another receiver is told, or the next
        }
    }

    /// Keeps a number of missed messages until there is a message that tells of them.
    pub(super) fn keep_missed(&self, missed: u64) {
        self.missed.fetch_add(missed, atomic::Ordering::Relaxed);
    }

    pub(super) fn take_kept_missed(&self) -> u64 {
        match self.missed.load(atomic::Ordering::Relaxed) {
            0 => 0,
            _ => self.missed.swap(0, atomic::Ordering::Relaxed),
        }
    }

    fn roles(&self) -> u64 {
        self.words.roles(self.index).load(Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(atomic::Ordering::Acquire)
    }

    /// Refuses an end that was closed.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::argument("channel", "it is closed")) } else { Ok(()) }
    }

    /// Makes the end one that sends, at its first loan.
    pub(super) fn become_sender(&self) {
        if self.roles() & SENDS == 0 {
            self.words.roles(self.index).set(SENDS);
        }
    }

    /// Publishes what is on loan. Returns its number.
    #[inline]
    pub(super) fn publish(&self, loan: Taken) -> u64 {
        self.session.publish_with(|session| self.ring.publish(loan, session))
    }

    /// Takes a slot without a message. Begins a session if it is time.
    #[inline]
    pub(super) fn take_free(&self) -> Option<Taken> {
        match self.session.of_this_thread() {
            Some(session) if self.words.sole().load(Acquire) == session.0 => {
                self.ring.loan_home(session).or_else(|| self.take_elsewhere(session))
            }
            lost => self.begin_session(lost),
        }
    }

    /// Takes a slot without a message that is no home: a receiver keeps the home.
    #[cold]
    fn take_elsewhere(&self, session: SoleWord) -> Option<Taken> {
        if !self.ring.has_free() {
            return None;
        }
        self.ring.close();
        self.end_session(Some(session));
        self.ring.loan(self.index, |_| false)
    }

    /// Takes a slot without a message, of a session that begins if it is time.
    fn begin_session(&self, lost: Option<SoleWord>) -> Option<Taken> {
        if lost.is_some() {
            self.end_session(lost);
        } else if self.session.is_due() {
            let is_alone = || self.ends.is_sole_sender(self.index);
            match self.session.begin(|| self.ring.begin(self.index, is_alone)) {
                Some(session) => {
                    let home = self.ring.loan_home(session);
                    return home.or_else(|| self.take_elsewhere(session));
                }
                None => self.end_session(None),
            }
        }
        self.ring.loan(self.index, |_| false)
    }

    /// Notes that a session was closed, or that none could begin.
    fn end_session(&self, session: Option<SoleWord>) {
        let next = self.words.next(self.index).load(Relaxed);
        self.session.ended(session.map_or(0, |session| next.saturating_sub(session.number())));
    }

    /// Makes the end one that receives, at its first receive. Of a broadcast it sees the messages
    /// from then on.
    pub(super) fn become_receiver(&self) {
        if self.roles() & RECEIVES == 0 {
            let _receiving = self.receiving.lock();
            if self.roles() & RECEIVES == 0 {
                let next = self.words.tail().load(Acquire);
                self.words.cursor(self.index).store(next, Release);
                self.words.roles(self.index).set(RECEIVES);
                set_cursor(&self.opened, self.index, 0);
            }
        }
    }

    /// Returns how many of the messages from one number on this end has missed, when they are gone.
    /// Those from before its join are none, until it has received one of them.
    pub(super) fn missed_of(&self, number: u64, count: u64) -> u64 {
        let is_new = self.has_old_message.load(atomic::Ordering::Relaxed);
        let old = self.first_new.saturating_sub(number);
        if is_new { count } else { count.saturating_sub(old) }
    }

    /// Makes the value after one that was received the next. Returns how many values this end has
    /// not received before that one.
    pub(super) fn advance_cursor(&self, number: u64) -> u64 {
        let _receiving = self.receiving.lock();
        let cursor = self.words.cursor(self.index);
        let before = cursor.load(Acquire);
        if number >= before {
            cursor.store(number + 1, Release);
        }
        number.saturating_sub(before)
    }

    /// Records that this end has received the message with a number.
    pub(super) fn note_message(&self, number: u64) {
        if number < self.first_new {
            self.has_old_message.store(true, atomic::Ordering::Relaxed);
        }
    }

    /// Counts a message that this end has sent or received. Of two that its threads count in the
    /// same moment it may miss one.
    pub(super) fn count_message(&self) {
        let count = self.words.count(self.index);
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    /// Whether no end is a sender, this one included once it has sent, and either a sender has left
    /// since this end was opened or this end has received a message from before.
    pub(super) fn has_no_senders(&self) -> bool {
        if has_sent(self.roles()) {
            return false; // another thread may send through it
        }
        self.ends.senders_left_if_none_but(self.index).is_some_and(|left| {
            left != self.left_before || self.has_old_message.load(atomic::Ordering::Relaxed)
        })
    }

    /// Gives back or completes what dead ends have.
    pub(super) fn recover(&self) {
        self.recovered_ns.store(system::coarse_ns(), atomic::Ordering::Relaxed);
        recovery::recover(&self.opened);
    }

    /// Recovers, unless this end did so a short time ago. Returns whether it did.
    pub(super) fn recover_if_due(&self) -> bool {
        let since = self.recovered_ns.load(atomic::Ordering::Relaxed);
        let is_due =
            system::coarse_ns().saturating_sub(since) >= BETWEEN_RECOVERIES.as_nanos() as u64;
        if is_due {
            self.recover();
        }
        is_due
    }

    /// Gives back a slot that this end has on loan, or a message that it has received.
    #[inline]
    pub(super) fn give_back(&self, taken: Taken) {
        if taken.is_pinned() {
            self.ring.unpin(self.index, taken.slot);
        } else {
            if self.words.layout().payload == Payload::Handle {
                handle_text::discard(&self.opened, taken.slot);
            }
            self.ring.give_back(taken);
        }
        self.wake_senders();
    }

    /// Ends what this end does. Its entry stays until its last loan or delivery is dropped.
    pub(super) fn close(&self) {
        if self.is_ours() && !self.is_closed.swap(true, atomic::Ordering::AcqRel) {
            close_end(&self.words, self.index);
            let event = self.event.lock().take();
            event.iter().for_each(|event| event.end());
        }
    }

    /// Returns the event that is set while a receive need not wait.
    pub(super) fn event(self: &Arc<Self>) -> Result<Arc<Event>> {
        self.become_receiver();
        let mut event = self.event.lock();
        match &*event {
            Some(event) => Ok(Arc::clone(event)),
            None => {
                let made = Arc::new(Event::new(Arc::clone(self))?);
                *event = Some(Arc::clone(&made));
                self.has_event.store(true, atomic::Ordering::Release);
                Ok(made)
            }
        }
    }

    /// Clears the event if there is one and nothing can be received.
    #[inline]
    pub(super) fn clear_event(&self) {
        if self.has_event.load(atomic::Ordering::Acquire) {
            self.clear_existing_event();
        }
    }

    #[cold]
    fn clear_existing_event(&self) {
        let event = self.event.lock().clone();
        if let Some(event) = event
            && !self.is_ready(false).unwrap_or(true)
        {
            event.clear();
        }
    }
}

/// Makes an entry held that its owner has taken: an end, with the role of a receiver if it has a
/// history. Returns the number that the next message has then. `None` if the entry was freed
/// meanwhile.
fn hold(opened: &Opened, index: u32, owner: Owner, history: Option<u32>) -> Option<u64> {
    let words = &opened.words;
    if history.is_some() {
        words.roles(index).set(RECEIVES);
    }
    words.cursor(index).store(words.tail().load(Acquire), Relaxed);
    // AcqRel: all of the end's words come before it is held.
    let entered = owner.id << 1;
    let is_held = words.entry(index).owner.replace(entered, entered | HELD);
    is_held.then(|| set_cursor(opened, index, history.unwrap_or(0)))
}

/// Makes the message that is so many before the next one the first that an end receives, or the
/// oldest one that is there. Returns the number of the next one.
fn set_cursor(opened: &Opened, index: u32, history: u32) -> u64 {
    let words = &opened.words;
    let next = opened.ring.next_number();
    let history = match words.layout().mode {
        ChannelMode::Queue => return next,
        ChannelMode::Broadcast => history,
        ChannelMode::Latest => 1,
    };
    let oldest = words.head().load(Acquire).max(u64::from(words.layout().ring_words));
    let first = next.saturating_sub(u64::from(history)).max(oldest).min(next);
    words.cursor(index).store(first, Release);
    next
}

impl Readiness for End {
    fn sleep_word(&self) -> &impl SleepWord {
        self.words.published()
    }

    fn spins(&self) -> &Spins {
        &self.message_spins
    }

    fn is_ready(&self, may_sleep: bool) -> Result<bool> {
        self.check_open()?;
        let is_there = match self.words.layout().mode {
            ChannelMode::Queue => self.ring.has_message(),
            ChannelMode::Broadcast | ChannelMode::Latest => {
                self.ring.has_published(self.words.cursor(self.index).load(Acquire))
            }
        };
        if is_there || self.slots.has_undelivered() {
            return Ok(true);
        }
        if may_sleep {
            self.recover_if_due();
        }
        Ok(may_sleep && self.has_no_senders())
    }

    fn pass_on_wake_up(&self) {
        self.wake_receivers(); // the event's thread has used up a wake-up, but receives nothing
    }
}

/// The use of a slot by an end. The arrays that lie in the slot keep it, and the end.
pub(super) struct InUse<'a> {
    pub(super) end: &'a End,
    id: UseId,
}

impl<'a> InUse<'a> {
    /// Begins the use of a slot that an end has taken. Returns its first array. `first` is what
    /// `checked_layout` returned.
    #[inline]
    pub(super) fn begin(end: Arc<End>, taken: Taken, first: Option<Layout>) -> Array {
        let layout = first.map(|first| end.in_slot(taken.slot, first));
        let id = end.slots.begin(taken);
        Array::in_slot(SlotRef::first(end, id), layout)
    }

    /// Returns the use that an array counts in. `None` if it lies in no slot.
    #[inline]
    pub(super) fn of(array: &'a Array) -> Option<Self> {
        array.slot()?.of().map(|(end, id)| Self { end, id })
    }

    /// Returns the number of the slot.
    pub(super) fn slot(&self) -> u32 {
        self.id.slot
    }

    /// Whether there are several arrays in the slot.
    pub(super) fn has_several_arrays(&self) -> bool {
        self.end.slots.has_several(self.id)
    }

    /// Ends the use, also if there are arrays in the slot. Returns the slot, unless it was given
    /// back before.
    #[inline]
    pub(super) fn end(&self) -> Option<Taken> {
        let taken = self.end.slots.end(self.id);
        taken.filter(|_| self.end.is_ours()) // otherwise the slot is the parent's
    }

    /// Gives the slot back, also if there are arrays in it.
    pub(super) fn give_back(&self) {
        self.end().into_iter().for_each(|taken| self.end.give_back(taken));
    }
}

impl Slots for End {
    fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    fn layout(&self, slot: u32) -> &Layout {
        self.fixed_layout(slot)
    }

    fn add(&self, id: UseId) {
        self.slots.add(id);
    }

    #[inline]
    fn remove(&self, id: UseId) {
        if let Some(taken) = self.slots.remove(id)
            && self.is_ours()
        {
            self.give_back(taken);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_ours() {
            self.close();
            while let Some(taken) = self.slots.take_undelivered() {
                self.give_back(taken);
            }
            // Release: what this end did comes before it.
            self.words.entry(self.index).owner.store(0, Release);
            wake_all(&self.words);
        }
    }
}
