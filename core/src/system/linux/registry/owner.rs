//! Owners: the bytes that processes and messages lock, and how a process locks its own.

use std::io;

use super::super::lock;
use super::file::Registry;
use super::lock_mapping::LockMapping;
use super::process_list;
use crate::value::name::random_owner;

/// The owner of an entry, a process or a message, as its entries name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) info: u64,
}

impl Owner {
    pub(super) fn cookie(&self) -> u64 {
        self.info >> 40
    }
}

/// The kinds of owners, in bits 32–39 of the owner info.
pub(super) const PROCESS: u64 = 0;
pub(super) const MESSAGE: u64 = 1;
pub(super) const FAMILY_MESSAGE: u64 = 2;

/// The bits of an owner info that are the process's pid, as that process sees itself.
pub(super) const PID: u64 = 0xffff_ffff;

/// Whether an entry's owner is a message.
pub(crate) fn is_message(info: u64) -> bool {
    (info >> 32) & 0xff != PROCESS
}

/// Whether the process of a dead entry is known to have ended by itself, by `_exit`, say, and was
/// not killed. Only one whose parent has not yet waited for it is known: a zombie.
///
/// # References
/// - [Linux], fields 3 and 52
///
/// [Linux]: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
pub(crate) fn has_exited(info: u64) -> bool {
    let stat = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", info & PID)).ok()?;
        let fields = stat.rsplit_once(')')?.1; // the program's name may have anything in it
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let status: i32 = fields.last()?.parse().ok()?;
        Some((state == "Z").then_some(status))
    };
    !is_message(info) && stat().flatten().is_some_and(|status| libc::WIFEXITED(status))
}

/// Whether two owner infos lead to the same registry.
pub(crate) fn is_same_registry(info: u64, other: u64) -> bool {
    info >> 40 == other >> 40
}

/// The call that locks a byte, for errors.
pub(super) const LOCK: &str = "fcntl(F_OFD_SETLK)";

/// Locks a byte for a process and enters the process in the process list. Allocates nothing. An
/// error has the name of the call that failed.
pub(super) fn register(
    registry: &Registry,
) -> std::result::Result<(Owner, LockMapping), (&'static str, io::Error)> {
    let owner = lock_new_byte(registry, PROCESS).map_err(|error| (LOCK, error))?;
    let lock_mapping = LockMapping::map(&registry.file).map_err(|error| ("mmap", error))?;
    process_list::enter(&registry.file, owner.id);
    Ok((owner, lock_mapping))
}

/// Locks a byte that no process has locked.
pub(super) fn lock_new_byte(registry: &Registry, kind: u64) -> io::Result<Owner> {
    let info = (registry.cookie << 40) | (kind << 32) | u64::from(std::process::id());
    loop {
        let id = random_owner().map_err(io::Error::other)?;
        match lock::try_exclusive_at(&registry.file, id as i64) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            locked => return locked.map(|()| Owner { id, info }),
        }
    }
}
