//! The registry: which holders live. A file whose bytes are locked, and in it the roll of
//! processes.
//!
//! A process is a random byte below 2^52, locked exclusively and kept by a mapping, so that no
//! closing of fds can drop it. The mapping is not inherited: a forked child gets a byte
//! of its own, which the parent locks for it before the fork (I1), so that the child holds what
//! its parent held from its first instruction on.
//!
//! An entry's cookie says which inode its holder locked. When the registry is deleted and made
//! anew, locks on the old one cannot be asked any more: such holders count as alive (I2): processes
//! until nobody maps the segment, messages until they are received or discarded. A process that
//! finds its registry deleted registers in the new one (`find_dead`).
//!
//! | byte | locked | by | stands for |
//! |---|---|---|---|
//! | 1 … 2^52 − 1, random | exclusively | a process's mapping | a process |
//! | the same | exclusively | the fd that a message carries (`SCM_RIGHTS`) | a message in a pipe of ours |
//! | 2^52 + f·2^32, f random | shared | the mappings of all processes of a family | the messages that are sent out of band: a ticket 2^52 + f·2^32 + r lives as long as family f |
#![allow(unsafe_code)] // mmap, madvise, munmap, and the table in a forked child

mod family;
mod file;
mod process_list;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::directory::{Directory, user};
use super::fd;
use super::lock;
use super::mutex::{Mutex, MutexGuard, free_in_child};
use crate::error::{Error, Result};
use crate::name::{random_bits, random_owner};
use family::family;
pub(crate) use family::family_of;
use file::Registry;
pub(super) use file::open;

/// A process as its entries name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) info: u64,
}

impl Owner {
    fn cookie(&self) -> u64 {
        self.info >> 40
    }
}

/// A process's place in the registry of one directory and user.
struct Registered {
    directory: Directory,
    user: u32,
    /// Where its registry is.
    path: CString,
    /// `None` in a child whose byte could not be had: it holds by lock alone until it gets one.
    own: Option<(Owner, Life)>,
    /// The child's, between the preparation of a fork and its end.
    child: Option<(Owner, Life)>,
    /// The registry, while a fork is prepared.
    asked: Option<Registry>,
}

impl Registered {
    /// Whether it is the one for this directory and for who this process is.
    fn is_for(&self, directory: &Directory) -> bool {
        self.directory.path() == directory.path() && self.user == USER.load(Ordering::Relaxed)
    }
}

/// The user that this process was when that was last asked for: a daemon begins as root and becomes
/// another.
static USER: AtomicU32 = AtomicU32::new(u32::MAX);

/// Asks who this process is now. What it holds it goes on holding as who it was.
pub(crate) fn note_user() {
    USER.store(user(), Ordering::Relaxed);
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// This process in that directory's registry; `None` when the registry cannot be had: then
/// segments are held by their lock alone.
pub(crate) fn process_owner(directory: &Directory) -> Option<Owner> {
    process_owner_or_error(directory).ok()
}

fn process_owner_or_error(directory: &Directory) -> Result<Owner> {
    let mut all = REGISTERED.lock();
    if USER.load(Ordering::Relaxed) == u32::MAX {
        note_user();
    }
    let at = all.iter().position(|one| one.is_for(directory));
    if let Some(own) = at.and_then(|at| all[at].own.as_ref()) {
        return Ok(own.0);
    }
    family()?; // known from now on, so that a fork need not ask
    let (registry, path) = file::open_and_name(directory)?;
    let registered = register(&registry)
        .map_err(|error| Error::os("fcntl(F_OFD_SETLK)", directory.path(), error));
    let (owner, life) = registered?;
    life.keep_from_children();
    let own = Some((owner, life));
    match at {
        Some(at) => (all[at].own, all[at].path) = (own, path),
        None => {
            let (directory, user) = (directory.clone(), USER.load(Ordering::Relaxed));
            all.push(Registered { directory, user, path, own, child: None, asked: None });
        }
    }
    Ok(owner)
}

/// Locks a byte for a process, and its family's with it, and enters it on the roll. Allocates
/// nothing.
fn register(registry: &Registry) -> io::Result<(Owner, Life)> {
    let owner = lock_new_byte(registry, PROCESS)?;
    lock_family(&registry.file)?;
    let life = Life::map(&registry.file)?;
    process_list::enter(&registry.file, owner.id);
    Ok((owner, life))
}

fn lock_family(file: &File) -> io::Result<()> {
    lock::try_shared_at(file, family().map_err(io::Error::other)? as i64)
}

/// Locks a byte that nobody has.
fn lock_new_byte(registry: &Registry, kind: u64) -> io::Result<Owner> {
    let info = (registry.cookie << 40) | (kind << 32) | u64::from(std::process::id());
    loop {
        let id = random_owner().map_err(io::Error::other)?;
        match lock::try_exclusive_at(&registry.file, id as i64) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            locked => return locked.map(|()| Owner { id, info }),
        }
    }
}

fn not_locked(directory: &Directory) -> impl FnOnce(io::Error) -> Error + use<'_> {
    |error| Error::os("fcntl(F_OFD_SETLK)", directory.path(), error)
}

/// Kinds of holders, in bits 32–39 of `about`.
const PROCESS: u64 = 0;
const MESSAGE: u64 = 1;
const FAMILY_MESSAGE: u64 = 2;

/// A message in a pipe: its ticket, and the fd that keeps it and travels with it.
pub(crate) fn message(directory: &Directory) -> Result<(Owner, OwnedFd)> {
    let registry = open(directory)?;
    let owner = lock_new_byte(&registry, MESSAGE).map_err(not_locked(directory))?;
    Ok((owner, registry.file.into_owned()))
}

/// A message that is sent out of band: a ticket of this process's family.
///
/// # Errors
/// As registering: a ticket that no registry knows would never end.
pub(crate) fn family_message(directory: &Directory) -> Result<Owner> {
    let own = process_owner_or_error(directory)?;
    let info = (own.cookie() << 40) | (FAMILY_MESSAGE << 32) | u64::from(std::process::id());
    Ok(Owner { id: family()? | (random_bits()? >> 32).max(1), info })
}

/// An fd that keeps this process's family alive wherever it goes, and the family's number.
pub(crate) fn keep_family(directory: &Directory) -> Result<(u64, OwnedFd)> {
    process_owner_or_error(directory)?; // this process is of it from now on
    let registry = open(directory)?;
    lock_family(&registry.file).map_err(not_locked(directory))?;
    Ok((family()?, registry.file.into_owned()))
}

/// Whether an entry is a message's.
pub(crate) fn is_message(info: u64) -> bool {
    (info >> 32) & 0xff != PROCESS
}

/// The bits of an entry's `about` that are its process's pid, as that process sees itself.
const PID: u64 = 0xffff_ffff;

/// A look at who lives. What it has seen it does not ask again.
pub(crate) struct Liveness {
    directory: Directory,
    registry: Registry,
    /// Further registries of this user's, looked for when an entry cites one.
    others: OnceCell<Vec<Registry>>,
    seen: RefCell<HashMap<(u64, u64), bool>>,
}

impl Liveness {
    /// `None` when there is no registry, or it cannot be asked: then everybody counts as alive.
    pub(crate) fn look(directory: &Directory) -> Option<Self> {
        file::find(directory).ok().map(|registry| Self::of(directory, registry))
    }

    fn of(directory: &Directory, registry: Registry) -> Self {
        Self {
            directory: directory.clone(),
            registry,
            others: OnceCell::new(),
            seen: RefCell::default(),
        }
    }

    /// Whether that holder is known to be dead (I2).
    pub(crate) fn is_dead_owner(&self, owner: u64, info: u64) -> bool {
        let (byte, cookie) = (family_of(owner).unwrap_or(owner), info >> 40);
        if let Some(seen) = self.seen.borrow().get(&(cookie, byte)) {
            return *seen;
        }
        let is_dead_owner = self
            .registry_of(cookie)
            .is_some_and(|registry| lock::is_free_at(&registry.file, byte as i64));
        self.seen.borrow_mut().insert((cookie, byte), is_dead_owner);
        is_dead_owner
    }

    fn registry_of(&self, cookie: u64) -> Option<&Registry> {
        if cookie == self.registry.cookie {
            return Some(&self.registry);
        }
        self.others
            .get_or_init(|| file::all(&self.directory))
            .iter()
            .find(|other| other.cookie == cookie)
    }
}

/// Processes on the roll that are dead: what they held may still be there.
pub(crate) struct Dead {
    registry: Registry,
    holders: Vec<u64>,
}

impl Dead {
    /// Everything that they held was given back.
    pub(crate) fn are_swept(self) {
        self.holders.iter().for_each(|holder| process_list::leave(&self.registry.file, *holder));
    }
}

/// What a look at the registry finds.
pub(crate) struct Look {
    pub(crate) dead: Option<Dead>,
    /// This process's registry had been deleted: it has registered anew.
    pub(crate) was_deleted: bool,
}

/// Looks whether somebody on the roll has died. Costs four system calls, and one for each process
/// on it.
pub(crate) fn find_dead(directory: &Directory) -> Look {
    let own = registered(directory);
    let liveness = match file::find(directory) {
        Ok(registry) => Liveness::of(directory, registry),
        Err(error) => {
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            return Look {
                dead: None,
                was_deleted: is_gone && own.is_some_and(|own| register_anew(directory, own)),
            };
        }
    };
    let cookie = liveness.registry.cookie;
    let was_deleted = own.is_some_and(|own| {
        liveness.registry_of(own.cookie()).is_none() && register_anew(directory, own)
    });
    let mut holders = process_list::holders(&liveness.registry.file);
    holders.retain(|holder| liveness.is_dead_owner(*holder, cookie << 40));
    let dead = (!holders.is_empty()).then(|| Dead { registry: liveness.registry, holders });
    Look { dead, was_deleted }
}

/// Of a registry that was deleted nobody can ask any more. Its page stays mapped: its lock still
/// answers those who have the deleted file open.
fn register_anew(directory: &Directory, own: Owner) -> bool {
    let mut all = REGISTERED.lock();
    if let Some(one) = all.iter_mut().find(|one| one.is_for(directory)) {
        one.own.take_if(|(owner, _)| owner.id == own.id);
    }
    drop(all);
    process_owner(directory).is_some()
}

/// At an ordinary end: nothing of this process will be left.
pub(crate) fn leave_process_lists() {
    let own = |one: &Registered| Some((one.directory.clone(), one.own.as_ref()?.0));
    let all: Vec<_> = REGISTERED.lock().iter().filter_map(own).collect();
    for (directory, owner) in all {
        if let Ok(registry) = open(&directory) {
            process_list::leave(&registry.file, owner.id);
        }
    }
}

/// A page of the registry, mapped for nothing but the lock that it keeps: its address, its size.
struct Life(*mut libc::c_void, usize);

// SAFETY: an address that is only ever unmapped.
unsafe impl Send for Life {}

impl Life {
    fn map(file: &File) -> io::Result<Self> {
        let (anywhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        let bytes = file.metadata()?.blksize() as usize; // a page; of a hugetlbfs a huge one, of which no part has advice
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping that nobody may touch, where the kernel likes.
        let life = unsafe { libc::mmap(anywhere, bytes, libc::PROT_NONE, flags, fd, 0) };
        match life == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self(life, bytes)),
        }
    }

    fn keep_from_children(&self) {
        // SAFETY: the page that `map` mapped.
        unsafe { libc::madvise(self.0, self.1, libc::MADV_DONTFORK) };
    }

    fn end(self) {
        // SAFETY: the page that `map` mapped, once: `self` is gone.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

/// Before a fork: locks a byte for the child in each registry. The table stays locked until
/// `after_in_parent` or `after_in_child`. Allocates nothing: a signal handler that forks may have
/// interrupted the allocator.
pub(crate) fn register_child() {
    let mut all = REGISTERED.lock();
    for one in all.iter_mut() {
        one.asked = file::open_at_c(&one.path, true).ok();
        one.child = one.asked.as_ref().and_then(|registry| register(registry).ok());
    }
    MutexGuard::leak(all);
}

/// Between the two: whether a holder is dead, as far as this process's own registry says. Allocates
/// nothing.
pub(crate) fn is_known_dead(directory: &Directory, owner: u64, info: u64) -> bool {
    // SAFETY: as in `child_owner`.
    let all = unsafe { &*REGISTERED.data_ptr() };
    let asked = all.iter().find(|one| one.is_for(directory)).and_then(|one| one.asked.as_ref());
    let byte = family_of(owner).unwrap_or(owner) as i64;
    asked.is_some_and(|registry| {
        registry.cookie == info >> 40 && lock::is_free_at(&registry.file, byte)
    })
}

/// The last step of a preparation that needs a registry.
pub(crate) fn ask_no_more() {
    // SAFETY: as in `child_owner`: the table is locked in this thread.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    all.iter_mut().for_each(|one| drop(one.asked.take()));
}

/// Between the two: the child's owner (I1).
pub(crate) fn child_owner(directory: &Directory) -> Option<Owner> {
    // SAFETY: `register_child` locked the table in this very thread and nobody else gets it
    // meanwhile.
    let all = unsafe { &*REGISTERED.data_ptr() };
    let registered = all.iter().find(|one| one.is_for(directory))?;
    registered.child.as_ref().map(|(owner, _)| *owner)
}

/// After a fork, in the parent: only the child keeps the child's byte.
pub(crate) fn after_in_parent() {
    fd::after_in_parent();
    // SAFETY: as in `child_owner`: the table is locked in this thread.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    for (_, life) in all.iter_mut().filter_map(|registered| registered.child.take()) {
        life.end();
    }
    // SAFETY: `register_child` locked it in this thread.
    unsafe { REGISTERED.force_unlock() };
}

/// After a fork, in the child: it is who its parent said. Allocates nothing.
pub(crate) fn after_in_child() {
    fd::after_in_child();
    // SAFETY: as in `child_owner`: the table is locked in this thread, and there is no other.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    for registered in all.iter_mut() {
        let pid = u64::from(std::process::id());
        let child = registered.child.take();
        registered.own =
            child.map(|(one, life)| (Owner { info: one.info & !PID | pid, ..one }, life));
        // The parent's pages are not in this process: nothing to unmap.
        registered.own.as_ref().inspect(|(_, life)| life.keep_from_children());
    }
    free_in_child(&REGISTERED);
}

/// This process in that directory's registry, if it has registered.
pub(crate) fn registered(directory: &Directory) -> Option<Owner> {
    let all = REGISTERED.lock();
    all.iter().find(|one| one.is_for(directory))?.own.as_ref().map(|(owner, _)| *owner)
}
