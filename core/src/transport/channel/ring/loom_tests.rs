//! The ring under loom: every interleaving that it finds, and every value that a load may return,
//! with `ring` and `ends` as they are shipped.
//!
//! Each scenario runs a few threads, each of which stands for a process. The payload of a slot is a
//! loom cell, which reports two processes that touch it without being ordered. `ci/loom` runs this.
#![allow(unsafe_code)] // several threads share the payloads

mod weaker;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};

use super::*;
use crate::header::control::Ordering::Relaxed;
use crate::header::control::loom_scenarios::{Scenario, scenarios};
use crate::header::format::{ChannelLayout, ChannelMode, Payload, WhenFull};
use crate::transport::channel::ends::{Ends, HELD, RECEIVES, SENDS};

scenarios! {
    two_senders_publish_two_whole_messages: 2;
    one_of_two_receivers_takes_a_message: 2;
    a_slot_that_is_used_again_has_one_message_at_a_time: 3;
    the_oldest_is_dropped_or_taken_and_never_both: 2;
    a_pinned_slot_is_not_written: 3;
    a_receiver_of_a_broadcast_sees_each_message: 3;
    one_that_joins_misses_nothing_from_then_on: 3;
    one_that_joins_misses_nothing_that_another_process_drops: 2;
    the_latest_value_is_not_written_while_it_is_pinned: 2;
    a_copy_of_the_latest_value_is_whole: 2;
    two_that_recover_a_dead_sender_free_its_slot_once: 2;
    a_message_of_a_dead_sender_is_received_once: 2;
    a_receiver_that_goes_to_sleep_sees_the_message_or_is_seen: 4;
    a_sender_that_goes_to_sleep_sees_the_slot_or_is_seen: 4;
    a_stream_that_has_a_sender_at_any_time_does_not_end: 2;
    a_sole_sender_and_another_one_publish_two_whole_messages: 2;
    a_message_of_a_session_that_is_closed_is_received_once: 2;
    one_that_begins_a_session_beside_another_sender_publishes_its_message: 2;
    one_of_two_that_send_by_one_end_has_the_session: 2;
}

mod bodies {
    use super::*;

    pub(super) fn two_senders_publish_two_whole_messages() {
        let channel = Model::new(ChannelMode::Queue, 2);
        let senders = [1, 2].map(|value| spawn(move || channel.send(0, value)));
        let mut numbers = senders.map(|sender| sender.join().unwrap());
        let values = [channel.receive(2).unwrap(), channel.receive(2).unwrap()];
        assert!(values == [1, 2] || values == [2, 1], "{values:?}");
        numbers.sort_unstable();
        assert_eq!(numbers, [Some(2), Some(3)]);
    }

    pub(super) fn one_of_two_receivers_takes_a_message() {
        let channel = Model::new(ChannelMode::Queue, 1);
        let receivers = [1, 2].map(|end| spawn(move || channel.receive(end)));
        channel.send(0, 7);
        let received = receivers.map(|receiver| receiver.join().unwrap());
        let all: Vec<_> = received.into_iter().flatten().chain(channel.receive(0)).collect();
        assert_eq!(all, [7]);
    }

    pub(super) fn a_slot_that_is_used_again_has_one_message_at_a_time() {
        let channel = Model::new(ChannelMode::Queue, 1);
        channel.send(0, 1);
        let receiver = spawn(move || channel.receive(1));
        let sent = channel.send(0, 2);
        let first = receiver.join().unwrap();
        assert_eq!(first, Some(1));
        assert_eq!(channel.receive(2), sent.map(|_| 2));
    }

    pub(super) fn the_oldest_is_dropped_or_taken_and_never_both() {
        let channel = Model::new(ChannelMode::Queue, 1);
        channel.send(0, 1);
        let receiver = spawn(move || channel.receive(1));
        let dropped = channel.ring.loan_oldest(0);
        dropped.into_iter().for_each(|loan| _ = channel.publish(loan, 2));
        let received: Vec<_> =
            receiver.join().unwrap().into_iter().chain(channel.receive(2)).collect();
        let expected: &[u64] = if dropped.is_some() { &[2] } else { &[1] };
        assert_eq!(received, expected);
    }

    /// The channel drops the oldest, so the sender never waits.
    pub(super) fn a_pinned_slot_is_not_written() {
        let channel = Model::new(ChannelMode::Broadcast, 1);
        let next = channel.join(1);
        channel.send(0, 1);
        let receiver = spawn(move || match channel.ring.receive(1, next) {
            Found::Message(taken) => channel.read(taken, |taken| channel.ring.unpin(1, taken.slot)),
            Found::Missed(_) => 0,
            Found::Nothing => panic!("it was sent"),
        });
        channel.ring.drop_oldest(|_| true);
        if let Some(loan) = channel.loan(0) {
            channel.publish(loan, 2);
        }
        assert!([0, 1, 2].contains(&receiver.join().unwrap()));
    }

    /// The channel drops only what everybody has received.
    pub(super) fn a_receiver_of_a_broadcast_sees_each_message() {
        let channel = Model::new(ChannelMode::Broadcast, 1);
        let next = channel.join(1);
        channel.send(0, 1);
        let receiver = spawn(move || channel.receive_broadcast(1, next));
        let sent = channel.send_broadcast(0, 2);
        assert_eq!(receiver.join().unwrap(), Some(1));
        let second = channel.receive_broadcast(1, next + 1);
        assert_eq!(second, sent.then_some(2));
    }

    /// A message that is published after the join is not dropped before it was received.
    pub(super) fn one_that_joins_misses_nothing_from_then_on() {
        let channel = Model::new(ChannelMode::Broadcast, 1);
        let joining = spawn(move || channel.join(1));
        let sent = [1, 2].map(|value| channel.send_broadcast(0, value));
        let next = joining.join().unwrap();
        let end = FIRST + sent.into_iter().filter(|is_sent| *is_sent).count() as u64;
        assert_eq!(channel.receive_broadcast(1, next).is_some(), next < end, "{sent:?}");
    }

    pub(super) fn one_that_joins_misses_nothing_that_another_process_drops() {
        let channel = Model::new(ChannelMode::Broadcast, 1);
        let joining = spawn(move || channel.join(1));
        let sending = spawn(move || channel.send_broadcast(0, 1));
        let mine = channel.send_broadcast(2, 2);
        let next = joining.join().unwrap();
        let end = FIRST + u64::from(mine) + u64::from(sending.join().unwrap());
        assert_eq!(channel.receive_broadcast(1, next).is_some(), next < end);
    }

    pub(super) fn the_latest_value_is_not_written_while_it_is_pinned() {
        let channel = Model::new(ChannelMode::Latest, 3);
        channel.hold(1, ALIVE);
        channel.send_latest(0, 1);
        let reader = spawn(move || match channel.ring.latest(1) {
            Latest::Pinned(taken) => channel.read(taken, |taken| channel.ring.unpin(1, taken.slot)),
            Latest::Unpinned(_) => 2, // the next one
            Latest::Nothing => panic!("it was sent"),
        });
        channel.send_latest(0, 2);
        channel.send_latest(0, 3);
        assert!([1, 2, 3].contains(&reader.join().unwrap()));
    }

    /// The slot that may be pinned is: so the values lie in the others, one after the other.
    pub(super) fn a_copy_of_the_latest_value_is_whole() {
        let channel = Model::new(ChannelMode::Latest, 3);
        channel.hold(2, ALIVE);
        channel.send_copied(0, 1);
        assert!(matches!(channel.ring.latest(2), Latest::Pinned(_)));
        channel.send_copied(0, 2);
        let reader = spawn(move || {
            let Latest::Unpinned(taken) = channel.ring.latest(1) else { panic!("it may pin none") };
            let copied = channel.words.slot_head(taken.slot, COPIED).load(Relaxed);
            if channel.ring.is_whole(taken) {
                assert_eq!(copied, taken.number + 1 - channel.first(), "it is another's");
            }
        });
        channel.send_copied(0, 3);
        channel.send_copied(0, 4);
        reader.join().unwrap();
    }

    pub(super) fn two_that_recover_a_dead_sender_free_its_slot_once() {
        let channel = Model::new(ChannelMode::Queue, 1);
        channel.hold(0, DEAD);
        let lost = channel.ring.loan(0, |_| false).unwrap();
        channel.payload(lost).write(9);
        let other = spawn(move || {
            channel.recover(0);
            channel.send(1, 1)
        });
        channel.recover(0);
        let mine = channel.send(2, 2);
        let sent = [other.join().unwrap(), mine];
        // One of them sent at least; a slot that is lent twice would be a race of the payloads.
        assert!(sent.iter().any(Option::is_some));
        let received: Vec<_> = std::iter::from_fn(|| channel.receive(1)).collect();
        assert_eq!(received.len(), sent.iter().flatten().count());
    }

    /// It died when it had published, before it advanced the tail.
    pub(super) fn a_message_of_a_dead_sender_is_received_once() {
        let channel = Model::new(ChannelMode::Queue, 1);
        channel.hold(0, DEAD);
        let loan = channel.ring.loan(0, |_| false).unwrap();
        channel.payload(loan).write(5);
        let number = channel.words.tail().load(Acquire);
        channel.words.slot_head(0, NUMBER).store(number, Release);
        assert!(channel.ring.replace(0, loan.word, loan.word.to(NUMBERED, 0)));
        assert!(channel.words.ring(number).replace(0, number << NUMBER_SHIFT));
        let other = spawn(move || channel.receive(1));
        channel.recover(0);
        let mine = channel.receive(2);
        let received = [mine, other.join().unwrap()];
        assert!(received == [Some(5), None] || received == [None, Some(5)], "{received:?}");
    }

    pub(super) fn a_receiver_that_goes_to_sleep_sees_the_message_or_is_seen() {
        let channel = Model::new(ChannelMode::Queue, 1);
        let receiver = spawn(move || {
            channel.words.published().set(1);
            fence(SeqCst); // C4
            channel.receive(1).is_some()
        });
        channel.send(0, 1);
        let is_seen = channel.words.published().load(Acquire) & 1 != 0;
        assert!(receiver.join().unwrap() || is_seen, "it sleeps, and nobody wakes it");
    }

    pub(super) fn a_sender_that_goes_to_sleep_sees_the_slot_or_is_seen() {
        let channel = Model::new(ChannelMode::Queue, 1);
        channel.send(0, 1);
        let sender = spawn(move || {
            channel.words.freed().set(1);
            fence(SeqCst); // C4
            channel.loan(0).is_some()
        });
        channel.receive(1);
        let is_seen = channel.words.freed().load(Acquire) & 1 != 0;
        assert!(sender.join().unwrap() || is_seen, "it sleeps, and nobody wakes it");
    }

    pub(super) fn a_sole_sender_and_another_one_publish_two_whole_messages() {
        let channel = Model::new(ChannelMode::Queue, 2);
        let session = channel.begin(0).unwrap();
        let other = spawn(move || {
            channel.become_sender(1);
            channel.send(1, 2)
        });
        let mine = channel.send_in(session, 1);
        let numbers = [mine, other.join().unwrap()];
        assert!(numbers == [Some(2), Some(3)] || numbers == [Some(3), Some(2)], "{numbers:?}");
        let values = [channel.receive(2), channel.receive(2)];
        let expected = [Some(1), Some(2)];
        let expected = if numbers[0] == Some(2) { expected } else { [Some(2), Some(1)] };
        assert_eq!(values, expected);
    }

    pub(super) fn a_message_of_a_session_that_is_closed_is_received_once() {
        let channel = Model::new(ChannelMode::Queue, 2);
        let session = channel.begin(0).unwrap();
        let loan = channel.ring.loan_home(session).unwrap();
        channel.payload(loan).write(5);
        let receiver = spawn(move || channel.receive(1));
        let closer = spawn(move || channel.ring.close());
        assert_eq!(channel.ring.publish(loan, Some(session)), 2);
        closer.join().unwrap();
        let received = [receiver.join().unwrap(), channel.receive(2), channel.receive(2)];
        assert!(
            received == [Some(5), None, None] || received == [None, Some(5), None],
            "{received:?}"
        );
        assert_eq!(channel.send(2, 6), Some(3), "the number of the next one");
    }

    pub(super) fn one_that_begins_a_session_beside_another_sender_publishes_its_message() {
        let channel = Model::new(ChannelMode::Queue, 2);
        channel.become_sender(0);
        // Afterwards the next home is the second slot, and the first one is the other sender's.
        channel.send(0, 9);
        assert_eq!(channel.receive(2), Some(9));
        let other = spawn(move || {
            channel.become_sender(1);
            channel.send(1, 2)
        });
        let mine = match channel.begin(0) {
            Some(session) => channel.send_in(session, 1),
            None => channel.send(0, 1),
        };
        let mut numbers = [mine, other.join().unwrap()];
        numbers.sort_unstable();
        assert_eq!(numbers, [Some(3), Some(4)]);
        let values = [channel.receive(2).unwrap(), channel.receive(2).unwrap()];
        assert!(values == [1, 2] || values == [2, 1], "{values:?}");
    }

    /// The other thread has no part in the session.
    pub(super) fn one_of_two_that_send_by_one_end_has_the_session() {
        let channel = Model::new(ChannelMode::Queue, 2);
        channel.become_sender(0);
        let other = spawn(move || channel.send(0, 2));
        let mine = match channel.begin(0) {
            Some(session) => channel.send_in(session, 1),
            None => channel.send(0, 1),
        };
        let mut numbers = [mine, other.join().unwrap()];
        numbers.sort_unstable();
        assert_eq!(numbers, [Some(2), Some(3)]);
        let values = [channel.receive(2).unwrap(), channel.receive(2).unwrap()];
        assert!(values == [1, 2] || values == [2, 1], "{values:?}");
    }

    /// One joins in an entry that a look has passed, and then the one that it has not passed
    /// leaves.
    pub(super) fn a_stream_that_has_a_sender_at_any_time_does_not_end() {
        let channel = Model::new(ChannelMode::Queue, 1);
        channel.hold(2, ALIVE);
        let senders = spawn(move || {
            channel.hold(1, ALIVE + 1);
            channel.ends.leave(2);
        });
        assert_eq!(channel.ends.senders_left_if_none_but(0), None);
        senders.join().unwrap();
    }
}

/// The number of the first message, where there is one slot.
const FIRST: u64 = 1;
/// A word of a slot's head that stands for a payload.
const COPIED: usize = 2;
/// An owner that is dead, and one that is not.
const DEAD: u64 = 7;
const ALIVE: u64 = 3;

fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    thread::spawn(body)
}

/// The payload of a slot.
struct Cell(UnsafeCell<u64>);

// SAFETY: shared references must be usable by several threads at once; loom checks each access.
unsafe impl Sync for Cell {}
// SAFETY: the value must be usable in another thread; it is a number.
unsafe impl Send for Cell {}

impl Cell {
    fn write(&self, value: u64) {
        // SAFETY: nobody else may access the value meanwhile, which loom checks.
        self.0.with_mut(|at| unsafe { *at = value });
    }
}

/// A channel of three ends.
#[derive(Clone, Copy)]
struct Model {
    words: ChannelWords,
    ring: Ring,
    ends: Ends,
    payloads: &'static [Cell],
}

impl Model {
    fn new(mode: ChannelMode, slots: u32) -> Self {
        let layout = ChannelLayout {
            mode,
            when_full: WhenFull::Block,
            payload: Payload::Fixed,
            slots,
            slot_bytes: 64,
            ring_words: slots.next_power_of_two(),
            ends: 3,
            is_followed: false,
            family: 0,
            ring_offset: 0,
            ends_offset: 0,
            slots_offset: 0,
        };
        let words = ChannelWords::modelled(layout);
        let payloads: Vec<_> = (0..slots).map(|_| Cell(UnsafeCell::new(0))).collect();
        let ring = Ring::new(words);
        let ends = Ends::new(words);
        Self { words, ring, ends, payloads: Box::leak(payloads.into_boxed_slice()) }
    }

    fn hold(&self, end: u32, owner: u64) {
        self.words.entry(end).owner.store(owner << 1 | HELD, Release);
    }

    /// Joins a broadcast as `End::join` does. Returns the cursor.
    fn join(&self, end: u32) -> u64 {
        self.words.roles(end).set(RECEIVES);
        self.words.cursor(end).store(self.words.tail().load(Acquire), Release);
        assert!(self.words.entry(end).owner.replace(0, ALIVE << 1 | HELD));
        let next = self.ring.next_number();
        self.words.cursor(end).store(next, Release);
        next
    }

    fn payload(&self, taken: Taken) -> &'static Cell {
        &self.payloads[taken.slot as usize]
    }

    /// Reads a payload, and then gives its slot back.
    fn read(&self, taken: Taken, give_back: impl FnOnce(Taken)) -> u64 {
        // SAFETY: nobody may write the value meanwhile, which loom checks.
        let value = self.payload(taken).0.with(|at| unsafe { *at });
        give_back(taken);
        value
    }

    fn loan(&self, end: u32) -> Option<Taken> {
        self.ring.loan(end, |slot| self.ends.is_pinned(slot))
    }

    fn publish(&self, loan: Taken, value: u64) -> u64 {
        self.payload(loan).write(value);
        self.ring.publish(loan, None)
    }

    /// Makes an end one that sends, as `End::become_sender` does.
    fn become_sender(&self, end: u32) {
        self.hold(end, ALIVE);
        self.words.roles(end).set(SENDS);
    }

    /// Begins a session of an end, unless another one sends.
    fn begin(&self, end: u32) -> Option<SoleWord> {
        self.ring.begin(end, || self.ends.is_sole_sender(end))
    }

    /// Sends as the sole sender does.
    fn send_in(&self, session: SoleWord, value: u64) -> Option<u64> {
        let loan = self.ring.loan_home(session).or_else(|| self.loan(session.end()))?;
        self.payload(loan).write(value);
        Some(self.ring.publish(loan, Some(session)))
    }

    fn send(&self, end: u32, value: u64) -> Option<u64> {
        self.loan(end).map(|loan| self.publish(loan, value))
    }

    /// The number of the first message.
    fn first(&self) -> u64 {
        u64::from(self.words.layout().ring_words)
    }

    fn loan_latest(&self, end: u32) -> Taken {
        self.ring.drop_all_but_latest();
        self.loan(end).expect("whatever the reader has, there is one")
    }

    /// Sends a value as a sender of the latest value does.
    fn send_latest(&self, end: u32, value: u64) {
        let loan = self.loan_latest(end);
        self.publish(loan, value);
    }

    /// The same, with a payload that is read while it is written.
    fn send_copied(&self, end: u32, value: u64) {
        let loan = self.loan_latest(end);
        self.words.slot_head(loan.slot, COPIED).store(value, Relaxed);
        self.ring.publish(loan, None);
    }

    fn receive(&self, end: u32) -> Option<u64> {
        let taken = self.ring.take(end)?;
        Some(self.read(taken, |taken| self.ring.give_back(taken)))
    }

    /// Sends if there is a slot, or a message that everybody has received.
    fn send_broadcast(&self, end: u32, value: u64) -> bool {
        let found = self.loan(end).or_else(|| {
            self.ring.drop_oldest(|number| self.ends.has_everybody_passed(number));
            self.loan(end)
        });
        found.map(|loan| self.publish(loan, value)).is_some()
    }

    /// Receives the message with a number, and fails if it was missed.
    fn receive_broadcast(&self, end: u32, number: u64) -> Option<u64> {
        match self.ring.receive(end, number) {
            Found::Message(taken) => {
                Some(self.read(taken, |taken| self.ring.unpin(end, taken.slot)))
            }
            Found::Missed(count) => panic!("it missed {count}"),
            Found::Nothing => None,
        }
    }

    /// Recovers an end as `recovery` does.
    fn recover(&self, end: u32) {
        let entry = &self.words.entry(end).owner;
        let word = entry.load(Acquire);
        if word >> 1 == DEAD {
            self.ring.recover(end, || entry.load(Acquire) == word, |_, _| ());
            let _ = entry.replace(word, 0);
        }
    }
}
