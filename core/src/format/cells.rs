//! Heads of cells, and copies of entries: what FORMAT.md says of kind 2.

use std::mem::size_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{
    Header, LEASE_BYTES, LEASES_OFFSET, LOCK_ONLY, MAX_HEADER_BYTES, PAGE_BYTES, WORDS_OFFSET,
};
use crate::dtype::DType;

/// Where the heads of cells start.
pub(crate) const HEADS_OFFSET: usize = PAGE_BYTES as usize;
/// Size of a head: words, description, entries. Of a small array's cell, and of one that has its
/// segment for itself, as many hold what is large.
pub(crate) const SMALL_HEAD_BYTES: u32 = 512;
pub(crate) const LARGE_HEAD_BYTES: u32 = 4096;
/// Where its flags are.
const CELL_FLAGS_OFFSET: usize = 16;
/// Where its description starts: for people.
pub(crate) const CELL_DESCRIPTION_OFFSET: usize = 32;
/// Size of that.
pub(crate) const CELL_DESCRIPTION_BYTES: usize = size_of::<CellDescription>();
/// Where its entries start.
pub(crate) const CELL_ENTRIES_OFFSET: usize = CELL_DESCRIPTION_OFFSET + CELL_DESCRIPTION_BYTES;
/// The most cells of a segment: their heads fit the largest header.
pub(crate) const CELLS_MOST: u32 = 1024;
/// The most dimensions of an array in a cell.
pub(crate) const CELL_NDIM: usize = 8;
/// The longest dtype of one, as in a handle.
pub(crate) const CELL_DTYPE_BYTES: usize = 24;

/// The array in a cell, in its head: for people. Its strides are in its handles.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct CellDescription {
    ndim: U32,
    dtype_bytes: U32,
    dtype: [u8; CELL_DTYPE_BYTES],
    shape: [U64; CELL_NDIM],
}

/// How the data of a segment of cells is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlabLayout {
    pub(crate) cell_bytes: u64,
    pub(crate) cells: u32,
    pub(crate) head_bytes: u32,
}

impl SlabLayout {
    /// Bytes of all heads.
    pub(crate) fn heads_bytes(&self) -> u64 {
        u64::from(self.cells) * u64::from(self.head_bytes)
    }

    /// How many entries each cell has.
    pub(crate) fn entries(&self) -> usize {
        (self.head_bytes as usize - CELL_ENTRIES_OFFSET) / LEASE_BYTES
    }

    /// Where the head of a cell stands.
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
    /// The entries of a copy of the header, but for those of its cells.
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

    /// The entries of a copy of the header, of all its cells.
    pub(crate) fn entries<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = EntryCopy> + use<'a> {
        let (cells, head_bytes) = self.slab_layout.map_or((0, SMALL_HEAD_BYTES), |slab_layout| {
            (slab_layout.cells, slab_layout.head_bytes)
        });
        let heads = bytes
            .get(HEADS_OFFSET..)
            .unwrap_or_default()
            .chunks_exact(head_bytes as usize)
            .take(cells as usize);
        let of_cells = heads.flat_map(|head| head[CELL_ENTRIES_OFFSET..].chunks_exact(LEASE_BYTES));
        self.own_entries(bytes)
            .chain(of_cells.map(EntryCopy::read).filter(|entry| entry.owner != 0))
    }

    /// The entries of a cell that an array is in, from a copy of its head.
    pub(crate) fn entries_of_live_cell(head: &[u8]) -> Option<Vec<EntryCopy>> {
        let entries =
            head.get(CELL_ENTRIES_OFFSET..)?.chunks_exact(LEASE_BYTES).map(EntryCopy::read);
        matches!(head[0] & 7, 1 | 2).then(|| entries.filter(|entry| entry.owner != 0).collect())
    }

    /// Whether somebody holds a segment by its lock alone, from a copy of the header: then nobody
    /// is named.
    pub(crate) fn is_lock_only(&self, bytes: &[u8]) -> bool {
        self.leases_count == 0 || self.flags(bytes) & LOCK_ONLY != 0
    }

    /// The same of a cell, from a copy of its head.
    pub(crate) fn is_cell_lock_only(head: &[u8]) -> bool {
        head.get(CELL_FLAGS_OFFSET).is_some_and(|byte| u64::from(*byte) & LOCK_ONLY != 0)
    }

    /// The flags in a copy of the header.
    pub(crate) fn flags(&self, bytes: &[u8]) -> u64 {
        bytes.get(WORDS_OFFSET + 16).map_or(0, |byte| u64::from(*byte))
    }
}

/// An entry as it was when it was copied.
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

    /// The process, as it saw itself.
    pub(crate) fn pid(&self) -> u32 {
        self.owner_info as u32
    }
}

/// What a cell's head says of its array.
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

/// A cell's array as a copy of its head has it; `None` when that makes no sense.
pub(crate) fn described_cell(head: &[u8]) -> Option<(DType, Vec<u64>)> {
    let (description, _) =
        CellDescription::read_from_prefix(head.get(CELL_DESCRIPTION_OFFSET..)?).ok()?;
    let json = description.dtype.get(..description.dtype_bytes.get() as usize)?;
    let shape = description.shape.get(..description.ndim.get() as usize)?;
    let dtype = DType::from_json(std::str::from_utf8(json).ok()?).ok()?;
    Some((dtype, shape.iter().map(|count| count.get()).collect()))
}
