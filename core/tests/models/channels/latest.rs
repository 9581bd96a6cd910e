//! A channel of which every receiver reads the latest value.
//!
//! How a message is published is modelled in `publish`; here it is one step. A payload is two
//! halves, each read and written by a step.

use super::ring::{NOBODY, State, Word};
use super::{World, must_be_caught, must_hold};

/// One slot that may be pinned, and two that may not.
const SLOTS: usize = 3;
const PINNABLE: usize = 1;
const ENDS: usize = 4;
/// The payload of a slot that has had no message.
const NO_VALUE: u8 = 0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Whole,
    /// A receiver does not load the slot word again after it has set its pin.
    PinsBlindly,
    /// A receiver does not load the slot word again after it has copied a value.
    CopiesBlindly,
    /// A sender looks at the pins before it makes a slot DROPPED.
    PinsFirst,
    /// A receiver pins any slot.
    PinsAll,
    /// A sender drops the latest value, too, if it finds no slot.
    DropsLatest,
    /// A sender does not recover what a dead one has on loan.
    RecoversNothing,
}

/// The next step of a process, with what it has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    LoadLatest,
    /// Drops earlier values than a number.
    Drop(u8, u8),
    Dropping(u8, u8, Word),
    Find(u8),
    Recover(u8, Word),
    LoadPins(u8, Word, u8),
    Take(u8, Word),
    WriteFirst(u8),
    WriteSecond(u8),
    Publish(u8),
    Read,
    LoadWord(u8, u8),
    Pin(u8, u8, Word),
    LookAgain(u8, u8, Word),
    Unpin(u8),
    HeldFirst(u8, u8),
    HeldSecond(u8, u8),
    GiveBack(u8),
    CopyFirst(u8, u8, Word),
    CopySecond(u8, u8, Word, u8),
    LookAtCopy(u8, u8, Word, u8, u8),
    Done,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Slot {
    word: Word,
    number: u8,
    halves: [u8; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    /// The values that it has yet to send, or to read.
    left: u8,
    sends: bool,
    /// Whether no other sender lived when it began to look for a slot.
    is_alone: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Latest {
    slots: [Slot; SLOTS],
    /// The slot of each number from 1 on; the last one is the latest.
    ring: Vec<u8>,
    pins: [u8; ENDS],
    actors: Vec<Actor>,
    deaths: u8,
    violation: Option<&'static str>,
    protocol: u8,
}

fn sender(values: u8) -> Actor {
    Actor { at: At::LoadLatest, left: values, sends: true, is_alone: false }
}

fn reader(reads: u8) -> Actor {
    Actor { at: At::Read, left: reads, sends: false, is_alone: false }
}

impl Latest {
    fn new(protocol: Protocol, deaths: u8, actors: &[Actor]) -> Self {
        let word = Word { state: State::Free, end: NOBODY, life: 0 };
        Self {
            slots: [Slot { word, number: 0, halves: [NO_VALUE; 2] }; SLOTS],
            ring: Vec::new(),
            pins: [0; ENDS],
            actors: actors.to_vec(),
            deaths,
            violation: None,
            protocol: protocol as u8,
        }
    }

    fn is(&self, protocol: Protocol) -> bool {
        self.protocol == protocol as u8
    }

    fn fail(&mut self, violation: &'static str) {
        self.violation.get_or_insert(violation);
    }

    fn latest(&self) -> u8 {
        self.ring.len() as u8
    }

    fn word(&self, slot: u8) -> Word {
        self.slots[slot as usize].word
    }

    fn replace(&mut self, slot: u8, from: Word, to: Word) -> bool {
        let word = &mut self.slots[slot as usize].word;
        let is_same = *word == from;
        if is_same {
            *word = to;
        }
        is_same
    }

    fn is_pinned(&self, slot: u8, end: u8) -> bool {
        let lives = self.actors.get(end as usize).is_some_and(|actor| actor.at != At::Dead);
        lives && self.pins[end as usize] & 1 << slot != 0
    }

    fn may_pin(&self, slot: u8) -> bool {
        self.is(Protocol::PinsAll) || (slot as usize) < PINNABLE
    }

    fn step(&self, end: u8) -> Option<Self> {
        let mut next = self.clone();
        let mut me = self.actors[end as usize];
        let at = next.send_step(&mut me, end).or_else(|| next.read_step(&mut me, end))?;
        me.at = at;
        next.actors[end as usize] = me;
        Some(next)
    }

    fn send_step(&mut self, me: &mut Actor, end: u8) -> Option<At> {
        let after_drop = |slot: u8, latest| {
            if slot as usize + 1 < SLOTS { At::Drop(slot + 1, latest) } else { At::Find(0) }
        };
        Some(match me.at {
            At::LoadLatest => {
                let ended = [At::Done, At::Dead];
                let is_sending = |actor: &&Actor| actor.sends && !ended.contains(&actor.at);
                me.is_alone = self.actors.iter().filter(is_sending).count() == 1;
                At::Drop(0, self.latest())
            }
            At::Drop(slot, latest) => {
                let found = self.slots[slot as usize];
                let is_old = found.number < latest || self.is(Protocol::DropsLatest);
                let pinned = || (0..ENDS as u8).any(|other| self.is_pinned(slot, other));
                match found.word.state {
                    State::Numbered if is_old && self.is(Protocol::PinsFirst) => {
                        if pinned() {
                            after_drop(slot, latest)
                        } else {
                            At::Take(slot, found.word)
                        }
                    }
                    State::Numbered if is_old => At::Dropping(slot, latest, found.word),
                    _ => after_drop(slot, latest),
                }
            }
            At::Dropping(slot, latest, word) => {
                self.replace(slot, word, word.to(State::Dropped, NOBODY));
                after_drop(slot, latest)
            }
            At::Find(slot) if slot as usize == SLOTS => {
                if me.is_alone {
                    self.fail("a sender finds no slot, and no other sender has one");
                }
                At::LoadLatest
            }
            At::Find(slot) => match self.word(slot) {
                word if word.state == State::Free => At::Take(slot, word),
                word if word.state == State::Dropped && self.may_pin(slot) => {
                    At::LoadPins(slot, word, 0)
                }
                word if word.state == State::Dropped => At::Take(slot, word),
                word if word.state == State::Loaned && !self.is(Protocol::RecoversNothing) => {
                    let is_dead = self.actors[word.end as usize].at == At::Dead;
                    if is_dead { At::Recover(slot, word) } else { At::Find(slot + 1) }
                }
                _ => At::Find(slot + 1),
            },
            At::Recover(slot, word) => {
                self.replace(slot, word, word.next_life(State::Free, NOBODY));
                At::Find(slot)
            }
            At::LoadPins(slot, _, other) if self.is_pinned(slot, other) => At::Find(slot + 1),
            At::LoadPins(slot, word, other) if other as usize + 1 < ENDS => {
                At::LoadPins(slot, word, other + 1)
            }
            At::LoadPins(slot, word, _) => At::Take(slot, word),
            At::Take(slot, word) => {
                if self.replace(slot, word, word.next_life(State::Loaned, end)) {
                    At::WriteFirst(slot)
                } else {
                    At::LoadLatest
                }
            }
            At::WriteFirst(slot) => {
                self.slots[slot as usize].halves[0] = value_of(end, me.left);
                At::WriteSecond(slot)
            }
            At::WriteSecond(slot) => {
                self.slots[slot as usize].halves[1] = value_of(end, me.left);
                At::Publish(slot)
            }
            At::Publish(slot) => {
                self.ring.push(slot);
                let number = self.latest();
                let word = self.word(slot).to(State::Numbered, end);
                let halves = self.slots[slot as usize].halves;
                self.slots[slot as usize] = Slot { word, number, halves };
                me.left -= 1;
                if me.left == 0 { At::Done } else { At::LoadLatest }
            }
            _ => return None,
        })
    }

    fn read_step(&mut self, me: &mut Actor, end: u8) -> Option<At> {
        Some(match me.at {
            At::Read if self.latest() == 0 => return None,
            At::Read => {
                let number = self.latest();
                At::LoadWord(number, self.ring[number as usize - 1])
            }
            At::LoadWord(number, slot) => {
                let found = self.slots[slot as usize];
                if found.word.state != State::Numbered || found.number != number {
                    if self.latest() == number {
                        self.fail("the latest value is gone");
                    }
                    At::Read
                } else if self.may_pin(slot) {
                    At::Pin(number, slot, found.word)
                } else {
                    At::CopyFirst(number, slot, found.word)
                }
            }
            At::Pin(number, slot, word) => {
                self.pins[end as usize] |= 1 << slot;
                if self.is(Protocol::PinsBlindly) {
                    At::HeldFirst(number, slot)
                } else {
                    At::LookAgain(number, slot, word)
                }
            }
            At::LookAgain(number, slot, word) => {
                if self.word(slot) == word {
                    At::HeldFirst(number, slot)
                } else {
                    At::Unpin(slot)
                }
            }
            At::Unpin(slot) => {
                self.pins[end as usize] &= !(1 << slot);
                At::Read
            }
            At::HeldFirst(number, slot) => {
                self.check_half(number, slot, 0);
                At::HeldSecond(number, slot)
            }
            At::HeldSecond(number, slot) => {
                self.check_half(number, slot, 1);
                At::GiveBack(slot)
            }
            At::GiveBack(slot) => {
                self.pins[end as usize] &= !(1 << slot);
                Self::has_read(me)
            }
            At::CopyFirst(number, slot, word) => {
                At::CopySecond(number, slot, word, self.slots[slot as usize].halves[0])
            }
            At::CopySecond(number, slot, word, first) => {
                let second = self.slots[slot as usize].halves[1];
                At::LookAtCopy(number, slot, word, first, second)
            }
            At::LookAtCopy(number, slot, word, first, second) => {
                let now = self.word(slot);
                let has_value = [State::Numbered, State::Dropped].contains(&now.state);
                let is_whole = has_value && now.life == word.life;
                if is_whole || self.is(Protocol::CopiesBlindly) {
                    let holder = self.slots[slot as usize];
                    if first != second || holder.number == number && holder.halves[0] != first {
                        self.fail("a copy is not the value that it was taken for");
                    }
                    Self::has_read(me)
                } else {
                    At::Read
                }
            }
            _ => return None,
        })
    }

    fn has_read(me: &mut Actor) -> At {
        me.left -= 1;
        if me.left == 0 { At::Done } else { At::Read }
    }

    /// Checks that a slot that is held has the value with the number.
    fn check_half(&mut self, number: u8, slot: u8, half: usize) {
        let found = self.slots[slot as usize];
        if found.number != number || found.halves[half] != found.halves[1 - half] {
            self.fail("a value changed while it was held");
        }
    }
}

/// The payload of a value of an end, which is that of no other.
fn value_of(end: u8, left: u8) -> u8 {
    1 + 8 * end + left
}

impl World for Latest {
    fn successors(&self) -> Vec<Self> {
        let steps = (0..self.actors.len() as u8).filter_map(|end| self.step(end));
        let may_die = |end: &usize| {
            let actor = &self.actors[*end];
            self.deaths > 0 && ![At::Dead, At::Done].contains(&actor.at)
        };
        let deaths = (0..self.actors.len()).filter(may_die).map(|end| {
            let mut next = self.clone();
            next.deaths -= 1;
            next.actors[end].at = At::Dead;
            next
        });
        steps.chain(deaths).collect()
    }

    fn violation(&self) -> Option<&'static str> {
        self.violation
    }
}

fn one_sender(protocol: Protocol) -> Latest {
    Latest::new(protocol, 1, &[sender(4), reader(2), reader(1)])
}

fn two_senders(protocol: Protocol) -> Latest {
    Latest::new(protocol, 1, &[sender(2), sender(2), reader(2)])
}

#[test]
fn the_latest_value_is_read_whole_and_no_reader_delays_a_sender() {
    must_hold("one sender, two readers", one_sender(Protocol::Whole));
    must_hold("two senders, one reader", two_senders(Protocol::Whole));
}

#[test]
fn a_weaker_latest_value_is_caught() {
    must_be_caught("pins blindly", one_sender(Protocol::PinsBlindly));
    must_be_caught("copies blindly", one_sender(Protocol::CopiesBlindly));
    must_be_caught("the pins first", one_sender(Protocol::PinsFirst));
    let three = [sender(4), reader(1), reader(1), reader(1)];
    must_be_caught("pins all", Latest::new(Protocol::PinsAll, 0, &three));
    must_be_caught("drops the latest", one_sender(Protocol::DropsLatest));
    must_be_caught("recovers nothing", two_senders(Protocol::RecoversNothing));
}
