//! A request for an array in a cell: in a free one, or in the first cell of a new slab.

use std::sync::Arc;

use super::cell::{Claimed, claim_cell};
use super::free_lists::{self, Limits, NewSlab};
use super::release::{forget_removed, freed};
use super::{pool_limit, size_class};
use crate::header::format::{
    CELL_DESCRIPTION_BYTES, CELL_NDIM, Header, SlabLayout, cell_description,
};
use crate::header::lease::EntryIndex;
use crate::memory::mapping::{self, Fill, Mapped};
use crate::system::{self, Access, Directory, Owner};
use crate::value::dtype::DType;
use crate::value::error::{ErrorKind, Result};
use crate::value::name::SegmentId;
use crate::value::shape::{Layout, size_bytes};

/// A request for an array in a cell.
pub(crate) struct CellRequest<'a> {
    directory: &'a Directory,
    me: Owner,
    cell_bytes: u64,
    data_bytes: u64,
    description: [u8; CELL_DESCRIPTION_BYTES],
    fill: &'a Fill<'a>,
}

/// A new array in a cell, held by this process.
pub(crate) struct CellArray {
    pub(crate) mapped: Arc<Mapped>,
    pub(crate) cell: u32,
    pub(crate) entry: EntryIndex,
    pub(crate) generation: u64,
    pub(crate) data_bytes: u64,
}

/// How a slab gets the memory that it grows by: the sweep, which is above it.
pub(crate) trait MakeRoom {
    /// Whether a free cell of this slab may be used again.
    fn may_reuse(&self, slab: &SegmentId) -> bool;

    /// Called before a file of so many bytes is made.
    fn before_growing(&self, bytes: u64);
}

impl<'a> CellRequest<'a> {
    /// `None` when the array needs a segment of its own: it has too many dimensions or too long a
    /// dtype for a cell's head, or there is no registry.
    pub(crate) fn new(
        directory: &'a Directory,
        dtype: &DType,
        layout: &Layout,
        fill: &'a Fill<'a>,
    ) -> Result<Option<Self>> {
        let data_bytes = size_bytes(&layout.shape, dtype.itemsize())?;
        let fits = layout.ndim() <= CELL_NDIM;
        let description = fits.then(|| cell_description(dtype, &layout.shape)).flatten();
        let cell_bytes = size_class::cell_bytes_for(data_bytes, directory.page_bytes());
        let (Some(cell_bytes), Some(description)) = (cell_bytes, description) else {
            return Ok(None);
        };
        let me = system::process_owner(directory);
        Ok(me.map(|me| Self { directory, me, cell_bytes, data_bytes, description, fill }))
    }

    /// Makes the array in a free cell, or else in a new slab. `None` when the array should have a
    /// segment of its own, which is smaller and whose creation reports a full memory.
    pub(crate) fn make(&self, room: &impl MakeRoom) -> Result<Option<CellArray>> {
        match self.claim(room) {
            Some(claimed) => self.finish(claimed),
            None => {
                let is_small = size_class::is_small(self.cell_bytes, self.directory.page_bytes());
                self.grow(room, is_small, u64::MAX)
            }
        }
    }

    /// Does the same, but makes no slab that the pool has no room for. When it makes one, the pool
    /// keeps at most so many bytes of slabs without an array.
    pub(crate) fn make_in_pool(
        &self,
        room: &impl MakeRoom,
        most_spare: u64,
    ) -> Result<Option<CellArray>> {
        match self.claim(room) {
            Some(claimed) => self.finish(claimed),
            None => self.grow(room, false, most_spare),
        }
    }

    /// Claims a free cell.
    fn claim(&self, room: &impl MakeRoom) -> Option<Claimed> {
        let claimed = free_lists::claim(self.directory, self.cell_bytes, self.me)?;
        if room.may_reuse(&claimed.mapped.header.id) {
            return Some(claimed);
        }
        undo(&claimed);
        forget_removed(self.directory);
        None
    }

    /// Makes the array in a new slab of the pool, or outside of the pool. `None` when there is no
    /// room for a slab.
    fn grow(
        &self,
        room: &impl MakeRoom,
        may_be_outside: bool,
        most_spare: u64,
    ) -> Result<Option<CellArray>> {
        let bytes = pool_limit::limit(self.directory, self.cell_bytes)?;
        let limits = Limits { bytes, spare: most_spare };
        let new = free_lists::plan(self.directory, self.cell_bytes, limits);
        if !new.is_pooled && !may_be_outside {
            return Ok(None);
        }
        room.before_growing(self.cell_bytes);
        match self.make_as_large_as_possible(&new) {
            Ok((claimed, pool_lease)) => {
                free_lists::insert(new, &claimed.mapped, pool_lease);
                mapping::insert(&claimed.mapped);
                self.finish(claimed)
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make_as_large_as_possible(&self, new: &NewSlab) -> Result<(Claimed, Option<EntryIndex>)> {
        let mut layout = new.layout;
        loop {
            match self.make_slab(layout, new.is_pooled) {
                Err(error) if error.kind() == ErrorKind::NoSpace && layout.cells > 1 => {
                    layout.cells /= 2;
                }
                made => return made,
            }
        }
    }

    /// Makes a slab, with a pool lease if it shall be pooled. Its first cell is claimed before
    /// another process can see it.
    #[allow(unsafe_code)]
    fn make_slab(
        &self,
        layout: SlabLayout,
        is_pooled: bool,
    ) -> Result<(Claimed, Option<EntryIndex>)> {
        let directory = self.directory;
        let me = self.me;
        let header = Header::of_slab(SegmentId::random()?, layout, directory.page_bytes())?;
        let bytes = header.segment_bytes();
        let file = system::SegmentFile::create(directory.clone(), &header.id, bytes, bytes, 0o600)?;
        // SAFETY: the elements can be read, as the caller of `Array::create_filled` promised; the
        // first cell has room for them, since `cell_bytes_for` returns more than `data_bytes`.
        let is_filled = unsafe { self.fill.write(&file, header.header_bytes)? };
        let mapped = Arc::new(Mapped::map(&file, header, Access::ReadWrite)?);
        mapped.write_header();
        let leases = mapped.leases();
        leases.set_live(0);
        let claimed = claim_cell(&mapped, 0, me);
        let pool_lease = if is_pooled { leases.take_entry(me.id, me.info) } else { None };
        pool_lease.inspect(|entry| leases.set_held(*entry)); // no other process has seen it
        file.publish(&mapped.header.id)?;
        let Some(claimed) = claimed else {
            unreachable!("no other process has seen this slab before it was published")
        };
        Ok((Claimed { is_filled, ..claimed }, pool_lease))
    }

    /// Makes an array in a claimed cell. `None` when there is no memory for it there, or its slab
    /// was removed.
    fn finish(&self, claimed: Claimed) -> Result<Option<CellArray>> {
        let error = match self.make_live(&claimed) {
            Ok(generation) => return Ok(Some(self.made(claimed, generation))),
            Err(error) => error,
        };
        undo(&claimed);
        match error.kind() {
            ErrorKind::NoSpace => Ok(None),
            ErrorKind::Os if forget_removed(self.directory) => Ok(None),
            _ => Err(error),
        }
    }

    /// Stores the initial contents and makes the cell LIVE. Returns the array's generation.
    fn make_live(&self, claimed: &Claimed) -> Result<u64> {
        claimed.fill(self.data_bytes, self.fill)?;
        claimed.make_live(&self.description, self.data_bytes)
    }

    fn made(&self, claimed: Claimed, generation: u64) -> CellArray {
        let Claimed { mapped, cell, entry, .. } = claimed;
        CellArray { mapped, cell, entry, generation, data_bytes: self.data_bytes }
    }
}

fn undo(claimed: &Claimed) {
    claimed.unclaim();
    drop(freed(&claimed.mapped, claimed.cell));
}
