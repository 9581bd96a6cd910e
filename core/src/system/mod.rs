//! The operating system behind one interface: two backends, and a stand-in for Miri (`memory`).
//!
//! A backend provides these items, with the same names, arguments and errors:
//!
//! | item | does |
//! |---|---|
//! | `Directory::current`, `path` | the directory that segments live in |
//! | `segment_ids`, `own_files`, `ticket_links` | what exists: of any user, of this one; links |
//! | `total_bytes`, `free_bytes` | the capacity; the free bytes |
//! | `is_usable` | whether the directory was tried; fails if it lacks what this library needs |
//! | `page_bytes` | the unit of memory protection |
//! | `CAN_PERSIST` | whether a segment can stay without holders |
//! | `SegmentFile::create` | creates a file without a name, reserves its memory and holds it |
//! | `open`, `open_own` | opens and holds an existing file; `open_own` only this user's |
//! | `bytes`, `allocated_bytes` | the file's size; the memory that it occupies |
//! | `is_held`, `read_front` | whether another holder exists; a copy of the first bytes |
//! | `map` | maps the whole file; the mapping keeps the file held |
//! | `map_header` | maps the header alone; that mapping keeps the file held, too |
//! | `takes_writes`, `write_at` | whether writing a new file is faster than storing to it; writes |
//! | `publish`, `link_name` | makes the file visible by its id; by a name |
//! | `mark_named` | marks a segment while no process can remove its name |
//! | `Mapping::header`, `data`, `directory` | the addresses, and where the file lives |
//! | `header_is_writable` | whether this process may write the header |
//! | `populate` | maps all pages of the data at once |
//! | `drop_written_pages` | drops this process's copies of pages in a copy-on-write mapping |
//! | `discard` | unlinks a segment that the caller made DEAD |
//! | `process_owner` | this process as the owner of its leases; `None` without leases |
//! | `Liveness::of`, `for_sweep`, `is_dead_owner` | which owners of entries are dead |
//! | `family_message` | a ticket for a message that is sent out of band |
//! | `is_message`, `family_of` | whether an owner is a message; a ticket's family |
//! | `link_ticket`, `unlink_ticket`, `sweep_tickets` | tickets that found no entry in a table |
//! | `decommit`, `recommit` | releases the memory of parts of a segment; reserves it again |
//! | `reclaim`, `sweep_names` | gives a segment back if it has no holder; returns the bytes |
//! | `find_dead`, `Dead::remove_from_list` | processes that died and may have left segments behind |
//! | `is_found`, `is_findable` | whether an id leads to a file; to a file of this user |
//! | `SegmentFile::ticket_links` | the number of links that hold a file for messages; its inode |
//! | `SegmentFile::is_another_than` | whether an id leads to another file |
//! | `is_absent_or_foreign` | whether an error says that a file is gone or not this user's |
//! | `Directory::last_check` | when this process last searched for dead processes |
//! | `refresh_user` | asks again which user this process is |
//! | `available_memory` | the memory that this process can still have |
//! | `most_mappings` | the number of mappings that a process may have |
//! | `most_cached_bytes` | the address space that unused mappings of one kind may take |
//! | `unlink_name` | removes a name |
//! | `Mutex`, `MutexGuard` | locks for the state of this process |
//! | `monotonic_ns`, `thread_ns` | the system's clock; the CPU time of this thread |
//!
//! `find_dead` also registers the process again if a cleaner removed the registry. Only the Linux
//! backend has messages in pipes (`message`, `socket`, `memory_file`), `SharedWords`, `operations`,
//! what channels need (`coarse_ns`, `sleep_at`, `wake_at`, `FamilyLock`, `ticket_of`, `EventFd`,
//! `block_signals`, `Appearances`, `ForeignFile`), and `fork`: what a child inherits, and locks
//! that survive a fork.
//!
//! A file that is *held* is not given back. On Linux the kernel keeps the hold and drops it when
//! the holder dies. The portable backend counts holders, and a crash leaves the count too high. In
//! the stand-in the only holder is this process, which does not die. It also stands in on systems
//! that this crate refuses, so that the refusal is the only error.

mod interface;
mod shortage;
#[cfg(linux_backend)]
mod linux;
#[cfg(memory_backend)]
mod memory;
#[cfg(portable_backend)]
mod portable;

#[cfg(linux_backend)]
use linux as backend;
#[cfg(memory_backend)]
use memory as backend;
#[cfg(portable_backend)]
use portable as backend;

#[cfg(linux_backend)]
pub(crate) use linux::{
    Appearances, EventFd, FamilyLock, ForeignFile, FutexPage, Mutex, MutexGuard, SharedWords,
    block_signals, close_unread, coarse_ns, fork, is_orphaned, keep_family, leave_family,
    leave_process_lists, memory_file, message, operations, read_memory_file, sleep_at, socket,
    ticket_of, wake_at, without_fork,
};
#[cfg(memory_backend)]
pub(crate) use memory::{Mutex, MutexGuard};
#[cfg(portable_backend)]
pub(crate) use parking_lot::{Mutex, MutexGuard};

pub use interface::Access;
pub(crate) use interface::{Lookup, TicketLink};
pub(crate) use shortage::{check_headroom, on_shortage, or_after_relief_of, reserve_for, room_for};

pub(crate) use backend::{
    CAN_PERSIST, Dead, Directory, Liveness, Mapping, Owner, SegmentFile, available_memory,
    decommit, discard, family_message, family_of, find_dead, is_absent_or_foreign, is_findable,
    is_found, is_message, is_usable, link_ticket, monotonic_ns, most_cached_bytes, most_mappings,
    process_owner, reclaim, recommit, refresh_user, sweep_names, sweep_tickets, thread_ns,
    unlink_name, unlink_ticket,
};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::value::error::{Error, Result};

/// An operation that creates, opens or drops an array. The exit handler waits until it is dropped.
#[cfg(linux_backend)]
pub(crate) use linux::operations::Counted;

/// An operation that no exit handler waits for: only the Linux backend has one.
#[cfg(not(linux_backend))]
#[must_use]
pub(crate) struct Counted(());

#[cfg(not(linux_backend))]
impl Counted {
    pub(crate) fn begin() -> Self {
        Self(())
    }
}

/// Returns `false`: only the Linux backend has forked children.
#[cfg(not(linux_backend))]
pub(crate) fn is_orphaned() -> bool {
    false
}

/// Fails in a process that a signal handler forked while its thread was inside this library.
///
/// # Errors
/// [`Error::Unsupported`].
pub(crate) fn refuse_orphan() -> Result<()> {
    if is_orphaned() {
        Err(Error::Unsupported {
            what: "using this library in a child that a signal handler forked inside it",
        })
    } else {
        Ok(())
    }
}

/// Warns, once per process, that the handles which it has given out find nothing any more.
pub(crate) fn warn_of_removed_files(directory: &Directory) {
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    if !WAS_SAID.swap(true, Ordering::Relaxed) {
        eprintln!(
            "shmarray: another program removed files of this process from {}. The process can \
             still use its arrays, but their handles no longer find them. New arrays are made in \
             new files. (systemd-logind removes a user's files at logout unless RemoveIPC=no: see \
             `shmarray doctor`.)",
            directory.path().display()
        );
    }
}
