//! Copies of lease entries and flags, from a copy of a header.

use super::constants::{CONTROL_WORDS_OFFSET, LEASE_BYTES, LEASES_OFFSET, LOCK_ONLY, PAGE_BYTES};
use super::header::Header;
use super::slab::{CELL_ENTRIES_OFFSET, CELL_FLAGS_OFFSET, HEADS_OFFSET, SMALL_HEAD_BYTES};

/// A copy of a lease entry, as it was when the header was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryCopy {
    pub(crate) owner: u64,
    pub(crate) held: bool,
    pub(crate) owner_info: u64,
}

impl EntryCopy {
    fn read(entry: &[u8]) -> Self {
        let word = |at: usize| {
            entry[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        Self { owner: word(0) >> 1, held: word(0) & 1 != 0, owner_info: word(8) }
    }

    /// Returns the pid of the process, as that process saw it.
    pub(crate) fn pid(&self) -> u32 {
        self.owner_info as u32
    }
}

impl Header {
    /// Returns the taken entries of the slab or segment itself, from a copy of its header. Those of
    /// cells are left out.
    pub(crate) fn own_entries<'a>(
        &self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = EntryCopy> + use<'a> {
        let own = bytes
            .get(LEASES_OFFSET..PAGE_BYTES as usize)
            .unwrap_or_default()
            .chunks_exact(LEASE_BYTES);
        own.take(self.leases_count as usize).map(EntryCopy::read).filter(|entry| entry.owner != 0)
    }

    /// Returns all taken entries, from a copy of the header: its own, and those of its cells.
    pub(crate) fn entries<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = EntryCopy> + use<'a> {
        let (cells, head_bytes) = self
            .slab_layout
            .map_or((0, SMALL_HEAD_BYTES), |layout| (layout.cells, layout.head_bytes));
        let heads = bytes
            .get(HEADS_OFFSET..)
            .unwrap_or_default()
            .chunks_exact(head_bytes as usize)
            .take(cells as usize);
        let of_cells = heads.flat_map(|head| head[CELL_ENTRIES_OFFSET..].chunks_exact(LEASE_BYTES));
        self.own_entries(bytes)
            .chain(of_cells.map(EntryCopy::read).filter(|entry| entry.owner != 0))
    }

    /// Returns the taken entries of a cell that holds an array, from a copy of its head.
    pub(crate) fn entries_of_live_cell(head: &[u8]) -> Option<Vec<EntryCopy>> {
        let entries =
            head.get(CELL_ENTRIES_OFFSET..)?.chunks_exact(LEASE_BYTES).map(EntryCopy::read);
        matches!(head[0] & 7, 1 | 2).then(|| entries.filter(|entry| entry.owner != 0).collect())
    }

    /// Whether a segment is held lock-only, so that its holders are not known. From a copy of its
    /// header.
    pub(crate) fn is_lock_only(&self, bytes: &[u8]) -> bool {
        self.leases_count == 0 || self.flags(bytes) & LOCK_ONLY != 0
    }

    /// Whether a cell is held lock-only. From a copy of its head.
    pub(crate) fn is_cell_lock_only(head: &[u8]) -> bool {
        head.get(CELL_FLAGS_OFFSET).is_some_and(|byte| u64::from(*byte) & LOCK_ONLY != 0)
    }

    /// Returns the flags, from a copy of the header.
    pub(crate) fn flags(&self, bytes: &[u8]) -> u64 {
        bytes.get(CONTROL_WORDS_OFFSET + 16).map_or(0, |byte| u64::from(*byte))
    }
}
