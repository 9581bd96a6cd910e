//! A stand-in for shared memory, for Miri, which has no mappings and no file locks: files are
//! allocations of this process.
//!
//! There is one process, and it lives: what the kernel does for the dead and against other users
//! is left out. What this process does is all there: its entries, cells, tickets by entries and by
//! links, names, and who may give back what. A file is held by each [`SegmentFile`] and each [`Mapping`]
//! of it. One that nobody holds and nothing leads to is freed, so that Miri sees who still points
//! there; a mapping that goes while another keeps the file cannot be told from it.

mod lock;
mod clock;
mod owner;
mod bytes;
mod directory;
mod process;
mod segment_file;

pub(crate) use clock::{is_none_of_ours, monotonic_ns, most_mappings, thread_ns};
pub(crate) use directory::{Directory, link_ticket, unlink_ticket};
pub(crate) use lock::{Mutex, MutexGuard};
pub(crate) use owner::{Owner, family_of, is_message};
pub(crate) use process::{Dead, Liveness, family_message, find_dead, process_owner, sweep_tickets};
pub(crate) use segment_file::{
    Mapping, SegmentFile, decommit, discard, give_back, is_findable, is_found, note_user, recommit,
    sweep_names, unlink_name,
};
