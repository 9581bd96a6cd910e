//! The protocol of channels, searched exhaustively.
//!
//! CHANNELS.md describes what is modelled here. A step is one access to shared memory.
//! The search visits every reachable state of a few processes, each of which may stop or die before
//! every step: no step waits for another process, so a process that stops is one that is not
//! chosen. In every state:
//!
//! * the memory of a slot is written by the process that has it on loan, and by no other;
//! * a message that is held does not change, and is the one that was published with its number;
//! * queue: each message is taken once, after all messages with smaller numbers;
//! * broadcast: a receiver has each message with a number from its join on, in order, or counts it
//!   as missed; where a full channel blocks, it misses none;
//! * latest: a receiver reads a value that is whole, and a sender finds a slot whatever receivers
//!   have, unless other senders have the rest;
//! * nobody sleeps beside a message once the senders are done;
//! * the stream ends for a receiver when the last sender has left or died, and not before, and a
//!   sender that had left before the receiver joined ends nothing; a process that was given an end
//!   counts as one from then on, and so does a thread that sends through the receiver's own end;
//! * sole sender: a process that comes when all others are stopped for good finds every message
//!   that was published, and a free slot for its own, if there is one;
//! * when the processes have ended, died and been recovered, a new receiver finds every message
//!   that was published and not taken, and all slots come back.
//!
//! Weaker protocols are searched, too, and each must be caught.

mod broadcast;
mod ending;
mod latest;
mod publish;
mod queue;
mod ring;
mod sole;
mod waiting;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A state of the memory and of all processes.
trait World: Clone + Eq + Hash + Debug {
    /// The states that one step of one process, or one death, leads to.
    fn successors(&self) -> Vec<Self>;
    /// What is wrong in this state.
    fn violation(&self) -> Option<&'static str>;
}

/// Visits every state that can be reached. Returns their number, or the first violation.
fn search<W: World>(start: W) -> Result<usize, String> {
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        if let Some(violation) = world.violation() {
            return Err(format!("{violation}: {world:?}"));
        }
        for next in world.successors() {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

fn must_hold<W: World>(what: &str, start: W) {
    let states = search(start).unwrap_or_else(|violation| panic!("{what}: {violation}"));
    println!("{what}: {states} states");
    assert!(states > 1000, "{what}: only {states} states were reached");
}

fn must_be_caught<W: World>(what: &str, start: W) {
    let found = search(start);
    assert!(found.is_err(), "{what}: {found:?} states, and nothing was found");
}
