//! This process, the only one: it does not die or fork.

use std::sync::atomic::{AtomicU64, Ordering};

use super::directory::Directory;
use super::owner::{FAMILY, MESSAGE, OWNER, Owner};
use crate::system::interface::OwnFiles;
use crate::value::error::Result;

pub(crate) fn process_owner(_directory: &Directory) -> Option<Owner> {
    Some(Owner { id: OWNER, info: std::process::id().into() })
}

/// Returns `true`: memory of this process serves as it is.
pub(crate) fn is_usable(_directory: &Directory) -> Result<bool> {
    Ok(true)
}

/// Returns a ticket of this process's family.
pub(crate) fn family_message(_directory: &Directory) -> Result<Owner> {
    static TICKETS: AtomicU64 = AtomicU64::new(FAMILY + 1);
    let id = TICKETS.fetch_add(1, Ordering::Relaxed);
    Ok(Owner { id, info: MESSAGE | u64::from(std::process::id()) })
}

/// A view of which owners are alive: all of them.
pub(crate) struct Liveness;

impl Liveness {
    pub(crate) fn of(_directory: &Directory) -> Self {
        Self
    }

    pub(crate) fn for_sweep(_directory: &Directory) -> Self {
        Self
    }

    pub(crate) fn has_registry(&self) -> bool {
        true
    }

    pub(crate) fn is_dead_owner(&self, _owner: u64, _info: u64) -> bool {
        false
    }
}

/// Dead processes: there are none here.
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

/// Does nothing: no message dies with its sender here.
pub(crate) fn sweep_tickets(_: &Directory, _: &OwnFiles, _: &Liveness) {}
