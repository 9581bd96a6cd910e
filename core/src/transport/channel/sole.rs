//! The sole word: whether a queue has one sender, which publishes in the slots alone.
//!
//! CHANNELS.md, "A sole sender", describes it. **sole word**: bits 0–2 the state, bits 3–12 the
//! sender's end, bits 13–16 the homes as a power of two, bits 17–63 a number. AcqRel.
//!
//! | from | to | function of `Ring` |
//! |---|---|---|
//! | GENERAL | OPENING | `begin`, by the sender |
//! | OPENING | SOLE, with the base | the same |
//! | OPENING | GENERAL | `close`, by any process |
//! | SOLE | CLOSING | the same |
//! | CLOSING | FILLING, with the tail | the same |
//! | FILLING | GENERAL | the same |

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

const STATE_MASK: u64 = 0b111;
const END_SHIFT: u32 = 3;
const END_MASK: u64 = 1023;
const HOMES_SHIFT: u32 = 13;
const HOMES_MASK: u64 = 15;
const NUMBER_SHIFT: u32 = 17;
/// Numbers from this one on have no room in the word.
const MOST_NUMBER: u64 = 1 << (64 - NUMBER_SHIFT);

/// A sender tries to be the sole one again after this many loans, and after twice as many each time
/// that it was not for long.
const FIRST_WAIT: u32 = 64;
const LONGEST_WAIT: u32 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    General,
    Opening,
    Sole,
    Closing,
    Filling,
}

/// The value of the sole word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SoleWord(pub(super) u64);

impl SoleWord {
    pub(super) fn state(self) -> State {
        match self.0 & STATE_MASK {
            1 => State::Opening,
            2 => State::Sole,
            3 => State::Closing,
            4 => State::Filling,
            _ => State::General,
        }
    }

    pub(super) fn is_general(self) -> bool {
        self.state() == State::General
    }

    /// Returns the sender of the session.
    pub(super) fn end(self) -> u32 {
        (self.0 >> END_SHIFT & END_MASK) as u32
    }

    /// Returns the number of homes.
    pub(super) fn homes(self) -> u32 {
        1 << (self.0 >> HOMES_SHIFT & HOMES_MASK)
    }

    /// Returns the home of a message: the slot in which the sole sender publishes it.
    pub(super) fn home(self, number: u64) -> u32 {
        number as u32 & (self.homes() - 1)
    }

    /// Whether there is room for the number after this one.
    pub(super) fn has_room_after(number: u64) -> bool {
        number < MOST_NUMBER - 1
    }

    /// Returns the base in SOLE, the tail in FILLING.
    pub(super) fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    /// Returns the word of a sender that begins a session with so many homes, a power of two.
    pub(super) fn opening(self, end: u32, homes: u32) -> Self {
        let homes = u64::from(homes.trailing_zeros()) << HOMES_SHIFT;
        let parts = homes | u64::from(end) << END_SHIFT;
        Self(self.number() << NUMBER_SHIFT | parts).to(State::Opening)
    }

    /// Returns the word in another state.
    pub(super) fn to(self, state: State) -> Self {
        Self(self.0 & !STATE_MASK | state as u64)
    }

    /// Returns the word in another state, with a number. `None` if it has no room.
    pub(super) fn with(self, state: State, number: u64) -> Option<Self> {
        let parts = self.0 & ((1 << NUMBER_SHIFT) - 1);
        (number < MOST_NUMBER).then(|| Self(number << NUMBER_SHIFT | parts).to(state))
    }
}

/// The session of an end of this process. It belongs to one thread: any other one of the end closes
/// it, as another process would.
pub(super) struct Session {
    /// The sole word of the session; 0 without one.
    word: AtomicU64,
    thread: AtomicUsize,
    /// Whether a thread begins one.
    is_beginning: AtomicBool,
    /// The loans until the end tries to begin one.
    wait: AtomicU32,
    next_wait: AtomicU32,
}

impl Session {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
            is_beginning: AtomicBool::new(false),
            wait: AtomicU32::new(0),
            next_wait: AtomicU32::new(FIRST_WAIT),
        }
    }

    /// Returns the session if it is this thread's.
    pub(super) fn of_this_thread(&self) -> Option<SoleWord> {
        let word = self.word.load(Relaxed);
        (word != 0 && self.thread.load(Relaxed) == this_thread()).then_some(SoleWord(word))
    }

    /// Publishes with the session that this thread has, if it has one. The end has none meanwhile,
    /// so a signal handler that sends by it does as another thread would.
    #[inline]
    pub(super) fn publish_with(&self, publish: impl FnOnce(Option<SoleWord>) -> u64) -> u64 {
        let session = self.of_this_thread();
        let Some(word) = session else { return publish(None) };
        self.word.store(0, Relaxed);
        compiler_fence(SeqCst); // for the handler
        let number = publish(session);
        compiler_fence(SeqCst);
        self.word.store(word.0, Relaxed);
        number
    }

    /// Whether it is time to try to begin one.
    pub(super) fn is_due(&self) -> bool {
        let wait = self.wait.load(Relaxed);
        if wait > 0 {
            self.wait.store(wait - 1, Relaxed);
        }
        wait == 0
    }

    /// Begins one, unless another thread does so now.
    pub(super) fn begin(&self, begin: impl FnOnce() -> Option<SoleWord>) -> Option<SoleWord> {
        if self.is_beginning.swap(true, Acquire) {
            return None;
        }
        let begun = begin();
        if let Some(word) = begun {
            self.thread.store(this_thread(), Relaxed);
            self.word.store(word.0, Relaxed);
        }
        self.is_beginning.store(false, Release);
        begun
    }

    /// Notes that the session was closed, or could not begin: it had so many messages.
    pub(super) fn ended(&self, messages: u64) {
        self.word.store(0, Relaxed);
        if messages > u64::from(LONGEST_WAIT) {
            self.next_wait.store(FIRST_WAIT, Relaxed);
        }
        let wait = self.next_wait.load(Relaxed);
        self.wait.store(wait, Relaxed);
        self.next_wait.store((2 * wait).min(LONGEST_WAIT), Relaxed);
    }
}

/// Returns a number that no other living thread of this process has.
fn this_thread() -> usize {
    thread_local! {
        static HERE: Cell<u8> = const { Cell::new(0) };
    }
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts() {
        let general = SoleWord(0);
        assert!(general.is_general());
        let opening = general.opening(1022, 8);
        assert_eq!(opening.state(), State::Opening);
        let sole = opening.with(State::Sole, MOST_NUMBER - 1).unwrap();
        assert_eq!((sole.state(), sole.end(), sole.number()), (State::Sole, 1022, MOST_NUMBER - 1));
        assert_eq!((sole.home(8), sole.home(15)), (0, 7));
        let closing = sole.to(State::Closing);
        assert_eq!(
            (closing.state(), closing.end(), closing.number()),
            (State::Closing, 1022, sole.number())
        );
        let filling = closing.with(State::Filling, 5).unwrap();
        assert_eq!((filling.state(), filling.number(), filling.homes()), (State::Filling, 5, 8));
        assert!(filling.to(State::General).is_general());
        assert_eq!(closing.with(State::Filling, MOST_NUMBER), None);
    }

    #[test]
    fn a_session_belongs_to_its_thread() {
        let session = Session::new();
        assert!(session.is_due());
        let word = SoleWord(0).opening(3, 4).to(State::Sole);
        let begun = session.begin(|| {
            assert_eq!(session.begin(|| panic!("another thread begins one")), None);
            Some(word)
        });
        assert_eq!((begun, session.of_this_thread()), (Some(word), Some(word)));
        let in_another =
            std::thread::scope(|scope| scope.spawn(|| session.of_this_thread()).join().unwrap());
        assert_eq!(in_another, None);
        for (messages, expected) in [(0, 64), (5, 128), (0, 256), (5000, 64), (0, 128)] {
            session.ended(messages);
            assert!(session.of_this_thread().is_none());
            assert_eq!((0..).take_while(|_| !session.is_due()).count(), expected, "{messages}");
        }
    }
}
