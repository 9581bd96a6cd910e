//! Scenarios for loom: every interleaving of a few threads, each of which stands for a process. And
//! tests of these tests: an ordering or a fence that is left out must be caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use super::loom_atomics::{Loss, Weaker, possible_losses, weaken};

/// A scenario, and how often a thread is preempted in it where it need not be, at the most.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) interruptions: usize,
    pub(crate) body: fn(),
}

/// Makes a test of each function of `bodies` that is named, and the table SCENARIOS of all.
macro_rules! scenarios {
    ($($name:ident: $interruptions:expr;)*) => {
        const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            interruptions: $interruptions,
            body: bodies::$name,
        }),*];
        $(
            #[test]
            fn $name() {
                let is_it = |scenario: &&Scenario| scenario.name == stringify!($name);
                let scenario = SCENARIOS.iter().find(is_it).unwrap();
                println!("{} executions: {}", scenario.explore(), scenario.name);
            }
        )*
    };
}
pub(crate) use scenarios;

impl Scenario {
    /// Runs the scenario in every order. Returns the number of executions.
    pub(crate) fn explore(&self) -> usize {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(self.interruptions));
        model.max_branches = 10_000;
        let executions = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&executions);
        let body = self.body;
        model.check(move || {
            counted.fetch_add(1, atomic::Ordering::Relaxed);
            body();
        });
        executions.load(atomic::Ordering::Relaxed)
    }

    fn fails_without(&self, weaker: Weaker) -> bool {
        weaken(Some(weaker));
        let fails = catch_unwind(AssertUnwindSafe(|| self.explore())).is_err();
        weaken(None);
        fails
    }
}

/// A fence or an ordering that is needed: the line of the source, the part that is left out, and
/// the scenario that then fails.
pub(crate) type Needed = (&'static str, Loss, &'static str);

/// All that these scenarios could lose, each with its line.
fn possible(scenarios: &[&Scenario], source: &'static str) -> Vec<(Weaker, &'static str)> {
    let source: Vec<_> = source.lines().collect();
    let losses =
        possible_losses(|| scenarios.iter().for_each(|scenario| assert!(scenario.explore() > 0)));
    losses.into_iter().map(|weaker| (weaker, source[weaker.0 as usize - 1].trim())).collect()
}

/// Leaves out each ordering that a source asks for, and each fence, in turn; prints what is caught.
pub(crate) fn print_census(scenarios: &[Scenario], source: &'static str) {
    std::panic::set_hook(Box::new(|_| ())); // the panics to come are expected
    for (weaker, line) in possible(&scenarios.iter().collect::<Vec<_>>(), source) {
        let catcher = scenarios.iter().find(|scenario| scenario.fails_without(weaker));
        println!(
            "without {:?} {}: {line}",
            weaker.2,
            catcher.map_or("NOT CAUGHT", |scenario| scenario.name)
        );
    }
}

/// Returns the lines of what is needed and was not caught when it was left out.
pub(crate) fn missed(
    needed: &[Needed],
    scenarios: &[Scenario],
    source: &'static str,
) -> Vec<&'static str> {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ())); // the panics to come are expected
    let is_catcher =
        |scenario: &&Scenario| needed.iter().any(|(_, _, catcher)| *catcher == scenario.name);
    let catchers: Vec<_> = scenarios.iter().filter(is_catcher).collect();
    let possible = possible(&catchers, source);
    let is_caught = |(line, loss, catcher): &Needed| {
        let Some(catcher) = catchers.iter().find(|scenario| scenario.name == *catcher) else {
            return false;
        };
        let mut there =
            possible.iter().filter(|(weaker, at)| at == line && weaker.2 == *loss).peekable();
        there.peek().is_some() && there.all(|(weaker, _)| catcher.fails_without(*weaker))
    };
    let missed = needed.iter().filter(|needed| !is_caught(needed)).map(|(line, ..)| *line);
    let missed = missed.collect();
    std::panic::set_hook(usual);
    missed
}
