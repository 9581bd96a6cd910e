//! The operating system, behind one interface with two backends, and a stand-in for Miri: `memory`.
//!
//! A backend has these, with the same names, arguments and errors:
//!
//! | item | does |
//! |---|---|
//! | `Directory::current()`, `path`, `segment_ids`, `total_bytes`, `free_bytes`, `page_bytes` | where segments live now; what there is, how much may be, and the unit of memory protection |
//! | `SegmentFile::create(directory, id, bytes, mode)` | a new file that nobody can see yet, its memory reserved, held by us |
//! | `SegmentFile::open(directory, place, access)`, `open_own(directory, id)` | an existing file, held by us; only if it is this user's |
//! | `SegmentFile::bytes`, `allocated_bytes`, `is_held`, `read_front(n)` | its size; what it has of memory; whether another holds it; a copy of its first bytes |
//! | `SegmentFile::map(access, header_bytes)` | the whole file in memory; the mapping carries the hold on |
//! | `SegmentFile::takes_writes`, `write_at(offset, bytes, count)` | whether writing a new file is faster than storing to it; writes |
//! | `SegmentFile::publish(id)`, `link_name(name)` | let others see it, by id and by name |
//! | `SegmentFile::mark_named(name, mark)` | mark a segment while nobody can take its name away |
//! | `Mapping::populate()` | maps all pages of the data at once |
//! | `Mapping::drop_written_pages(offset, bytes)` | of a mapping that copies on write: what was written here goes |
//! | `Mapping::header`, `data`, `header_is_writable`, `directory` | where it is mapped, and what of |
//! | `discard(directory, id, name)` | unlinks what the caller made dead |
//! | `process_owner(directory)` | this process as its leases name it; `None` where there are no leases |
//! | `Liveness::look(directory)`, `is_dead_owner(holder, about)` | which holders are dead |
//! | `message(directory)`, `family_message(directory)`, `is_message`, `family_of` | tickets of messages: in a pipe of ours, with the fd that keeps it; of a way that nobody knows |
//! | `link_ticket`, `unlink_ticket`, `sweep_tickets` | tickets that found no entry |
//! | `decommit(directory, id, parts)`, `recommit` | give memory of a part back, and take it again |
//! | `give_back(directory, id)`, `sweep_names` | give a segment back if nobody holds it; returns the bytes |
//! | `find_dead(directory)`, `Dead::are_swept` | processes that have died and may have left something; registers anew where a cleaner removed the registry |
//! | `is_found(directory, id)` | whether an id leads to a file |
//! | `unlink_name(directory, name, before)` | take a name away |
//! | `Mutex`, `MutexGuard` | for what this process has |
//! | `monotonic_ns`, `thread_ns` | clocks: of the system, and of this thread's work |
//!
//! Only the Linux backend has `fork`: what a child inherits, and locks that it does.
//!
//! *Holding* a file keeps it from being given back. On Linux the kernel keeps the hold and
//! drops it when the holder dies; the portable backend counts, and a crash leaves its count. In the
//! stand-in the holder is this process, which does not die.

#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
mod linux;
#[cfg(miri)]
mod memory;
#[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
mod portable;

#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
use linux as backend;
#[cfg(miri)]
use memory as backend;
#[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
use portable as backend;

#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(crate) use linux::{
    Mutex, MutexGuard, SharedWords, fork, is_orphaned, keep_family, leave_process_lists,
    memory_file, message, operations, read_memory_file, socket,
};
#[cfg(miri)]
pub(crate) use memory::{Mutex, MutexGuard};
#[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

pub(crate) use backend::{
    Dead, Directory, Liveness, Mapping, Owner, SegmentFile, decommit, discard, family_message,
    family_of, find_dead, give_back, is_findable, is_found, is_message, is_none_of_ours,
    link_ticket, monotonic_ns, most_mappings, note_user, process_owner, recommit, sweep_names,
    sweep_tickets, thread_ns, unlink_name, unlink_ticket,
};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::name::{ArrayName, SegmentId};

/// What a mapping may be used for. Enforced by the memory protection of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Loads and stores.
    #[default]
    ReadWrite,
    /// Loads; a store is a fault.
    ReadOnly,
    /// Loads, and stores that nobody else sees: the kernel copies each page at its first store.
    /// What is mapped so is private memory, though a lease holds it, and has no handle.
    CopyOnWrite,
}

/// This process's last look for the dead (`segment::sweep`).
#[derive(Debug, Default)]
pub(crate) struct LastCheck {
    /// When it was over, by the system's monotonic clock.
    pub(crate) ended_ns: AtomicU64,
    /// What it took of its thread's time.
    pub(crate) took_ns: AtomicU64,
    /// When somebody should see again that files of ours are found.
    pub(crate) checked_ns: AtomicU64,
}

/// By which of its two names a segment is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup<'a> {
    Id(&'a SegmentId),
    Name(&'a ArrayName),
}

impl std::fmt::Display for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// An operation that makes, opens or drops an array, as long as it lives: the exit waits for it.
#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(crate) use linux::operations::Operation;

/// Where nothing follows an exit nothing waits.
#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
#[must_use]
pub(crate) struct Operation(());

#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
impl Operation {
    pub(crate) fn begin() -> Self {
        Self(())
    }
}

/// Where nothing follows a fork no process is an orphan.
#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
pub(crate) fn is_orphaned() -> bool {
    false
}

/// Refuses to work in a process that a signal handler forked inside of this library.
///
/// # Errors
/// [`Error::Unsupported`].
pub(crate) fn refuse_orphan() -> Result<()> {
    match is_orphaned() {
        false => Ok(()),
        true => Err(Error::Unsupported {
            what: "any use in a child that was forked by a signal handler inside of this library",
        }),
    }
}

/// Warns, once in a process, that what it has given out cannot be found any more.
pub(crate) fn warn_of_removed_files(directory: &Directory) {
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    if !WAS_SAID.swap(true, Ordering::Relaxed) {
        eprintln!(
            "shmarray: another program removed files of this process from {}. Arrays that it has \
             stay readable here; their handles find nothing any more. New arrays are made in new \
             files. (systemd-logind removes a user's files at logout unless RemoveIPC=no: see \
             `shmarray doctor`.)",
            directory.path().display()
        );
    }
}
