//! A channel of which every receiver has every message.

use super::publish::{Loan, Outcome, Publish, Weaker};
use super::ring::{ENDS, NOBODY, Ring, SLOTS, State, Word};
use super::{World, must_be_caught, must_hold};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    /// A full channel blocks.
    Blocks,
    /// A full channel drops the oldest message.
    DropsOldest,
    /// Drops the oldest, and a receiver does not load the slot word again after it has set its pin.
    WithoutSecondLook,
    /// Drops the oldest, and a sender looks at the pins before it makes the slot DROPPED.
    PinsFirst,
    /// Blocks, and a receiver that joins does not load the tail again.
    JoinsAtOnce,
    /// Blocks, and a receiver advances its cursor before it sets its pin.
    CursorFirst,
    /// Drops the oldest, and counts nothing as missed if the ring has gone round.
    CountsOne,
}

/// The next step of a process, with what it has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Loan(u8),
    TakeFree(u8, Word),
    /// Looks at the pins of an end in a DROPPED slot.
    LoadPins(u8, Word, u8),
    TakeDropped(u8, Word),
    LoadHead,
    LoadOldest(i8),
    LoadWord(i8, u8),
    LoadNumber(i8, u8, Word),
    LoadCursor(i8, u8, Word, u8),
    Drop(i8, u8, Word),
    AdvanceHead(i8),
    Write,
    Publish(Publish),
    JoinTail,
    Enter(i8),
    JoinTailAgain,
    JoinRing(i8),
    JoinHelp(i8),
    StoreCursor(i8),
    Receive,
    FindHead,
    Skip(i8),
    ReceiveWord(u8),
    ReceiveNumber(u8, Word),
    Pin(u8, Word),
    LookAgain(u8, Word),
    UnpinMissed(u8),
    AdvanceCursor(u8),
    LatePin(u8),
    Read,
    Unpin,
    Done,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    end: u8,
    next: u8,
    last: u8,
    /// How many earlier messages a receiver has first.
    history: i8,
    loan: Loan,
    may_die: bool,
}

const MESSAGES: usize = 5;
const UNPUBLISHED: i8 = -9;
const EMPTY: Word = Word { state: State::Free, end: NOBODY, life: 0 };

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Broadcast {
    ring: Ring,
    cursors: [i8; ENDS],
    pins: [u8; ENDS],
    actors: Vec<Actor>,
    numbers: [i8; MESSAGES],
    /// The numbers that each end has received, those that it counted as missed, and the first that
    /// it must have.
    received: [u8; ENDS],
    missed: [u8; ENDS],
    first: [i8; ENDS],
    deaths: u8,
    violation: Option<&'static str>,
    protocol: u8,
}

fn actor(at: At, end: u8, messages: (u8, u8), may_die: bool) -> Actor {
    Actor {
        at,
        end,
        next: messages.0,
        last: messages.1,
        history: 0,
        loan: Loan { slot: 0, word: EMPTY },
        may_die,
    }
}

fn sender(end: u8, first: u8, last: u8) -> Actor {
    actor(At::Loan(0), end, (first, last), false)
}

fn receiver(end: u8) -> Actor {
    actor(At::JoinTail, end, (0, 0), true)
}

fn late_receiver(end: u8, history: i8) -> Actor {
    Actor { history, ..receiver(end) }
}

fn bit(number: i8) -> u8 {
    1 << number
}

impl Broadcast {
    fn new(protocol: Protocol, deaths: u8, actors: &[Actor]) -> Self {
        let mut owners = [0; ENDS];
        for (number, actor) in actors.iter().enumerate() {
            if actor.at != At::JoinTail {
                owners[actor.end as usize] = number as u8 + 1;
            }
        }
        Self {
            ring: Ring::new(owners),
            cursors: [0; ENDS],
            pins: [0; ENDS],
            actors: actors.to_vec(),
            numbers: [UNPUBLISHED; MESSAGES],
            received: [0; ENDS],
            missed: [0; ENDS],
            first: [i8::MAX; ENDS],
            deaths,
            violation: None,
            protocol: protocol as u8,
        }
    }

    fn is(&self, protocol: Protocol) -> bool {
        self.protocol == protocol as u8
    }

    fn blocks(&self) -> bool {
        let blocking = [Protocol::Blocks, Protocol::JoinsAtOnce, Protocol::CursorFirst];
        blocking.into_iter().any(|protocol| self.is(protocol))
    }

    fn fail(&mut self, violation: &'static str) {
        self.violation.get_or_insert(violation);
    }

    /// Whether an end is a receiver that lives.
    fn receives(&self, end: u8) -> bool {
        let owner = self.ring.owners[end as usize] as usize;
        owner > 0 && self.actors[owner - 1].at != At::Dead && self.actors[owner - 1].last == 0
    }

    /// Whether an end that lives has a slot pinned.
    fn is_pinned(&self, end: u8, slot: u8) -> bool {
        self.receives(end) && self.pins[end as usize] & bit(slot as i8) != 0
    }

    fn payload_is(&self, slot: u8, number: i8) -> bool {
        self.numbers[self.ring.slots[slot as usize].payload as usize] == number
    }

    fn miss(&mut self, end: usize, numbers: std::ops::Range<i8>) {
        for number in numbers {
            self.missed[end] |= bit(number);
            if self.blocks() && number >= self.first[end] {
                self.fail("a message was missed where a full channel blocks");
            }
        }
    }

    fn step(&self, number: usize) -> Option<Self> {
        let mut next = self.clone();
        let mut me = self.actors[number];
        let at = next
            .loan_step(&mut me)
            .or_else(|| next.drop_step(&mut me))
            .or_else(|| next.write_step(&me))
            .or_else(|| next.publish_step(&mut me))
            .or_else(|| next.join_step(&me, number))
            .or_else(|| next.receive_step(&mut me))
            .or_else(|| next.hold_step(&mut me))?;
        me.at = at;
        next.actors[number] = me;
        Some(next)
    }

    fn loan_step(&mut self, me: &mut Actor) -> Option<At> {
        let after =
            |slot: u8| if slot as usize + 1 < SLOTS { At::Loan(slot + 1) } else { At::LoadHead };
        Some(match me.at {
            At::Loan(slot) => match self.ring.slots[slot as usize].word {
                word if word.state == State::Free => At::TakeFree(slot, word),
                word if word.state == State::Dropped => At::LoadPins(slot, word, 0),
                _ => after(slot),
            },
            At::LoadPins(slot, _, end) if self.is_pinned(end, slot) => after(slot),
            At::LoadPins(slot, word, end) if end as usize + 1 < ENDS => {
                At::LoadPins(slot, word, end + 1)
            }
            At::LoadPins(slot, word, _) => At::TakeDropped(slot, word),
            At::TakeFree(slot, word) | At::TakeDropped(slot, word) => {
                let loaned = word.next_life(State::Loaned, me.end);
                let done = self.ring.replace(slot, word, loaned);
                me.loan = Loan { slot, word: loaned };
                if done { At::Write } else { At::Loan(0) }
            }
            _ => return None,
        })
    }

    /// Drops the oldest message, if that is allowed.
    fn drop_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::LoadHead => At::LoadOldest(self.ring.head),
            At::LoadOldest(head) => match self.ring.word_of(head) {
                word if word.number < head => At::Loan(0),
                word if word.number > head => At::AdvanceHead(head),
                word => At::LoadWord(head, word.slot),
            },
            At::LoadWord(head, slot) => {
                At::LoadNumber(head, slot, self.ring.slots[slot as usize].word)
            }
            At::LoadNumber(head, slot, word) => {
                let is_it = self.ring.slots[slot as usize].number == head;
                match word.state {
                    State::Numbered if is_it && self.blocks() => {
                        At::LoadCursor(head, slot, word, 0)
                    }
                    State::Numbered if is_it && self.is(Protocol::PinsFirst) => {
                        if (0..ENDS as u8).any(|end| self.is_pinned(end, slot)) {
                            At::Loan(0)
                        } else {
                            At::Drop(head, slot, word)
                        }
                    }
                    State::Numbered if is_it => At::Drop(head, slot, word),
                    _ => At::AdvanceHead(head),
                }
            }
            At::LoadCursor(head, slot, word, end) => {
                let is_behind = self.receives(end) && self.cursors[end as usize] <= head;
                if is_behind {
                    At::Loan(0)
                } else if end as usize + 1 < ENDS {
                    At::LoadCursor(head, slot, word, end + 1)
                } else {
                    At::Drop(head, slot, word)
                }
            }
            At::Drop(head, slot, word) if self.is(Protocol::PinsFirst) => {
                let loaned = word.next_life(State::Loaned, me.end);
                let done = self.ring.replace(slot, word, loaned);
                me.loan = Loan { slot, word: loaned };
                self.ring.advance_head(head);
                if done { At::Write } else { At::Loan(0) }
            }
            At::Drop(head, slot, word) => {
                if self.ring.replace(slot, word, word.to(State::Dropped, NOBODY)) {
                    At::AdvanceHead(head)
                } else {
                    At::Loan(0)
                }
            }
            At::AdvanceHead(head) => {
                self.ring.advance_head(head);
                At::Loan(0)
            }
            _ => return None,
        })
    }

    fn write_step(&mut self, me: &Actor) -> Option<At> {
        if me.at != At::Write {
            return None;
        }
        let slot = &mut self.ring.slots[me.loan.slot as usize];
        let has_it = slot.word == me.loan.word;
        slot.payload = me.next;
        if !has_it {
            self.fail("a slot is written by a process that does not have it");
        }
        Some(At::Publish(Publish::LoadTail))
    }

    fn publish_step(&mut self, me: &mut Actor) -> Option<At> {
        let At::Publish(step) = me.at else { return None };
        Some(match step.step(&mut self.ring, &mut me.loan, Weaker::default()) {
            Outcome::Next(step) => At::Publish(step),
            Outcome::Published(number, step) => {
                self.numbers[me.next as usize] = number;
                At::Publish(step)
            }
            Outcome::LoanLost => {
                self.fail("a loan was taken from a living process");
                At::Done
            }
            Outcome::Done => {
                me.next += 1;
                if me.next > me.last { At::Done } else { At::Loan(0) }
            }
        })
    }

    fn join_step(&mut self, me: &Actor, number: usize) -> Option<At> {
        let end = me.end as usize;
        Some(match me.at {
            At::JoinTail => At::Enter(self.ring.tail),
            At::Enter(tail) => {
                self.cursors[end] = tail;
                self.ring.owners[end] = number as u8 + 1;
                if self.is(Protocol::JoinsAtOnce) {
                    self.first[end] = tail;
                    At::Receive
                } else {
                    At::JoinTailAgain
                }
            }
            At::JoinTailAgain => At::JoinRing(self.ring.tail),
            At::JoinRing(tail) => {
                if self.ring.word_of(tail).number < tail {
                    self.first[end] = tail;
                    At::StoreCursor(tail)
                } else {
                    At::JoinHelp(tail)
                }
            }
            At::JoinHelp(tail) => {
                self.ring.advance_tail(tail);
                At::JoinTailAgain
            }
            At::StoreCursor(tail) => {
                self.cursors[end] = (tail - me.history).max(0);
                At::Receive
            }
            _ => return None,
        })
    }

    fn receive_step(&mut self, me: &mut Actor) -> Option<At> {
        let end = me.end as usize;
        let cursor = self.cursors[end];
        Some(match me.at {
            At::Receive => match self.ring.word_of(cursor) {
                word if word.number < cursor => return None,
                word if word.number > cursor => At::FindHead,
                word => At::ReceiveWord(word.slot),
            },
            At::FindHead => At::Skip(self.ring.head.max(cursor + 1)),
            At::Skip(to) => {
                let counted = if self.is(Protocol::CountsOne) { cursor + 1 } else { to };
                self.miss(end, cursor..counted);
                self.cursors[end] = to;
                At::Receive
            }
            At::ReceiveWord(slot) => At::ReceiveNumber(slot, self.ring.slots[slot as usize].word),
            At::ReceiveNumber(slot, word) => {
                let is_it = self.ring.slots[slot as usize].number == cursor;
                match word.state {
                    State::Numbered if is_it && self.is(Protocol::CursorFirst) => {
                        me.loan.word = word;
                        At::AdvanceCursor(slot)
                    }
                    State::Numbered if is_it => At::Pin(slot, word),
                    _ => At::Skip(cursor + 1),
                }
            }
            _ => return None,
        })
    }

    /// Holds a message that was found, and gives it back.
    fn hold_step(&mut self, me: &mut Actor) -> Option<At> {
        let end = me.end as usize;
        let cursor = self.cursors[end];
        Some(match me.at {
            At::Pin(slot, word) => {
                self.pins[end] |= bit(slot as i8);
                if self.is(Protocol::WithoutSecondLook) {
                    At::AdvanceCursor(slot)
                } else {
                    At::LookAgain(slot, word)
                }
            }
            At::LookAgain(slot, word) => {
                if self.ring.slots[slot as usize].word == word {
                    At::AdvanceCursor(slot)
                } else {
                    At::UnpinMissed(slot)
                }
            }
            At::UnpinMissed(slot) => {
                self.pins[end] &= !bit(slot as i8);
                At::Skip(cursor + 1)
            }
            At::AdvanceCursor(slot) => {
                self.received[end] |= bit(cursor);
                self.cursors[end] = cursor + 1;
                me.loan.slot = slot;
                if self.is(Protocol::CursorFirst) { At::LatePin(slot) } else { At::Read }
            }
            At::LatePin(slot) => {
                self.pins[end] |= bit(slot as i8);
                At::Read
            }
            At::Read => {
                if !self.payload_is(me.loan.slot, cursor - 1) {
                    self.fail("a message changed while it was held");
                }
                At::Unpin
            }
            At::Unpin => {
                self.pins[end] &= !bit(me.loan.slot as i8);
                At::Receive
            }
            _ => return None,
        })
    }

    /// Whether the senders have ended, and each receiver found nothing or died.
    fn is_quiet(&self) -> bool {
        (0..self.actors.len()).all(|number| match self.actors[number].at {
            At::Done | At::Dead => true,
            At::Receive => self.step(number).is_none(),
            _ => false,
        })
    }
}

impl World for Broadcast {
    fn successors(&self) -> Vec<Self> {
        let steps = (0..self.actors.len()).filter_map(|number| self.step(number));
        let may_die = |number: &usize| self.deaths > 0 && self.actors[*number].may_die;
        let deaths = (0..self.actors.len()).filter(may_die).map(|number| {
            let mut next = self.clone();
            next.deaths -= 1;
            next.actors[number].at = At::Dead;
            next.actors[number].may_die = false;
            next
        });
        steps.chain(deaths).collect()
    }

    fn violation(&self) -> Option<&'static str> {
        let is_lost = || {
            self.actors.iter().filter(|actor| actor.at == At::Receive).any(|actor| {
                let end = actor.end as usize;
                let known = self.received[end] | self.missed[end];
                let is_due = |number: &&i8| **number >= self.first[end];
                self.numbers.iter().filter(is_due).any(|number| known & bit(*number) == 0)
            })
        };
        let lost = "a receiver neither has a message nor counts it as missed";
        self.violation.or_else(|| (self.is_quiet() && is_lost()).then_some(lost))
    }
}

fn two_receivers(protocol: Protocol) -> Broadcast {
    Broadcast::new(protocol, 1, &[sender(0, 1, 3), receiver(1), receiver(2)])
}

fn two_senders(protocol: Protocol) -> Broadcast {
    Broadcast::new(protocol, 1, &[sender(0, 1, 2), sender(1, 3, 4), receiver(2)])
}

#[test]
fn every_receiver_has_every_message_where_a_full_channel_blocks() {
    must_hold("one sender, two receivers", two_receivers(Protocol::Blocks));
    must_hold("two senders, one receiver", two_senders(Protocol::Blocks));
}

#[test]
fn a_receiver_with_a_history_has_every_message_from_its_join_on() {
    for protocol in [Protocol::Blocks, Protocol::DropsOldest] {
        let actors = [sender(0, 1, 3), late_receiver(1, 2), receiver(2)];
        must_hold("one sender, a late receiver", Broadcast::new(protocol, 1, &actors));
    }
    let actors = [sender(0, 1, 3), late_receiver(1, 2), receiver(2)];
    must_be_caught("joins at once", Broadcast::new(Protocol::JoinsAtOnce, 1, &actors));
}

#[test]
fn every_receiver_counts_what_was_dropped() {
    must_hold("one sender, two receivers", two_receivers(Protocol::DropsOldest));
    must_hold("two senders, one receiver", two_senders(Protocol::DropsOldest));
}

#[test]
fn a_weaker_broadcast_is_caught() {
    must_be_caught("no second look", two_receivers(Protocol::WithoutSecondLook));
    must_be_caught("the pins first", two_receivers(Protocol::PinsFirst));
    must_be_caught("joins at once", two_receivers(Protocol::JoinsAtOnce));
    must_be_caught("the cursor first", two_receivers(Protocol::CursorFirst));
    must_be_caught("counts one", two_receivers(Protocol::CountsOne));
}
