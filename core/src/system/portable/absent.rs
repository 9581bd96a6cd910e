//! The functions for which the crate `shared_memory` has nothing: owners, deaths, messages, sweeps.

use super::directory::Directory;
use crate::system::interface::OwnFiles;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId, SegmentText};

/// A segment ends with its last holder: a count of zero cannot be attached again.
pub(crate) const CAN_PERSIST: bool = false;

/// The owner of an entry. There are none here: no kernel would tell that a holder died.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) info: u64,
}

pub(crate) fn process_owner(_directory: &Directory) -> Option<Owner> {
    None
}

/// A view of which owners are alive: none can be known to be dead.
pub(crate) struct Liveness;

impl Liveness {
    pub(crate) fn of(_directory: &Directory) -> Self {
        Self
    }

    pub(crate) fn for_sweep(_directory: &Directory) -> Self {
        Self
    }

    pub(crate) fn has_registry(&self) -> bool {
        false
    }

    pub(crate) fn is_dead_owner(&self, _owner: u64, _info: u64) -> bool {
        false
    }
}

/// Dead processes: none can be known.
pub(crate) struct Dead;

impl Dead {
    pub(crate) fn remove_from_list(self, _liveness: &Liveness) {}
}

/// What a check for dead processes found: nothing.
pub(crate) struct DeathCheck {
    pub(crate) dead: Option<Dead>,
    pub(crate) was_deleted: bool,
}

pub(crate) fn find_dead(_directory: &Directory, _liveness: &Liveness) -> DeathCheck {
    DeathCheck { dead: None, was_deleted: false }
}

pub(crate) fn monotonic_ns() -> u64 {
    0
}

/// It is not known here.
pub(crate) fn available_memory() -> u64 {
    0
}

/// No limit is known here.
pub(crate) fn most_mappings() -> usize {
    usize::MAX
}

/// No limit is known here.
pub(crate) fn most_cached_bytes() -> u64 {
    u64::MAX
}

/// Whether a file does not exist or is not this user's.
pub(crate) fn is_absent_or_foreign(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

pub(crate) fn thread_ns() -> u64 {
    0
}

/// Does nothing: a segment ends only by its last holder's count.
pub(crate) fn discard(
    _directory: &Directory,
    _id: &SegmentId,
    _name: Option<&ArrayName>,
) -> Result<bool> {
    Ok(true)
}

const NO_MESSAGES: Error = Error::Unsupported { what: "messages on this platform" };

pub(crate) fn family_message(_directory: &Directory) -> Result<Owner> {
    Err(NO_MESSAGES)
}

pub(crate) fn family_of(_ticket: u64) -> Option<u64> {
    None
}

pub(crate) fn is_message(_info: u64) -> bool {
    false
}

pub(crate) fn link_ticket(
    _directory: &Directory,
    _of: &SegmentText,
    _ticket: u64,
    _info: u64,
) -> Result<bool> {
    Err(NO_MESSAGES)
}

pub(crate) fn unlink_ticket(_directory: &Directory, _of: &SegmentText, _ticket: u64) -> bool {
    false
}

pub(crate) fn sweep_tickets(_: &Directory, _: &OwnFiles, _: &Liveness) {}

/// Does nothing: without leases there are no cells, and only cells are decommitted.
pub(crate) fn decommit(
    _directory: &Directory,
    _id: &SegmentId,
    _parts: &[(u64, u64)],
) -> Result<()> {
    Ok(())
}

pub(crate) fn recommit(_directory: &Directory, _id: &SegmentId, _part: (u64, u64)) -> Result<()> {
    Ok(())
}

/// Does nothing: the system does not list names.
pub(crate) fn sweep_names(_: &Directory, _: &OwnFiles, _: &Liveness) {}

pub(crate) fn is_found(_directory: &Directory, _id: &SegmentId) -> bool {
    true
}

/// Returns `true`: what this backend needs, the system has.
pub(crate) fn is_usable(_directory: &Directory) -> Result<bool> {
    Ok(true)
}

pub(crate) fn is_findable(_directory: &Directory, _id: &SegmentId) -> bool {
    true
}

/// Does nothing: the process's user does not matter here.
pub(crate) fn refresh_user() {}

/// Returns `None`: only the last holder can tell that a segment is not held.
pub(crate) fn reclaim(_: &Directory, _: &SegmentId, _: &Liveness) -> Result<Option<u64>> {
    Ok(None)
}
