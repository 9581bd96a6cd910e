//! The ring of a channel: which slot has which message, and who has which slot.
//!
//! CHANNELS.md describes the protocol and gives its reasons; `tests/models/channels`
//! searches it, step by step as it stands here. This module is its lock-free part.
//!
//! **slot word**: bits 0–2 the state, bits 3–12 the end, bits 13–63 the life. AcqRel.
//!
//! | from | to | function |
//! |---|---|---|
//! | FREE, DROPPED | LOANED | `loan` |
//! | LOANED | NUMBERED | `publish` |
//! | NUMBERED, and the ring or the open session has it | HELD | `take` |
//! | the same | LOANED | `loan_oldest` |
//! | the same | DROPPED | `drop_oldest` |
//! | LOANED, HELD | FREE | `give_back` |
//! | LOANED, HELD; NUMBERED, and the ring does not have it | FREE | `recover` |
//!
//! **ring word**: bits 0–9 the slot, bits 10–63 the number of its message, which only grows.
//!
//! Invariants:
//! * R1 a message is published by one step, so its numbers have no gaps: by a store to the ring, or
//!   in a session (`sole`) by that to the slot word.
//! * R2 only a process that has a slot LOANED, HELD or pinned touches its payload.
//! * R3 the tail and the head are never ahead of what was published.

use super::ends::pin;
use super::sole::{SoleWord, State};
use crate::header::control::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::header::control::{ChannelWords, fence, fence_after_rmw, fence_between_loads};

const FREE: u64 = 0;
const LOANED: u64 = 1;
const NUMBERED: u64 = 2;
const HELD: u64 = 3;
const DROPPED: u64 = 4;
const STATE_MASK: u64 = 0b111;

const END_SHIFT: u32 = 3;
const END_MASK: u64 = 1023;
/// No end: of a slot that is free or dropped.
const NOBODY: u32 = 1023;
const LIFE_SHIFT: u32 = 13;

/// The index of each word in a slot's head.
const WORD: usize = 0;
const NUMBER: usize = 1;

const NUMBER_SHIFT: u32 = 10;
const SLOT_MASK: u64 = 1023;

/// The value of a slot's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotWord(u64);

impl SlotWord {
    fn state(self) -> u64 {
        self.0 & STATE_MASK
    }

    fn end(self) -> u32 {
        (self.0 >> END_SHIFT & END_MASK) as u32
    }

    fn life(self) -> u64 {
        self.0 >> LIFE_SHIFT
    }

    /// Returns the word in another state of the same life.
    fn to(self, state: u64, end: u32) -> Self {
        Self(self.0 >> LIFE_SHIFT << LIFE_SHIFT | u64::from(end) << END_SHIFT | state)
    }

    /// Returns what tells a loan from all others of its end: the life, and the slot.
    fn mark(self, slot: u32) -> u64 {
        self.to(LOANED, slot).0
    }

    /// Whether the slot that has this word has a message of a sole sender.
    fn is_numbered_in(self, session: SoleWord) -> bool {
        self.state() == NUMBERED && self.end() == session.end()
    }

    /// Whether the slot that has this word is the one that a sole sender marks.
    fn is_marked(self, session: SoleWord, slot: u32, mark: u64) -> bool {
        self.state() == LOANED && self.end() == session.end() && self.mark(slot) == mark
    }

    /// Returns the word when the slot is given to another purpose. The life wraps after 2^51.
    fn next_life(self, state: u64, end: u32) -> Self {
        Self(self.0.wrapping_add(1 << LIFE_SHIFT)).to(state, end)
    }
}

/// The words of a slot's head, as a follower reads them.
pub(super) type Words = Vec<u64>;

/// What a process sees that may only read.
pub(super) mod read_only {
    use super::{
        DROPPED, HELD, LOANED, NUMBER, NUMBER_SHIFT, NUMBERED, SLOT_MASK, SlotWord, SoleWord,
        State, WORD, Words,
    };

    /// The number of the message in a ring word.
    pub(crate) fn number(ring: u64) -> u64 {
        ring >> NUMBER_SHIFT
    }

    /// The slot of the message in a ring word.
    pub(crate) fn slot(ring: u64) -> u32 {
        (ring & SLOT_MASK) as u32
    }

    /// Whether the slot that has this head is the one that a sole sender marks.
    pub(crate) fn is_marked(head: &Words, session: SoleWord, slot: u32, mark: u64) -> bool {
        SlotWord(head[WORD]).is_marked(session, slot, mark)
    }

    /// Whether a slot has the message with a number, which the ring has, too. A message that was
    /// dropped stays until the slot is loaned.
    pub(crate) fn has_message(head: &Words, number: u64) -> bool {
        let state = SlotWord(head[WORD]).state();
        [NUMBERED, DROPPED].contains(&state) && head[NUMBER] == number
    }

    /// Whether a slot still has the message that it had.
    pub(crate) fn is_same_message(before: &Words, after: &Words, number: u64) -> bool {
        let life = |head: &Words| SlotWord(head[WORD]).life();
        has_message(after, number) && life(before) == life(after)
    }

    /// Whether the sole sender has published the message of a slot that is numbered. `next` is the
    /// number of the next message.
    pub(crate) fn is_of_session(head: &Words, session: SoleWord, slot: u32, next: u64) -> bool {
        let number = head[NUMBER];
        let is_open = !matches!(session.state(), State::General | State::Opening);
        is_open
            && SlotWord(head[WORD]).is_numbered_in(session)
            && session.home(number) == slot
            && number < next
    }

    /// The number that a slot has or is to have, and the ring's word of its message.
    pub(crate) fn number_and_ring(head: &Words, slot: u32) -> (u64, u64) {
        (head[NUMBER], head[NUMBER] << NUMBER_SHIFT | u64::from(slot))
    }

    /// The use of a slot, for people.
    pub(crate) enum SlotUse {
        Free,
        /// By an end.
        Loaned(u32),
        /// By an end, which publishes it, or has.
        Numbered(u32),
        /// By an end.
        Held(u32),
    }

    pub(crate) fn slot_use(head: &Words) -> SlotUse {
        let word = SlotWord(head[WORD]);
        match word.state() {
            LOANED => SlotUse::Loaned(word.end()),
            NUMBERED => SlotUse::Numbered(word.end()),
            HELD => SlotUse::Held(word.end()),
            _ => SlotUse::Free,
        }
    }
}

/// A slot that an end has on loan or holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) slot: u32,
    /// The number of the message, if it is held.
    pub(super) number: u64,
    word: SlotWord,
}

impl Taken {
    /// The word of the slot, from which [`of_bits`](Self::of_bits) makes what was taken again.
    pub(super) fn to_bits(self) -> u64 {
        self.word.0
    }

    /// Returns the word of a loan when it is about to be published.
    fn numbered(self) -> SlotWord {
        self.word.to(NUMBERED, self.word.end())
    }

    /// Without the number of the message.
    pub(super) fn of_bits(slot: u32, word: u64) -> Self {
        Self { slot, number: 0, word: SlotWord(word) }
    }

    /// Whether it is a message of a broadcast, which others may have, too.
    pub(super) fn is_pinned(self) -> bool {
        self.word.state() == NUMBERED
    }
}

/// What lies at a number of the ring.
enum At {
    /// No message yet.
    Nothing,
    /// A message that can be taken, and its slot's word.
    Queued(u32, SlotWord),
    /// A message that was taken or dropped, and the number of the next that may be there.
    Gone(u64),
}

/// What a receiver of a broadcast finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Message(Taken),
    Missed(u64),
    Nothing,
}

/// What a reader of the latest value finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Latest {
    /// The value, which is pinned.
    Pinned(Taken),
    /// The value, which may not be pinned: it is to be copied, and is whole if
    /// [`is_whole`](Ring::is_whole) says so afterwards.
    Unpinned(Taken),
    Nothing,
}

/// The ring and the slots of a channel.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    words: ChannelWords,
}

impl Ring {
    pub(super) fn new(words: ChannelWords) -> Self {
        Self { words }
    }

    fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.words.layout().slots
    }

    fn slot(&self, slot: u32) -> SlotWord {
        SlotWord(self.words.slot_head(slot, WORD).load(Acquire))
    }

    fn replace(&self, slot: u32, from: SlotWord, to: SlotWord) -> bool {
        self.words.slot_head(slot, WORD).replace(from.0, to.0)
    }

    /// Takes a slot without a message. `is_pinned` says whether a living end has a slot pinned.
    pub(super) fn loan(&self, end: u32, is_pinned: impl Fn(u32) -> bool) -> Option<Taken> {
        self.slots().find_map(|slot| {
            let word = self.slot(slot);
            let is_usable = word.state() == FREE || word.state() == DROPPED && !is_pinned(slot);
            let loaned = word.next_life(LOANED, end);
            let is_loaned = is_usable && self.replace(slot, word, loaned);
            fence_after_rmw(); // C8: the payload is written afterwards
            is_loaned.then_some(Taken { slot, number: 0, word: loaned })
        })
    }

    /// Takes the home of the next message of this end's session, or of one after it if those before
    /// are on loan to this end already.
    pub(super) fn loan_home(&self, session: SoleWord) -> Option<Taken> {
        let end = session.end();
        let next = self.words.next(end).load(Relaxed);
        let mut homes =
            (0..u64::from(session.homes())).map(|ahead| session.home(next.wrapping_add(ahead)));
        let is_ours = |word: SlotWord| word.state() == LOANED && word.end() == end;
        let slot = homes.find(|slot| !is_ours(self.slot(*slot)))?;
        let word = self.slot(slot);
        let loaned = word.next_life(LOANED, end);
        let is_loaned = word.state() == FREE && self.replace(slot, word, loaned);
        fence_after_rmw(); // C8
        is_loaned.then_some(Taken { slot, number: 0, word: loaned })
    }

    /// Whether a slot is free.
    pub(super) fn has_free(&self) -> bool {
        self.slots().any(|slot| self.slot(slot).state() == FREE)
    }

    /// Publishes what is on loan (R1). Returns its number. `session` is this thread's, if it has
    /// one.
    #[inline]
    pub(super) fn publish(&self, loan: Taken, session: Option<SoleWord>) -> u64 {
        debug_assert!(self.slot(loan.slot) == loan.word, "R2: a loan is its end's alone");
        let sole = SoleWord(self.words.sole().load(Acquire));
        let mut is_numbered = false;
        if session == Some(sole) {
            let number = self.words.next(sole.end()).load(Relaxed);
            if loan.slot == sole.home(number) && SoleWord::has_room_after(number) {
                self.publish_at_home(loan, sole, number);
                if self.words.sole().load(Acquire) == sole.0 {
                    self.words.prefetch_for_loan(sole.home(number.wrapping_add(1)));
                    return number;
                }
                self.close();
                if self.has_counted(loan, number) {
                    return number;
                }
                is_numbered = true;
            }
        }
        if !sole.is_general() {
            self.close();
        }
        self.publish_in_ring(loan, is_numbered)
    }

    /// Publishes a loan as the message with a number, unless the session is closed meanwhile.
    fn publish_at_home(&self, loan: Taken, session: SoleWord, number: u64) {
        let slot = loan.slot;
        // Release: whoever finds one of these also finds those before it.
        self.words.mark(session.end()).store(loan.word.mark(slot), Release);
        self.words.next(session.end()).store(number.wrapping_add(1), Release);
        self.words.slot_head(slot, NUMBER).store(number, Release);
        let is_ours = self.replace(slot, loan.word, loan.numbered());
        debug_assert!(is_ours, "R2: a loan is its end's alone");
        fence_after_rmw(); // C9: the sole word is loaded afterwards; C5
    }

    /// Whether what `publish_at_home` has stored was published before the session was closed. If
    /// the ring does not have it, it was not, or was received before that look.
    #[cold]
    fn has_counted(&self, loan: Taken, number: u64) -> bool {
        let published = number << NUMBER_SHIFT | u64::from(loan.slot);
        self.words.ring(number).load(Acquire) == published
            || self.slot(loan.slot) != loan.numbered()
    }

    /// Publishes a loan, which may be NUMBERED already, by the ring's word.
    fn publish_in_ring(&self, loan: Taken, mut is_numbered: bool) -> u64 {
        let slot = loan.slot;
        loop {
            let tail = self.words.tail().load(Acquire);
            let before = self.words.ring(tail).load(Acquire);
            let found = before >> NUMBER_SHIFT;
            if found >= tail {
                self.advance_tail(found);
                continue;
            }
            // Release: for the process that finds it NUMBERED, or recovers it.
            self.words.slot_head(slot, NUMBER).store(tail, Release);
            if !is_numbered {
                self.words.slot_head(slot, WORD).store(loan.numbered().0, Release);
                is_numbered = true;
            }
            let after = tail << NUMBER_SHIFT | u64::from(slot);
            if self.words.ring(tail).replace(before, after) {
                self.advance_tail(tail);
                fence_after_rmw(); // C5: the futex word is loaded afterwards
                return tail;
            }
        }
    }

    /// Advances the tail past `found`, the number of a message that the ring has. Only in a file
    /// that this library did not write can it be far ahead of the tail. The tail passes it in one
    /// step, since single steps could take for ever.
    ///
    /// A process that was stopped before this store sets the tail back, and the next one advances
    /// it again. Release: the ring's word comes before it (R3).
    fn advance_tail(&self, found: u64) {
        self.words.tail().store(found.wrapping_add(1), Release);
    }

    /// Advances the head: to where the next message may be. As for the tail.
    fn advance_head(&self, next: u64) {
        self.words.head().store(next, Release);
    }

    /// Begins a session of an end as the sole sender. `is_alone` says whether no other end has
    /// sent.
    pub(super) fn begin(&self, end: u32, is_alone: impl Fn() -> bool) -> Option<SoleWord> {
        let homes = self.words.layout().homes()?;
        let general = SoleWord(self.words.sole().load(Acquire));
        let opening = general.opening(end, homes);
        if !general.is_general() || !is_alone() || !self.words.sole().replace(general.0, opening.0)
        {
            return None;
        }
        fence_after_rmw(); // C10
        if is_alone() && !self.slots().any(|slot| self.is_unfinished(slot, end)) {
            let next = self.next_in_ring();
            // Bases and tails only grow, so no word comes back.
            let session = opening.with(State::Sole, next).filter(|_| next > general.number());
            if let Some(session) = session {
                self.words.next(end).store(next, Release);
                return self.words.sole().replace(opening.0, session.0).then_some(session);
            }
        }
        let _ = self.words.sole().replace(opening.0, general.0); // or another did
        None
    }

    /// Whether an end has a slot on loan, or is about to publish it.
    fn is_unfinished(&self, slot: u32, end: u32) -> bool {
        let word = self.slot(slot);
        if word.end() != end {
            return false;
        }
        let number = self.words.slot_head(slot, NUMBER).load(Acquire);
        let published = number << NUMBER_SHIFT | u64::from(slot);
        match word.state() {
            LOANED => true,
            NUMBERED => self.words.ring(number).load(Acquire) != published,
            _ => false,
        }
    }

    /// Closes the session, whoever's it is: from then on the ring has all messages.
    #[cold]
    pub(super) fn close(&self) {
        loop {
            let sole = SoleWord(self.words.sole().load(Acquire));
            if sole.is_general() {
                return;
            }
            self.close_further(sole);
        }
    }

    /// Makes one step of a close, unless another process makes it.
    #[cold]
    fn close_further(&self, sole: SoleWord) {
        let next = match sole.state() {
            State::General => return,
            State::Opening => sole.to(State::General),
            State::Sole => sole.to(State::Closing),
            State::Closing => {
                fence(SeqCst); // C9: what the sender has published is loaded afterwards
                // Only in a file that this library did not write has the number no room.
                let filling = sole.with(State::Filling, self.tail_of(sole));
                filling.unwrap_or(sole.to(State::General))
            }
            State::Filling => {
                self.fill(sole);
                sole.to(State::General)
            }
        };
        let _ = self.words.sole().replace(sole.0, next.0); // or another did
    }

    /// Writes the messages of a session to the ring: also those that were received, since a process
    /// that was stopped before it stored the head may set that back.
    fn fill(&self, session: SoleWord) {
        let tail = session.number();
        let oldest = tail.saturating_sub(u64::from(self.words.layout().ring_words));
        for number in oldest..tail {
            let before = self.words.ring(number).load(Acquire);
            let after = number << NUMBER_SHIFT | u64::from(session.home(number));
            if before >> NUMBER_SHIFT < number {
                let _ = self.words.ring(number).replace(before, after); // or another did
            }
        }
        self.words.tail().store(tail, Release);
    }

    /// Returns the number after the last message that the sender of a session has published.
    fn tail_of(&self, session: SoleWord) -> u64 {
        let next = self.words.next(session.end()).load(Acquire);
        let mark = self.words.mark(session.end()).load(Acquire);
        let last = next.wrapping_sub(1);
        let slot = session.home(last);
        if self.slot(slot).is_marked(session, slot, mark) { last } else { next }
    }

    /// Looks at the message with a number.
    #[inline]
    fn look_at(&self, number: u64) -> At {
        loop {
            let sole = SoleWord(self.words.sole().load(Acquire));
            match sole.state() {
                State::Sole if number >= sole.number() => {
                    let at = self.look_at_home(sole, number);
                    fence_between_loads(); // C9: the slot word was loaded before
                    if self.words.sole().load(Acquire) == sole.0
                        && let Some(at) = at
                    {
                        return at;
                    }
                }
                State::Closing | State::Filling => self.close_further(sole),
                _ => return self.look_in_ring(number),
            }
        }
    }

    /// Looks at a message of a session, if that is still open afterwards. `None` if it has to look
    /// again.
    #[inline]
    fn look_at_home(&self, session: SoleWord, number: u64) -> Option<At> {
        let slot = session.home(number);
        if slot >= self.words.layout().slots {
            return Some(At::Nothing); // not what this library writes
        }
        self.words.prefetch(slot);
        let word = self.slot(slot);
        let found = self.words.slot_head(slot, NUMBER).load(Acquire);
        match found.cmp(&number) {
            std::cmp::Ordering::Less => Some(At::Nothing),
            std::cmp::Ordering::Equal if word.is_numbered_in(session) => {
                Some(At::Queued(slot, word))
            }
            std::cmp::Ordering::Equal => self.look_behind(session, slot, number),
            // That number was written when this message had been taken, and all before it.
            std::cmp::Ordering::Greater => {
                let oldest = found.saturating_sub(u64::from(session.homes() - 1));
                Some(At::Gone(oldest.max(number.wrapping_add(1))))
            }
        }
    }

    /// Looks whether a message is gone whose home has its number, but has it not as published.
    #[cold]
    fn look_behind(&self, session: SoleWord, slot: u32, number: u64) -> Option<At> {
        let next = self.words.next(session.end()).load(Acquire);
        if next <= number {
            return Some(At::Nothing); // an earlier sender wrote it, and did not publish it
        }
        let mark = self.words.mark(session.end()).load(Acquire);
        let word = self.slot(slot);
        if word.is_numbered_in(session) {
            return None; // it was published meanwhile
        }
        let after = number.wrapping_add(1);
        let is_next = next == after && word.is_marked(session, slot, mark);
        Some(if is_next { At::Nothing } else { At::Gone(after) })
    }

    /// Looks at the message with a number where the ring has it.
    fn look_in_ring(&self, number: u64) -> At {
        let ring = self.words.ring(number).load(Acquire);
        let found = ring >> NUMBER_SHIFT;
        let next = number.wrapping_add(1);
        match found.cmp(&number) {
            std::cmp::Ordering::Less => return At::Nothing,
            // The ring has the last `ring_words` messages only; all before them are gone. As in
            // `advance_tail`, one step passes them.
            std::cmp::Ordering::Greater => {
                let ring_words = u64::from(self.words.layout().ring_words);
                return At::Gone(next.max((found + 1).saturating_sub(ring_words)));
            }
            std::cmp::Ordering::Equal => {}
        }
        let slot = (ring & SLOT_MASK) as u32;
        if slot >= self.words.layout().slots {
            return At::Gone(next); // not what this library writes
        }
        self.words.prefetch(slot);
        let word = self.slot(slot);
        let is_it = self.words.slot_head(slot, NUMBER).load(Acquire) == number;
        if is_it && word.state() == NUMBERED { At::Queued(slot, word) } else { At::Gone(next) }
    }

    /// Takes the oldest message. `None` if there is none.
    pub(super) fn take(&self, end: u32) -> Option<Taken> {
        self.take_to(|word| word.to(HELD, end))
    }

    /// Whether there is a message.
    pub(super) fn has_message(&self) -> bool {
        loop {
            let number = self.words.head().load(Acquire);
            match self.look_at(number) {
                At::Nothing => return false,
                At::Gone(next) => self.advance_head(next),
                At::Queued(..) => return true,
            }
        }
    }

    /// Whether the message with a number was published.
    pub(super) fn has_published(&self, number: u64) -> bool {
        !matches!(self.look_at(number), At::Nothing)
    }

    /// Drops the oldest message of a queue, and takes its slot on loan.
    pub(super) fn loan_oldest(&self, end: u32) -> Option<Taken> {
        self.take_to(|word| word.next_life(LOANED, end))
    }

    fn take_to(&self, next: impl Fn(SlotWord) -> SlotWord) -> Option<Taken> {
        loop {
            let number = self.words.head().load(Acquire);
            match self.look_at(number) {
                At::Nothing => return None,
                At::Gone(next) => self.advance_head(next),
                At::Queued(slot, queued) => {
                    let word = next(queued);
                    if self.replace(slot, queued, word) {
                        self.advance_head(number.wrapping_add(1));
                        return Some(Taken { slot, number, word });
                    }
                }
            }
        }
    }

    /// Drops the oldest message of a broadcast, if `may_drop` says so of its number. Returns
    /// whether one was dropped, by this process or another.
    pub(super) fn drop_oldest(&self, may_drop: impl Fn(u64) -> bool) -> bool {
        let number = self.words.head().load(Acquire);
        match self.look_at(number) {
            At::Nothing => false,
            At::Gone(next) => {
                self.advance_head(next);
                true
            }
            At::Queued(slot, queued) => {
                fence(SeqCst); // C6: the ends are loaded afterwards
                if !may_drop(number) {
                    return false;
                }
                if self.replace(slot, queued, queued.to(DROPPED, NOBODY)) {
                    self.advance_head(number.wrapping_add(1));
                }
                fence_after_rmw(); // C1: the pins are loaded afterwards
                true
            }
        }
    }

    /// Gives back a slot that is on loan or held.
    pub(super) fn give_back(&self, taken: Taken) {
        let is_ours = self.replace(taken.slot, taken.word, taken.word.next_life(FREE, NOBODY));
        debug_assert!(is_ours, "R2: what an end has is its alone");
        fence_after_rmw(); // C5: the futex word is loaded afterwards, of a slot
    }

    /// Receives the message of a broadcast with a number, for an end whose cursor that is.
    pub(super) fn receive(&self, end: u32, number: u64) -> Found {
        match self.look_at(number) {
            At::Nothing => Found::Nothing,
            At::Gone(next) => {
                let head = self.words.head().load(Acquire);
                let next = head.max(next);
                self.words.cursor(end).store(next, Release);
                Found::Missed(next - number)
            }
            At::Queued(slot, word) => {
                self.words.pins(end, slot).set(pin(slot));
                fence_after_rmw(); // C2
                if self.slot(slot) != word {
                    self.unpin(end, slot);
                    self.words.cursor(end).store(number.wrapping_add(1), Release);
                    return Found::Missed(1);
                }
                // Release: the pin comes before it.
                self.words.cursor(end).store(number.wrapping_add(1), Release);
                Found::Message(Taken { slot, number, word })
            }
        }
    }

    /// Reads the latest value.
    pub(super) fn latest(&self, end: u32) -> Latest {
        let mut tried = None;
        loop {
            let next = self.find_next_number();
            if next <= u64::from(self.words.layout().ring_words) {
                return Latest::Nothing;
            }
            let number = next - 1;
            let At::Queued(slot, word) = self.look_at(number) else {
                if tried == Some(number) {
                    return Latest::Nothing; // not what this library writes: the last one is gone
                }
                tried = Some(number);
                continue; // a later one is published
            };
            let taken = Taken { slot, number, word };
            let pins = self.words.pins(end, slot);
            // A pin of this end is another delivery's of the same value.
            let is_pinned = pins.load(Acquire) & pin(slot) != 0;
            if is_pinned || slot >= self.words.layout().pinnable() {
                return Latest::Unpinned(taken);
            }
            pins.set(pin(slot));
            fence_after_rmw(); // C2: of the latest value
            if self.slot(slot) == word {
                return Latest::Pinned(taken);
            }
            self.unpin(end, slot);
        }
    }

    /// Whether what was read of an unpinned value is that value.
    pub(super) fn is_whole(&self, read: Taken) -> bool {
        fence(SeqCst); // C8: what was read comes before it
        let word = self.slot(read.slot);
        [NUMBERED, DROPPED].contains(&word.state()) && word.life() == read.word.life()
    }

    /// Drops all values but the latest, so that their slots can be used.
    pub(super) fn drop_all_but_latest(&self) {
        let next = self.next_number();
        while self.drop_oldest(|number| number + 1 < next) {}
    }

    /// Gives back a message of a broadcast.
    pub(super) fn unpin(&self, end: u32, slot: u32) {
        self.words.pins(end, slot).clear(pin(slot));
        fence_after_rmw(); // C5
    }

    /// Returns the number of the message that is published next, as it is at some moment after the
    /// fence.
    pub(super) fn next_number(&self) -> u64 {
        fence(SeqCst); // C3
        self.find_next_number()
    }

    fn find_next_number(&self) -> u64 {
        loop {
            let sole = SoleWord(self.words.sole().load(Acquire));
            match sole.state() {
                State::Sole => {
                    let tail = self.tail_of(sole);
                    fence_between_loads(); // C9
                    if self.words.sole().load(Acquire) == sole.0 {
                        return tail;
                    }
                }
                State::Closing | State::Filling => self.close_further(sole),
                State::General | State::Opening => return self.next_in_ring(),
            }
        }
    }

    /// Returns the number of the next message, as the ring says.
    fn next_in_ring(&self) -> u64 {
        loop {
            let tail = self.words.tail().load(Acquire);
            match self.words.ring(tail).load(Acquire) >> NUMBER_SHIFT {
                found if found < tail => return tail,
                found => self.advance_tail(found),
            }
        }
    }

    /// Gives back the slots of an end whose owner is dead, except what it has published.
    /// `is_still_dead` says whether the end's entry is still that owner's. Returns early if it is
    /// not. `before_free` is told of each slot before that becomes free, and may ask whether it
    /// still is what it was.
    pub(super) fn recover(
        &self,
        end: u32,
        is_still_dead: impl Fn() -> bool,
        before_free: impl Fn(u32, &dyn Fn() -> bool),
    ) {
        let sole = SoleWord(self.words.sole().load(Acquire));
        if sole.end() == end && !sole.is_general() {
            self.close();
        }
        for slot in self.slots() {
            let word = self.slot(slot);
            if word.end() != end || !matches!(word.state(), LOANED | NUMBERED | HELD) {
                continue;
            }
            if !is_still_dead() {
                return;
            }
            let number = self.words.slot_head(slot, NUMBER).load(Acquire);
            let published = number << NUMBER_SHIFT | u64::from(slot);
            if word.state() == NUMBERED && self.words.ring(number).load(Acquire) == published {
                continue;
            }
            before_free(slot, &|| self.slot(slot) == word);
            let _ = self.replace(slot, word, word.next_life(FREE, NOBODY)); // or another did
        }
        fence(SeqCst); // C5
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
