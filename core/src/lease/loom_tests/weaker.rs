//! Tests of the tests: what `lease` does with an ordering, a fence or a step left out must be
//! caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::control::loom_atomics::{Loss, Weaker, possible_losses, weaken};

/// What must not be left out of `lease.rs`, by its line there, and which scenario fails without it.
/// What is not here is stronger than the scenarios need, most of it because a fence or another
/// operation beside it does the same.
const NEEDED: &[(&str, Loss, &str)] = &[
    ("fence(SeqCst); // F1", Loss::Fence, "the_last_to_leave_and_one_who_enters_do_not_both_win"),
    ("fence(SeqCst); // F2", Loss::Fence, "the_last_to_leave_and_one_who_enters_do_not_both_win"),
    (
        "fence(SeqCst); // F2: the load is that of the close",
        Loss::Fence,
        "a_cell_that_is_used_again_is_one_life_at_a_time",
    ),
    (
        "self.control.entries()[entry].owner.set(HELD);",
        Loss::Release,
        "what_stands_beside_a_holder_is_his",
    ),
    (
        "self.control.entries()[entry].owner.store(0, Release);",
        Loss::Release,
        "a_cell_that_is_used_again_is_one_life_at_a_time",
    ),
    (
        "self.control.state().replace(from, Self::after(from, to))",
        Loss::Release,
        "a_cell_that_is_used_again_is_one_life_at_a_time",
    ),
];

fn fails_without(weaker: Weaker, scenario: &Scenario) -> bool {
    weaken(Some(weaker));
    let fails = catch_unwind(AssertUnwindSafe(|| scenario.explore())).is_err();
    weaken(None);
    fails
}

/// What these scenarios could lose, and its line.
fn possible(scenarios: &[&Scenario]) -> Vec<(Weaker, &'static str)> {
    let source: Vec<_> = include_str!("../../lease.rs").lines().collect();
    let losses =
        possible_losses(|| scenarios.iter().for_each(|scenario| assert!(scenario.explore() > 0)));
    losses.into_iter().map(|weaker| (weaker, source[weaker.0 as usize - 1].trim())).collect()
}

/// Each ordering that `lease` asks for, and each fence, is left out in turn.
#[test]
#[ignore = "takes minutes; says what no scenario needs"]
fn census() {
    std::panic::set_hook(Box::new(|_| ())); // of those that are to come
    for (weaker, entry) in possible(&SCENARIOS.iter().collect::<Vec<_>>()) {
        let catcher = SCENARIOS.iter().find(|scenario| fails_without(weaker, scenario));
        println!(
            "without {:?} {}: {entry}",
            weaker.2,
            catcher.map_or("NOT CAUGHT", |scenario| scenario.name)
        );
    }
}

/// So the scenarios can fail, and fail for each part of the protocol's order.
#[test]
fn what_must_not_be_left_out_is_caught() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ())); // of those that are to come
    let is_catcher =
        |scenario: &&Scenario| NEEDED.iter().any(|(_, _, catcher)| *catcher == scenario.name);
    let catchers: Vec<_> = SCENARIOS.iter().filter(is_catcher).collect();
    let possible = possible(&catchers);
    let is_caught = |(entry, loss, catcher): &(&str, Loss, &str)| {
        let Some(catcher) = catchers.iter().find(|scenario| scenario.name == *catcher) else {
            return false;
        };
        let mut there =
            possible.iter().filter(|(weaker, at)| at == entry && weaker.2 == *loss).peekable();
        there.peek().is_some() && there.all(|(weaker, _)| fails_without(*weaker, catcher))
    };
    let missed: Vec<_> =
        NEEDED.iter().filter(|needed| !is_caught(needed)).map(|(entry, ..)| entry).collect();
    std::panic::set_hook(usual);
    assert!(missed.is_empty(), "not caught when it is left out: {missed:?}");
}
