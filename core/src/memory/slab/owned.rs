//! A slab that this process made and gives cells out of.

use std::sync::Arc;

use super::reclaim::end_slab;
use crate::header::control::Ordering;
use crate::header::lease::{Closed, EntryIndex, Leases};
use crate::memory::mapping::Mapped;

/// A slab, until this process gives no more cells out of it.
pub(crate) struct Slab {
    pub(super) mapped: Arc<Mapped>,
    /// The first of the cells that were never used.
    pub(super) unused: u32,
    /// The pool lease, this process's entry in the slab's own table, if the slab is pooled.
    pub(super) pool_lease: Option<EntryIndex>,
    /// The count `FreeLists::events` when a cell of the slab was last used or freed here.
    pub(super) used_at: u64,
    /// The number of trims of the pool when a cell of the slab was last given out.
    pub(super) trims: u64,
}

impl Slab {
    pub(super) fn cells(&self) -> u32 {
        self.mapped.header.slab_layout.map_or(0, |layout| layout.cells)
    }

    /// Returns the size of its file.
    pub(super) fn bytes(&self) -> u64 {
        self.mapped.header.segment_bytes()
    }

    /// Whether an array of this or of another process lies in it.
    pub(super) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.mapped) > 1 || self.pool_lease.is_some() && !self.is_spare()
    }

    /// Whether it is pooled and no array lies in it.
    pub(super) fn is_spare(&self) -> bool {
        self.pool_lease.is_some()
            && !self.mapped.leases().cells().any(|cell| cell.is_used() || cell.is_retired())
    }

    /// Returns the cells that are free now, those that other processes freed included.
    pub(super) fn free_cells(&self) -> impl Iterator<Item = u32> {
        let leases = self.mapped.leases();
        let is_any = leases.control.used().load(Ordering::Relaxed) < u64::from(self.unused);
        let cells: Vec<_> =
            leases.cells().take(if is_any { self.unused as usize } else { 0 }).collect();
        let is_free = |cell: &Leases| {
            cell.recover(); // a dead process may have claimed it
            cell.is_free()
        };
        cells.into_iter().zip(0..).filter(move |(cell, _)| is_free(cell)).map(|(_, number)| number)
    }

    /// Gives the pool lease back. Returns whether that ended the slab.
    pub(super) fn leave(&mut self) -> bool {
        let leases = self.mapped.leases();
        let Some(entry) = self.pool_lease.take() else { return false };
        leases.leave(entry);
        let ended = leases.close() == Closed::Last;
        if ended {
            end_slab(&self.mapped);
        }
        ended
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.leave();
    }
}
