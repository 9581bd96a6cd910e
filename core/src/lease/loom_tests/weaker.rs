//! Tests of the tests: what `lease` does with an ordering, a fence or a step left out must be caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::words::modelled::{Loss, Weaker, possible_losses, weaken};

/// What must not be left out of `lease.rs`, by its line there. What is not here is stronger than
/// the scenarios need, most of it because a fence or another operation beside it does the same.
const NEEDED: &[(&str, Loss)] = &[
    ("fence(SeqCst); // F1", Loss::Fence),
    ("fence(SeqCst); // F2", Loss::Fence),
    ("fence(SeqCst); // F2: the load is that of the close", Loss::Fence),
    ("self.words.entries()[place].holder.set(HELD);", Loss::Release),
    ("self.words.entries()[place].holder.store(0, Release);", Loss::Release),
    ("self.words.state().replace(from, next)", Loss::Release),
];

/// Which scenario fails without it.
fn catcher(weaker: Weaker) -> Option<&'static str> {
    weaken(Some(weaker));
    let catcher = SCENARIOS.iter().find(|scenario| fails(scenario));
    weaken(None);
    catcher.map(|scenario| scenario.name)
}

fn fails(scenario: &Scenario) -> bool {
    catch_unwind(AssertUnwindSafe(|| scenario.explore())).is_err()
}

fn possible() -> Vec<(Weaker, &'static str)> {
    let source: Vec<_> = include_str!("../../lease.rs").lines().collect();
    let losses = possible_losses(|| SCENARIOS.iter().for_each(|scenario| assert!(scenario.explore() > 0)));
    losses.into_iter().map(|weaker| (weaker, source[weaker.0 as usize - 1].trim())).collect()
}

/// Each ordering that `lease` asks for, and each fence, is left out in turn.
#[test]
#[ignore = "takes minutes; says what no scenario needs"]
fn census() {
    std::panic::set_hook(Box::new(|_| ())); // of those that are to come
    for (weaker, place) in possible() {
        println!("without {:?} {}: {place}", weaker.2, catcher(weaker).unwrap_or("NOT CAUGHT"));
    }
}

/// So the scenarios can fail, and fail for each part of the protocol's order.
#[test]
fn what_must_not_be_left_out_is_caught() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ())); // of those that are to come
    let possible = possible();
    let is_caught = |(place, loss): &(&str, Loss)| {
        let mut there = possible.iter().filter(|(weaker, at)| at == place && weaker.2 == *loss).peekable();
        there.peek().is_some() && there.all(|(weaker, _)| catcher(*weaker).is_some())
    };
    let missed: Vec<_> = NEEDED.iter().filter(|needed| !is_caught(needed)).map(|(place, _)| place).collect();
    std::panic::set_hook(usual);
    assert!(missed.is_empty(), "not caught when it is left out: {missed:?}");
}
