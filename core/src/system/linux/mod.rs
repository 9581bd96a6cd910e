//! The Linux backend: files in a tmpfs, held by open-file-description locks.
//!
//! A hold is a shared lock on byte 0 of the segment's file. The lock belongs to the open file
//! description, and a mapping keeps that description alive after the fd is closed. A process
//! therefore needs no fd for an array, closing fds cannot drop the hold, and the kernel drops it
//! with the mapping, however the process ends. A forked child inherits the mapping and with it the
//! hold. This library never takes the lock exclusively on a published segment: `reclaim` asks the
//! kernel whether any process has it.
//!
//! What a crash leaves at each step:
//!
//! | step | a crash after it leaves | reclaimed by |
//! |---|---|---|
//! | create: `O_TMPFILE`, lock, reserve, map, write the header | an unnamed file | the kernel |
//! | create: link the id | a segment without a holder | any sweep |
//! | create: link the name | the same, with a name | any sweep, the next create of that name |
//! | attach: open, lock, check, map, close | nothing | the kernel |
//! | give back: CLOSING | a segment that the next attach makes LIVE again | any sweep |
//! | give back: DEAD | a segment that refuses to be attached | any sweep |
//! | give back: unlink the name | a DEAD segment without a name | any sweep |
//! | give back: unlink the id | memory that the kernel frees | the kernel |

// Each module uses only those before it.
mod clock;
mod append;
mod mutex;
pub(crate) mod operations;
mod fd;
mod limits;
mod mmap;
mod lock;
mod pages;
mod scratch;
pub(crate) mod socket;
mod unread;
mod event_fd;
mod shared_futex;
mod shared_words;
mod memory_file;
mod huge;
mod directory;
mod identity;
mod open;
mod freeze;
mod map;
mod trial;
mod listing;
mod registry;
mod name_lock;
mod links;
mod appearance;
mod foreign;
mod reserve;
mod reclaim;
mod segment_file;
pub(crate) mod fork;

/// A file stays until its name is unlinked.
pub(crate) const CAN_PERSIST: bool = true;
/// The kernel gives up what a dead process held.
pub(crate) const HAS_TRANSPORT: bool = true;

pub(crate) use appearance::Appearances;
pub(crate) use clock::{coarse_ns, monotonic_ns, realtime_ns, thread_ns};
pub(crate) use directory::Directory;
pub(crate) use event_fd::{EventFd, block_signals};
pub(crate) use fd::without_fork;
pub(crate) use foreign::{ForeignFile, FutexPage};
pub(crate) use fork::{forks, is_orphaned};
pub use identity::{MemoryIdentity, directory};
pub(crate) use limits::{available_memory, most_cached_bytes, most_mappings};
pub(crate) use links::{link_ticket, sweep_tickets, unlink_ticket};
pub(crate) use map::Mapping;
pub(crate) use memory_file::{memory_file, read_memory_file};
pub(crate) use mutex::{Mutex, MutexGuard};
pub(crate) use operations::Counted;
pub(crate) use reclaim::{
    discard, file_mode, is_absent_or_foreign, reclaim, remove_name, sweep_names,
};
pub(crate) use registry::{
    Dead, FamilyLock, Liveness, Owner, family_message, family_of, find_dead, has_exited,
    is_message, is_same_registry, keep_family, leave_family, leave_process_lists, message,
    process_owner, refresh_user, ticket_of,
};
pub(crate) use reserve::{decommit, recommit};
pub(crate) use segment_file::{SegmentFile, is_findable, is_found, unlink_name};
pub(crate) use shared_futex::{sleep_at, wake_at};
pub use shared_words::SharedWords;
pub(crate) use trial::is_usable;
pub(crate) use unread::close_unread;
