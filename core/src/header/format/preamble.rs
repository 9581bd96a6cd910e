//! The preamble: the identity of a segment, its kind and its sizes.

use std::mem::{offset_of, size_of};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::constants::{
    CONTROL_WORDS_OFFSET, KIND_ARRAY, KIND_CHANNEL, KIND_SLAB, LAYOUT_MAJOR, LEASES_OFFSET, MAGIC,
    MAX_HEADER_BYTES, MAX_LEASES, MAX_SLOTS, NEEDED_OFFSET, PAGE_BYTES, SLOT_ALIGNMENT,
    SLOT_HEAD_BYTES,
};
use super::features::{self, NeededVersion};
use super::slab::{HEADS_OFFSET, LARGE_HEAD_BYTES, MAX_CELLS, SMALL_HEAD_BYTES, SlabLayout};
use crate::value::error::{Error, Result};
use crate::value::name::{ID_BYTES, SegmentId};

/// Bytes 0 to 127: the identity and the sizes of the segment. They never change.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
pub(super) struct Preamble {
    pub(super) magic: [u8; 8],
    pub(super) layout_major: U32,
    pub(super) layout_minor: U32,
    pub(super) required_features: U64,
    pub(super) optional_features: U64,
    pub(super) id: [u8; ID_BYTES],
    pub(super) header_bytes: U64,
    pub(super) segment_bytes: U64,
    pub(super) data_bytes: U64,
    pub(super) kind: U32,
    pub(super) creator_pid: U32,
    pub(super) created_ns: U64,
    pub(super) description_offset: U32,
    pub(super) description_bytes: U32,
    pub(super) leases_offset: U32,
    pub(super) leases_count: U32,
    pub(super) cell_bytes: U64,
    pub(super) cells: U32,
    pub(super) head_bytes: U32,
}

const _: () = {
    assert!(size_of::<Preamble>() == CONTROL_WORDS_OFFSET);
    assert!(offset_of!(Preamble, id) == 32);
    assert!(offset_of!(Preamble, header_bytes) == 56);
    assert!(offset_of!(Preamble, segment_bytes) == 64);
    assert!(offset_of!(Preamble, data_bytes) == 72);
    assert!(offset_of!(Preamble, kind) == 80);
    assert!(offset_of!(Preamble, creator_pid) == 84);
    assert!(offset_of!(Preamble, created_ns) == 88);
    assert!(offset_of!(Preamble, description_offset) == 96);
    assert!(offset_of!(Preamble, leases_offset) == 104);
    assert!(offset_of!(Preamble, cell_bytes) == 112);
    assert!(offset_of!(Preamble, cells) == 120);
    assert!(offset_of!(Preamble, head_bytes) == 124);
};

impl Preamble {
    /// Checks I1 and I2, the versions and the kind.
    pub(super) fn read(label: &str, bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let (preamble, _) = Self::read_from_prefix(bytes)
            .map_err(|_| invalid(label, "size", "a header of at least 4096 bytes", file_bytes))?;
        if preamble.magic != MAGIC {
            return Err(invalid(label, "magic", "\"shmarray\"", preamble.magic.escape_ascii()));
        }
        let needed = bytes.get(NEEDED_OFFSET..).and_then(|bytes| U64::read_from_prefix(bytes).ok());
        let needed = NeededVersion(needed.map_or(0, |(needed, _)| needed.get()));
        preamble.check_version(label, needed)?;
        preamble.check_sizes(label, file_bytes)?;
        preamble.check_leases(label)?;
        match preamble.kind.get() {
            KIND_ARRAY => Ok(preamble),
            KIND_SLAB => preamble.check_cells(label).map(|()| preamble),
            KIND_CHANNEL => preamble.check_slots(label).map(|()| preamble),
            kind if needed.0 > 0 => Err(unknown(label, format!("kind {kind}"), needed)),
            kind => Err(invalid(label, "kind", "1 (array), 2 (cells) or 3 (channel)", kind)),
        }
    }

    pub(super) fn slab_layout(&self) -> Option<SlabLayout> {
        let cells = self.cells.get();
        let head_bytes = self.head_bytes.get();
        let layout = SlabLayout { cell_bytes: self.cell_bytes.get(), cells, head_bytes };
        (self.kind.get() == KIND_SLAB).then_some(layout)
    }

    fn check_cells(&self, label: &str) -> Result<()> {
        let cell_bytes = self.cell_bytes.get();
        let cells = u64::from(self.cells.get());
        let head_bytes = self.head_bytes.get();
        if !head_bytes.is_multiple_of(SMALL_HEAD_BYTES)
            || !(SMALL_HEAD_BYTES..=LARGE_HEAD_BYTES).contains(&head_bytes)
        {
            return Err(invalid(
                label,
                "head_bytes",
                "a multiple of 512, at most 4096",
                head_bytes,
            ));
        }
        let heads = HEADS_OFFSET as u64 + cells * u64::from(head_bytes);
        if !(1..=u64::from(MAX_CELLS)).contains(&cells) || heads > self.header_bytes.get() {
            return Err(invalid(label, "cells", "a number whose heads fit the header", cells));
        }
        if cell_bytes.is_multiple_of(PAGE_BYTES)
            && cell_bytes.checked_mul(cells).is_some_and(|all| all <= self.data_bytes.get())
        {
            Ok(())
        } else {
            Err(invalid(label, "cell_bytes", "whole pages that fit the data", cell_bytes))
        }
    }

    fn check_slots(&self, label: &str) -> Result<()> {
        let slot_bytes = self.cell_bytes.get();
        let slots = self.cells.get();
        if self.head_bytes.get() != SLOT_HEAD_BYTES {
            return Err(invalid(label, "head_bytes", SLOT_HEAD_BYTES.to_string(), self.head_bytes));
        }
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(invalid(label, "cells", format!("1 to {MAX_SLOTS} slots"), slots));
        }
        let all = slot_bytes.checked_mul(u64::from(slots));
        if slot_bytes > 0
            && slot_bytes.is_multiple_of(SLOT_ALIGNMENT)
            && all.is_some_and(|all| all <= self.data_bytes.get())
        {
            Ok(())
        } else {
            Err(invalid(label, "cell_bytes", "a multiple of 64 that fits the data", slot_bytes))
        }
    }

    fn check_version(&self, label: &str, needed: NeededVersion) -> Result<()> {
        if self.layout_major.get() != LAYOUT_MAJOR {
            let layout = format!("layout {}.{}", self.layout_major, self.layout_minor);
            return Err(unknown(label, layout, needed));
        }
        match self.required_features.get() & !features::KNOWN {
            0 => Ok(()),
            bits => Err(unknown(label, format!("features {bits:#x}"), needed)),
        }
    }

    fn check_sizes(&self, label: &str, file_bytes: u64) -> Result<()> {
        let header_bytes = self.header_bytes.get();
        let whole = header_bytes.is_multiple_of(PAGE_BYTES)
            && (PAGE_BYTES..=MAX_HEADER_BYTES).contains(&header_bytes);
        if !whole {
            return Err(invalid(label, "header_bytes", "whole pages, at most 2 MiB", header_bytes));
        }
        let segment_bytes = self.segment_bytes.get();
        if segment_bytes > file_bytes.min(isize::MAX as u64) {
            return Err(invalid(
                label,
                "segment_bytes",
                format!("at most the file's {file_bytes}"),
                segment_bytes,
            ));
        }
        match header_bytes.checked_add(self.data_bytes.get()) {
            Some(end) if end <= segment_bytes => Ok(()),
            _ => Err(invalid(
                label,
                "data_bytes",
                format!("at most {segment_bytes} less the header"),
                self.data_bytes,
            )),
        }
    }

    fn check_leases(&self, label: &str) -> Result<()> {
        if self.leases_offset.get() as usize != LEASES_OFFSET {
            return Err(invalid(
                label,
                "leases_offset",
                LEASES_OFFSET.to_string(),
                self.leases_offset,
            ));
        }
        match self.leases_count.get() {
            0..=MAX_LEASES => Ok(()),
            count => Err(invalid(label, "leases_count", format!("at most {MAX_LEASES}"), count)),
        }
    }

    pub(super) fn checked_id(&self, label: &str) -> Result<SegmentId> {
        let found = || invalid(label, "id", "24 characters of a-z2-7", self.id.escape_ascii());
        SegmentId::from_bytes(&self.id).ok_or_else(found)
    }
}

fn unknown(label: &str, what: String, needed: NeededVersion) -> Error {
    Error::UnknownLayout { segment: label.to_owned(), needs: format!("{what}{needed}") }
}

pub(super) fn invalid(
    label: &str,
    field: &'static str,
    expected: impl Into<String>,
    found: impl ToString,
) -> Error {
    let found = found.to_string();
    Error::InvalidSegment { segment: label.to_owned(), field, expected: expected.into(), found }
}
