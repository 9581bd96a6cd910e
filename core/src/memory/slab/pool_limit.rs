//! The pool's limit: how much memory of slabs a process may keep for its next arrays.
//!
//! A process keeps the slabs that it made, to use them again. Their pages exist already, and they
//! are mapped, here and in the processes that had their arrays. The pooled slabs of a process, in
//! use or free, never exceed the limit, so an idle process stays within it, too. A slab beyond the
//! limit is not pooled: it ends with its last array. All pools together leave the last quarter of
//! the file system to others: a process that makes a slab when less is free does not keep it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::system::Directory;
use crate::value::error::{Error, Result};

const VARIABLE: &str = "SHMARRAY_POOL_BYTES";
/// The default limit is this part of the file system (one fourth).
const DEFAULT_PART: u64 = 4;

/// The part of a file system that no pool grows into (one fourth).
const FREE_PART: u64 = 4;

/// The limit that the program has set; `NONE_SET` for none.
static SET: AtomicU64 = AtomicU64::new(NONE_SET);
const NONE_SET: u64 = u64::MAX;

/// Sets the limit of this process's pool in bytes, in place of the environment's. The next new slab
/// obeys it; a smaller limit than before takes nothing from the pool.
///
/// This is for a program that knows how much memory it may have from time to time, such as a worker
/// with a limit. Setting the environment variable while other threads run is not safe in C.
pub fn limit_pool(bytes: u64) {
    SET.store(bytes.min(NONE_SET - 1), Ordering::Relaxed);
}

/// Returns the bytes that this process may keep in a directory when it makes `wanted` more. 0 when
/// it may keep none of them, or the pool is off.
pub(super) fn limit(directory: &Directory, wanted: u64) -> Result<u64> {
    let limit = own_limit(directory)?;
    Ok(if limit > 0 && find_room(directory, wanted).is_ok() { limit } else { 0 })
}

/// Checks that a pool may grow by so many bytes.
///
/// # Errors
/// [`Error::NoSpace`] when it may not: there may be memory, but not for a pool.
pub(super) fn find_room(directory: &Directory, wanted: u64) -> Result<()> {
    let free_bytes = directory.free_bytes()?;
    let total_bytes = directory.total_bytes()?;
    if free_bytes.saturating_sub(wanted) >= total_bytes / FREE_PART {
        return Ok(());
    }
    Err(Error::NoSpace {
        asked_bytes: wanted,
        free_bytes,
        lacks_inode: false,
        directory: directory.path().to_owned(),
    })
}

fn own_limit(directory: &Directory) -> Result<u64> {
    let set = SET.load(Ordering::Relaxed);
    if set != NONE_SET {
        return Ok(set);
    }
    match std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        None => Ok(directory.total_bytes()? / DEFAULT_PART),
        Some(text) => {
            let bytes = text.to_str().and_then(|text| text.trim().parse().ok());
            bytes
                .ok_or_else(|| Error::argument(VARIABLE, format!("{text:?} is no number of bytes")))
        }
    }
}
