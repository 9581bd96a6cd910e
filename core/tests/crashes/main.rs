//! A process is killed at every step of every operation: no survivor loses anything, and nothing stays.
//!
//! A step is a system call (before it, and after it) or a store to shared memory, as core with
//! the feature `steps` announces it. `operations` is the table, to which rows are added; `stage`
//! says what must hold after each death; `tracer` counts and kills; `watch` shows that nothing
//! was left uncounted. It changes registers, so all of this is for x86-64.
#![cfg(all(target_os = "linux", not(feature = "portable"), target_arch = "x86_64", target_env = "gnu"))]
#![allow(missing_docs, unsafe_code)]

mod actions;
mod operations;
mod pairs;
mod process;
mod run;
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod tracer;
mod watch;

use operations::{OPERATIONS, UNANNOUNCED};
use pairs::PAIRS;
use run::{Counts, every_step, every_step_beside_another, in_workers, watched};

/// At so many of its steps, evenly spread, a process is killed beside another, which stands at so
/// many of its own.
const BESIDE: (usize, usize) = (10, 24);
/// With SHMARRAY_LONG=1: killed at every step. (Both at every step takes over half an hour.)
const LONG_BESIDE: (usize, usize) = (usize::MAX, 32);

fn is_long() -> bool {
    std::env::var("SHMARRAY_LONG").is_ok_and(|long| long == "1")
}

fn scenario(test: &str, body: impl FnOnce()) {
    support::scenario(test, || {
        run::make_stages_here();
        body();
    });
}

#[test]
fn a_crash_at_any_step_costs_no_survivor_anything_and_leaves_nothing() {
    scenario("a_crash_at_any_step_costs_no_survivor_anything_and_leaves_nothing", || {
        let counts = in_workers(|worker, counts| {
            OPERATIONS.iter().for_each(|operation| every_step(operation, worker, counts));
        });
        counts.fail_unless_well(OPERATIONS.len());
    });
}

#[test]
fn a_crash_at_any_step_beside_another_operation_costs_nobody_anything() {
    scenario("a_crash_at_any_step_beside_another_operation_costs_nobody_anything", || {
        let most = if is_long() { LONG_BESIDE } else { BESIDE };
        let counts = in_workers(|worker, counts| {
            PAIRS.iter().for_each(|pair| every_step_beside_another(pair, most, worker, counts));
        });
        assert!(counts.runs() > 100 * PAIRS.len(), "only {} combinations", counts.runs());
        assert_eq!(counts.waits, 0, "somebody waits for a process that stands still");
        counts.fail_unless_well(PAIRS.len());
    });
}

#[test]
fn every_store_to_a_header_is_announced() {
    scenario("every_store_to_a_header_is_announced", || {
        let counts = in_workers(|worker, counts| {
            let mine = OPERATIONS.iter().enumerate().filter(|(index, _)| worker.has(*index));
            mine.for_each(|(_, operation)| watched(operation, counts));
        });
        counts.fail_unless_well(OPERATIONS.len());
    });
}

#[test]
fn a_store_that_is_not_announced_is_found() {
    scenario("a_store_that_is_not_announced_is_found", || {
        let mut counts = Counts::default();
        watched(&UNANNOUNCED, &mut counts);
        let failures = counts.failures();
        assert!(failures.len() == 1 && failures[0].contains("is stored to unannounced"), "{failures:?}");
    });
}
