//! Sleeping at a futex word of a channel, and waking.

use super::{World, must_be_caught, must_hold};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    /// Wakes one receiver for each message.
    Queue,
    /// Wakes all receivers.
    Broadcast,
    /// A receiver does not look once more after it has set the bit.
    WithoutSecondLook,
    /// A sender loads the word before it publishes.
    WordFirst,
    /// Wakes all receivers, and clears the bit without a change of the count.
    WithoutCount,
    /// A sender that woke nobody clears the bit, and wakes nobody afterwards.
    WithoutLastWake,
    /// A sender that has woken one process clears the bit, and wakes no more.
    ClearsAlways,
}

/// A futex word: bit 0, and the count in the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Futex {
    sleepers: bool,
    count: u8,
}

/// The next step of a process, with what it has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Publish,
    LoadWord,
    Wake(Futex),
    Clear(Futex),
    WakeAll,
    Ended,
    /// A receiver.
    Look,
    SetBit,
    LookAgain(Futex),
    Sleep(Futex),
    Asleep,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    /// A sender's messages that are still to come.
    left: u8,
    /// A receiver's messages, where each one has all.
    unread: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    word: Futex,
    /// The messages that are there: for anyone, and in broadcast for each receiver.
    queued: u8,
    actors: Vec<Actor>,
    protocol: u8,
}

impl Waiting {
    fn new(protocol: Protocol, senders: &[u8], receivers: usize) -> Self {
        let first = if protocol == Protocol::WordFirst { At::LoadWord } else { At::Publish };
        let sender = |left: &u8| Actor { at: first, left: *left, unread: 0 };
        let receiver = Actor { at: At::Look, left: 0, unread: 0 };
        let mut actors: Vec<_> = senders.iter().map(sender).collect();
        actors.extend((0..receivers).map(|_| receiver));
        let word = Futex { sleepers: false, count: 0 };
        Self { word, queued: 0, actors, protocol: protocol as u8 }
    }

    fn is(&self, protocol: Protocol) -> bool {
        self.protocol == protocol as u8
    }

    fn is_broadcast(&self) -> bool {
        self.is(Protocol::Broadcast) || self.is(Protocol::WithoutCount)
    }

    fn has_message(&self, number: usize) -> bool {
        if self.is_broadcast() { self.actors[number].unread > 0 } else { self.queued > 0 }
    }

    fn take(&mut self, number: usize) {
        if self.is_broadcast() { self.actors[number].unread -= 1 } else { self.queued -= 1 }
    }

    fn publish(&mut self) {
        self.queued += 1;
        for actor in &mut self.actors {
            actor.unread += 1;
        }
    }

    fn wake_all(&mut self) -> bool {
        let mut has_woken = false;
        for actor in self.actors.iter_mut().filter(|actor| actor.at == At::Asleep) {
            (actor.at, has_woken) = (At::Look, true);
        }
        has_woken
    }

    fn with(&self, number: usize, at: At) -> Self {
        let mut next = self.clone();
        next.actors[number].at = at;
        next
    }

    /// The next step of a sender whose wake is done.
    fn next_message(&self, number: usize) -> At {
        if self.actors[number].left > 0 { At::Publish } else { At::Ended }
    }

    fn sender_steps(&self, number: usize) -> Vec<Self> {
        let mut next = self.clone();
        let after = match self.actors[number].at {
            At::Publish => {
                next.publish();
                next.actors[number].left -= 1;
                if self.is(Protocol::WordFirst) && next.actors[number].left == 0 {
                    At::Ended
                } else {
                    At::LoadWord
                }
            }
            At::LoadWord if self.word.sleepers => At::Wake(self.word),
            At::LoadWord => self.next_message(number),
            At::Wake(word) => return self.wake(number, word),
            At::Clear(word) => {
                if self.word == word {
                    let more = u8::from(!self.is(Protocol::WithoutCount));
                    next.word = Futex { sleepers: false, count: word.count + more };
                }
                if self.is(Protocol::WithoutLastWake) || self.is(Protocol::ClearsAlways) {
                    self.next_message(number)
                } else {
                    At::WakeAll
                }
            }
            At::WakeAll => {
                next.wake_all();
                self.next_message(number)
            }
            _ => return Vec::new(),
        };
        vec![next.with(number, after)]
    }

    /// Wakes one receiver, any that sleeps, or all.
    fn wake(&self, number: usize, word: Futex) -> Vec<Self> {
        let mut next = self.clone();
        if self.is_broadcast() {
            next.wake_all();
            return vec![next.with(number, At::Clear(word))];
        }
        let clears = self.is(Protocol::ClearsAlways);
        let after = if clears { At::Clear(word) } else { self.next_message(number) };
        let sleepers = (0..self.actors.len()).filter(|other| self.actors[*other].at == At::Asleep);
        let woken: Vec<_> =
            sleepers.map(|other| self.with(number, after).with(other, At::Look)).collect();
        if woken.is_empty() { vec![self.with(number, At::Clear(word))] } else { woken }
    }

    fn receiver_step(&self, number: usize) -> Option<Self> {
        let mut next = self.clone();
        let after = match self.actors[number].at {
            At::Look | At::LookAgain(_) if self.has_message(number) => {
                next.take(number);
                At::Look
            }
            At::Look => At::SetBit,
            At::SetBit => {
                next.word.sleepers = true;
                if self.is(Protocol::WithoutSecondLook) {
                    At::Sleep(next.word)
                } else {
                    At::LookAgain(next.word)
                }
            }
            At::LookAgain(word) => At::Sleep(word),
            At::Sleep(word) if self.word == word => At::Asleep,
            At::Sleep(_) => At::Look,
            _ => return None,
        };
        Some(next.with(number, after))
    }
}

impl World for Waiting {
    fn successors(&self) -> Vec<Self> {
        let of = |number| {
            let receiver = self.receiver_step(number);
            receiver.map_or_else(|| self.sender_steps(number), |next| vec![next])
        };
        (0..self.actors.len()).flat_map(of).collect()
    }

    fn violation(&self) -> Option<&'static str> {
        let is_still = self.actors.iter().all(|actor| matches!(actor.at, At::Ended | At::Asleep));
        let sleeps_beside =
            |number: usize| self.actors[number].at == At::Asleep && self.has_message(number);
        let somebody_does = (0..self.actors.len()).any(sleeps_beside);
        (is_still && somebody_does).then_some("a receiver sleeps beside a message")
    }
}

#[test]
fn nobody_sleeps_beside_a_message() {
    must_hold("queue: two senders, two receivers", Waiting::new(Protocol::Queue, &[2, 2], 2));
    must_hold("broadcast: two senders, two", Waiting::new(Protocol::Broadcast, &[2, 2], 2));
}

#[test]
fn a_weaker_wait_is_caught() {
    for (what, protocol) in [
        ("no second look", Protocol::WithoutSecondLook),
        ("the word first", Protocol::WordFirst),
        ("no count", Protocol::WithoutCount),
        ("no last wake", Protocol::WithoutLastWake),
        ("clears always", Protocol::ClearsAlways),
    ] {
        must_be_caught(what, Waiting::new(protocol, &[2, 2], 2));
    }
}
