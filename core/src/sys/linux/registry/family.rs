//! The numbers of families, and the number of this process's family.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::name::random_bits;

/// Where the bytes that stand for families begin.
pub(super) const FAMILIES: u64 = 1 << 52;
/// The number of tickets of each family.
const FAMILY_TICKETS: u64 = 1 << 32;

/// Returns this process's family: its parent's, the one that a launcher set in the environment, or
/// a new one.
///
/// Two threads may both choose a number; the first to store it decides. A lock could stay locked in
/// a child that another thread forks meanwhile.
pub(super) fn family() -> Result<u64> {
    static FAMILY: AtomicU64 = AtomicU64::new(0);
    if let known @ 1.. = FAMILY.load(Ordering::Relaxed) {
        return Ok(known);
    }
    let named = std::env::var("SHMARRAY_FAMILY").ok().and_then(|text| text.parse().ok());
    let family = match named.filter(|number| family_of(*number) == Some(*number)) {
        Some(family) => family,
        None => FAMILIES | ((random_bits()? % (FAMILIES / FAMILY_TICKETS)) * FAMILY_TICKETS),
    };
    let stored = FAMILY.compare_exchange(0, family, Ordering::Relaxed, Ordering::Relaxed);
    Ok(stored.map_or_else(|first| first, |_| family))
}

/// Returns the family of a channel from its number in the channel.
pub(super) fn of_channel(number: u64) -> u64 {
    FAMILIES | ((number % (FAMILIES / FAMILY_TICKETS)) * FAMILY_TICKETS)
}

/// Returns the family of a ticket, if it has one.
pub(crate) fn family_of(ticket: u64) -> Option<u64> {
    (FAMILIES..2 * FAMILIES).contains(&ticket).then_some(ticket & !(FAMILY_TICKETS - 1))
}
