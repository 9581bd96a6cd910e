//! The lock on a name: a byte of the registry, so that a name and its file change together.

use std::fmt::Write;

use super::directory::{Directory, Fnv1a};
use super::fd::Fd;
use super::lock::{self, Patience};
use super::registry;
use crate::value::error::{Error, Result};
use crate::value::name::ArrayName;

/// Where the bytes that stand for names begin in the registry.
const NAMES_OFFSET: u64 = 1 << 62;

/// An exclusive lock on the registry's byte for a name, held until dropped.
pub(super) struct NameLock(#[allow(dead_code, reason = "held for its lock")] Fd);

impl NameLock {
    /// Locks the byte of a name.
    ///
    /// # Errors
    /// If the registry cannot be opened, or another process of this user keeps the byte locked. A
    /// process does so for a few system calls only, unless it is stopped there.
    pub(super) fn take(
        directory: &Directory,
        name: &ArrayName,
        patience: Patience,
    ) -> Result<Self> {
        let file = registry::open(directory)?.file;
        let mut hash = Fnv1a::new();
        let _ = hash.write_str(name.as_str()); // a hasher accepts any text
        let offset = (NAMES_OFFSET | hash.value() >> 2) as i64;
        let locked = lock::exclusive_at(&file, offset, patience);
        locked
            .map_err(|error| Error::os("fcntl(F_OFD_SETLK)", directory.name_path(name), error))?;
        Ok(Self(file))
    }
}
