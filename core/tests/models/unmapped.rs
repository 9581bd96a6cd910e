//! Closing a segment of which only the kernel knows that nobody holds it, and finding dead
//! processes: searched exhaustively.
//!
//! PROTOCOL.md describes what is modelled here, in "Without an entry" and in its section on the
//! process list. A LOCK_ONLY segment has no entries: a holder has the file's lock, and a message
//! has a link. A closer makes the state CLOSING, asks the kernel for the lock, looks for links, and
//! ends the segment or makes it LIVE again. An attach takes the lock, then looks at the state, and
//! makes a CLOSING state LIVE. No step waits, so a process that stops at any step stops no other; a
//! search of all interleavings has it stand there for as long as the others like.
//!
//! A process enters the process list before it holds. A closer reads the list first and, in the
//! end, removes those that it had read as dead. The search visits every reachable state, with
//! deaths before every step:
//!
//! * a segment that is held by a lock or a link is never dead;
//! * when all have exited or died, one check of the process list is enough: it leaves nothing, or
//!   no dead process is on the list and there is nothing to leave.
//!
//! Weaker protocols are searched, too, and each must be caught.

use crate::search::explore;

/// A process that made the segment and sends it, one that receives it, and two that close for the
/// dead.
const CREATOR: usize = 0;
const RECEIVER: usize = 1;
const CLOSERS: [usize; 2] = [2, 3];
const PROCESSES: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Live,
    Closing,
    Dead,
}

type Word = (State, u8);

/// The next step of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// The creator, which holds: sends by a link, gives its lock up.
    Link,
    Send,
    Unlock,
    /// The receiver: takes the lock, looks at the word, gives the link back, gives its lock up.
    Lock,
    Look,
    TakeLink,
    /// A closer: reads the process list, then does as `Leases::close_unmapped`.
    ReadList,
    Load {
        dead: [bool; 2],
    },
    AskLock {
        word: Word,
        dead: [bool; 2],
    },
    AskLinks {
        word: Word,
        dead: [bool; 2],
    },
    Settle {
        word: Word,
        is_unheld: bool,
        dead: [bool; 2],
    },
    LeaveList {
        dead: [bool; 2],
    },
    Done,
    Crashed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    word: Word,
    /// Whether the creator and the receiver have the file's lock.
    locks: [bool; 2],
    link: bool,
    is_sent: bool,
    process_list: [bool; 2],
    at: [At; PROCESSES],
    /// The receiver was refused an array that a message held.
    is_lost: bool,
    is_last: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// Asks the kernel first, and ends the segment in one step afterwards.
    AsksFirst,
    /// Looks for links before it asks for the lock.
    LinksFirst,
    /// The word has no epoch.
    WithoutEpoch,
    /// The receiver looks at the state before it has the lock.
    LooksFirst,
    /// The receiver gives the link back before it has looked.
    LinkFirst,
    /// The process list is read when all is done.
    ListLast,
    /// A closer that found it unheld and was overtaken does not start over.
    GivesUp,
}

impl World {
    fn start() -> Self {
        Self {
            word: (State::Live, 0),
            locks: [true, false],
            link: false,
            is_sent: false,
            process_list: [true, false],
            at: [At::Link, At::Lock, At::ReadList, At::ReadList],
            is_lost: false,
            is_last: false,
        }
    }

    fn is_dead(&self, process: usize) -> bool {
        self.at[process] == At::Crashed
    }

    /// Whether a process that can receive the message lives, so that its link counts.
    fn has_message(&self) -> bool {
        let sender_may_send =
            !self.is_sent && !self.is_dead(CREATOR) && self.at[CREATOR] != At::Done;
        self.link && !self.is_dead(RECEIVER) && (self.is_sent || sender_may_send)
    }

    fn broken(&self) -> Option<String> {
        let is_held = self.locks[CREATOR]
            || self.at[RECEIVER] == At::TakeLink
            || self.at[RECEIVER] == At::Unlock;
        let is_wrong =
            self.word.0 == State::Dead && (is_held || self.is_sent && self.has_message());
        (is_wrong || self.is_lost).then(|| format!("{self:?}"))
    }
}

/// The steps of a protocol.
struct Search {
    protocol: Protocol,
}

impl Search {
    fn run(protocol: Protocol) -> (Option<String>, usize) {
        let search = Self { protocol };
        let next = |world: &World| {
            let mut next = search.successors(world);
            if next.is_empty() && !world.is_last {
                let mut last = world.clone();
                (last.is_last, last.at[CLOSERS[0]]) = (true, At::ReadList); // another closer comes
                next.push(last);
            }
            next
        };
        explore(World::start(), next, |world| world.broken().or_else(|| Self::left(world)))
    }

    /// Returns a fault if anything is left after the last check, unless a process exited, which
    /// closes itself.
    fn left(world: &World) -> Option<String> {
        let is_over =
            world.is_last && world.at.iter().all(|at| matches!(at, At::Done | At::Crashed));
        let is_left =
            world.word.0 != State::Dead && (world.is_dead(CREATOR) || world.is_dead(RECEIVER));
        // A link that nobody can receive any more is on no process list. It waits for a sweep by
        // amount.
        (is_over && is_left && !world.link).then(|| format!("left behind: {world:?}"))
    }

    fn successors(&self, world: &World) -> Vec<World> {
        let mut all = Vec::new();
        for process in 0..PROCESSES {
            if matches!(world.at[process], At::Done | At::Crashed) {
                continue;
            }
            if !world.is_last {
                let mut dead = world.clone();
                dead.at[process] = At::Crashed;
                if process < 2 {
                    dead.locks[process] = false; // by the kernel
                }
                all.push(dead);
            }
            all.extend(self.step(world, process));
        }
        all
    }

    fn moved(&self, word: Word, state: State) -> Word {
        (state, if self.protocol == Protocol::WithoutEpoch { 0 } else { word.1.wrapping_add(1) })
    }

    fn step(&self, world: &World, me: usize) -> Option<World> {
        let mut next = world.clone();
        next.at[me] = match world.at[me] {
            At::Link => {
                next.link = true;
                At::Send
            }
            At::Send => {
                next.is_sent = true;
                At::Unlock
            }
            At::Unlock => {
                next.locks[me] = false;
                At::ReadList // and closes
            }
            At::Lock if !world.is_sent && !world.is_dead(CREATOR) => return None, // nothing yet
            At::Lock if !world.is_sent => At::Done,
            At::Lock => self.lock(&mut next),
            At::Look => self.look(&mut next),
            At::TakeLink => {
                next.link = false;
                At::Unlock
            }
            at => self.close(&mut next, at),
        };
        if me < 2 && next.at[me] == At::Done {
            next.process_list[me] = false; // an exit, after it has closed
        }
        Some(next)
    }

    fn lock(&self, next: &mut World) -> At {
        next.process_list[RECEIVER] = true;
        if self.protocol == Protocol::LinkFirst {
            next.link = false;
        }
        if self.protocol == Protocol::LooksFirst && next.word.0 == State::Dead {
            next.is_lost = true;
            return At::Done;
        }
        next.locks[RECEIVER] = true;
        if self.protocol == Protocol::LooksFirst { At::TakeLink } else { At::Look }
    }

    /// Looks at the state. A CLOSING state is made LIVE.
    fn look(&self, next: &mut World) -> At {
        match next.word.0 {
            State::Dead => {
                next.is_lost = true;
                next.locks[RECEIVER] = false;
                At::Done
            }
            State::Closing => {
                next.word = self.moved(next.word, State::Live);
                At::TakeLink
            }
            State::Live => At::TakeLink,
        }
    }

    /// `Leases::close_unmapped`, between reading the process list and its end.
    fn close(&self, next: &mut World, at: At) -> At {
        let dead =
            [CREATOR, RECEIVER].map(|process| next.process_list[process] && next.is_dead(process));
        match at {
            At::ReadList if next.is_last && dead == [false; 2] => At::Done, // nothing to do
            At::ReadList => At::Load { dead },
            At::Load { dead } => match next.word.0 {
                State::Dead => At::LeaveList { dead },
                _ if self.protocol == Protocol::AsksFirst => At::AskLock { word: next.word, dead },
                State::Live => {
                    next.word = self.moved(next.word, State::Closing);
                    self.first_question(next.word, dead)
                }
                State::Closing => self.first_question(next.word, dead),
            },
            At::AskLock { word, dead } if next.locks.contains(&true) => {
                At::Settle { word, is_unheld: false, dead }
            }
            At::AskLock { word, dead } if self.protocol == Protocol::LinksFirst => {
                At::Settle { word, is_unheld: true, dead }
            }
            At::AskLock { word, dead } => At::AskLinks { word, dead },
            At::AskLinks { word, dead } if next.has_message() => {
                At::Settle { word, is_unheld: false, dead }
            }
            At::AskLinks { word, dead } if self.protocol == Protocol::LinksFirst => {
                At::AskLock { word, dead }
            }
            At::AskLinks { word, dead } => At::Settle { word, is_unheld: true, dead },
            At::Settle { word, is_unheld: true, dead } if next.word != word => {
                match self.protocol {
                    Protocol::GivesUp => At::LeaveList { dead },
                    _ => At::Load { dead },
                }
            }
            At::Settle { word, is_unheld, dead } => {
                if next.word == word && (is_unheld || word.0 == State::Closing) {
                    next.word = self.moved(word, if is_unheld { State::Dead } else { State::Live });
                }
                At::LeaveList { dead }
            }
            At::LeaveList { dead: read } => {
                let dead = if self.protocol == Protocol::ListLast { dead } else { read };
                [CREATOR, RECEIVER]
                    .into_iter()
                    .for_each(|process| next.process_list[process] &= !dead[process]);
                // The next check is one for which there is a reason.
                let is_reason = [CREATOR, RECEIVER]
                    .iter()
                    .any(|process| next.process_list[*process] && next.is_dead(*process));
                if is_reason { At::ReadList } else { At::Done }
            }
            _ => unreachable!("{at:?}"),
        }
    }

    fn first_question(&self, word: Word, dead: [bool; 2]) -> At {
        match self.protocol {
            Protocol::LinksFirst => At::AskLinks { word, dead },
            _ => At::AskLock { word, dead },
        }
    }
}

#[test]
fn a_segment_held_by_a_lock_or_a_link_is_never_ended_and_one_look_ends_the_rest() {
    let (fault, states) = Search::run(Protocol::Real);
    println!("{states} states");
    assert_eq!(fault, None);
    assert!(states > 1_000, "the search went nowhere");
}

#[test]
fn each_part_of_it_is_needed() {
    use Protocol::{AsksFirst, GivesUp, LinkFirst, LinksFirst, ListLast, LooksFirst, WithoutEpoch};
    let caught = |protocol: &Protocol| Search::run(*protocol).0.is_some();
    let missed: Vec<_> =
        [AsksFirst, LinksFirst, WithoutEpoch, LooksFirst, LinkFirst, ListLast, GivesUp]
            .into_iter()
            .filter(|protocol| !caught(protocol))
            .collect();
    assert_eq!(missed, [], "not caught");
}
