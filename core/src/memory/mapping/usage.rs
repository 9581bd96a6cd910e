//! How much of a process's mappings and of shared memory this library uses.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of mapped files.
static FILES: AtomicUsize = AtomicUsize::new(0);
/// The bytes of arrays that are private to this process.
static PRIVATE_BYTES: AtomicU64 = AtomicU64::new(0);

/// The most mappings of a file: its header, and its data with another protection.
const MAPPINGS_PER_FILE: usize = 2;

pub(super) fn file_was_mapped() {
    FILES.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn file_was_unmapped() {
    FILES.fetch_sub(1, Ordering::Relaxed);
}

/// Returns an upper bound of the mappings that this library has in this process.
pub(crate) fn mappings() -> usize {
    FILES.load(Ordering::Relaxed).saturating_mul(MAPPINGS_PER_FILE)
}

/// Counts the bytes of shared memory that one private array keeps, while it lives.
pub(crate) struct PrivateBytes(u64);

impl PrivateBytes {
    pub(crate) fn count(bytes: u64) -> Self {
        PRIVATE_BYTES.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }

    /// Returns the bytes of all such arrays of this process.
    pub(crate) fn total() -> u64 {
        PRIVATE_BYTES.load(Ordering::Relaxed)
    }
}

impl Drop for PrivateBytes {
    fn drop(&mut self) {
        PRIVATE_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}
