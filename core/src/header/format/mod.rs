//! The bytes of a segment, as FORMAT.md specifies them: structs and checks, without system calls.
//!
//! A segment is a header and then data. The creator writes the header before the segment can be
//! seen; afterwards only the control words change (see `control`). A reader copies the header out,
//! validates the copy here once, and never reads the original again. So nothing that another
//! process writes later can move a pointer.
//!
//! Invariants of a [`Header`], established by [`Header::read`]:
//! * I1 `header_bytes + data_bytes <= segment_bytes <=` the file's size, and all of them fit an
//!   `isize`.
//! * I2 `header_bytes` is a multiple of [`PAGE_BYTES`] and at least that.
//! * I3 the described array lies inside the data.

mod constants;
mod features;
mod slab;
mod preamble;
mod channel;
mod header;
mod entries;

pub(crate) use channel::{
    CHANNEL_OFFSET, DROPPED_OFFSET, END_BYTES, ENDS_USED_OFFSET, FREED_OFFSET, HEAD_OFFSET,
    LEAST_SLOTS_OF_LATEST, LEFT_OFFSET, MAX_ENDS, META_BYTES, PUBLISHED_OFFSET, SLOT_NDIM,
    SOLE_OFFSET, TAIL_OFFSET,
};
pub(crate) use channel::{ChannelLayout, Payload};
pub use channel::{ChannelMode, WhenFull};
#[cfg(memory_backend)]
pub(crate) use constants::DESCRIPTION_OFFSET;
#[cfg(not(any(linux_backend, miri)))]
pub(crate) use constants::MAGIC;
pub(crate) use constants::{
    CONTROL_WORDS_OFFSET, DECOMMITTED, LAYOUT_MAJOR, LAYOUT_MINOR, LEASES_OFFSET, LOCK_ONLY,
    PAGE_BYTES, PERSIST,
};
pub(crate) use constants::{GENERATION_OFFSET, MAX_SLOTS, SLOT_ALIGNMENT, SLOT_HEAD_BYTES};
pub(crate) use entries::EntryCopy;
pub(crate) use header::Header;
#[cfg(not(loom))]
pub(crate) use slab::CELL_ENTRIES_OFFSET;
pub(crate) use slab::{
    CELL_DESCRIPTION_BYTES, CELL_DESCRIPTION_OFFSET, CELL_NDIM, LARGE_HEAD_BYTES, SMALL_HEAD_BYTES,
    SlabLayout, cell_description, described_cell,
};
