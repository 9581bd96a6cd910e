//! The heads of cells, and copies of lease entries: kind 2 of FORMAT.md.

use std::mem::size_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{
    Header, LEASE_BYTES, LEASES_OFFSET, LOCK_ONLY, MAX_HEADER_BYTES, PAGE_BYTES, WORDS_OFFSET,
};
use crate::dtype::DType;

/// The offset of the first head in the header.
pub(crate) const HEADS_OFFSET: usize = PAGE_BYTES as usize;
/// The size of a head, which is control words, description and entries: in a slab of small cells,
/// and in a slab with one large cell, since large arrays have as many holders as small ones do.
pub(crate) const SMALL_HEAD_BYTES: u32 = 512;
pub(crate) const LARGE_HEAD_BYTES: u32 = 4096;
/// The offset of the flags in a head.
const CELL_FLAGS_OFFSET: usize = 16;
/// The offset of the description in a head. It is for people.
pub(crate) const CELL_DESCRIPTION_OFFSET: usize = 32;
/// The size of the description.
pub(crate) const CELL_DESCRIPTION_BYTES: usize = size_of::<CellDescription>();
/// The offset of the entries in a head.
pub(crate) const CELL_ENTRIES_OFFSET: usize = CELL_DESCRIPTION_OFFSET + CELL_DESCRIPTION_BYTES;
/// The most cells of a slab: their heads fit the largest header.
pub(crate) const CELLS_MOST: u32 = 1024;
/// The most dimensions of an array in a cell.
pub(crate) const CELL_NDIM: usize = 8;
/// The longest dtype of an array in a cell, as in a handle.
pub(crate) const CELL_DTYPE_BYTES: usize = 24;

/// The description of the array in a cell's head, for people. The strides are in the handles.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct CellDescription {
    ndim: U32,
    dtype_bytes: U32,
    dtype: [u8; CELL_DTYPE_BYTES],
    shape: [U64; CELL_NDIM],
}

/// The slab layout: how the data of a slab is divided into cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlabLayout {
    pub(crate) cell_bytes: u64,
    pub(crate) cells: u32,
    pub(crate) head_bytes: u32,
}

impl SlabLayout {
    /// Returns the size of all heads in bytes.
    pub(crate) fn heads_bytes(&self) -> u64 {
        u64::from(self.cells) * u64::from(self.head_bytes)
    }

    /// Returns the number of entries of each cell.
    pub(crate) fn entries(&self) -> usize {
        (self.head_bytes as usize - CELL_ENTRIES_OFFSET) / LEASE_BYTES
    }

    /// Returns the offset of a cell's head.
    pub(crate) fn head_offset(&self, cell: u32) -> usize {
        HEADS_OFFSET + cell as usize * self.head_bytes as usize
    }
}

const _: () = {
    assert!(CELL_ENTRIES_OFFSET == 128);
    assert!(
        HEADS_OFFSET + CELLS_MOST as usize * SMALL_HEAD_BYTES as usize <= MAX_HEADER_BYTES as usize
    );
};

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
        bytes.get(WORDS_OFFSET + 16).map_or(0, |byte| u64::from(*byte))
    }
}

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

/// Returns the description of an array for its cell's head. `None` when it does not fit.
pub(crate) fn cell_description(
    dtype: &DType,
    shape: &[u64],
) -> Option<[u8; CELL_DESCRIPTION_BYTES]> {
    let mut description = CellDescription::new_zeroed();
    let json = dtype.json().as_bytes();
    description.dtype.get_mut(..json.len())?.copy_from_slice(json);
    description.dtype_bytes = (json.len() as u32).into();
    description.ndim = (shape.len() as u32).into();
    for (to, count) in description.shape.get_mut(..shape.len())?.iter_mut().zip(shape) {
        *to = (*count).into();
    }
    description.as_bytes().try_into().ok()
}

/// Returns the dtype and shape of a cell's array, from a copy of its head. `None` when they make no
/// sense.
pub(crate) fn described_cell(head: &[u8]) -> Option<(DType, Vec<u64>)> {
    let (description, _) =
        CellDescription::read_from_prefix(head.get(CELL_DESCRIPTION_OFFSET..)?).ok()?;
    let json = description.dtype.get(..description.dtype_bytes.get() as usize)?;
    let shape = description.shape.get(..description.ndim.get() as usize)?;
    let dtype = DType::from_json(std::str::from_utf8(json).ok()?).ok()?;
    Some((dtype, shape.iter().map(|count| count.get()).collect()))
}
