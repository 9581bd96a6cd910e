//! The registry: which owners of entries are alive. A file whose bytes are locked, with the process
//! list in it.
//!
//! A process is registered by a random byte below 2^52, locked exclusively. A mapping keeps the
//! lock, so that closing fds cannot release it. The mapping is not inherited. A forked child gets a
//! byte of its own, which the parent locks for it before the fork (I1), so that the child holds
//! what its parent held from its first instruction on. The family's lock has another mapping, which
//! children do inherit; the exit removes it first, and finds what the family's last process leaves.
//!
//! An entry's cookie says which inode its owner locked. If the registry is deleted and created
//! anew, the kernel can no longer be asked for locks on the old one. Such owners count as alive
//! (I2): processes until no process maps the segment, messages until they are received or
//! discarded. A process that finds its registry deleted registers in the new one (`find_dead`).
//!
//! | byte | lock | kept by | stands for |
//! |---|---|---|---|
//! | 1 … 2^52 − 1, random | exclusive | a process's mapping | a process |
//! | 1 … 2^52 − 1, random | exclusive | an fd in the message (`SCM_RIGHTS`) | a message in a pipe |
//! | 2^52 + f·2^32, f random | shared | a mapping that forked children inherit | family f |
//! | the same | shared | a mapping in each process that has a channel open | the channel's family |
//!
//! A message that is sent out of band has a ticket 2^52 + f·2^32 + r, which lives as long as family
//! f.
#![allow(unsafe_code)] // the table in a forked child

mod file;
mod lock_mapping;
mod process_list;
mod owner;
mod family;

use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustc_hash::FxHashMap;

use super::clock::{monotonic_ns, thread_ns};
use super::directory::{Directory, user};
use super::fd;
use super::lock;
use super::mmap;
use super::mutex::{Mutex, MutexGuard, free_in_child};
use super::trial::is_usable;
use crate::system::shortage::or_after_relief;
use crate::value::error::{Error, Result};
use crate::value::name::random_bits;
pub(crate) use family::{FamilyLock, family_of};
use family::{family, lock_family, lock_own_family};
use file::Registry;
use lock_mapping::LockMapping;
use owner::{FAMILY_MESSAGE, LOCK, MESSAGE, PID, lock_new_byte, register};
pub(crate) use owner::{Owner, has_exited, is_message, is_same_registry};

/// This process's registration in the registry of one directory and user.
struct Registered {
    directory: Directory,
    user: u32,
    /// The registry's path.
    path: CString,
    /// `None` in a child whose byte could not be locked: its holds are lock-only until it gets one.
    own: Option<(Owner, LockMapping)>,
    /// The locks of this process's family: one for each registry that there was, until the exit.
    families: Vec<FamilyLock>,
    /// The child's registration, from the preparation of a fork to its end.
    child: Option<(Owner, LockMapping)>,
    /// The registry, open while a fork is prepared.
    opened: Option<Registry>,
}

impl Registered {
    /// Returns a registry of this process's user, in which the process has not registered.
    fn new(directory: Directory, path: CString) -> Self {
        let user = USER.load(Ordering::Relaxed);
        let own = None;
        let families = Vec::new();
        Self { directory, user, path, own, families, child: None, opened: None }
    }

    /// Whether this registration is for that directory and this process's user.
    fn is_for(&self, directory: &Directory) -> bool {
        self.directory.path() == directory.path() && self.user == USER.load(Ordering::Relaxed)
    }
}

/// This process's user when `refresh_user` last asked: a daemon starts as root and becomes another
/// user.
static USER: AtomicU32 = AtomicU32::new(u32::MAX);

/// Asks for this process's user again. Holds that it already has stay registered for the earlier
/// user.
pub(crate) fn refresh_user() {
    USER.store(user(), Ordering::Relaxed);
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// Returns this process as the owner of entries in that directory, or `None` if the registry cannot
/// be opened or locked: then this process's holds are lock-only.
pub(crate) fn process_owner(directory: &Directory) -> Option<Owner> {
    process_owner_or_error(directory).ok()
}

/// Registers this process if it is not registered. The page of the registry is mapped under a lock,
/// under which nothing is given up.
fn process_owner_or_error(directory: &Directory) -> Result<Owner> {
    or_after_relief(|| find_or_register(directory))
}

fn find_or_register(directory: &Directory) -> Result<Owner> {
    let mut all = REGISTERED.lock();
    if USER.load(Ordering::Relaxed) == u32::MAX {
        refresh_user();
    }
    let at = all.iter().position(|one| one.is_for(directory));
    if let Some(own) = at.and_then(|at| all[at].own.as_ref()) {
        return Ok(own.0);
    }
    is_usable(directory)?;
    family()?; // stored now, so that a fork need not choose it
    let used = at.map(|at| all[at].path.clone());
    let (registry, path) = file::open(directory, used)?;
    let at_path = |(call, error)| Error::os(call, path_of(&path), error);
    let family = lock_own_family(&registry, &path).map_err(at_path)?;
    let (owner, lock_mapping) = register(&registry).map_err(at_path)?;
    lock_mapping.exclude_from_forks();
    mmap::keep_spare();
    let at = at.unwrap_or_else(|| {
        all.push(Registered::new(directory.clone(), path.clone()));
        all.len() - 1
    });
    all[at].path = path;
    all[at].own = Some((owner, lock_mapping));
    all[at].families.push(family);
    Ok(owner)
}

/// Opens this user's registry; creates it if there is none.
pub(super) fn open(directory: &Directory) -> Result<Registry> {
    file::open(directory, used_path(directory)).map(|(registry, _)| registry)
}

/// Returns the path of the registry that this process has registered in or found, so that nobody
/// has to search for it again.
fn used_path(directory: &Directory) -> Option<CString> {
    let all = REGISTERED.lock();
    all.iter().find(|one| one.is_for(directory)).map(|one| one.path.clone())
}

/// Finds this user's registry, and remembers one that had to be searched for.
fn find(directory: &Directory) -> Option<Registry> {
    let used = used_path(directory);
    let (registry, path) = file::find(directory, used.as_deref())?;
    if path.is_some() && path != used {
        remember(directory, path?);
    }
    Some(registry)
}

/// Stores the path of a registry that this process is not registered in.
fn remember(directory: &Directory, path: CString) {
    let mut all = REGISTERED.lock();
    if USER.load(Ordering::Relaxed) == u32::MAX {
        refresh_user();
    }
    match all.iter_mut().find(|one| one.is_for(directory)) {
        Some(one) if one.own.is_none() => one.path = path,
        Some(_) => {} // the path is that of its own registration
        None => all.push(Registered::new(directory.clone(), path)),
    }
}

fn not_locked(directory: &Directory) -> impl FnOnce(io::Error) -> Error + use<'_> {
    |error| Error::os(LOCK, directory.path(), error)
}

/// Returns a registry's path for an error.
fn path_of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Returns the ticket of a message in a pipe, and the fd that keeps it alive and travels with it.
pub(crate) fn message(directory: &Directory) -> Result<(Owner, OwnedFd)> {
    let registry = open(directory)?;
    let owner = lock_new_byte(&registry, MESSAGE).map_err(not_locked(directory))?;
    Ok((owner, registry.file.into_owned()))
}

/// Returns the ticket of a message that is sent out of band: one of this process's family.
///
/// # Errors
/// The same as for registration: a ticket that is in no registry would never expire.
pub(crate) fn family_message(directory: &Directory) -> Result<Owner> {
    let own = process_owner_or_error(directory)?;
    HAD_TICKETS.store(true, Ordering::Relaxed);
    let info = (own.cookie() << 40) | (FAMILY_MESSAGE << 32) | u64::from(std::process::id());
    Ok(Owner { id: family()? | (random_bits()? >> 32).max(1), info })
}

/// Returns a ticket of the family of a channel, whose number is below 2^20.
///
/// # Errors
/// As for [`family_message`].
pub(crate) fn ticket_of(directory: &Directory, channel: u64) -> Result<Owner> {
    let own = process_owner_or_error(directory)?;
    let info = (own.cookie() << 40) | (FAMILY_MESSAGE << 32) | u64::from(std::process::id());
    Ok(Owner { id: family::of_channel(channel) | (random_bits()? >> 32).max(1), info })
}

impl FamilyLock {
    /// Locks the byte of a channel's family.
    pub(crate) fn new(directory: &Directory, channel: u64) -> Result<Self> {
        process_owner_or_error(directory)?;
        let locked = Self::of_channel(&open(directory)?, channel);
        locked.map_err(|(call, error)| Error::os(call, directory.path(), error))
    }
}

/// Returns this process's family and an fd that keeps it alive in whatever process has the fd.
pub(crate) fn keep_family(directory: &Directory) -> Result<(u64, OwnedFd)> {
    process_owner_or_error(directory)?; // makes this process a member of the family
    HAD_TICKETS.store(true, Ordering::Relaxed);
    let registry = open(directory)?;
    lock_family(&registry.file).map_err(not_locked(directory))?;
    Ok((family()?, registry.file.into_owned()))
}

/// A view of which owners are alive. It asks the kernel once for each owner, and looks for a
/// registry once, when it is first needed. Without one all owners count as alive.
pub(crate) struct Liveness {
    directory: Directory,
    registry: OnceCell<Option<Registry>>,
    /// The registry that this process is registered in, if that is another one.
    own: OnceCell<Option<Registry>>,
    /// Further registries of this user, opened when an entry's cookie names one.
    others: OnceCell<Vec<Registry>>,
    always_looks: bool,
    /// Another user, whose processes the owners are.
    other_user: Option<u32>,
    seen: RefCell<FxHashMap<(u64, u64), bool>>,
}

impl Liveness {
    /// Returns a view for one operation. Owners in further registries may count as alive: to find
    /// those takes a search of the directory, which may take only a part of a thread's time.
    pub(crate) fn of(directory: &Directory) -> Self {
        Self {
            directory: directory.clone(),
            registry: OnceCell::new(),
            own: OnceCell::new(),
            others: OnceCell::new(),
            always_looks: false,
            other_user: None,
            seen: RefCell::default(),
        }
    }

    /// Returns a view for an operation that reads the directory anyway.
    pub(crate) fn for_sweep(directory: &Directory) -> Self {
        Self { always_looks: true, ..Self::of(directory) }
    }

    /// Returns a view for a list of another user's segments.
    pub(crate) fn for_list(directory: &Directory, other_user: u32) -> Self {
        Self { other_user: Some(other_user), ..Self::of(directory) }
    }

    /// Whether there is a registry to ask.
    pub(crate) fn has_registry(&self) -> bool {
        self.registry().is_some()
    }

    /// Returns the registry in which new processes register, if there is one.
    fn registry(&self) -> Option<&Registry> {
        self.registry.get_or_init(|| find(&self.directory)).as_ref()
    }

    /// Whether that owner is known to be dead (I2).
    pub(crate) fn is_dead_owner(&self, owner: u64, info: u64) -> bool {
        let byte = family_of(owner).unwrap_or(owner);
        let cookie = info >> 40;
        if let Some(seen) = self.seen.borrow().get(&(cookie, byte)) {
            return *seen;
        }
        let is_dead_owner = self
            .registry_of(cookie)
            .is_some_and(|registry| lock::is_free_at(&registry.file, byte as i64));
        let mut seen = self.seen.borrow_mut();
        if seen.try_reserve(1).is_ok() {
            seen.insert((cookie, byte), is_dead_owner); // else the kernel is asked again
        }
        is_dead_owner
    }

    /// Returns the registry with that cookie, if it still exists.
    fn registry_of(&self, cookie: u64) -> Option<&Registry> {
        let is_it = |registry: &&Registry| registry.cookie == cookie;
        if let Some(user) = self.other_user {
            let all = || file::all_of_another(&self.directory, user);
            return self.others.get_or_init(all).iter().find(is_it);
        }
        let own = || {
            let open = || file::open_at_c(&used_path(&self.directory)?, false).ok();
            self.own.get_or_init(open).as_ref()
        };
        let others = || self.others.get_or_init(|| self.search()).iter().find(is_it);
        self.registry().filter(is_it).or_else(|| own().filter(is_it)).or_else(others)
    }

    /// Searches the directory for all registries of this user, unless it is too early to.
    fn search(&self) -> Vec<Registry> {
        let last = self.directory.last_look();
        let rest_ns = LOOKS_APART.saturating_mul(last.took_ns.load(Ordering::Relaxed));
        let due_ns = last.ended_ns.load(Ordering::Relaxed).saturating_add(rest_ns);
        // tests/crashes counts steps, so with its cfg the time must not decide.
        let is_due = cfg!(shmarray_steps) || self.always_looks || monotonic_ns() >= due_ns;
        if !is_due {
            return Vec::new();
        }
        let began = thread_ns();
        let all = file::all(&self.directory);
        last.took_ns.store(thread_ns() - began, Ordering::Relaxed);
        last.ended_ns.store(monotonic_ns(), Ordering::Relaxed);
        all
    }
}

/// The time between two searches of the directory for further registries is at least so many times
/// what the last one took: any user can put files there that have to be looked at.
const LOOKS_APART: u64 = 40;

/// Dead processes that are in the process list: segments that they held may still exist.
pub(crate) struct Dead {
    owners: Vec<u64>,
}

impl Dead {
    /// Removes the processes from the list. Everything that they held was given back. The view is
    /// the one that found them dead.
    pub(crate) fn remove_from_list(self, liveness: &Liveness) {
        let Some(registry) = liveness.registry() else { return };
        self.owners.iter().for_each(|owner| process_list::leave(&registry.file, *owner));
    }
}

/// The result of a check of the registry.
pub(crate) struct DeathCheck {
    pub(crate) dead: Option<Dead>,
    /// Whether this process's registry had been deleted, and the process has registered anew.
    pub(crate) was_deleted: bool,
}

/// Checks whether a process in the process list has died. This takes four system calls, and one for
/// each process in the list.
pub(crate) fn find_dead(directory: &Directory, liveness: &Liveness) -> DeathCheck {
    let own = registered(directory);
    let is_current = |own: &Owner| {
        liveness.registry().is_some_and(|registry| registry.cookie == own.cookie())
            || used_path(directory).is_none_or(|path| !file::is_gone(&path, own.cookie()))
    };
    let was_deleted = own.is_some_and(|own| !is_current(&own) && register_anew(directory, own));
    let Some(registry) = liveness.registry() else {
        return DeathCheck { dead: None, was_deleted };
    };
    let mut owners = process_list::owners(&registry.file);
    owners.retain(|owner| liveness.is_dead_owner(*owner, registry.cookie << 40));
    let dead = (!owners.is_empty()).then_some(Dead { owners });
    DeathCheck { dead, was_deleted }
}

/// Registers this process again after its registry was deleted. The page of the deleted file stays
/// mapped: its lock still answers processes that have that file open.
fn register_anew(directory: &Directory, own: Owner) -> bool {
    let mut all = REGISTERED.lock();
    if let Some(one) = all.iter_mut().find(|one| one.is_for(directory)) {
        one.own.take_if(|(owner, _)| owner.id == own.id);
    }
    drop(all);
    process_owner(directory).is_some()
}

/// Whether this process, a child or a program that it started may have made tickets of its family.
static HAD_TICKETS: AtomicBool = AtomicBool::new(false);

/// Leaves this process's family at an ordinary exit. Returns whether the family may have left
/// messages that nobody has received. They hold their arrays while another of its processes lives.
pub(crate) fn leave_family() -> bool {
    REGISTERED.lock().iter_mut().for_each(|one| one.families.clear());
    HAD_TICKETS.load(Ordering::Relaxed)
}

/// Removes this process from the process lists at an ordinary exit, when it leaves nothing behind.
pub(crate) fn leave_process_lists() {
    let own = |one: &Registered| Some((one.directory.clone(), one.own.as_ref()?.0));
    let all: Vec<_> = REGISTERED.lock().iter().filter_map(own).collect();
    for (directory, owner) in all {
        if let Ok(registry) = open(&directory) {
            process_list::leave(&registry.file, owner.id);
        }
    }
}

/// Locks a byte for the child in each registry, before a fork. The table stays locked until
/// `after_in_parent` or `after_in_child`. Allocates nothing: the signal handler that forks may have
/// interrupted the allocator.
pub(crate) fn register_child() {
    let mut all = REGISTERED.lock();
    HAD_TICKETS.fetch_or(!all.is_empty(), Ordering::Relaxed);
    for one in all.iter_mut() {
        one.opened = file::open_at_c(&one.path, true).ok();
        one.child = one.opened.as_ref().and_then(|registry| register(registry).ok());
    }
    MutexGuard::leak(all);
}

/// Whether an owner is dead according to this process's own registry. Called between
/// `register_child` and `close_opened`; allocates nothing.
pub(crate) fn is_known_dead(directory: &Directory, owner: u64, info: u64) -> bool {
    // SAFETY: no other thread may access the table; `register_child` locked it in this thread and
    // leaked the guard, so it stays locked.
    let all = unsafe { &*REGISTERED.data_ptr() };
    let opened = all.iter().find(|one| one.is_for(directory)).and_then(|one| one.opened.as_ref());
    let byte = family_of(owner).unwrap_or(owner) as i64;
    opened.is_some_and(|registry| {
        registry.cookie == info >> 40 && lock::is_free_at(&registry.file, byte)
    })
}

/// Closes the registries that `register_child` opened: no later step of the preparation needs one.
pub(crate) fn close_opened() {
    // SAFETY: no other reference to the table may exist; `register_child` locked it in this thread
    // and leaked the guard, and no earlier reference is in use.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    all.iter_mut().for_each(|one| drop(one.opened.take()));
}

/// Returns the child's owner between `register_child` and the fork (I1).
pub(crate) fn child_owner(directory: &Directory) -> Option<Owner> {
    // SAFETY: no other thread may access the table; `register_child` locked it in this thread, and
    // only `after_in_parent` or `after_in_child` unlocks it.
    let all = unsafe { &*REGISTERED.data_ptr() };
    let registered = all.iter().find(|one| one.is_for(directory))?;
    registered.child.as_ref().map(|(owner, _)| *owner)
}

/// Called in the parent after a fork: unmaps the child's byte, which only the child keeps from now
/// on.
pub(crate) fn after_in_parent() {
    fd::after_in_parent();
    // SAFETY: no other reference to the table may exist; `register_child` locked it in this thread,
    // and it is unlocked only at the end of this function.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    for (_, lock_mapping) in all.iter_mut().filter_map(|registered| registered.child.take()) {
        lock_mapping.unmap();
    }
    // SAFETY: this thread must hold the lock; `register_child` locked it in this thread and leaked
    // the guard, and `all` is not used any more.
    unsafe { REGISTERED.force_unlock() };
}

/// Called in the child after a fork: it becomes the owner that its parent registered. Allocates
/// nothing.
pub(crate) fn after_in_child() {
    fd::after_in_child();
    // SAFETY: no other reference to the table may exist; the forking thread locked it in
    // `register_child`, and a forked child has no other thread.
    let all = unsafe { &mut *REGISTERED.data_ptr() };
    for registered in all.iter_mut() {
        let pid = u64::from(std::process::id());
        let child = registered.child.take();
        registered.own = child.map(|(one, lock_mapping)| {
            (Owner { info: one.info & !PID | pid, ..one }, lock_mapping)
        });
        // The parent's page is not mapped in this process, so there is nothing to unmap.
        registered.own.as_ref().inspect(|(_, lock_mapping)| lock_mapping.exclude_from_forks());
    }
    free_in_child(&REGISTERED);
}

/// Returns this process as an owner in that directory, if it has registered.
pub(crate) fn registered(directory: &Directory) -> Option<Owner> {
    let all = REGISTERED.lock();
    all.iter().find(|one| one.is_for(directory))?.own.as_ref().map(|(owner, _)| *owner)
}
