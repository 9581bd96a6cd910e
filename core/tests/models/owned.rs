//! What a process has alone, and what a fork makes of it: searched exhaustively.
//!
//! PROTOCOL.md describes what is modelled here, in "What a process has alone". A maker sends arrays
//! in one cell, which it uses again when nobody holds it. Whoever receives one maps the cell and
//! stores to it. A process forks between any two stores of its other threads: it holds for the
//! child, freezes, and then there is a child. Both drop, move what they own, and receive
//! further arrays in the cell.
//! The search visits every reachable state, with deaths before every step:
//!
//! * each process sees what it was sent, and after that its own stores and no others;
//! * when all arrays are dropped or their processes dead, the cell is free.
//!
//! Weaker protocols are searched, too, and each must be caught.

use crate::search::explore;

const PARENT: usize = 0;
const CHILD: usize = 1;
/// The arrays that the maker sends, by their contents.
const SENT: u8 = 3;
/// The stores of both processes.
const STORES: u8 = 3;

/// How a process has the cell mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Mapped {
    /// Its stores go to the cell.
    Owned,
    /// Its stores go to a page of its own, which it has after the first.
    Frozen(Option<u8>),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Array {
    mapped: Mapped,
    /// What this process stored last, or was sent.
    expected: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fork {
    No,
    Held,
    Frozen,
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    /// What is in the cell.
    cell: u8,
    holds: [bool; 2],
    /// What a message that nobody has received has, which holds the cell.
    message: Option<u8>,
    is_alive: [bool; 2],
    arrays: [Option<Array>; 2],
    /// The mapping of what a process has moved, and not dropped yet.
    moved: [Option<Mapped>; 2],
    /// A mapping that the next array uses.
    cached: [Option<Mapped>; 2],
    fork: Fork,
    sent: u8,
    stores: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// Parent and child share what the parent had.
    WithoutFreeze,
    /// The child alone has a private mapping.
    ChildAlone,
    /// The parent freezes when the child is there.
    FreezesLate,
    /// The child has the memory, and no hold.
    HoldsNothing,
    /// The child makes its own hold.
    ChildHolds,
    /// A frozen mapping serves the next array.
    CachesFrozen,
    /// The parent gives the cell back for both.
    ReleasesEarly,
    /// Moves what is frozen, too.
    MovesFrozen,
    /// Moves what it still uses.
    MovesUsed,
}

impl World {
    fn start() -> Self {
        Self {
            cell: 0,
            holds: [false; 2],
            message: None,
            is_alive: [true, false],
            arrays: [None; 2],
            moved: [None; 2],
            cached: [None; 2],
            fork: Fork::No,
            sent: 0,
            stores: 0,
        }
    }

    fn seen(&self, process: usize) -> Option<u8> {
        self.arrays[process].map(|array| match array.mapped {
            Mapped::Frozen(Some(own)) => own,
            Mapped::Owned | Mapped::Frozen(None) => self.cell,
        })
    }

    fn broken(&self) -> Option<String> {
        let is_wrong = |process: usize| {
            self.is_alive[process]
                && self.seen(process) != self.arrays[process].map(|array| array.expected)
        };
        (is_wrong(PARENT) || is_wrong(CHILD)).then(|| format!("{self:?}"))
    }

    /// Whether a process's table is locked for a fork, so that no array of it comes or goes.
    fn is_locked(&self, process: usize) -> bool {
        process == PARENT && matches!(self.fork, Fork::Held | Fork::Frozen)
    }

    /// Whether a living process, or one that is being made, has what it holds.
    fn is_held(&self) -> bool {
        self.message.is_some()
            || (0..2).any(|process| self.holds[process] && self.is_alive[process])
            // The parent holds for the child while it forks.
            || self.holds[CHILD] && self.is_alive[PARENT] && self.fork != Fork::Done
    }
}

/// The steps of a protocol.
struct Search {
    protocol: Protocol,
}

impl Search {
    fn run(protocol: Protocol) -> (Option<String>, usize) {
        let search = Self { protocol };
        explore(World::start(), |world| search.successors(world), World::broken)
    }

    fn successors(&self, world: &World) -> Vec<World> {
        let mut all = Vec::new();
        if world.sent < SENT && !world.is_held() {
            let mut next = world.clone();
            next.sent += 1;
            (next.cell, next.message) = (100 + next.sent, Some(100 + next.sent));
            next.holds = [false; 2]; // of the dead
            all.push(next);
        }
        for process in [PARENT, CHILD] {
            if !world.is_alive[process] {
                continue;
            }
            let mut dead = world.clone();
            dead.is_alive[process] = false;
            dead.arrays[process] = None;
            dead.moved[process] = None;
            all.push(dead);
            all.extend(self.received(world, process));
            all.extend(stored(world, process));
            all.extend(self.dropped(world, process));
            all.extend(self.moved(world, process));
            all.extend(dropped_after(world, process));
        }
        if world.is_alive[PARENT] {
            all.extend(self.forked(world));
        }
        all
    }

    fn received(&self, world: &World, me: usize) -> Option<World> {
        // Each process has one entry here, so it receives when it has dropped what it moved.
        let is_busy = world.arrays[me].is_some() || world.moved[me].is_some();
        let expected = world.message.filter(|_| !is_busy && !world.is_locked(me))?;
        let mut next = world.clone();
        let mapped = next.cached[me].take().unwrap_or(Mapped::Owned);
        next.arrays[me] = Some(Array { mapped, expected });
        next.holds[me] = true;
        next.message = None;
        Some(next)
    }

    /// Makes a message of an owned array that nothing else uses. Its hold is given back later.
    fn moved(&self, world: &World, me: usize) -> Option<World> {
        let mut next = world.clone();
        let array = next.arrays[me].filter(|_| world.message.is_none() && !world.is_locked(me))?;
        if array.mapped != Mapped::Owned && self.protocol != Protocol::MovesFrozen {
            return None;
        }
        next.message = Some(array.expected);
        if self.protocol != Protocol::MovesUsed {
            next.arrays[me] = None;
            next.moved[me] = Some(array.mapped);
        }
        Some(next)
    }

    /// Gives the hold back, and then keeps the mapping for the next array.
    fn dropped(&self, world: &World, me: usize) -> Option<World> {
        let mut next = world.clone();
        let array = next.arrays[me].take().filter(|_| !world.is_locked(me))?;
        if self.protocol == Protocol::ReleasesEarly && me == PARENT {
            next.holds[CHILD] = false;
        }
        next.holds[me] = false;
        next.cached[me] = match array.mapped {
            Mapped::Owned => Some(Mapped::Owned),
            frozen if self.protocol == Protocol::CachesFrozen => Some(frozen),
            Mapped::Frozen(_) => None, // it serves copy-on-write attaches
        };
        Some(next)
    }

    /// The steps of the thread that forks. Other threads take theirs between them.
    fn forked(&self, world: &World) -> Option<World> {
        use Protocol::{ChildAlone, ChildHolds, FreezesLate, HoldsNothing, WithoutFreeze};
        let mut next = world.clone();
        let protocol = self.protocol;
        let freezes = !matches!(protocol, WithoutFreeze | ChildAlone | FreezesLate);
        next.fork = match world.fork {
            Fork::No => {
                let holds_for_child = !matches!(protocol, HoldsNothing | ChildHolds);
                let has_any = next.arrays[PARENT].is_some() || next.moved[PARENT].is_some();
                next.holds[CHILD] = holds_for_child && has_any;
                Fork::Held
            }
            Fork::Held => {
                if let Some(array) = next.arrays[PARENT].as_mut().filter(|_| freezes) {
                    freeze(array);
                }
                next.moved[PARENT] = next.moved[PARENT].map(|_| Mapped::Frozen(None));
                Fork::Frozen
            }
            Fork::Frozen => {
                next.is_alive[CHILD] = true;
                next.arrays[CHILD] = next.arrays[PARENT];
                next.moved[CHILD] = next.moved[PARENT];
                next.cached[CHILD] = next.cached[PARENT];
                if protocol == ChildAlone {
                    next.arrays[CHILD].iter_mut().for_each(freeze);
                }
                Fork::Done
            }
            Fork::Done => {
                // Once: what a weaker protocol does too late.
                if protocol == FreezesLate && next.arrays[CHILD] == next.arrays[PARENT] {
                    next.arrays.iter_mut().flatten().for_each(freeze);
                }
                if protocol == ChildHolds {
                    next.holds[CHILD] |= next.arrays[CHILD].is_some() && next.is_alive[CHILD];
                }
                Fork::Done
            }
        };
        Some(next)
    }
}

/// Gives the hold of what was moved back. An owned mapping serves the next array.
fn dropped_after(world: &World, me: usize) -> Option<World> {
    let mut next = world.clone();
    let mapped = next.moved[me].take().filter(|_| !world.is_locked(me))?;
    next.holds[me] = false;
    next.cached[me] = Some(mapped).filter(|mapped| *mapped == Mapped::Owned);
    Some(next)
}

fn freeze(array: &mut Array) {
    if array.mapped == Mapped::Owned {
        array.mapped = Mapped::Frozen(None);
    }
}

fn stored(world: &World, me: usize) -> Option<World> {
    let mut next = world.clone();
    let array = next.arrays[me].as_mut().filter(|_| world.stores < STORES)?;
    next.stores += 1;
    array.expected = next.stores;
    match &mut array.mapped {
        Mapped::Owned => next.cell = next.stores,
        Mapped::Frozen(own) => *own = Some(next.stores),
    }
    Some(next)
}

#[test]
fn each_process_sees_what_it_was_sent_and_its_own_stores() {
    let (fault, states) = Search::run(Protocol::Real);
    println!("{states} states");
    assert_eq!(fault, None);
    assert!(states > 1_000, "the search went nowhere");
}

#[test]
fn each_part_of_it_is_needed() {
    use Protocol::{
        CachesFrozen, ChildAlone, ChildHolds, FreezesLate, HoldsNothing, MovesFrozen, MovesUsed,
        ReleasesEarly, WithoutFreeze,
    };
    let caught = |protocol: &Protocol| Search::run(*protocol).0.is_some();
    let missed: Vec<_> = [
        WithoutFreeze,
        ChildAlone,
        FreezesLate,
        HoldsNothing,
        ChildHolds,
        CachesFrozen,
        ReleasesEarly,
        MovesFrozen,
        MovesUsed,
    ]
    .into_iter()
    .filter(|protocol| !caught(protocol))
    .collect();
    assert_eq!(missed, [], "not caught");
}
