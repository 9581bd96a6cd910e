//! This process, the only one: it lives, and does not fork.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Directory;
use crate::error::Result;

/// A process or a message as its entries name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) info: u64,
}

const HOLDER: u64 = 7;
/// The kind of holder in an entry's `about`, above the pid.
const MESSAGE: u64 = 2 << 32;
/// This process's family, and how many tickets each has.
const FAMILY: u64 = 1 << 52;
const FAMILY_TICKETS: u64 = 1 << 32;

pub(crate) fn process_owner(_directory: &Directory) -> Option<Owner> {
    Some(Owner { id: HOLDER, about: std::process::id().into() })
}

/// A ticket of this process's family.
pub(crate) fn family_message(_directory: &Directory) -> Result<Owner> {
    static TICKETS: AtomicU64 = AtomicU64::new(FAMILY + 1);
    let holder = TICKETS.fetch_add(1, Ordering::Relaxed);
    Ok(Owner { holder, about: MESSAGE | u64::from(std::process::id()) })
}

pub(crate) fn family_of(ticket: u64) -> Option<u64> {
    (FAMILY..2 * FAMILY).contains(&ticket).then_some(ticket & !(FAMILY_TICKETS - 1))
}

pub(crate) fn is_message(info: u64) -> bool {
    info >> 32 != 0
}

/// A look at who lives: everybody.
pub(crate) struct Liveness;

impl Liveness {
    pub(crate) fn look(_directory: &Directory) -> Option<Self> {
        Some(Self)
    }

    pub(crate) fn is_dead_owner(&self, _holder: u64, _about: u64) -> bool {
        false
    }
}

/// Nobody dies here.
pub(crate) struct Dead;

impl Dead {
    pub(crate) fn are_swept(self) {}
}

/// What a look finds: nothing.
pub(crate) struct Look {
    pub(crate) dead: Option<Dead>,
    pub(crate) was_deleted: bool,
}

pub(crate) fn find_dead(_directory: &Directory) -> Look {
    Look { dead: None, was_deleted: false }
}

pub(crate) fn monotonic_ns() -> u64 {
    0
}

/// Not known here.
pub(crate) fn most_mappings() -> usize {
    usize::MAX
}

/// Whether a file is not there, or not this user's.
pub(crate) fn is_none_of_ours(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

pub(crate) fn thread_ns() -> u64 {
    0
}
