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
mod clock;
mod owner;
mod bytes;
mod directory;
mod process;
mod segment_file;

/// A file with a name stays.
pub(crate) const CAN_PERSIST: bool = true;

pub(crate) use clock::{
    available_memory, is_absent_or_foreign, monotonic_ns, most_cached_bytes, most_mappings,
    thread_ns,
};
pub(crate) use directory::{Directory, link_ticket, unlink_ticket};
pub(crate) use lock::{Mutex, MutexGuard};
pub(crate) use owner::{Owner, family_of, is_message};
pub(crate) use process::{
    Dead, Liveness, family_message, find_dead, is_usable, process_owner, sweep_tickets,
};
pub(crate) use segment_file::{
    Mapping, SegmentFile, decommit, discard, is_findable, is_found, reclaim, recommit,
    refresh_user, sweep_names, unlink_name,
};
