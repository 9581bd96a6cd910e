//! The Linux backend: files in a tmpfs, held by open-file-description locks.
//!
//! A hold is a shared lock on byte 0 of the segment's file. The lock belongs to the open
//! file description, which the mapping keeps alive after the descriptor is closed: so a
//! process keeps no descriptor for an array, nothing that closes descriptors can drop the
//! hold, and the kernel drops it when the mapping goes, however the process ends. A forked
//! child has the mapping and with it the hold. Nobody of this library takes the lock exclusively:
//! `give_back` asks the kernel whether anybody has it.
//!
//! What a crash leaves at each step:
//!
//! | step | a crash after it leaves | given back by |
//! |---|---|---|
//! | create: open `O_TMPFILE`, lock, reserve, map, write the header | a file without a name | the kernel |
//! | create: link the id | a segment that nobody holds | any sweep |
//! | create: link the name | the same, with a name | any sweep, or the next create of that name |
//! | attach: open, lock, check, map, close | nothing | the kernel |
//! | give back: CLOSING | a segment that the next who attaches makes LIVE again | any sweep |
//! | give back: DEAD | a segment that refuses to be attached | any sweep |
//! | give back: unlink the name, unlink the id | the same, or memory that the kernel frees | any sweep |

mod descriptor;
mod directory;
pub(crate) mod fork;
mod give_back;
mod huge;
mod links;
mod lock;
mod map;
mod memory_file;
mod mutex;
pub(crate) mod operations;
mod registry;
mod scratch;
mod shared_words;
pub(crate) mod socket;

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use descriptor::{Descriptor, without_fork};
pub(crate) use directory::Directory;
use directory::{NameLock, link_file};
pub(crate) use fork::is_orphaned;
pub(crate) use give_back::{discard, give_back, is_none_of_ours, sweep_names};
use give_back::{give_back_named, is_same};
pub(crate) use links::{link_ticket, sweep_tickets, unlink_ticket};
use lock::Patience;
pub(crate) use map::Mapping;
use map::page_bytes;
pub(crate) use memory_file::{memory_file, read_memory_file};
pub(crate) use mutex::{Mutex, MutexGuard};
pub(crate) use registry::{
    Dead, Identity, Lives, family_message, family_of, identity, is_message, keep_family,
    leave_rolls, look_for_dead, message, note_user,
};
pub(crate) use shared_words::SharedWords;

use super::{Access, Place};
use crate::error::{Error, Result};
use crate::name::{ArrayName, SegmentId};

/// A segment's file, open and held.
pub(crate) struct File {
    file: Descriptor,
    directory: Directory,
    path: PathBuf,
    bytes: u64,
    /// Another user may have let us read only.
    is_writable: bool,
    /// Where it was made, if that was under a name; goes away with this.
    hidden: Option<PathBuf>,
}

impl File {
    /// A file of `bytes` zeros that has no name yet.
    pub(crate) fn create(
        directory: Directory,
        id: &SegmentId,
        bytes: u64,
        mode: u32,
    ) -> Result<Self> {
        loop {
            let unnamed =
                create_unnamed(&directory, id).map_err(|error| or_full(error, &directory, bytes));
            let (file, hidden) = unnamed?;
            let (directory, path) = (directory.clone(), directory.segment_path(id));
            let created = Self { file, directory, path, bytes, is_writable: true, hidden };
            if created.hold()? {
                created.prepare(mode)?;
                return Ok(created);
            }
        }
    }

    /// Holds the new file. `false` when it had a name and a sweep was faster, which took it for a
    /// dead creator's.
    fn hold(&self) -> Result<bool> {
        match lock::try_shared(&self.file) {
            Ok(()) => Ok(self.hidden.is_none() || self.links() > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.hidden.is_some() => {
                Ok(false)
            }
            Err(error) => Err(Error::os("fcntl(F_OFD_SETLK)", &self.path, error)),
        }
    }

    /// Gives the new file its mode and its memory.
    fn prepare(&self, mode: u32) -> Result<()> {
        let Self { file, directory, path, bytes, .. } = self;
        let made = file.metadata().map_err(|error| Error::os("fstat", path, error))?.mode() & 0o777;
        if made != mode & 0o777 {
            // The umask does not cut what was asked for, nor what is the user's own.
            let permissions = fs::Permissions::from_mode(mode);
            file.set_permissions(permissions).map_err(|error| Error::os("fchmod", path, error))?;
        }
        reserve(directory, file, path, *bytes)
    }

    /// Opens without following links, holds, and checks that it is there, whole and ours.
    pub(crate) fn open(directory: Directory, place: Place<'_>, access: Access) -> Result<Self> {
        let path = match place {
            Place::Id(id) => directory.segment_path(id),
            Place::Name(name) => directory.name_path(name),
        };
        let not_found = |call, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => missing(&directory, place),
            _ => Error::os(call, &path, error),
        };
        let opened = open_for(&path, access);
        let (file, is_writable) = opened.map_err(|error| not_found("open", error))?;
        let facts = file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        if facts.nlink() == 0 {
            return Err(missing(&directory, place));
        }
        check_owner(place, &path, &facts)?;
        lock::try_shared(&file).map_err(|error| Error::os("fcntl(F_OFD_SETLK)", &path, error))?;
        Ok(Self { file, directory, path, bytes: facts.len(), is_writable, hidden: None })
    }

    /// The file of a segment if it is this user's: nobody maps a stranger's unasked.
    pub(crate) fn open_own(directory: &Directory, id: &SegmentId) -> Result<Option<Self>> {
        match Self::open(directory.clone(), Place::Id(id), Access::ReadWrite) {
            Ok(file) if file.file.metadata().is_ok_and(|facts| directory::is_own(&facts)) => {
                Ok(Some(file))
            }
            Ok(_) | Err(Error::NotOwner { .. } | Error::InvalidSegment { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the file has of memory, in bytes.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |facts| facts.blocks() * 512)
    }

    /// Whether anybody else holds the file.
    pub(crate) fn is_held(&self) -> bool {
        !lock::is_unheld(&self.file)
    }

    /// How many names the file has.
    pub(crate) fn links(&self) -> u64 {
        self.file.metadata().map_or(1, |facts| facts.nlink())
    }

    /// A copy of the first `bytes` bytes, or of all when the file is shorter.
    pub(crate) fn read_front(&self, bytes: u64) -> Result<Vec<u8>> {
        let mut front = vec![0; bytes.min(self.bytes) as usize];
        let read = self.file.read_exact_at(&mut front, 0);
        read.map_err(|error| Error::os("pread", &self.path, error))?;
        Ok(front)
    }

    /// Whether [`File::write_at`] works, and is faster than stores to the mapped file.
    pub(crate) fn takes_writes(&self) -> bool {
        !self.directory.is_huge()
    }

    /// Writes bytes that may change meanwhile.
    pub(crate) fn write_at(&self, offset: u64, bytes: *const u8, count: usize) -> io::Result<()> {
        map::write_at(&self.file, offset, bytes, count)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the whole file. The mapping carries the hold on when the file is closed.
    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        Mapping::new(self, access, header_bytes)
            .map_err(|error| Error::os("mmap", &self.path, error))
    }

    /// Lets others see the segment by its id: whole, as it is now.
    pub(crate) fn publish(&self, id: &SegmentId) -> Result<()> {
        let path = self.directory.segment_path(id);
        let linked =
            link_file(&self.file, &path).map_err(|error| Error::os("linkat", &path, error));
        linked.map_err(|error| or_full(error, &self.directory, self.bytes))
    }

    /// Lets others see the segment by a name as well. A dead leftover of that name makes room.
    pub(crate) fn link_name(&self, name: &ArrayName) -> Result<()> {
        let path = self.directory.name_path(name);
        for attempt in 0..2 {
            match link_file(&self.file, &path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(or_full(
                        Error::os("linkat", &path, error),
                        &self.directory,
                        self.bytes,
                    ));
                }
                Err(_) if attempt == 0 => {
                    let _ = give_back_named(&self.directory, name); // held: found taken again, and said so
                }
                Err(_) => break,
            }
        }
        Err(Error::NameExists {
            name: name.to_string(),
            directory: self.directory.path().to_owned(),
        })
    }
}

impl File {
    /// Marks a segment that persists, if it still has its name: nobody takes that away meanwhile.
    pub(crate) fn mark_named(&self, name: &ArrayName, mark: impl FnOnce()) -> Result<()> {
        let path = self.directory.name_path(name);
        let facts = self.file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        let _lock = NameLock::take(&self.directory, name, Patience::Much)?;
        if is_same(&path, &facts) {
            mark();
        }
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_file(hidden); // a sweep may have been there first
        }
    }
}

/// Nanoseconds of the system's monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// How many mappings the kernel lets this process have.
pub(crate) fn most_mappings() -> usize {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let most = MOST.load(Ordering::Relaxed);
    if most > 0 {
        return most;
    }
    let told = without_fork(|| fs::read_to_string("/proc/sys/vm/max_map_count"));
    let most = told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530); // what Linux begins with
    MOST.store(most, Ordering::Relaxed);
    most
}

/// Nanoseconds that this thread has worked.
pub(crate) fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[allow(unsafe_code)]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the answer; both clocks are always there.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives the memory of a part of a segment back; what was there is zero from then on.
pub(crate) fn punch(directory: &Directory, id: &SegmentId, parts: &[(u64, u64)]) -> Result<()> {
    at_parts(directory, id, parts, map::punch)
}

/// Reserves memory that was given back.
pub(crate) fn reserve_again(directory: &Directory, id: &SegmentId, part: (u64, u64)) -> Result<()> {
    at_parts(directory, id, &[part], map::reserve_part)
}

fn at_parts(
    directory: &Directory,
    id: &SegmentId,
    parts: &[(u64, u64)],
    change: impl Fn(&fs::File, u64, u64) -> io::Result<()>,
) -> Result<()> {
    let path = directory.segment_path(id);
    let file =
        open_existing(&path, Access::ReadWrite).map_err(|error| Error::os("open", &path, error))?;
    for (offset, bytes) in parts {
        change(&file, *offset, *bytes).map_err(|error| full_or(directory, *bytes, &path, error))?;
    }
    Ok(())
}

/// Whether an id leads to a file.
pub(crate) fn is_found(directory: &Directory, id: &SegmentId) -> bool {
    fs::symlink_metadata(directory.segment_path(id)).is_ok()
}

/// Whether a process of this user finds it by its id.
pub(crate) fn is_findable(directory: &Directory, id: &SegmentId) -> bool {
    fs::symlink_metadata(directory.segment_path(id))
        .is_ok_and(|facts| facts.uid() == directory::user())
}

/// Takes a name away. `before` is run first, while nobody else can change the name: what it
/// marks is marked before the name is gone. Returns the segment, held.
pub(crate) fn unlink_name(
    directory: &Directory,
    name: &ArrayName,
    before: impl FnOnce(&File) -> Result<()>,
) -> Result<File> {
    let path = directory.name_path(name);
    let _lock = NameLock::take(directory, name, Patience::Much)?;
    let file = File::open(directory.clone(), Place::Name(name), Access::ReadWrite)?;
    before(&file)?;
    fs::remove_file(&path).map_err(|error| Error::os("unlink", &path, error))?;
    Ok(file)
}

/// A file that nobody can find: unnamed, or where the file system has no such thing, hidden.
fn create_unnamed(directory: &Directory, id: &SegmentId) -> Result<(Descriptor, Option<PathBuf>)> {
    let path = directory.path();
    let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
    match Descriptor::open(|| options(Access::ReadWrite).mode(0o600).custom_flags(flags).open(path))
    {
        Err(error) if directory::lacks_unnamed_files(&error) => {
            let hidden = directory.hidden_path(id);
            Ok((directory::create_hidden(&hidden)?, Some(hidden)))
        }
        unnamed => unnamed
            .map(|file| (file, None))
            .map_err(|error| Error::os("open(O_TMPFILE)", path, error)),
    }
}

fn options(access: Access) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(access == Access::ReadWrite);
    options
}

/// A reader, too, enters himself in the header, where he may. Says whether it can be written.
fn open_for(path: &Path, access: Access) -> io::Result<(Descriptor, bool)> {
    match open_existing(path, Access::ReadWrite) {
        Err(error) if is_for_readers(&error) && access != Access::ReadWrite => {
            open_existing(path, Access::ReadOnly).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

/// It may be read: another user's, or in a mount for readers.
fn is_for_readers(error: &io::Error) -> bool {
    [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem].contains(&error.kind())
}

/// Never follows a link, never waits for a FIFO's other end.
fn open_existing(path: &Path, access: Access) -> io::Result<Descriptor> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    Descriptor::open(|| options(access).custom_flags(flags).open(path))
}

/// Reserves every page now, so that touching one can never be a bus error.
fn reserve(directory: &Directory, file: &fs::File, path: &Path, bytes: u64) -> Result<()> {
    let limit_bytes = map::file_limit();
    if bytes > limit_bytes {
        return Err(Error::FileTooLarge { asked_bytes: bytes, limit_bytes }); // the kernel would send SIGXFSZ
    }
    if bytes > directory.free_bytes()? {
        return Err(full_or(directory, bytes, path, io::Error::from_raw_os_error(libc::ENOSPC)));
    }
    let done = if huge::are_offered(directory, bytes) {
        huge::populate(file, bytes, thread_ns)
    } else {
        0
    };
    map::reserve_part(file, done, bytes - done)
        .map_err(|error| full_or(directory, bytes, path, error))
}

/// Where no more files can be made the file system is full, too.
fn or_full(error: Error, directory: &Directory, asked_bytes: u64) -> Error {
    match error {
        Error::Os { path, source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
            full_or(directory, asked_bytes, &path, source)
        }
        error => error,
    }
}

fn full_or(directory: &Directory, asked_bytes: u64, path: &Path, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EFBIG | libc::EDQUOT) => {
            let free_bytes = directory.free_bytes().unwrap_or(0);
            Error::NoSpace { asked_bytes, free_bytes, directory: directory.path().to_owned() }
        }
        _ => Error::os("fallocate", path, error),
    }
}

/// An id finds what its owner shares by mode; a name finds only what is our own, since
/// anybody can put a name into a directory that all users share.
fn check_owner(place: Place<'_>, path: &Path, facts: &fs::Metadata) -> Result<()> {
    let (owner, user, mode) = (facts.uid(), directory::user(), facts.mode() & 0o777);
    let shared = matches!(place, Place::Id(_)) && mode & 0o066 != 0;
    if owner != user && !shared {
        return Err(Error::NotOwner { path: path.to_owned(), owner, user, mode });
    }
    match facts.is_file() {
        true => Ok(()),
        false => Err(Error::InvalidSegment {
            segment: place.to_string(),
            field: "type",
            expected: "a regular file".to_owned(),
            found: format!("mode {:o}", facts.mode()),
        }),
    }
}

fn missing(directory: &Directory, place: Place<'_>) -> Error {
    let directory = directory.path().to_owned();
    match place {
        Place::Id(id) => Error::SegmentNotFound { segment: id.to_string(), directory },
        Place::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
    }
}
