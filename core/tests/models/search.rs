//! The search that models share.

use std::collections::HashSet;
use std::hash::Hash;

/// Visits every state that can be reached. Returns the first fault, and the number of states.
pub(crate) fn explore<World: Clone + Eq + Hash>(
    start: World,
    next: impl Fn(&World) -> Vec<World>,
    fault: impl Fn(&World) -> Option<String>,
) -> (Option<String>, usize) {
    let mut seen = HashSet::new();
    let mut waiting = vec![start];
    while let Some(world) = waiting.pop() {
        if let Some(found) = fault(&world) {
            return (Some(found), seen.len());
        }
        waiting.extend(next(&world).into_iter().filter(|world| seen.insert(world.clone())));
    }
    (None, seen.len())
}
