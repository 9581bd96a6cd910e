//! The life of a cell, searched exhaustively: three processes, with crashes at every step.
//!
//! `lifetime` searches entries, tickets and the state word. This model has what cells add: memory
//! that its maker uses again, that any process may decommit, and that an exiting process may still
//! touch; and a slab that is closed depending on its cells and on its pool lease. Every atomic
//! operation is one step, steps interleave in every order, and a process may die before any step.
//! In every state:
//!
//! * a process that holds an array finds it LIVE, of its generation, with its memory;
//! * a process that has exited but is not dead finds the memory as it was;
//! * nobody holds anything in a slab that is DEAD.
//!
//! In the end one sweep leaves nothing. Weaker protocols are searched too, and each is caught.

use std::collections::HashSet;

/// Makes the first array, drops it, uses the cell again, and may keep a pool lease on the slab
/// until it exits.
const MAKER: usize = 0;
/// Attaches the first array by its handle, and drops it or exits while it holds it.
const HOLDER: usize = 1;
/// Decommits memory, and sweeps.
const TRIMMER: usize = 2;
const PROCESSES: usize = 3;
const EPOCH_LIMIT: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Live,
    Closing,
    Free,
    Claimed,
    Retired,
    Dead,
}
use State::{Claimed, Closing, Dead, Free, Live, Retired};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Word(State, u8);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Entry {
    Zero,
    Taken,
    Held,
}

/// The continuation of a process after it has tried to close the cell or the slab.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Then {
    Done,
    Reuse,
    Sweep,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    // An attach, and the hold.
    Enter,
    Check,
    Generation,
    Hold,
    Leave,
    Exit,
    // Closing the cell, then the slab.
    Load(Then),
    Glance(Word, u8, Then),
    Close(Word, Then),
    Scan(Word, u8, Entry, Then),
    Settle(Word, Entry, Then),
    SlabLoad(Then),
    SlabClose(Word, Then),
    SlabScan(Word, Then),
    SlabSettle(Word, bool, Then),
    // A life of the cell.
    TakeEntry,
    Claim,
    LookAtSlab,
    Renew,
    Publish,
    Abandon,
    /// The maker gives its pool lease back.
    LetGo,
    // Memory is decommitted.
    Decommit,
    Unclaim,
    LeaveEntry,
    // A sweep.
    Void(u8),
    Recover(Option<Word>, u8),
    Ended,
    Finished,
    Crashed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    cell: Word,
    slab: Word,
    /// The pool lease: the maker's entry in the slab's own table.
    pool_lease: bool,
    generation: u8,
    /// The generation whose contents the memory has; `None` when it is decommitted.
    memory: Option<u8>,
    entries: [Entry; PROCESSES],
    holds: [Option<u8>; PROCESSES],
    /// The generation whose memory the threads of a process that has exited may still touch.
    touches: [Option<u8>; PROCESSES],
    at: [At; PROCESSES],
    swept: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// A process that exits frees its cell as any other does.
    ExitFrees,
    /// Memory is decommitted without claiming the cell.
    DecommitsFree,
    /// The maker does not look at the slab after it has claimed.
    DoesNotLook,
    /// A sweep does not check whether the owner of the pool lease is alive.
    ForgetsPoolLease,
    /// A claim leaves no entry, so a dead owner cannot be told from a living one.
    ClaimsWithoutEntry,
}

impl World {
    fn start(pool_lease: bool) -> Self {
        Self {
            cell: Word(Live, 0),
            slab: Word(Live, 0),
            pool_lease,
            generation: 0,
            memory: Some(0),
            entries: [Entry::Held, Entry::Zero, Entry::Zero],
            holds: [Some(0), None, None],
            touches: [None; PROCESSES],
            at: [At::Leave, At::Enter, At::TakeEntry],
            swept: false,
        }
    }

    fn broken(&self) -> bool {
        let lives = matches!(self.cell.0, Live | Closing) && matches!(self.slab.0, Live | Closing);
        let lost = |held: &Option<u8>| {
            held.is_some_and(|held| !lives || held != self.generation || self.memory != Some(held))
        };
        let touched = |held: &Option<u8>| held.is_some_and(|held| self.memory != Some(held));
        self.holds.iter().any(lost) || self.touches.iter().any(touched)
    }

    fn is_void(&self, process: usize) -> bool {
        matches!(self.at[process], At::Crashed)
    }

    fn is_over(&self, process: usize) -> bool {
        matches!(self.at[process], At::Finished | At::Crashed)
    }
}

fn moved(word: Word, state: State) -> Word {
    Word(state, word.1 + 1)
}

/// Returns every state that one step of a process leads to.
fn step(protocol: Protocol, world: &World, me: usize) -> Vec<World> {
    let mut next = world.clone();
    let at = world.at[me];
    next.at[me] = match at {
        At::Hold if me == HOLDER => return both(world, me, At::Leave, At::Exit),
        At::Enter | At::Check | At::Generation | At::Hold | At::Leave | At::Exit | At::Ended => {
            attach(protocol, &mut next, me, at)
        }
        At::TakeEntry
        | At::Claim
        | At::LookAtSlab
        | At::Renew
        | At::Publish
        | At::Abandon
        | At::LetGo => make(protocol, &mut next, me, at),
        At::Decommit | At::Unclaim | At::LeaveEntry => decommit(protocol, &mut next, me, at),
        At::Void(_) | At::Recover(..) => sweep(protocol, &mut next, at),
        _ => close(&mut next, me, at),
    };
    vec![next]
}

/// An attach, the hold, and its end.
fn attach(protocol: Protocol, next: &mut World, me: usize, at: At) -> At {
    match at {
        At::Enter => {
            next.entries[me] = Entry::Held;
            At::Check
        }
        At::Check => match next.cell.0 {
            Live => At::Generation,
            Closing => {
                next.cell = moved(next.cell, Live); // it settles, and sees its own entry
                At::Check
            }
            _ => At::Leave,
        },
        At::Generation if next.generation != 0 => At::Leave,
        At::Generation => {
            next.holds[me] = Some(0);
            At::Hold
        }
        At::Hold => At::Leave,
        At::Leave => {
            next.entries[me] = Entry::Zero;
            next.holds[me] = None;
            At::Load(if me == MAKER && next.generation == 0 { Then::Reuse } else { Then::Done })
        }
        At::Exit => {
            next.touches[me] = next.holds[me].take();
            next.entries[me] =
                if protocol == Protocol::ExitFrees { Entry::Zero } else { Entry::Taken };
            At::Load(Then::Done)
        }
        At::Ended => {
            next.touches[me] = None; // the kernel has ended its threads
            At::Crashed
        }
        _ => unreachable!("{at:?}"),
    }
}

/// Claims the free cell, and makes another array in it.
fn make(protocol: Protocol, next: &mut World, me: usize, at: At) -> At {
    match at {
        At::TakeEntry => {
            let marks = protocol != Protocol::ClaimsWithoutEntry;
            next.entries[me] = if marks { Entry::Taken } else { Entry::Zero };
            At::Claim
        }
        At::Claim if protocol == Protocol::DecommitsFree && me == TRIMMER => {
            if next.cell.0 == Free { At::Decommit } else { At::LeaveEntry }
        }
        At::Claim if next.cell.0 == Free => {
            next.cell = moved(next.cell, Claimed);
            if me == MAKER { At::LookAtSlab } else { At::Decommit }
        }
        At::Claim => At::LeaveEntry,
        At::LookAtSlab if protocol == Protocol::DoesNotLook => At::Renew,
        At::LookAtSlab => match next.slab.0 {
            Live => At::Renew,
            Closing => {
                next.slab = moved(next.slab, Live); // it settles, and sees its own cell
                At::LookAtSlab
            }
            _ => At::Abandon,
        },
        At::Renew => {
            next.generation += 1;
            next.memory = Some(next.generation);
            next.entries[me] = Entry::Held;
            At::Publish
        }
        At::Publish => {
            next.cell = moved(next.cell, Live);
            next.holds[me] = Some(next.generation);
            At::Hold
        }
        At::Abandon => {
            next.cell = moved(next.cell, Free);
            At::LeaveEntry
        }
        At::LetGo => {
            next.pool_lease = false;
            At::SlabLoad(Then::Done)
        }
        _ => unreachable!("{at:?}"),
    }
}

/// Decommits a claimed cell's memory, and frees the cell again.
fn decommit(protocol: Protocol, next: &mut World, me: usize, at: At) -> At {
    match at {
        At::Decommit => {
            next.memory = None;
            if protocol == Protocol::DecommitsFree { At::LeaveEntry } else { At::Unclaim }
        }
        At::Unclaim => {
            next.cell = moved(next.cell, Free);
            At::LeaveEntry
        }
        At::LeaveEntry => {
            next.entries[me] = Entry::Zero;
            if me == TRIMMER { At::Void(0) } else { At::SlabLoad(Then::Done) }
        }
        _ => unreachable!("{at:?}"),
    }
}

/// Clears the entries of the dead, and frees what they had claimed or held at their exit.
fn sweep(protocol: Protocol, next: &mut World, at: At) -> At {
    match at {
        At::Void(entry) if entry as usize == PROCESSES => {
            next.pool_lease &= !next.is_void(MAKER) || protocol == Protocol::ForgetsPoolLease;
            At::Recover(None, 0)
        }
        At::Void(entry) => {
            if next.is_void(entry as usize) {
                next.entries[entry as usize] = Entry::Zero;
            }
            At::Void(entry + 1)
        }
        At::Recover(None, _) => match next.cell.0 {
            Claimed | Retired => At::Recover(Some(next.cell), 0),
            _ => At::Load(Then::Sweep),
        },
        At::Recover(Some(word), entry) if entry as usize == PROCESSES => {
            if next.cell == word {
                next.cell = moved(word, Free);
            }
            At::Load(Then::Sweep)
        }
        At::Recover(word, entry) => match next.entries[entry as usize] {
            Entry::Zero => At::Recover(word, entry + 1),
            _ => At::Load(Then::Sweep),
        },
        _ => unreachable!("{at:?}"),
    }
}

fn both(world: &World, me: usize, one: At, other: At) -> Vec<World> {
    [one, other]
        .map(|at| World {
            at: std::array::from_fn(|p| if p == me { at } else { world.at[p] }),
            ..world.clone()
        })
        .into()
}

/// Ends the cell, and then the slab, if nobody uses it.
fn close(next: &mut World, me: usize, at: At) -> At {
    match at {
        At::Load(then) => match next.cell.0 {
            Live => At::Glance(next.cell, 0, then),
            Closing => At::Scan(next.cell, 0, Entry::Zero, then),
            _ => At::SlabLoad(then),
        },
        At::Glance(word, entry, then) => match next.entries.get(entry as usize) {
            Some(Entry::Held) => after(next, me, then),
            Some(_) => At::Glance(word, entry + 1, then),
            None => At::Close(word, then),
        },
        At::Close(word, then) if next.cell != word => At::Load(then),
        At::Close(word, then) => {
            next.cell = moved(word, Closing);
            At::Scan(next.cell, 0, Entry::Zero, then)
        }
        At::Scan(word, entry, most, then) => match next.entries.get(entry as usize) {
            Some(Entry::Held) => At::Scan(word, entry + 1, Entry::Held, then),
            Some(Entry::Taken) if most == Entry::Zero => {
                At::Scan(word, entry + 1, Entry::Taken, then)
            }
            Some(_) => At::Scan(word, entry + 1, most, then),
            None => At::Settle(word, most, then),
        },
        At::Settle(word, _, then) if next.cell != word => At::Load(then),
        At::Settle(word, most, then) => {
            let end = if most == Entry::Taken { Retired } else { Free };
            next.cell = moved(word, if most == Entry::Held { Live } else { end });
            if most == Entry::Held { after(next, me, then) } else { At::SlabLoad(then) }
        }
        At::SlabLoad(then) => match next.slab.0 {
            Live if is_used(next) => after(next, me, then),
            Live => At::SlabClose(next.slab, then),
            Closing => At::SlabScan(next.slab, then),
            _ => after(next, me, then),
        },
        At::SlabClose(word, then) if next.slab != word => At::SlabLoad(then),
        At::SlabClose(word, then) => {
            next.slab = moved(word, Closing);
            At::SlabScan(next.slab, then)
        }
        At::SlabScan(word, then) => At::SlabSettle(word, is_used(next), then),
        At::SlabSettle(word, _, then) if next.slab != word => At::SlabLoad(then),
        At::SlabSettle(word, used, then) => {
            next.slab = moved(word, if used { Live } else { Dead });
            after(next, me, then)
        }
        _ => unreachable!("{at:?}"),
    }
}

fn is_used(world: &World) -> bool {
    world.pool_lease || matches!(world.cell.0, Live | Closing | Claimed)
}

fn after(next: &World, me: usize, then: Then) -> At {
    match then {
        Then::Reuse => At::TakeEntry,
        _ if me == MAKER && next.pool_lease => At::LetGo,
        _ if next.touches[me].is_some() => At::Ended,
        _ => At::Finished,
    }
}

struct Report {
    states: usize,
    cut: usize,
    broken: Option<World>,
    left: Option<World>,
}

fn search(protocol: Protocol) -> Report {
    let mut report = Report { states: 0, cut: 0, broken: None, left: None };
    let mut seen = HashSet::new();
    let mut todo = [true, false].map(World::start).to_vec();
    while let Some(world) = todo.pop() {
        if world.broken() {
            report.broken = Some(world);
            break;
        }
        let mut next = Vec::new();
        for me in (0..PROCESSES).filter(|me| !world.is_over(*me)) {
            next.extend(step(protocol, &world, me));
            if !world.swept {
                let mut dead = world.clone();
                (dead.at[me], dead.holds[me], dead.touches[me]) = (At::Crashed, None, None);
                next.push(dead);
            }
        }
        if (0..PROCESSES).all(|me| world.is_over(me)) {
            if !world.swept {
                next.push(last_sweep(&world));
            } else if world.slab.0 != Dead {
                report.left = report.left.or(Some(world));
            }
        }
        let before = next.len();
        next.retain(|world| world.cell.1.max(world.slab.1) <= EPOCH_LIMIT);
        report.cut += before - next.len();
        todo.extend(next.into_iter().filter(|world| seen.insert(world.clone())));
    }
    report.states = seen.len();
    report
}

/// Sweeps after all have ended: another process does so, and all that had finished are dead.
fn last_sweep(world: &World) -> World {
    let mut world = world.clone();
    world.at = [At::Crashed, At::Crashed, At::Void(0)];
    if world.entries[TRIMMER] != Entry::Zero {
        // The dead trimmer's entry stands for one more dead entry.
        world.entries[HOLDER] = Entry::Taken;
        world.entries[TRIMMER] = Entry::Zero;
    }
    world.swept = true;
    world
}

#[test]
fn a_cell_is_used_again_without_harm_to_anybody() {
    let report = search(Protocol::Real);
    println!("{} states, {} cut at epoch {EPOCH_LIMIT}", report.states, report.cut);
    assert_eq!((report.broken, report.left), (None, None));
    assert!(
        report.states > 10_000 && report.cut == 0,
        "{} states, {} cut",
        report.states,
        report.cut
    );
}

#[test]
fn each_part_of_a_cells_life_is_needed() {
    use Protocol::{ClaimsWithoutEntry, DecommitsFree, DoesNotLook, ExitFrees};
    for protocol in [ExitFrees, DecommitsFree, DoesNotLook, ClaimsWithoutEntry] {
        assert!(search(protocol).broken.is_some(), "{protocol:?} was not caught");
    }
    assert!(
        search(Protocol::ForgetsPoolLease).left.is_some(),
        "what a dead maker had pooled was not left"
    );
}
