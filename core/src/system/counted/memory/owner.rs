//! The owners of entries: this process, and messages of its family.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::absent::Owner;
use crate::system::Directory;
use crate::value::error::Result;

/// The owner id of this process.
const OWNER: u64 = 7;
/// The kind of owner in an entry's owner info, above the pid.
const MESSAGE: u64 = 2 << 32;
/// This process's family.
const FAMILY: u64 = 1 << 52;
/// The number of tickets of each family.
const FAMILY_TICKETS: u64 = 1 << 32;

/// Returns the family of a ticket, if it has one.
pub(crate) fn family_of(ticket: u64) -> Option<u64> {
    (FAMILY..2 * FAMILY).contains(&ticket).then_some(ticket & !(FAMILY_TICKETS - 1))
}

/// Whether an entry's owner is a message.
pub(crate) fn is_message(info: u64) -> bool {
    info >> 32 != 0
}

pub(crate) fn process_owner(_directory: &Directory) -> Option<Owner> {
    Some(Owner { id: OWNER, info: std::process::id().into() })
}

/// Returns a ticket of this process's family.
pub(crate) fn family_message(_directory: &Directory) -> Result<Owner> {
    static TICKETS: AtomicU64 = AtomicU64::new(FAMILY + 1);
    let id = TICKETS.fetch_add(1, Ordering::Relaxed);
    Ok(Owner { id, info: MESSAGE | u64::from(std::process::id()) })
}
