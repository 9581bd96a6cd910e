//! The lifetime protocol, searched exhaustively: three processes, a message, and crashes at every
//! step.
//!
//! PROTOCOL.md describes what is modelled here: a segment's state word with its epoch, one entry
//! for each holder, a ticket that a message holds, reuse by the creator with a new generation, and
//! a sweep. Every atomic operation is one step; steps of different processes interleave in every
//! order (sequentially consistent, which is what the real orderings ask for); and a process may die
//! before any step. The search visits every reachable state:
//!
//! * a process that holds the segment, or a message in the pipe, never sees it free, dead or
//!   reused;
//! * when all have finished or died, one sweep leaves it dead or free, never held by nobody.
//!
//! Weaker protocols are searched too, and the search must catch each of them: a checker that cannot
//! fail shows nothing.
// The model is the same for every backend.
#![cfg(all(target_env = "gnu", not(feature = "portable")))]
#![allow(missing_docs)]

use std::collections::{HashMap, HashSet};

const PROCESSES: usize = 3;
/// The creator sends the message, the receiver receives it, and the sweeper attaches by a plain
/// handle and sweeps.
const CREATOR: usize = 0;
const RECEIVER: usize = 1;
const SWEEPER: usize = 2;
/// The entry of the message.
const TICKET: usize = 3;
const ENTRIES: usize = 4;
/// The most epochs that are followed. Reaching it is counted, so that a search that was cut is
/// noticed.
const EPOCH_LIMIT: u8 = 14;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Live,
    Closing,
    Free,
    Claimed,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Word {
    state: State,
    epoch: u8,
}

/// The continuation of a process after it has tried to close.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Then {
    Finish,
    Reuse,
    Attach,
    Refused,
    Sweep,
}

/// The next step of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    AddTicket,
    Send,
    Receive,
    Enter,
    Check,
    Generation,
    TakeTicket,
    Hold,
    Leave,
    Undo,
    Load(Then),
    Glance(Word, u8, Then),
    Close(Word, Then),
    Scan(Word, u8, bool, Then),
    Settle(Word, bool, Then),
    Claim,
    Renew,
    Publish,
    Sweep(u8),
    SweepWord,
    Done,
    Crashed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Message {
    None,
    Sent,
    Received,
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    word: Word,
    generation: u8,
    entries: [bool; ENTRIES],
    message: Message,
    /// The generation that each process holds.
    holds: [Option<u8>; PROCESSES],
    at: [At; PROCESSES],
    dead: [bool; PROCESSES],
    /// A message was received, and its array was refused.
    lost: bool,
    swept: bool,
}

/// A protocol to search: the real one, or one without a part of it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// Scans, then goes from LIVE to FREE in one step.
    WithoutClosing,
    /// The word has no epoch.
    WithoutEpoch,
    /// Looks at the word before it enters.
    ChecksFirst,
    /// The receiver gives the ticket back before it has entered.
    TicketFirst,
    /// Does not check the generation.
    WithoutGeneration,
}

impl World {
    fn start() -> Self {
        Self {
            word: Word { state: State::Live, epoch: 0 },
            generation: 0,
            entries: [true, false, false, false],
            message: Message::None,
            holds: [Some(0), None, None],
            at: [At::AddTicket, At::Receive, At::Enter],
            dead: [false; PROCESSES],
            lost: false,
            swept: false,
        }
    }

    /// Whether the process that an entry depends on is gone.
    fn is_void(&self, entry: usize) -> bool {
        match entry {
            TICKET => match self.message {
                Message::None => self.dead[CREATOR],
                Message::Sent | Message::Received => self.dead[RECEIVER],
                Message::Gone => true,
            },
            process => self.dead[process],
        }
    }

    fn broken(&self) -> Option<String> {
        let live = matches!(self.word.state, State::Live | State::Closing);
        for (process, held) in self.holds.iter().enumerate() {
            if let Some(generation) = held {
                if !live || *generation != self.generation {
                    return Some(format!(
                        "process {process} holds generation {generation} of {self:?}"
                    ));
                }
            }
        }
        if self.lost {
            return Some(format!("a message arrived and its array did not: {self:?}"));
        }
        let under_way = self.message == Message::Sent && !self.dead[RECEIVER];
        match under_way && (!live || self.generation != 0) {
            true => Some(format!("a message is under way in {self:?}")),
            false => None,
        }
    }
}

struct Search {
    protocol: Protocol,
    crashes: bool,
    seen: HashSet<World>,
    cut: usize,
}

struct Report {
    states: usize,
    cut: usize,
    broken: Option<String>,
    left: Option<String>,
}

impl Search {
    fn run(protocol: Protocol, crashes: bool) -> Report {
        let mut search = Self { protocol, crashes, seen: HashSet::new(), cut: 0 };
        let mut todo = vec![World::start()];
        let (mut broken, mut left) = (None, None);
        while let Some(world) = todo.pop() {
            broken = broken.or_else(|| world.broken());
            let next = search.successors(&world);
            if next.is_empty() && world.swept {
                left = left.or_else(|| search.left_behind(&world));
            }
            if next.is_empty() && !world.swept {
                todo.push(Self::last_sweep(&world));
            }
            for world in next {
                if search.seen.insert(world.clone()) {
                    todo.push(world);
                }
            }
            if broken.is_some() && protocol != Protocol::Real {
                break;
            }
        }
        Report { states: search.seen.len(), cut: search.cut, broken, left }
    }

    /// Sweeps after all have ended: another process does so.
    fn last_sweep(world: &World) -> World {
        let mut world = world.clone();
        world.swept = true;
        world.at[SWEEPER] = At::Sweep(0); // a new process, in place of one that has ended
        world
    }

    /// Returns a fault if more is left after the last sweep than what the creator keeps warm.
    fn left_behind(&self, world: &World) -> Option<String> {
        let fine = world.word.state == State::Dead
            || world.word.state == State::Free && !world.dead[CREATOR];
        (!fine).then(|| format!("left behind: {world:?}"))
    }

    fn successors(&mut self, world: &World) -> Vec<World> {
        let mut all = Vec::new();
        for process in 0..PROCESSES {
            if matches!(world.at[process], At::Done | At::Crashed) {
                continue;
            }
            if self.crashes && !world.swept {
                let mut dead = world.clone();
                dead.at[process] = At::Crashed;
                dead.holds[process] = None;
                dead.dead[process] = true;
                all.push(dead);
            }
            all.extend(self.step(world, process));
        }
        let before = all.len();
        all.retain(|world| world.word.epoch <= EPOCH_LIMIT);
        self.cut += before - all.len();
        all
    }

    /// Returns the world after one step of a process. `None` while the process must wait.
    fn step(&self, world: &World, me: usize) -> Option<World> {
        let mut next = world.clone();
        next.at[me] = match world.at[me] {
            At::AddTicket => {
                next.entries[TICKET] = true;
                At::Send
            }
            At::Send if world.dead[RECEIVER] => {
                next.message = Message::Gone; // no receiver: its lock is dropped
                next.entries[TICKET] = false;
                At::Leave
            }
            At::Send => {
                next.message = Message::Sent;
                At::Leave
            }
            At::Receive => match world.message {
                Message::Sent => {
                    next.message = Message::Received;
                    if self.protocol == Protocol::TicketFirst { At::TakeTicket } else { At::Enter }
                }
                Message::None if !world.dead[CREATOR] => return None,
                _ => At::Done, // the other end was closed
            },
            At::Enter if self.protocol == Protocol::ChecksFirst => match world.word.state {
                State::Live if world.generation == 0 => At::Generation,
                State::Live | State::Closing => return None,
                _ => self.refused(me),
            },
            At::Enter => {
                next.entries[me] = true;
                At::Check
            }
            At::Check => match world.word.state {
                State::Live => At::Generation,
                State::Closing => At::Scan(world.word, 0, false, Then::Attach),
                _ => At::Undo,
            },
            At::Generation => self.generation(&mut next, me),
            At::TakeTicket => {
                next.entries[TICKET] = false;
                next.message = Message::Gone;
                if self.protocol == Protocol::TicketFirst { At::Enter } else { At::Hold }
            }
            At::Hold => At::Leave,
            At::Leave => {
                next.entries[me] = false;
                next.holds[me] = None;
                At::Load(if me == CREATOR && world.generation == 0 {
                    Then::Reuse
                } else {
                    Then::Finish
                })
            }
            At::Undo => {
                next.lost = me == RECEIVER;
                next.entries[me] = false;
                At::Load(Then::Refused)
            }
            At::Claim => match world.word.state {
                State::Free => {
                    next.word = self.moved(world.word, State::Claimed);
                    At::Renew
                }
                _ => At::Done,
            },
            At::Renew => {
                next.generation += 1;
                next.entries[me] = true;
                At::Publish
            }
            At::Publish => {
                next.word = self.moved(world.word, State::Live);
                next.holds[me] = Some(world.generation);
                At::Hold
            }
            At::Sweep(entry) => self.sweep(&mut next, entry),
            At::SweepWord => self.sweep_word(&mut next),
            at => self.close(&mut next, me, at),
        };
        Some(next)
    }

    fn generation(&self, next: &mut World, me: usize) -> At {
        if self.protocol == Protocol::ChecksFirst {
            next.entries[me] = true; // too late
        }
        if next.generation != 0 && self.protocol != Protocol::WithoutGeneration {
            return At::Undo;
        }
        next.holds[me] = Some(0);
        match me == RECEIVER && next.message == Message::Received {
            true => At::TakeTicket,
            false => At::Hold,
        }
    }

    /// Gives the ticket back of a receiver that is refused.
    fn refused(&self, me: usize) -> At {
        if me == RECEIVER { At::Done } else { At::Sweep(0) }
    }

    fn moved(&self, word: Word, state: State) -> Word {
        let epoch = if self.protocol == Protocol::WithoutEpoch { 0 } else { word.epoch + 1 };
        Word { state, epoch }
    }

    /// Tries to close, for a process that may have been the last holder or has met CLOSING.
    fn close(&self, next: &mut World, me: usize, at: At) -> At {
        match at {
            At::Load(then) => match next.word.state {
                State::Live => At::Glance(next.word, 0, then),
                State::Closing => At::Scan(next.word, 0, false, then),
                _ => self.after(me, then),
            },
            At::Glance(_, entry, then) if next.entries.get(entry as usize) == Some(&true) => {
                self.still_held(me, then)
            }
            At::Glance(word, entry, then) if (entry as usize) < ENTRIES => {
                At::Glance(word, entry + 1, then)
            }
            At::Glance(word, _, then) => At::Close(word, then),
            At::Close(word, then) if next.word != word => At::Load(then),
            At::Close(word, then) if self.protocol == Protocol::WithoutClosing => {
                next.word = self.moved(word, State::Free);
                self.after(me, then)
            }
            At::Close(word, then) => {
                next.word = self.moved(word, State::Closing);
                At::Scan(next.word, 0, false, then)
            }
            At::Scan(word, entry, found, then) if (entry as usize) < ENTRIES => {
                At::Scan(word, entry + 1, found || next.entries[entry as usize], then)
            }
            At::Scan(word, _, found, then) => At::Settle(word, found, then),
            At::Settle(word, _, then) if next.word != word => At::Load(then),
            At::Settle(word, found, then) => {
                next.word = self.moved(word, if found { State::Live } else { State::Free });
                if found { self.still_held(me, then) } else { self.after(me, then) }
            }
            _ => unreachable!("{at:?}"),
        }
    }

    /// Another process will close it.
    fn still_held(&self, me: usize, then: Then) -> At {
        if then == Then::Sweep { At::Done } else { self.after(me, then) }
    }

    fn after(&self, me: usize, then: Then) -> At {
        match then {
            Then::Finish if me == SWEEPER => At::Sweep(0), // while the others go on
            Then::Finish => At::Done,
            Then::Reuse => At::Claim,
            Then::Attach => At::Check,
            Then::Refused => At::Done,
            Then::Sweep => At::SweepWord,
        }
    }

    /// Clears the entries of the dead, one by one, each by a compare-and-swap.
    fn sweep(&self, next: &mut World, entry: u8) -> At {
        if entry as usize == ENTRIES {
            return At::SweepWord;
        }
        if next.is_void(entry as usize) {
            next.entries[entry as usize] = false;
        }
        At::Sweep(entry + 1)
    }

    /// Frees what a dead creator had kept warm, or was about to use again.
    fn sweep_word(&self, next: &mut World) -> At {
        let creator_dead = next.dead[CREATOR];
        match next.word.state {
            State::Free | State::Claimed if creator_dead => {
                next.word = self.moved(next.word, State::Dead);
                At::Done
            }
            State::Live | State::Closing => At::Load(Then::Sweep),
            _ => At::Done,
        }
    }
}

fn fault(report: &Report) -> Option<&String> {
    report.broken.as_ref().or(report.left.as_ref())
}

#[test]
fn the_protocol_frees_nothing_that_is_held_and_leaves_nothing_that_is_not() {
    for crashes in [false, true] {
        let report = Search::run(Protocol::Real, crashes);
        println!(
            "crashes {crashes}: {} states, {} cut at epoch {EPOCH_LIMIT}",
            report.states, report.cut
        );
        assert_eq!(fault(&report), None);
        assert!(report.states > 1_000, "the search went nowhere");
        assert_eq!(report.cut, 0, "the search was cut: more epochs must be followed");
    }
}

#[test]
fn each_part_of_the_protocol_is_needed() {
    use Protocol::{ChecksFirst, TicketFirst, WithoutClosing, WithoutEpoch, WithoutGeneration};
    let mut caught = HashMap::new();
    for protocol in [WithoutClosing, WithoutEpoch, ChecksFirst, TicketFirst, WithoutGeneration] {
        let report = Search::run(protocol, false);
        caught.insert(format!("{protocol:?}"), report.broken.is_some());
    }
    assert!(caught.values().all(|caught| *caught), "not caught: {caught:?}");
}
