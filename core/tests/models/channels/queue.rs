//! A channel whose messages go to one receiver each.

use super::publish::{Loan, Outcome, Publish, Weaker};
use super::ring::{ENDS, NOBODY, Ring, RingWord, SLOTS, State, Word};
use super::{World, must_be_caught, must_hold};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// The life of a slot never grows.
    WithoutLife,
    /// The recovery does not load the end's entry again.
    TrustsTheWord,
    /// The recovery does not look into the ring.
    IgnoresTheRing,
    /// A sender writes the number after the ring's word.
    NumberLast,
    /// A receiver does not compare the number in the slot.
    AnyNumber,
    /// The entry of a dead end is freed before its slots.
    EntryFirst,
    /// A sender does not publish by the ring's word, but counts the tail up first.
    TailFirst,
}

/// The next step of a process, with what it has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// A process that comes when the end is free.
    Join,
    Loan(u8),
    TakeFree(u8, Word),
    Write,
    Publish(Publish),
    Leave,
    LoadHead,
    LoadRingWord(i8),
    LoadWord(i8, u8),
    LoadNumber(i8, u8, Word),
    Take(i8, u8, Word),
    AdvanceHead(i8, bool),
    Read,
    Release,
    /// A recovery: of the slots from a number on.
    Find,
    RecoverWord(u8, u8, u8),
    LoadEntry(u8, u8, u8, Word),
    LoadDeadNumber(u8, u8, u8, Word),
    LoadDeadRing(u8, u8, u8, Word, i8),
    FreeSlot(u8, u8, u8, Word),
    ClearEntry(u8, u8),
    Done,
    Dead,
}

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    end: u8,
    /// The next message that it sends, and the last one; none for a receiver.
    next: u8,
    last: u8,
    loan: Loan,
    number: i8,
    may_die: bool,
}

const MESSAGES: usize = 6;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Queue {
    ring: Ring,
    actors: Vec<Actor>,
    /// The number of each message, once it is published, and whether it was taken.
    numbers: [i8; MESSAGES],
    taken: [bool; MESSAGES],
    deaths: u8,
    violation: Option<&'static str>,
    protocol: u8,
}

const UNPUBLISHED: i8 = -9;
const EMPTY: Word = Word { state: State::Free, end: NOBODY, life: 0 };

fn owner_of(actor: usize) -> u8 {
    actor as u8 + 1
}

fn actor(at: At, end: u8, messages: (u8, u8), may_die: bool) -> Actor {
    let (next, last) = messages;
    Actor { at, end, next, last, loan: Loan { slot: 0, word: EMPTY }, number: 0, may_die }
}

fn sender(end: u8, first: u8, last: u8) -> Actor {
    actor(At::Loan(0), end, (first, last), true)
}

fn receiver(end: u8) -> Actor {
    actor(At::LoadHead, end, (0, 0), true)
}

/// Comes when an end is free, and sends one message.
fn newcomer(end: u8, message: u8) -> Actor {
    actor(At::Join, end, (message, message), false)
}

fn recovery() -> Actor {
    actor(At::Find, NOBODY, (0, 0), false)
}

impl Queue {
    fn new(protocol: Protocol, deaths: u8, actors: &[Actor]) -> Self {
        let mut owners = [0; ENDS];
        for (number, actor) in actors.iter().enumerate() {
            if actor.end != NOBODY && actor.at != At::Join {
                owners[actor.end as usize] = owner_of(number);
            }
        }
        Self {
            ring: Ring::new(owners),
            actors: actors.to_vec(),
            numbers: [UNPUBLISHED; MESSAGES],
            taken: [false; MESSAGES],
            deaths,
            violation: None,
            protocol: protocol as u8,
        }
    }

    fn is(&self, protocol: Protocol) -> bool {
        self.protocol == protocol as u8
    }

    fn next_life(&self, word: Word, state: State, end: u8) -> Word {
        let next = word.next_life(state, end);
        if self.is(Protocol::WithoutLife) { Word { life: 0, ..next } } else { next }
    }

    fn is_dead(&self, owner: u8) -> bool {
        owner > 0 && self.actors[owner as usize - 1].at == At::Dead
    }

    fn fail(&mut self, violation: &'static str) {
        self.violation.get_or_insert(violation);
    }

    /// Notes that a message was published.
    fn published(&mut self, message: u8, number: i8) {
        if self.numbers.contains(&number) {
            self.fail("two messages have one number");
        }
        self.numbers[message as usize] = number;
    }

    /// Notes that the message with a number was taken from a slot.
    fn take(&mut self, number: i8, slot: u8) {
        let payload = self.ring.slots[slot as usize].payload as usize;
        if self.numbers[payload] != number {
            return self.fail("the message is not the one with this number");
        }
        if self.taken[payload] {
            self.fail("a message was taken twice");
        }
        self.taken[payload] = true;
        let before = |message: &usize| (0..number).contains(&self.numbers[*message]);
        if (0..MESSAGES).filter(before).any(|message| !self.taken[message]) {
            self.fail("a message was taken before an earlier one");
        }
    }

    /// One step of an actor. `None` if it has none.
    fn step(&self, number: usize) -> Option<Self> {
        let mut next = self.clone();
        let mut me = self.actors[number];
        let at = next
            .loan_step(&mut me, number)
            .or_else(|| next.publish_step(&mut me))
            .or_else(|| next.receiver_step(&mut me))
            .or_else(|| next.recovery_step(&me))
            .or_else(|| next.recover_slot_step(&me))?;
        me.at = at;
        next.actors[number] = me;
        Some(next)
    }

    fn loan_step(&mut self, me: &mut Actor, number: usize) -> Option<At> {
        let slot = me.loan.slot as usize;
        Some(match me.at {
            At::Join if self.ring.owners[me.end as usize] != 0 => return None,
            At::Join => {
                self.ring.owners[me.end as usize] = owner_of(number);
                At::Loan(0)
            }
            At::Loan(index) => match self.ring.slots[index as usize].word {
                word if word.state == State::Free => At::TakeFree(index, word),
                _ if index as usize + 1 < SLOTS => At::Loan(index + 1),
                _ => At::Loan(0),
            },
            At::TakeFree(index, word) => {
                let loaned = self.next_life(word, State::Loaned, me.end);
                let done = self.ring.replace(index, word, loaned);
                me.loan = Loan { slot: index, word: loaned };
                if done { At::Write } else { At::Loan(0) }
            }
            At::Write => {
                if self.ring.slots[slot].word != me.loan.word {
                    self.fail("a slot is written by a process that does not have it");
                }
                self.ring.slots[slot].payload = me.next;
                At::Publish(Publish::LoadTail)
            }
            At::Leave => {
                self.ring.owners[me.end as usize] = 0;
                At::Done
            }
            _ => return None,
        })
    }

    fn publish_step(&mut self, me: &mut Actor) -> Option<At> {
        let At::Publish(step) = me.at else { return None };
        let weaker = Weaker {
            number_last: self.is(Protocol::NumberLast),
            tail_first: self.is(Protocol::TailFirst),
        };
        Some(match step.step(&mut self.ring, &mut me.loan, weaker) {
            Outcome::Next(step) => At::Publish(step),
            Outcome::Published(number, step) => {
                self.published(me.next, number);
                At::Publish(step)
            }
            Outcome::LoanLost => {
                self.fail("a loan was taken from a living process");
                At::Done
            }
            Outcome::Done => {
                me.next += 1;
                if me.next > me.last { At::Leave } else { At::Loan(0) }
            }
        })
    }

    fn receiver_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::LoadHead => At::LoadRingWord(self.ring.head),
            At::LoadRingWord(head) => match self.ring.word_of(head) {
                word if word.number < head => At::LoadHead,
                word if word.number > head => At::AdvanceHead(head, false),
                word => At::LoadWord(head, word.slot),
            },
            At::LoadWord(head, slot) => {
                At::LoadNumber(head, slot, self.ring.slots[slot as usize].word)
            }
            At::LoadNumber(head, slot, word) => {
                let number = self.ring.slots[slot as usize].number;
                let is_it = number == head || self.is(Protocol::AnyNumber);
                if is_it && word.state == State::Numbered {
                    At::Take(head, slot, word)
                } else {
                    At::AdvanceHead(head, false)
                }
            }
            At::Take(head, slot, word) => {
                let held = word.to(State::Held, me.end);
                if self.ring.replace(slot, word, held) {
                    (me.loan, me.number) = (Loan { slot, word: held }, head);
                    self.take(head, slot);
                    At::AdvanceHead(head, true)
                } else {
                    At::LoadHead
                }
            }
            At::AdvanceHead(head, has_taken) => {
                self.ring.advance_head(head);
                if has_taken { At::Read } else { At::LoadHead }
            }
            At::Read => {
                let payload = self.ring.slots[me.loan.slot as usize].payload as usize;
                if self.numbers[payload] != me.number {
                    self.fail("a message changed while it was held");
                }
                At::Release
            }
            At::Release => {
                let free = self.next_life(me.loan.word, State::Free, NOBODY);
                if !self.ring.replace(me.loan.slot, me.loan.word, free) {
                    self.fail("a view was taken from a living process");
                }
                At::LoadHead
            }
            _ => return None,
        })
    }

    /// The step after a slot was recovered.
    fn after(&self, end: u8, owner: u8, slot: u8) -> At {
        if slot as usize + 1 < SLOTS {
            At::RecoverWord(end, owner, slot + 1)
        } else if self.is(Protocol::EntryFirst) {
            At::Find
        } else {
            At::ClearEntry(end, owner)
        }
    }

    fn recovery_step(&mut self, me: &Actor) -> Option<At> {
        Some(match me.at {
            At::Find => {
                let end = (0..ENDS).find(|end| self.is_dead(self.ring.owners[*end]))?;
                let owner = self.ring.owners[end];
                if self.is(Protocol::EntryFirst) {
                    At::ClearEntry(end as u8, owner)
                } else {
                    At::RecoverWord(end as u8, owner, 0)
                }
            }
            At::RecoverWord(end, owner, slot) => match self.ring.slots[slot as usize].word {
                word if word.end == end => At::LoadEntry(end, owner, slot, word),
                _ => self.after(end, owner, slot),
            },
            At::ClearEntry(end, owner) => {
                let entry = &mut self.ring.owners[end as usize];
                if *entry == owner {
                    *entry = 0;
                }
                if self.is(Protocol::EntryFirst) {
                    At::RecoverWord(end, owner, 0)
                } else {
                    At::Find
                }
            }
            _ => return None,
        })
    }

    /// Recovers one slot of a dead end.
    fn recover_slot_step(&mut self, me: &Actor) -> Option<At> {
        Some(match me.at {
            At::LoadEntry(end, owner, slot, word) => {
                let trusts = self.is(Protocol::TrustsTheWord) || self.is(Protocol::EntryFirst);
                match word.state {
                    _ if self.ring.owners[end as usize] != owner && !trusts => At::Find,
                    State::Numbered => At::LoadDeadNumber(end, owner, slot, word),
                    _ => At::FreeSlot(end, owner, slot, word),
                }
            }
            At::LoadDeadNumber(end, owner, slot, word) => {
                At::LoadDeadRing(end, owner, slot, word, self.ring.slots[slot as usize].number)
            }
            At::LoadDeadRing(end, owner, slot, word, number) => {
                let is_published = number >= 0
                    && self.ring.word_of(number) == (RingWord { number, slot })
                    && !self.is(Protocol::IgnoresTheRing);
                if is_published {
                    self.after(end, owner, slot)
                } else {
                    At::FreeSlot(end, owner, slot, word)
                }
            }
            At::FreeSlot(end, owner, slot, word) => {
                let next = self.after(end, owner, slot);
                let free = self.next_life(word, State::Free, NOBODY);
                self.ring.replace(slot, word, free);
                next
            }
            _ => return None,
        })
    }

    /// Whether every process has ended, or is between two operations.
    fn is_quiet(&self) -> bool {
        let rests = |actor: &Actor| {
            matches!(actor.at, At::Done | At::Dead | At::LoadHead | At::Find | At::Join)
        };
        self.actors.iter().all(rests) && !self.ring.owners.iter().any(|owner| self.is_dead(*owner))
    }

    /// What a new receiver does not find, when all is quiet.
    fn is_left_behind(&self) -> Option<&'static str> {
        let mut rest = self.clone();
        let mut me = receiver(0);
        for _ in 0..40 * MESSAGES {
            me.at = rest.receiver_step(&mut me)?;
        }
        let is_lost = |message: &usize| self.numbers[*message] >= 0 && !rest.taken[*message];
        if (0..MESSAGES).any(|message| is_lost(&message)) {
            return Some("a message is lost");
        }
        let are_free = rest.ring.slots.iter().all(|slot| slot.word.state == State::Free);
        if are_free { rest.violation } else { Some("a slot is lost") }
    }
}

impl World for Queue {
    fn successors(&self) -> Vec<Self> {
        let steps = (0..self.actors.len()).filter_map(|number| self.step(number));
        let may_die = |number: &usize| {
            let me = self.actors[*number];
            self.deaths > 0 && me.may_die && !matches!(me.at, At::Done | At::Dead)
        };
        let deaths = (0..self.actors.len()).filter(may_die).map(|number| {
            let mut next = self.clone();
            next.deaths -= 1;
            next.actors[number].at = At::Dead;
            next
        });
        steps.chain(deaths).collect()
    }

    fn violation(&self) -> Option<&'static str> {
        self.violation.or_else(|| self.is_quiet().then(|| self.is_left_behind()).flatten())
    }
}

/// Two senders, one of which sends twice, and a receiver: the ring goes round.
fn two_senders(protocol: Protocol, deaths: u8) -> Queue {
    let mut actors = vec![sender(0, 1, 2), sender(1, 3, 3), receiver(2)];
    actors.extend((deaths > 0).then(recovery));
    Queue::new(protocol, deaths, &actors)
}

/// A sender of three messages, which go to two receivers.
fn two_receivers(protocol: Protocol, deaths: u8) -> Queue {
    let actors = [sender(0, 1, 3), receiver(1), receiver(2), recovery()];
    Queue::new(protocol, deaths, &actors)
}

/// A sender dies, two processes recover its end, and another one takes it.
fn two_recoveries(protocol: Protocol) -> Queue {
    let actors = [sender(0, 1, 2), receiver(1), newcomer(0, 3), recovery(), recovery()];
    Queue::new(protocol, 1, &actors)
}

#[test]
fn no_message_of_a_queue_is_torn_doubled_or_lost() {
    must_hold("two senders", two_senders(Protocol::Real, 0));
    must_hold("two receivers", two_receivers(Protocol::Real, 0));
}

#[test]
fn a_death_at_any_step_of_a_queue_loses_what_the_dead_one_held_and_no_more() {
    must_hold("two senders, one death", two_senders(Protocol::Real, 1));
    must_hold("two receivers, two deaths", two_receivers(Protocol::Real, 2));
    must_hold("two recoveries of an end that is taken again", two_recoveries(Protocol::Real));
}

#[test]
fn a_weaker_queue_is_caught() {
    must_be_caught("no life", two_recoveries(Protocol::WithoutLife));
    must_be_caught("no second look at the entry", two_recoveries(Protocol::TrustsTheWord));
    must_be_caught("no look into the ring", two_senders(Protocol::IgnoresTheRing, 1));
    must_be_caught("the number last", two_senders(Protocol::NumberLast, 0));
    must_be_caught("any number", two_receivers(Protocol::AnyNumber, 0));
    must_be_caught("the entry first", two_recoveries(Protocol::EntryFirst));
    must_be_caught("the tail first", two_senders(Protocol::TailFirst, 1));
}
