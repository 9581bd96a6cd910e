//! A stand-in for shared memory under Miri, which has no shared mappings and no file locks: files
//! are allocations of this process.
//!
//! There is one process, and it does not die. The stand-in has nothing for dead processes or other
//! users. It has everything that this process does itself: its entries, cells, tickets by entries
//! and by links, names, and the decision when a segment is given back.
//!
//! Each [`SegmentFile`] and each [`Mapping`] of a file holds it. A file that has no holder and no
//! link is freed, so that Miri sees pointers that are used afterwards. If a mapping is dropped
//! while another one keeps the file, its pointers cannot be told from the other's.

mod lock;
mod owner;
mod bytes;
mod directory;
mod segment_file;

/// A file with a name stays.
pub(crate) const CAN_PERSIST: bool = true;

pub(crate) use super::absent::*;
pub(crate) use directory::{Directory, link_ticket, unlink_ticket};
pub(crate) use lock::{Mutex, MutexGuard};
pub(crate) use owner::{family_message, family_of, is_message, process_owner};
pub(crate) use segment_file::{
    Mapping, SegmentFile, decommit, discard, is_findable, is_found, reclaim, unlink_name,
};
