//! ControlWords in mapped memory: the only module that turns mapped bytes into atomics.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::word::{ControlWord, Entry};
use crate::header::format::{CELL_ENTRIES_OFFSET, CONTROL_WORDS_OFFSET, LEASES_OFFSET, SlabLayout};

/// The control words of one mapped header, or of one cell of it.
#[derive(Clone, Copy)]
pub(crate) struct ControlWords {
    header: NonNull<u8>,
    first: NonNull<u8>,
    table: NonNull<u8>,
    entries: usize,
    /// The layout, if this is the header of a slab.
    slab_layout: Option<SlabLayout>,
}

impl ControlWords {
    /// `header` is the 8-aligned start of a mapped header, which stays mapped while this value is
    /// used. The header has room for `entries` entries from LEASES_OFFSET on, and for the heads of
    /// `slab_layout`.
    pub(crate) unsafe fn new(
        header: NonNull<u8>,
        entries: usize,
        slab_layout: Option<SlabLayout>,
    ) -> Self {
        // SAFETY: the offset stays in bounds, because CONTROL_WORDS_OFFSET lies inside the header
        // page that the caller of `new` promises.
        let first = unsafe { header.add(CONTROL_WORDS_OFFSET) };
        // SAFETY: the offset stays in bounds, because LEASES_OFFSET lies inside the header page
        // that the caller of `new` promises.
        let table = unsafe { header.add(LEASES_OFFSET) };
        Self { header, first, table, entries, slab_layout }
    }

    /// Returns the control words of a cell. `None` if the slab has no such cell.
    pub(crate) fn cell(&self, cell: u32) -> Option<Self> {
        let layout = self.slab_layout.filter(|layout| cell < layout.cells)?;
        // SAFETY: the offset stays in bounds, because `cell` was just found to be below `cells` and
        // the caller of `new` promised room for that many heads.
        let first = unsafe { self.header.add(layout.head_offset(cell)) };
        // SAFETY: the offset stays in bounds, because every head has at least SMALL_HEAD_BYTES, of
        // which the entries begin at CELL_ENTRIES_OFFSET.
        let table = unsafe { first.add(CELL_ENTRIES_OFFSET) };
        Some(Self { first, table, entries: layout.entries(), slab_layout: None, ..*self })
    }

    /// Returns the control words of all cells.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.slab_layout.map_or(0, |layout| layout.cells)).filter_map(|cell| self.cell(cell))
    }

    pub(super) fn word(&self, index: usize) -> &ControlWord {
        debug_assert!(index < 16);
        // SAFETY: the offset stays in bounds: sixteen words fit the header page that the caller of
        // `new` promised, and the smallest head of a cell.
        let word = unsafe { self.first.add(8 * index) };
        // SAFETY: the reference is valid, because the word is mapped and aligned as the caller of
        // `new` promised. Other processes may write these bytes, but only as atomics (FORMAT.md),
        // as a `ControlWord` is; a read-only mapping is only loaded from.
        unsafe { word.cast().as_ref() }
    }

    /// Returns the lease table.
    pub(crate) fn entries(&self) -> &[Entry] {
        // SAFETY: the slice is valid, because the caller of `new` promised mapped and aligned room
        // for `entries` entries. They are atomics, so other processes may write them meanwhile.
        unsafe { std::slice::from_raw_parts(self.table.as_ptr().cast(), self.entries) }
    }
}
