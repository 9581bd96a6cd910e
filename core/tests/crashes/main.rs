//! A process is killed at every step of every operation: no survivor loses anything, and nothing
//! stays. It also forks at every step, by another thread or in a signal handler: the child goes on.
//! And a signal handler sends at every step of its thread's sends.
//!
//! A step is a system call (before it, and after it) or a store to shared memory, as core with
//! the cfg `shmarray_steps` announces it. `operations` has the tables, to which rows are added.
//! `stage` says what must hold after each death. `tracer` counts and kills. `watch` shows that
//! no store was left uncounted. `forks` makes the process fork, and `asleep` finds what hangs
//! then. `handlers` has the handler that sends. `faults` makes system calls fail. `tracer`
//! changes registers, so all of this is for x86-64.
#![cfg(all(shmarray_steps, linux_backend, target_arch = "x86_64", target_env = "gnu"))]
#![allow(missing_docs, unsafe_code)]

mod actions;
mod actor;
mod asleep;
mod call_names;
mod faults;
mod forkers;
mod forks;
mod handlers;
mod operations;
mod pairs;
mod process;
mod run;
mod stage;
#[path = "../behaviour/support/mod.rs"]
mod support;
mod tracer;
mod watch;
#[path = "../behaviour/support/watched.rs"]
mod watched;

use faults::fail_at_steps;
use forks::{Forks, REFUSED, USE_WAITED, WAITED, WORKED, fork_at_steps};
use handlers::send_at_steps;
use operations::{Operation, UNANNOUNCED, Victim, operations};
use pairs::PAIRS;
use run::{Counts, WAITS, every_step, every_step_beside_another, in_workers, watched};

/// A limit of a test in each of its forms. SHMARRAY_TESTS chooses the form.
struct Form<T> {
    /// Without SHMARRAY_TESTS, as in `ci/test`.
    sample: T,
    /// With SHMARRAY_TESTS=release, as in `ci/test --release`.
    release: T,
    /// With SHMARRAY_TESTS=all, as in `ci/inject`.
    all: T,
}

/// A process is killed at so many of its steps, evenly spread, beside another, which is stopped at
/// so many of its own. (Both at every step takes over half an hour.)
const BESIDE: Form<(usize, usize)> =
    Form { sample: (10, 24), release: (usize::MAX, 4), all: (usize::MAX, 32) };

/// The process forks at so many steps of each operation, evenly spread.
const FORKS: Form<usize> = Form { sample: 6, release: 30, all: usize::MAX };

/// So many faults of each operation, evenly spread over its calls and all their errors.
const FAULTS: Form<usize> = Form { sample: 12, release: 60, all: usize::MAX };

impl<T> Form<T> {
    fn chosen(self) -> T {
        match std::env::var("SHMARRAY_TESTS").as_deref() {
            Ok("release") => self.release,
            Ok("all") => self.all,
            _ => self.sample,
        }
    }
}

fn scenario(body: impl FnOnce()) {
    support::scenario(|| {
        run::make_stages_here();
        body();
    });
}

#[test]
fn a_crash_at_any_step_costs_no_survivor_anything_and_leaves_nothing() {
    scenario(|| {
        let counts = in_workers(|worker, counts| {
            operations().for_each(|operation| every_step(operation, worker, counts));
        });
        counts.fail_unless_well(operations().count());
    });
}

#[test]
fn a_crash_at_any_step_beside_another_operation_costs_nobody_anything() {
    scenario(|| {
        let counts = in_workers(|worker, counts| {
            let most = BESIDE.chosen();
            PAIRS.iter().for_each(|pair| every_step_beside_another(pair, most, worker, counts));
        });
        assert!(counts.runs() > 100 * PAIRS.len(), "only {} combinations", counts.runs());
        assert_eq!(counts.tallied(WAITS), 0, "{WAITS}");
        counts.fail_unless_well(PAIRS.len());
    });
}

#[test]
fn every_store_to_a_header_is_announced() {
    scenario(|| {
        let counts = in_workers(|worker, counts| {
            let mine = operations().enumerate().filter(|(index, _)| worker.has(*index));
            mine.for_each(|(_, operation)| watched(operation, counts));
        });
        counts.fail_unless_well(operations().count());
    });
}

#[test]
fn a_store_that_is_not_announced_is_found() {
    scenario(|| {
        let mut counts = Counts::default();
        watched(&UNANNOUNCED, &mut counts);
        let failures = counts.failures();
        assert!(
            failures.len() == 1 && failures[0].contains("is stored to unannounced"),
            "{failures:?}"
        );
    });
}

/// Returns the operations whose process may have further threads, and that need not leave anything
/// for a forked child to sweep.
fn operations_beside_threads() -> impl Iterator<Item = &'static Operation> + Clone {
    let is_beside = |operation: &&Operation| operation.victim == Victim::Itself;
    operations().filter(is_beside).filter(|operation| operation.name != "attach what the dead left")
}

fn forks_at_steps(forks: &[Forks]) -> Counts {
    let most = FORKS.chosen();
    in_workers(|worker, counts| {
        for operation in operations_beside_threads() {
            forks.iter().for_each(|forks| fork_at_steps(operation, *forks, most, worker, counts));
        }
    })
}

#[test]
fn a_child_forked_at_any_step_of_another_threads_operation_goes_on() {
    scenario(|| {
        let forks = [Forks::AnotherThread, Forks::BesideAThirdThread];
        let counts = forks_at_steps(&forks);
        let waited = [WAITED, USE_WAITED].map(|what| counts.tallied(what));
        counts.fail_unless_well(forks.len() * operations_beside_threads().count());
        assert!(
            waited.iter().all(|times| *times > 0),
            "no thread stood still inside of a lock: {waited:?}"
        );
    });
}

#[test]
fn a_signal_handler_that_forks_at_any_step_of_its_threads_operation_hangs_nobody() {
    scenario(|| {
        let counts = forks_at_steps(&[Forks::ASignalHandler]);
        let children = [WORKED, REFUSED].map(|what| counts.tallied(what));
        counts.fail_unless_well(operations_beside_threads().count());
        assert!(
            children.iter().all(|times| *times > 0),
            "not both within locks and outside: {children:?}"
        );
    });
}

#[test]
fn a_signal_handler_that_sends_at_any_step_of_its_threads_sends_loses_no_message() {
    scenario(|| {
        let counts = in_workers(send_at_steps);
        counts.fail_unless_well(1);
    });
}

#[test]
fn a_system_call_that_fails_breaks_nothing_and_leaves_nothing() {
    scenario(|| {
        let most = FAULTS.chosen();
        let counts = in_workers(|worker, counts| {
            operations().for_each(|operation| fail_at_steps(operation, most, worker, counts));
        });
        counts.fail_unless_well(operations().count());
    });
}
