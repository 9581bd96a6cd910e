//! The operating system, behind one interface with two backends, and a stand-in for Miri: `memory`.
//!
//! A backend has these, with the same names, arguments and errors:
//!
//! | item | does |
//! |---|---|
//! | `Directory::current()`, `path`, `segment_ids`, `total_bytes`, `free_bytes`, `page_bytes` | where segments live now; what there is, how much may be, and the unit of memory protection |
//! | `File::create(directory, id, bytes, mode)` | a new file that nobody can see yet, its memory reserved, held by us |
//! | `File::open(directory, place, access)`, `open_own(directory, id)` | an existing file, held by us; only if it is this user's |
//! | `File::bytes`, `allocated_bytes`, `is_held`, `read_front(n)` | its size; what it has of memory; whether another holds it; a copy of its first bytes |
//! | `File::map(access, header_bytes)` | the whole file in memory; the mapping carries the hold on |
//! | `File::takes_writes`, `write_at(offset, bytes, count)` | whether writing a new file is faster than storing to it; writes |
//! | `File::publish(id)`, `link_name(name)` | let others see it, by id and by name |
//! | `File::mark_named(name, mark)` | mark a segment while nobody can take its name away |
//! | `Mapping::populate()` | maps all pages of the data at once |
//! | `Mapping::give_back_own(offset, bytes)` | of a mapping that copies on write: what was written here goes |
//! | `Mapping::header`, `data`, `header_is_writable`, `directory` | where it is mapped, and what of |
//! | `discard(directory, id, name)` | unlinks what the caller made dead |
//! | `identity(directory)` | this process as its leases name it; `None` where there are no leases |
//! | `Lives::look(directory)`, `is_void(holder, about)` | which holders are dead |
//! | `message(directory)`, `family_message(directory)`, `is_message`, `family_of` | tickets of messages: in a pipe of ours, with the descriptor that keeps it; of a way that nobody knows |
//! | `link_ticket`, `unlink_ticket`, `sweep_tickets` | tickets that found no entry |
//! | `punch(directory, id, parts)`, `reserve_again` | give memory of a part back, and take it again |
//! | `give_back(directory, id)`, `sweep_names` | give a segment back if nobody holds it; returns the bytes |
//! | `look_for_dead(directory)`, `Dead::are_swept` | processes that have died and may have left something; registers anew where a cleaner removed the registry |
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
    Mutex, MutexGuard, SharedWords, fork, is_orphaned, keep_family, leave_rolls, memory_file,
    message, operations, read_memory_file, socket,
};
#[cfg(miri)]
pub(crate) use memory::{Mutex, MutexGuard};
#[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

pub(crate) use backend::{
    Dead, Directory, File, Identity, Lives, Mapping, discard, family_message, family_of, give_back,
    identity, is_findable, is_found, is_message, is_none_of_ours, link_ticket, look_for_dead,
    monotonic_ns, most_mappings, note_user, punch, reserve_again, sweep_names, sweep_tickets,
    thread_ns, unlink_name, unlink_ticket,
};

use std::sync::atomic::AtomicU64;

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
pub(crate) struct LastLook {
    /// When it was over, by the system's monotonic clock.
    pub(crate) ended_ns: AtomicU64,
    /// What it took of its thread's time.
    pub(crate) took_ns: AtomicU64,
    /// When somebody should see again that files of ours are found.
    pub(crate) checked_ns: AtomicU64,
}

/// By which of its two names a segment is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    Id(&'a SegmentId),
    Name(&'a ArrayName),
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}
