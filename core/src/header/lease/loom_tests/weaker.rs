//! Tests of the tests: an ordering, a fence or a step that is left out of `lease` must be caught.

use super::SCENARIOS;
use crate::header::control::loom_atomics::Loss;
use crate::header::control::loom_scenarios::{Needed, missed, print_census};

const SOURCE: &str = include_str!("../../lease.rs");

/// The fences and orderings of `lease.rs` that are needed: the line there, the part that is left
/// out, and the scenario that then fails. Other orderings are stronger than the scenarios need,
/// mostly because a fence or another operation nearby does the same.
const NEEDED: &[Needed] = &[
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

/// Leaves out each ordering that `lease` asks for, and each fence, in turn.
#[test]
#[ignore = "takes minutes; says what no scenario needs"]
fn census() {
    print_census(SCENARIOS, SOURCE);
}

/// Shows that the scenarios can fail, and that they fail for each part of the protocol's ordering.
#[test]
fn a_needed_ordering_that_is_left_out_is_caught() {
    let missed = missed(NEEDED, SCENARIOS, SOURCE);
    assert!(missed.is_empty(), "not caught when it is left out: {missed:?}");
}
