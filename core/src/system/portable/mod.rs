//! The portable backend: the crate `shared_memory`, for macOS and Windows.
//!
//! The crate cannot reserve pages, lock, or choose a directory, and a crash leaves the count of
//! holders too high. The README's table says which promises that costs. The rest holds: the last
//! holder that closes a segment gives it back, read-only pages are protected, a name finds its
//! segment, and an unfinished segment cannot be attached (its count of holders is zero).
//!
//! * `directory`: the directory of names.
//! * `absent`: the functions for which that crate has nothing.
//! * `segment_file`: segments.

mod directory;
mod absent;
mod segment_file;

pub(crate) use absent::{
    CAN_PERSIST, Dead, Liveness, Owner, available_memory, decommit, discard, family_message,
    family_of, find_dead, is_absent_or_foreign, is_findable, is_found, is_message, is_usable,
    link_ticket, monotonic_ns, most_cached_bytes, most_mappings, process_owner, reclaim, recommit,
    refresh_user, sweep_names, sweep_tickets, thread_ns, unlink_ticket,
};
pub(crate) use directory::Directory;
pub(crate) use segment_file::{Mapping, SegmentFile, unlink_name};
