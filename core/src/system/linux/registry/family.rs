//! Families: their numbers, and the locks that stand for them.
#![allow(unsafe_code)] // the mapping of a lock in other threads

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::lock;
use super::file::{self, FAMILIES, Registry};
use super::lock_mapping::LockMapping;
use super::owner::LOCK;
use crate::value::error::Result;
use crate::value::name::random_bits;

/// The number of tickets of each family.
const FAMILY_TICKETS: u64 = 1 << 32;

/// Returns this process's family: its parent's, the one that a launcher set in the environment, or
/// a new one.
///
/// Two threads may both choose a number; the first to store it decides. A lock could stay locked in
/// a child that another thread forks meanwhile.
pub(super) fn family() -> Result<u64> {
    static FAMILY: AtomicU64 = AtomicU64::new(0);
    if let family @ 1.. = FAMILY.load(Ordering::Relaxed) {
        return Ok(family);
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

/// Locks the byte of this process's family, together with the family's other processes.
pub(super) fn lock_family(file: &File) -> io::Result<()> {
    lock::try_shared_at(file, family().map_err(io::Error::other)? as i64)
}

/// Locks the byte of this process's family in the registry that was opened by that path. The lock
/// needs an open file of its own, or it could not be given up before the process's.
pub(super) fn lock_own_family(
    registry: &Registry,
    path: &CStr,
) -> std::result::Result<FamilyLock, (&'static str, io::Error)> {
    let again = file::open_at_c(path, false).map_err(|error| ("open", error))?;
    if again.cookie != registry.cookie {
        return Err(("open", io::ErrorKind::NotFound.into())); // it was deleted just now
    }
    lock_family(&again.file).map_err(|error| (LOCK, error))?;
    LockMapping::map(&again.file).map(FamilyLock).map_err(|error| ("mmap", error))
}

/// The lock of a family, a channel's or this process's, which keeps the family's tickets. Forked
/// children inherit it.
pub(crate) struct FamilyLock(LockMapping);

// SAFETY: shared references must be usable by several threads at once; nothing is done with one.
unsafe impl Sync for FamilyLock {}

impl FamilyLock {
    /// Locks the byte of a channel's family, together with the other processes that do. An error
    /// has the name of the call that failed.
    pub(super) fn of_channel(
        registry: &Registry,
        channel: u64,
    ) -> std::result::Result<Self, (&'static str, io::Error)> {
        let byte = of_channel(channel) as i64;
        lock::try_shared_at(&registry.file, byte).map_err(|error| (LOCK, error))?;
        LockMapping::map(&registry.file).map(Self).map_err(|error| ("mmap", error))
    }
}

impl Drop for FamilyLock {
    fn drop(&mut self) {
        LockMapping(self.0.0, self.0.1).unmap();
    }
}
