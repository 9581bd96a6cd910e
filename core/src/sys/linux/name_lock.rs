//! The lock on a name: a byte of the registry, so that names and their files change together.

use std::fmt::Write;

use super::directory::{Directory, Fnv1a};
use super::fd::Fd;
use super::lock::{self, Patience};
use super::registry;
use crate::error::{Error, Result};
use crate::name::ArrayName;

/// Where the bytes that stand for names begin in the registry.
const NAMES_OFFSET: u64 = 1 << 62;

/// The registry's byte for a name, ours until dropped.
pub(super) struct NameLock(#[allow(dead_code, reason = "held for its lock")] Fd);

impl NameLock {
    /// # Errors
    /// When the registry cannot be had, or another process of this user keeps the byte: it does
    /// that for a few system calls, unless somebody stopped it there.
    pub(super) fn take(
        directory: &Directory,
        name: &ArrayName,
        patience: Patience,
    ) -> Result<Self> {
        let file = registry::open(directory)?.file;
        let mut hash = Fnv1a::new();
        let _ = hash.write_str(name.as_str()); // it takes everything
        let offset = (NAMES_OFFSET | hash.value() >> 2) as i64;
        let taken = lock::exclusive_at(&file, offset, patience);
        taken.map_err(|error| Error::os("fcntl(F_OFD_SETLK)", directory.name_path(name), error))?;
        Ok(Self(file))
    }
}
