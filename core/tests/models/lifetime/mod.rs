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

mod steps;
mod world;

use std::collections::{HashMap, HashSet};

use steps::Protocol;
use world::{At, CREATOR, PROCESSES, SWEEPER, State, World};

/// The most epochs that are followed. Reaching it is counted, so that a search that was cut is
/// noticed.
const EPOCH_LIMIT: u8 = 14;

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
        let mut broken = None;
        let mut left = None;
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
            all.extend(self.protocol.step(world, process));
        }
        let before = all.len();
        all.retain(|world| world.word.epoch <= EPOCH_LIMIT);
        self.cut += before - all.len();
        all
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
