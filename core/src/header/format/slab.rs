//! The layout of a slab, and the heads of its cells: kind 2 of FORMAT.md.

use std::mem::size_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::constants::{LEASE_BYTES, MAX_HEADER_BYTES, PAGE_BYTES};
use crate::value::dtype::DType;

/// The offset of the first head in the header.
pub(crate) const HEADS_OFFSET: usize = PAGE_BYTES as usize;
/// The size of a head, which is control words, description and entries: in a slab of small cells,
/// and in a slab with one large cell, since large arrays have as many holders as small ones do.
pub(crate) const SMALL_HEAD_BYTES: u32 = 512;
pub(crate) const LARGE_HEAD_BYTES: u32 = 4096;
/// The offset of the flags in a head.
pub(super) const CELL_FLAGS_OFFSET: usize = 16;
/// The offset of the description in a head. It is for people.
pub(crate) const CELL_DESCRIPTION_OFFSET: usize = 32;
/// The size of the description.
pub(crate) const CELL_DESCRIPTION_BYTES: usize = size_of::<CellDescription>();
/// The offset of the entries in a head.
pub(crate) const CELL_ENTRIES_OFFSET: usize = CELL_DESCRIPTION_OFFSET + CELL_DESCRIPTION_BYTES;
/// The most cells of a slab: their heads fit the largest header.
pub(crate) const MAX_CELLS: u32 = 1024;
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
        HEADS_OFFSET + MAX_CELLS as usize * SMALL_HEAD_BYTES as usize <= MAX_HEADER_BYTES as usize
    );
};

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
