//! The Linux backend: files in a tmpfs, held by open-file-description locks.
//!
//! A hold is a shared lock on byte 0 of the segment's file. The lock belongs to the open
//! file description, which the mapping keeps alive after the fd is closed: so a
//! process keeps no fd for an array, nothing that closes fds can drop the
//! hold, and the kernel drops it when the mapping goes, however the process ends. A forked
//! child has the mapping and with it the hold. Nobody of this library takes the lock exclusively:
//! `give_back` asks the kernel whether anybody has it.
//!
//! What a crash leaves at each step:
//!
//! | step | a crash after it leaves | given back by |
//! |---|---|---|
//! | create: open `O_TMPFILE`, lock, reserve, map, write the header | a file without a name | the kernel |
//! | create: link the id | a segment that nobody holds | any sweep |
//! | create: link the name | the same, with a name | any sweep, or the next create of that name |
//! | attach: open, lock, check, map, close | nothing | the kernel |
//! | give back: CLOSING | a segment that the next who attaches makes LIVE again | any sweep |
//! | give back: DEAD | a segment that refuses to be attached | any sweep |
//! | give back: unlink the name, unlink the id | the same, or memory that the kernel frees | any sweep |

// The line: each uses only those before it, and `mod.rs` nothing of its own.
mod clock;
mod mutex;
pub(crate) mod operations;
mod fd;
mod limits;
mod lock;
mod pages;
mod scratch;
pub(crate) mod socket;
mod shared_words;
mod memory_file;
mod huge;
mod directory;
mod registry;
mod name_lock;
mod links;
mod open;
mod reserve;
mod map;
mod give_back;
mod segment_file;
pub(crate) mod fork;

pub(crate) use clock::{monotonic_ns, thread_ns};
pub(crate) use directory::Directory;
pub(crate) use fork::is_orphaned;
pub(crate) use give_back::{discard, give_back, is_none_of_ours, sweep_names};
pub(crate) use limits::most_mappings;
pub(crate) use links::{link_ticket, sweep_tickets, unlink_ticket};
pub(crate) use map::Mapping;
pub(crate) use memory_file::{memory_file, read_memory_file};
pub(crate) use mutex::{Mutex, MutexGuard};
pub(crate) use registry::{
    Dead, Liveness, Owner, family_message, family_of, find_dead, is_message, keep_family,
    leave_process_lists, message, note_user, process_owner,
};
pub(crate) use reserve::{decommit, recommit};
pub(crate) use segment_file::{SegmentFile, is_findable, is_found, unlink_name};
pub(crate) use shared_words::SharedWords;
