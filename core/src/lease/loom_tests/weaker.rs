//! Tests of the tests: an ordering, a fence or a step that is left out of `lease` must be caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::control::loom_atomics::{Loss, Weaker, possible_losses, weaken};

/// The fences and orderings of `lease.rs` that are needed: the line there, the part that is left
/// out, and the scenario that then fails. Other orderings are stronger than the scenarios need,
/// mostly because a fence or another operation nearby does the same.
const NEEDED: &[(&str, Loss, &str)] = &[
    ("fence(SeqCst); // F1", Loss::Fence, "the_last_to_leave_and_one_that_enters_do_not_both_win"),
    ("fence(SeqCst); // F2", Loss::Fence, "the_last_to_leave_and_one_that_enters_do_not_both_win"),
    (
        "fence(SeqCst); // F2: the load is that of the close",
        Loss::Fence,
        "a_cell_that_is_used_again_is_one_life_at_a_time",
    ),
    (
        "self.control.entries()[entry].owner.set(HELD);",
        Loss::Release,
        "the_info_beside_an_owner_is_its_own",
    ),
    (
        "self.control.entries()[entry].owner.store(0, Release);",
        Loss::Release,
        "a_cell_that_is_used_again_is_one_life_at_a_time",
    ),
    (
        "self.control.state().replace(from, Self::next_word(from, to))",
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

/// All that these scenarios could lose, each with its line.
fn possible(scenarios: &[&Scenario]) -> Vec<(Weaker, &'static str)> {
    let source: Vec<_> = include_str!("../../lease.rs").lines().collect();
    let losses =
        possible_losses(|| scenarios.iter().for_each(|scenario| assert!(scenario.explore() > 0)));
    losses.into_iter().map(|weaker| (weaker, source[weaker.0 as usize - 1].trim())).collect()
}

/// Leaves out each ordering that `lease` asks for, and each fence, in turn.
#[test]
#[ignore = "takes minutes; says what no scenario needs"]
fn census() {
    std::panic::set_hook(Box::new(|_| ())); // the panics to come are expected
    for (weaker, line) in possible(&SCENARIOS.iter().collect::<Vec<_>>()) {
        let catcher = SCENARIOS.iter().find(|scenario| fails_without(weaker, scenario));
        println!(
            "without {:?} {}: {line}",
            weaker.2,
            catcher.map_or("NOT CAUGHT", |scenario| scenario.name)
        );
    }
}

/// Shows that the scenarios can fail, and that they fail for each part of the protocol's ordering.
#[test]
fn a_needed_ordering_that_is_left_out_is_caught() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ())); // the panics to come are expected
    let is_catcher =
        |scenario: &&Scenario| NEEDED.iter().any(|(_, _, catcher)| *catcher == scenario.name);
    let catchers: Vec<_> = SCENARIOS.iter().filter(is_catcher).collect();
    let possible = possible(&catchers);
    let is_caught = |(line, loss, catcher): &(&str, Loss, &str)| {
        let Some(catcher) = catchers.iter().find(|scenario| scenario.name == *catcher) else {
            return false;
        };
        let mut there =
            possible.iter().filter(|(weaker, at)| at == line && weaker.2 == *loss).peekable();
        there.peek().is_some() && there.all(|(weaker, _)| fails_without(*weaker, catcher))
    };
    let missed: Vec<_> =
        NEEDED.iter().filter(|needed| !is_caught(needed)).map(|(line, ..)| line).collect();
    std::panic::set_hook(usual);
    assert!(missed.is_empty(), "not caught when it is left out: {missed:?}");
}
