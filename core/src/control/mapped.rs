//! ControlWords in mapped memory: the one place that turns mapped bytes into atomics.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::word::{ControlWord, Entry};
use crate::format::{CELL_ENTRIES_OFFSET, LEASES_OFFSET, SlabLayout, WORDS_OFFSET};

/// The words of one mapped header, or of one cell of it.
#[derive(Clone, Copy)]
pub(crate) struct ControlWords {
    header: NonNull<u8>,
    first: NonNull<u8>,
    table: NonNull<u8>,
    entries: usize,
    /// Of a segment of cells.
    slab_layout: Option<SlabLayout>,
}

impl ControlWords {
    /// # Safety
    /// `header` is the start of a mapped header, 8-aligned, that stays mapped while this is used,
    /// with room for that many entries from LEASES_OFFSET on and for the heads of that slab_layout.
    pub(crate) unsafe fn new(
        header: NonNull<u8>,
        entries: usize,
        slab_layout: Option<SlabLayout>,
    ) -> Self {
        // SAFETY: inside the header page that the caller promises.
        let first = unsafe { header.add(WORDS_OFFSET) };
        // SAFETY: the same.
        let table = unsafe { header.add(LEASES_OFFSET) };
        Self { header, first, table, entries, slab_layout }
    }

    /// The words of a cell, if there is one of that number.
    pub(crate) fn cell(&self, cell: u32) -> Option<Self> {
        let slab_layout = self.slab_layout.filter(|slab_layout| cell < slab_layout.cells)?;
        // SAFETY: `new` was promised that this head is there.
        let first = unsafe { self.header.add(slab_layout.head_offset(cell)) };
        // SAFETY: a head has room for its entries.
        let table = unsafe { first.add(CELL_ENTRIES_OFFSET) };
        Some(Self { first, table, entries: slab_layout.entries(), slab_layout: None, ..*self })
    }

    /// Those of all cells.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.slab_layout.map_or(0, |slab_layout| slab_layout.cells))
            .filter_map(|cell| self.cell(cell))
    }

    pub(super) fn word(&self, index: usize) -> &ControlWord {
        debug_assert!(index < 16);
        // SAFETY: sixteen words lie inside what `new` was promised; so they do in a cell's head.
        let word = unsafe { self.first.add(8 * index) };
        // SAFETY: mapped and aligned (promised to `new`); a `ControlWord` is an atomic; other processes
        // touch these bytes only as atomics (FORMAT.md); a read-only mapping is only loaded from.
        unsafe { word.cast().as_ref() }
    }

    /// The lease table.
    pub(crate) fn entries(&self) -> &[Entry] {
        // SAFETY: `new` was promised room for the entries; they are atomics, so that others
        // may write them meanwhile.
        unsafe { std::slice::from_raw_parts(self.table.as_ptr().cast(), self.entries) }
    }
}
