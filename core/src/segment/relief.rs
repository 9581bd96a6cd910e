//! When what arrives for this process alone is better copied to memory of its own than mapped.
//!
//! A mapping that copies on write costs no copy, but it keeps shared memory, of which a container
//! may have 64 MB, and a process may have `vm.max_map_count` mappings, 65,530 by default; without
//! one more it can neither open a file nor start a thread. So who keeps much has it in memory of
//! its own.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::begin;
use crate::descriptor::Descriptor;
use crate::sys::{self, Directory};

/// Files that are mapped, each by two mappings at the most: the header, and data with other rights.
static FILES: AtomicUsize = AtomicUsize::new(0);
/// Data of arrays that copy on write.
static BYTES: AtomicU64 = AtomicU64::new(0);

const MAPPINGS_OF_A_FILE: usize = 2;
/// The part of a process's mappings that this library takes for what can be copied.
const MAPPINGS_PART: usize = 4;
/// The part of shared memory that one process keeps of what was sent to it alone.
const BYTES_PART: u64 = 8;
/// As much of it stays free for others.
const FREE_PART: u64 = 4;

pub(super) fn file_was_mapped() {
    FILES.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn file_was_unmapped() {
    FILES.fetch_sub(1, Ordering::Relaxed);
}

/// What an array that copies on write keeps of shared memory, counted while this lives.
pub(super) struct Kept(u64);

impl Kept {
    pub(super) fn of(bytes: u64) -> Self {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Whether there would still be a quarter of shared memory free with so many more bytes in use: for
/// what can as well be elsewhere. An array for which somebody asks may have the last byte.
#[must_use]
pub fn has_room(bytes: u64) -> bool {
    let directory = Directory::current();
    let (Ok(free), Ok(total)) = (directory.free_bytes(), directory.total_bytes()) else {
        return false;
    };
    free.saturating_sub(bytes) >= total / FREE_PART
}

/// Whether a receiver that wants the array of a handle for itself alone had better copy it to
/// memory of its own than attach it to copy on write: this process has a quarter of its mappings in
/// use by this library, or would keep more than an eighth of shared memory so, or less than a
/// quarter of it is free.
#[must_use]
pub fn is_better_copied(handle: &Descriptor) -> bool {
    if begin().is_err() {
        return false; // what comes next says so
    }
    let mappings = FILES.load(Ordering::Relaxed).saturating_mul(MAPPINGS_OF_A_FILE);
    if mappings >= sys::most_mappings() / MAPPINGS_PART {
        return true;
    }
    let Ok(total) = Directory::current().total_bytes() else { return false };
    let bytes = handle.layout.len().saturating_mul(handle.dtype.item_bytes());
    !has_room(0) || BYTES.load(Ordering::Relaxed).saturating_add(bytes) > total / BYTES_PART
}
