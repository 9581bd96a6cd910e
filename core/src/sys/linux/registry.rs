//! The registry: which holders live. An empty file whose bytes are locked; nothing is read from it.
//!
//! A process is a random byte below 2^53, locked exclusively and kept by a mapping, so that no
//! closing of descriptors can drop it. The mapping is not inherited: a forked child gets a byte
//! of its own, which the parent locks for it before the fork (I1), so that the child holds what
//! its parent held from its first instruction on.
//!
//! Which inode it was that somebody locked is told by a cookie in his entries. When the registry
//! is deleted and made anew, locks on the old one cannot be asked any more: such holders count
//! as alive (I2): processes until nobody maps the segment, messages until they are received or
//! discarded.
//!
//! | byte | locked | by | stands for |
//! |---|---|---|---|
//! | 1 … 2^52 − 1, random | exclusively | a process's mapping | a process |
//! | the same | exclusively | the descriptor that a message carries (`SCM_RIGHTS`) | a message in a pipe of ours |
//! | 2^52 + f·2^32, f random | shared | the mappings of all processes of a family | the messages whose way nobody knows: a ticket 2^52 + f·2^32 + r lives as long as family f |
#![allow(unsafe_code)] // mmap, madvise, munmap, and a lock made anew after fork

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Mutex, MutexGuard, RawMutex};

use super::descriptor::{self, Descriptor};
use super::directory::Directory;
use super::lock;
use crate::error::Result;
use crate::name::{random_bits, random_holder};

/// A process as its entries name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) holder: u64,
    pub(crate) about: u64,
}

/// A process's place in the registry of one directory.
struct Registered {
    directory: Directory,
    /// `None` in a child whose byte could not be had: it holds by lock alone.
    identity: Option<Identity>,
    life: Option<Life>,
    /// The child's, between the preparation of a fork and its end.
    child: Option<(Identity, Life)>,
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// This process in that directory's registry; `None` when the registry cannot be had: then
/// segments are held by their lock alone.
pub(crate) fn identity(directory: &Directory) -> Option<Identity> {
    let mut all = REGISTERED.lock();
    if let Some(registered) = all.iter().find(|one| one.directory.path() == directory.path()) {
        return registered.identity;
    }
    let (identity, life) = register(directory).ok()?;
    life.keep_from_children();
    all.push(Registered { directory: directory.clone(), identity: Some(identity), life: Some(life), child: None });
    Some(identity)
}

/// Locks a byte for this process, and its family's with it.
fn register(directory: &Directory) -> Result<(Identity, Life)> {
    let (file, facts) = directory.open_registry()?;
    let identity = lock_new_byte(&file, &facts, directory, PROCESS)?;
    lock::try_shared_at(&file, family()? as i64)
        .map_err(|error| crate::Error::os("fcntl(F_OFD_SETLK)", directory.path(), error))?;
    let life = Life::map(&file).map_err(|error| crate::Error::os("mmap", directory.path(), error))?;
    Ok((identity, life))
}

/// Locks a byte that nobody has.
fn lock_new_byte(file: &File, facts: &Metadata, directory: &Directory, kind: u64) -> Result<Identity> {
    let about = (cookie(facts) << 40) | (kind << 32) | u64::from(std::process::id());
    loop {
        let holder = random_holder()?;
        match lock::try_exclusive_at(file, holder as i64) {
            Ok(()) => return Ok(Identity { holder, about }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(crate::Error::os("fcntl(F_OFD_SETLK)", directory.path(), error)),
        }
    }
}

/// Kinds of holders, in bits 32–39 of `about`.
const PROCESS: u64 = 0;
const MESSAGE: u64 = 1;
const FAMILY_MESSAGE: u64 = 2;

/// A message in a pipe: its ticket, and the descriptor that keeps it and travels with it.
pub(crate) fn message(directory: &Directory) -> Result<(Identity, OwnedFd)> {
    let (file, facts) = directory.open_registry()?;
    let identity = lock_new_byte(&file, &facts, directory, MESSAGE)?;
    Ok((identity, file.into_owned()))
}

/// A message whose way nobody knows: a ticket of this process's family.
pub(crate) fn family_message(directory: &Directory) -> Result<Identity> {
    let cookie = identity(directory).map_or(0, |own| own.about >> 40);
    let about = (cookie << 40) | (FAMILY_MESSAGE << 32) | u64::from(std::process::id());
    Ok(Identity { holder: family()? | (random_bits()? >> 32).max(1), about })
}

/// Where families' bytes begin.
const FAMILIES: u64 = 1 << 52;
/// How many tickets each has.
const FAMILY_TICKETS: u64 = 1 << 32;

/// This process's family: its parent's, the one that a launcher named, or a new one.
fn family() -> Result<u64> {
    static FAMILY: OnceLock<u64> = OnceLock::new();
    if let Some(family) = FAMILY.get() {
        return Ok(*family);
    }
    let named = std::env::var("SHMARRAY_FAMILY").ok().and_then(|text| text.parse().ok());
    let family = match named.filter(|number| family_of(*number) == Some(*number)) {
        Some(family) => family,
        None => FAMILIES | ((random_bits()? % (FAMILIES / FAMILY_TICKETS)) * FAMILY_TICKETS),
    };
    Ok(*FAMILY.get_or_init(|| family))
}

/// The family of a ticket, if it has one.
pub(crate) fn family_of(ticket: u64) -> Option<u64> {
    (FAMILIES..2 * FAMILIES).contains(&ticket).then_some(ticket & !(FAMILY_TICKETS - 1))
}

/// Whether an entry is a message's.
pub(crate) fn is_message(about: u64) -> bool {
    (about >> 32) & 0xff != PROCESS
}

/// 24 bits of which inode a registry is.
fn cookie(facts: &Metadata) -> u64 {
    super::directory::fnv1a(format!("({}, {})", facts.dev(), facts.ino()).as_bytes()) >> 40
}

/// The bits of an entry's `about` that are its process's pid, as that process sees itself.
const PID: u64 = 0xffff_ffff;

/// A look at who lives. What it has seen it does not ask again.
pub(crate) struct Lives {
    file: Descriptor,
    cookie: u64,
    seen: RefCell<HashMap<u64, bool>>,
}

impl Lives {
    /// `None` when the registry cannot be asked: then everybody counts as alive.
    pub(crate) fn look(directory: &Directory) -> Option<Self> {
        let (file, facts) = directory.open_registry().ok()?;
        Some(Self { file, cookie: cookie(&facts), seen: RefCell::default() })
    }

    /// Whether that holder is known to be dead (I2).
    pub(crate) fn is_void(&self, holder: u64, about: u64) -> bool {
        let byte = family_of(holder).unwrap_or(holder);
        let ask = || lock::is_free_at(&self.file, byte as i64);
        about >> 40 == self.cookie && *self.seen.borrow_mut().entry(byte).or_insert_with(ask)
    }
}

/// A page of the registry, mapped for nothing but the lock that it keeps.
struct Life(*mut libc::c_void);

// SAFETY: an address that is only ever unmapped.
unsafe impl Send for Life {}

const LIFE_BYTES: usize = 4096;

impl Life {
    fn map(file: &File) -> io::Result<Self> {
        let (anywhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping that nobody may touch, where the kernel likes.
        let life = unsafe { libc::mmap(anywhere, LIFE_BYTES, libc::PROT_NONE, libc::MAP_SHARED, fd, 0) };
        match life == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self(life)),
        }
    }

    fn keep_from_children(&self) {
        // SAFETY: the page that `map` mapped.
        unsafe { libc::madvise(self.0, LIFE_BYTES, libc::MADV_DONTFORK) };
    }

    fn end(self) {
        // SAFETY: the page that `map` mapped, once: `self` is gone.
        unsafe { libc::munmap(self.0, LIFE_BYTES) };
    }
}

/// Before a fork: locks a byte for the child in each registry. The table stays locked until
/// `after_in_parent` or `after_in_child`.
pub(crate) fn before_fork() {
    let mut all = REGISTERED.lock();
    for registered in all.iter_mut() {
        registered.child = register(&registered.directory).ok();
    }
    MutexGuard::leak(all);
    descriptor::before_fork();
}

/// Between the two: the child's identity (I1).
pub(crate) fn identity_of_child(directory: &Directory) -> Option<Identity> {
    // SAFETY: `before_fork` locked the table in this very thread and nobody else gets it meanwhile.
    let all = unsafe { &*REGISTERED.data_ptr() };
    let registered = all.iter().find(|one| one.directory.path() == directory.path())?;
    registered.child.as_ref().map(|(identity, _)| *identity)
}

/// After a fork, in the parent: only the child keeps the child's byte.
pub(crate) fn after_in_parent() {
    descriptor::after_in_parent();
    // SAFETY: as in `identity_of_child`.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    for (_, life) in all.iter_mut().filter_map(|registered| registered.child.take()) {
        life.end();
    }
    // SAFETY: `before_fork` locked it in this thread.
    unsafe { REGISTERED.force_unlock() };
}

/// After a fork, in the child: it is who its parent said. Allocates nothing.
pub(crate) fn after_in_child() {
    descriptor::after_in_child();
    // SAFETY: as in `identity_of_child`; there is no other thread.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    for registered in all.iter_mut() {
        let (identity, life) = registered.child.take().unzip();
        let pid = u64::from(std::process::id());
        registered.identity = identity.map(|one| Identity { about: one.about & !PID | pid, ..one });
        registered.life = life; // the parent's page is not in this process: nothing to unmap
        registered.life.as_ref().inspect(|life| life.keep_from_children());
    }
    remake(&REGISTERED);
}

/// Makes a mutex anew in a child: unlocking it would wake threads that are not here.
pub(crate) fn remake<T>(mutex: &Mutex<T>) {
    // SAFETY: only the raw state is used, and there is no other thread.
    let raw = std::ptr::from_ref(unsafe { mutex.raw() }).cast_mut();
    // SAFETY: a `RawMutex` is an atomic byte: it may be written through a shared reference.
    unsafe { raw.write(RawMutex::INIT) };
}

/// Has the handlers run at every fork and at exit. Raw `clone` and `_Fork` run none.
pub(crate) fn on_fork_and_exit(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
    exit: extern "C" fn(),
) {
    // SAFETY: functions of this library, which stays loaded: the C library undoes this at dlclose.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // SAFETY: as above.
    unsafe { libc::atexit(exit) };
}
