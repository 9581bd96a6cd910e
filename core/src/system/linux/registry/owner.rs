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
