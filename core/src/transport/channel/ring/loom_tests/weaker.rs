//! Tests of the tests: an ordering or a fence that is left out of `ring` must be caught.

use super::SCENARIOS;
use crate::header::control::loom_atomics::Loss;
use crate::header::control::loom_scenarios::{Needed, missed, print_census};

const SOURCE: &str = include_str!("../../ring.rs");

/// The fences and orderings of `ring.rs` that are needed. Other orderings are stronger than the
/// scenarios need, mostly because a fence or another operation nearby does the same.
const NEEDED: &[Needed] = &[
    (
        "fence_after_rmw(); // C5: the futex word is loaded afterwards",
        Loss::Fence,
        "a_receiver_that_goes_to_sleep_sees_the_message_or_is_seen",
    ),
    (
        "fence_after_rmw(); // C5: the futex word is loaded afterwards, of a slot",
        Loss::Fence,
        "a_sender_that_goes_to_sleep_sees_the_slot_or_is_seen",
    ),
    ("fence(SeqCst); // C3", Loss::Fence, "one_that_joins_misses_nothing_from_then_on"),
    (
        "fence(SeqCst); // C6: the ends are loaded afterwards",
        Loss::Fence,
        "one_that_joins_misses_nothing_that_another_process_drops",
    ),
    (
        "self.words.slot_head(slot, WORD).replace(from.0, to.0)",
        Loss::Release,
        "a_slot_that_is_used_again_has_one_message_at_a_time",
    ),
    (
        "if self.words.ring(tail).replace(before, after) {",
        Loss::Release,
        "one_of_two_receivers_takes_a_message",
    ),
    (
        "let ring = self.words.ring(number).load(Acquire);",
        Loss::Acquire,
        "one_of_two_receivers_takes_a_message",
    ),
    ("self.words.pins(end, slot).clear(pin(slot));", Loss::Release, "a_pinned_slot_is_not_written"),
    ("fence_after_rmw(); // C2", Loss::Fence, "a_pinned_slot_is_not_written"),
    (
        "fence_after_rmw(); // C2: of the latest value",
        Loss::Fence,
        "the_latest_value_is_not_written_while_it_is_pinned",
    ),
    (
        "fence_after_rmw(); // C8: the payload is written afterwards",
        Loss::Fence,
        "a_copy_of_the_latest_value_is_whole",
    ),
    (
        "fence(SeqCst); // C8: what was read comes before it",
        Loss::Fence,
        "a_copy_of_the_latest_value_is_whole",
    ),
    (
        "fence_after_rmw(); // C1: the pins are loaded afterwards",
        Loss::Fence,
        "a_pinned_slot_is_not_written",
    ),
    (
        "fence_after_rmw(); // C9: the sole word is loaded afterwards; C5",
        Loss::Fence,
        "a_sole_sender_and_another_one_publish_two_whole_messages",
    ),
    (
        "fence(SeqCst); // C9: what the sender has published is loaded afterwards",
        Loss::Fence,
        "a_sole_sender_and_another_one_publish_two_whole_messages",
    ),
    (
        "fence_between_loads(); // C9: the slot word was loaded before",
        Loss::Fence,
        "a_message_of_a_session_that_is_closed_is_received_once",
    ),
    (
        "fence_after_rmw(); // C10",
        Loss::Fence,
        "one_that_begins_a_session_beside_another_sender_publishes_its_message",
    ),
];

/// Leaves out each ordering that `ring` asks for, and each fence, in turn.
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
