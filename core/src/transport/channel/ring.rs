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
//! | NUMBERED, and the ring has it | HELD | `take` |
//! | the same | LOANED | `loan_oldest` |
//! | the same | DROPPED | `drop_oldest` |
//! | LOANED, HELD | FREE | `give_back` |
//! | LOANED, HELD; NUMBERED, and the ring does not have it | FREE | `recover` |
//!
//! **ring word**: bits 0–9 the slot, bits 10–63 the number of its message, which only grows.
//!
//! Invariants:
//! * R1 a message is published by one store to the ring, so its numbers have no gaps.
//! * R2 only a process that has a slot LOANED, HELD or pinned touches its payload.
//! * R3 the tail and the head are never ahead of the ring.

use super::ends::pin;
use crate::header::control::Ordering::{Acquire, Release, SeqCst};
use crate::header::control::{ChannelWords, fence, fence_after_rmw};

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
        DROPPED, HELD, LOANED, NUMBER, NUMBER_SHIFT, NUMBERED, SLOT_MASK, SlotWord, WORD, Words,
    };

    /// The number of the message in a ring word.
    pub(crate) fn number(ring: u64) -> u64 {
        ring >> NUMBER_SHIFT
    }

    /// The slot of the message in a ring word.
    pub(crate) fn slot(ring: u64) -> u32 {
        (ring & SLOT_MASK) as u32
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

    /// The use of a slot, for people.
    pub(crate) enum SlotUse {
        Free,
        /// By an end.
        Loaned(u32),
        Queued,
        /// By an end.
        Held(u32),
    }

    pub(crate) fn slot_use(head: &Words) -> SlotUse {
        let word = SlotWord(head[WORD]);
        match word.state() {
            LOANED => SlotUse::Loaned(word.end()),
            NUMBERED => SlotUse::Queued,
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

    /// Publishes what is on loan (R1). Returns its number.
    pub(super) fn publish(&self, loan: Taken) -> u64 {
        let slot = loan.slot;
        let numbered = loan.word.to(NUMBERED, loan.word.end());
        let mut is_numbered = false;
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
                debug_assert!(self.slot(slot) == loan.word, "R2: a loan is its end's alone");
                self.words.slot_head(slot, WORD).store(numbered.0, Release);
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

    /// Looks at the message with a number.
    fn look_at(&self, number: u64) -> At {
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
