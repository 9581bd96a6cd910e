//! The operating system behind one interface: two backends, and a stand-in for Miri (`memory`).
//!
//! The items of a backend are imported below, in one list for all backends: the compiler refuses a
//! backend without one of them, and a use that does not fit its signature. `counted/absent.rs` has
//! stubs of those that only the Linux backend has.
//!
//! A file that is *held* is not given back. On Linux the kernel keeps the hold and drops it when
//! the holder dies. The portable backend counts holders, and a crash leaves the count too high. In
//! the stand-in the only holder is this process, which does not die. It also stands in on systems
//! that this crate refuses, so that the refusal is the only error.

mod interface;
mod shortage;
#[cfg(linux_backend)]
mod linux;
#[cfg(not(linux_backend))]
mod counted;

#[cfg(memory_backend)]
use counted::memory as backend;
#[cfg(portable_backend)]
use counted::portable as backend;
#[cfg(linux_backend)]
use linux as backend;

pub use interface::Access;
pub(crate) use interface::{Lookup, TicketLink};
#[cfg(linux_backend)]
pub use linux::{MemoryIdentity, directory};
pub(crate) use shortage::{check_headroom, on_shortage, or_after_relief_of, reserve_for, room_for};

#[cfg(not(unix))]
pub(crate) use counted::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(unix)]
pub(crate) use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) use backend::{
    Appearances, CAN_PERSIST, Counted, Dead, Directory, EventFd, FamilyLock, ForeignFile,
    FutexPage, HAS_TRANSPORT, Liveness, Mapping, Mutex, MutexGuard, Owner, SegmentFile,
    available_memory, block_signals, coarse_ns, decommit, discard, family_message, family_of,
    file_mode, find_dead, forks, has_exited, is_absent_or_foreign, is_findable, is_found,
    is_message, is_orphaned, is_same_registry, is_usable, keep_family, link_ticket, memory_file,
    message, monotonic_ns, most_cached_bytes, most_mappings, process_owner, read_memory_file,
    realtime_ns, reclaim, recommit, refresh_user, remove_name, sleep_at, socket, sweep_names,
    sweep_tickets, thread_ns, ticket_of, unlink_name, unlink_ticket, wake_at, without_fork,
};
#[cfg(not(linux_backend))]
pub use counted::SharedWords;
#[cfg(linux_backend)]
pub use linux::SharedWords;
/// What the handlers of forks and of the exit need, which no other backend has.
#[cfg(linux_backend)]
pub(crate) use linux::{close_unread, fork, leave_family, leave_process_lists, operations};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::value::error::{Error, Result};

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
