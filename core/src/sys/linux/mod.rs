//! The Linux backend: files in a tmpfs, held by open-file-description locks.
//!
//! A hold is a shared lock on byte 0 of the segment's file. The lock belongs to the open
//! file description, which the mapping keeps alive after the descriptor is closed: so a
//! process keeps no descriptor for an array, nothing that closes descriptors can drop the
//! hold, and the kernel drops it when the mapping goes, however the process ends. A forked
//! child has the mapping and with it the hold. Who can take the lock exclusively knows that
//! nobody holds the segment, and gives it back.
//!
//! What a crash leaves at each step:
//!
//! | step | a crash after it leaves | given back by |
//! |---|---|---|
//! | create: open `O_TMPFILE`, lock, reserve, map, write the header | a file without a name | the kernel |
//! | create: link the id | a segment that nobody holds | any sweep |
//! | create: link the name | the same, with a name | any sweep, or the next create of that name |
//! | attach: open, lock, check, map, close | nothing | the kernel |
//! | give back: lock exclusively | nothing; the lock is gone | any sweep |
//! | give back: DEAD | a segment that refuses to be attached | any sweep |
//! | give back: unlink the name, unlink the id | the same, or memory that the kernel frees | any sweep |
//!
//! An attach that finds the exclusive lock taken waits for it: a message may hold the segment, and
//! who sweeps finds that out. The wait is for a few system calls of another process, or its death.

mod descriptor;
mod directory;
mod huge;
mod links;
mod lock;
mod map;
mod registry;
pub(crate) mod socket;

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use descriptor::Descriptor;
pub(crate) use directory::Directory;
use directory::{NameLock, link_file};
pub(crate) use links::{link_ticket, sweep_tickets, unlink_ticket};
pub(crate) use map::Mapping;
use map::page_bytes;
pub(crate) use registry::{
    Identity, Lives, after_in_child, after_in_parent, before_fork, family_message, family_of, identity,
    identity_of_child, is_message, message, on_fork_and_exit, remake,
};

use super::{Access, Place};
use crate::error::{Error, Result};
use crate::format::{Header, MAGIC};
use crate::name::{ArrayName, SegmentId};
use crate::{lease, words};

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
    pub(crate) fn create(directory: Directory, id: &SegmentId, bytes: u64, mode: u32) -> Result<Self> {
        let (file, hidden) = create_unnamed(&directory, id).map_err(|error| or_full(error, &directory, bytes))?;
        let path = directory.segment_path(id);
        let created = Self { file, directory, path, bytes, is_writable: true, hidden };
        created.prepare(mode)?;
        Ok(created)
    }

    /// Holds the new file, gives it its mode and its memory.
    fn prepare(&self, mode: u32) -> Result<()> {
        let Self { file, directory, path, bytes, .. } = self;
        lock::try_shared(file).map_err(|error| Error::os("fcntl(F_OFD_SETLK)", path, error))?;
        if mode & 0o177 != 0 {
            // Asked for by the user: the umask does not cut it.
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
        lock::wait_shared(&file).map_err(|error| not_found("fcntl(F_OFD_SETLKW)", error))?;
        let facts = file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        if facts.nlink() == 0 {
            return Err(missing(&directory, place));
        }
        check_owner(place, &path, &facts)?;
        Ok(Self { file, directory, path, bytes: facts.len(), is_writable, hidden: None })
    }

    /// Size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
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

    /// Of a file that nobody can attach: no flag of it keeps a sweep from giving it back.
    pub(crate) fn clear_flags(&self) {
        let _ = self.file.write_all_at(&[0; 8], words::FLAGS_OFFSET);
    }

    /// Maps the whole file. The mapping carries the hold on when the file is closed.
    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        Mapping::new(self, access, header_bytes).map_err(|error| Error::os("mmap", &self.path, error))
    }

    /// Lets others see the segment by its id: whole, as it is now.
    pub(crate) fn publish(&self, id: &SegmentId) -> Result<()> {
        let path = self.directory.segment_path(id);
        let linked = link_file(&self.file, &path).map_err(|error| Error::os("linkat", &path, error));
        linked.map_err(|error| or_full(error, &self.directory, self.bytes))
    }

    /// Lets others see the segment by a name as well. A dead leftover of that name makes room.
    pub(crate) fn link_name(&self, name: &ArrayName) -> Result<()> {
        let path = self.directory.name_path(name);
        for attempt in 0..2 {
            match link_file(&self.file, &path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(or_full(Error::os("linkat", &path, error), &self.directory, self.bytes));
                }
                Err(_) if attempt == 0 => give_back_leftover(&self.directory, &path),
                Err(_) => break,
            }
        }
        Err(Error::NameExists { name: name.to_string(), directory: self.directory.path().to_owned() })
    }
}

impl File {
    /// Marks a segment that persists, if it still has its name: nobody takes that away meanwhile.
    pub(crate) fn mark_named(&self, name: &ArrayName, mark: impl FnOnce()) -> Result<()> {
        let path = self.directory.name_path(name);
        let facts = self.file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        let _lock = NameLock::take(&self.directory, name);
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

/// Unlinks a segment that has become dead by the caller's hand, and its name. `false` when somebody
/// who met it dead was faster.
pub(crate) fn discard(directory: &Directory, id: &SegmentId, name: Option<&ArrayName>) -> Result<bool> {
    let path = directory.segment_path(id);
    if let (Some(name), Ok(facts)) = (name, fs::symlink_metadata(&path)) {
        unlink_if_same(directory, name, &facts)?;
    }
    unlink_segment(&path)
}

fn unlink_segment(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::os("unlink", path, error)),
    }
}

/// Gives a segment back if nobody holds it and it need not persist. Returns its bytes.
pub(crate) fn give_back(directory: &Directory, id: &SegmentId) -> Result<Option<u64>> {
    let hidden = directory.hidden_path(id);
    if fs::symlink_metadata(directory.segment_path(id)).is_ok_and(|facts| is_same(&hidden, &facts)) {
        let _ = fs::remove_file(&hidden); // it has its id: its creator is about to do this, or died
    }
    match give_back_file(directory, id, &directory.segment_path(id))? {
        Some(bytes) => Ok(Some(bytes)),
        None => give_back_file(directory, id, &hidden),
    }
}

fn give_back_file(directory: &Directory, id: &SegmentId, path: &Path) -> Result<Option<u64>> {
    let Ok(file) = open_existing(path, Access::ReadWrite) else {
        return Ok(None); // gone already, or not ours to give
    };
    // First without its lock: while we have that, an attach must wait.
    if persists(&file) || !lock::is_unheld(&file) {
        return Ok(None);
    }
    let front = front(&file).unwrap_or_default();
    let header = Header::read("", &front, u64::MAX).ok().filter(|header| header.id == *id);
    if header.as_ref().is_some_and(|header| is_under_way(directory, &file, header)) {
        return Ok(None);
    }
    // The name's lock before the segment's, as in `unlink_name`.
    let name = header.as_ref().and_then(|header| header.name.as_ref());
    let _lock = name.map(|name| NameLock::take(directory, name));
    if !lock::try_exclusive(&file) || header.as_ref().is_some_and(|header| is_under_way(directory, &file, header)) {
        return Ok(None);
    }
    let facts = file.metadata().map_err(|error| Error::os("fstat", path, error))?;
    let name = name.map(|name| directory.name_path(name)).filter(|name| is_same(name, &facts));
    let more_links = facts.nlink() > 1 + u64::from(name.is_some());
    if facts.nlink() == 0 || more_links && links::has_tickets(directory, id) {
        return Ok(None); // gone already, or a message holds it
    }
    let _ = file.write_all_at(&lease::DEAD.to_le_bytes(), words::STATE_OFFSET); // a short file has no state
    if let Some(name) = name {
        fs::remove_file(&name).map_err(|error| Error::os("unlink", name, error))?;
    }
    Ok(unlink_segment(path)?.then_some(facts.blocks() * 512))
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
    let file = open_existing(&path, Access::ReadWrite).map_err(|error| Error::os("open", &path, error))?;
    for (offset, bytes) in parts {
        change(&file, *offset, *bytes).map_err(|error| full_or(directory, *bytes, &path, error))?;
    }
    Ok(())
}

/// Takes a name away. `before` is run first, while nobody else can change the name: what it
/// marks is marked before the name is gone. Returns the segment, held.
pub(crate) fn unlink_name(directory: &Directory, name: &ArrayName, before: impl FnOnce(&File)) -> Result<File> {
    let path = directory.name_path(name);
    let _lock = NameLock::take(directory, name);
    let file = File::open(directory.clone(), Place::Name(name), Access::ReadWrite)?;
    before(&file);
    fs::remove_file(&path).map_err(|error| Error::os("unlink", &path, error))?;
    Ok(file)
}

/// A file that nobody can find: unnamed, or where the file system has no such thing, hidden.
fn create_unnamed(directory: &Directory, id: &SegmentId) -> Result<(Descriptor, Option<PathBuf>)> {
    let path = directory.path();
    let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
    match Descriptor::open(|| options(Access::ReadWrite).mode(0o600).custom_flags(flags).open(path)) {
        Err(error) if directory::lacks_unnamed_files(&error) => {
            let hidden = directory.hidden_path(id);
            Ok((directory::create_hidden(&hidden)?, Some(hidden)))
        }
        unnamed => unnamed.map(|file| (file, None)).map_err(|error| Error::os("open(O_TMPFILE)", path, error)),
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
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && access != Access::ReadWrite => {
            open_existing(path, Access::ReadOnly).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

/// Never follows a link, never waits for a FIFO's other end.
fn open_existing(path: &Path, access: Access) -> io::Result<Descriptor> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    Descriptor::open(|| options(access).custom_flags(flags).open(path))
}

/// Reserves every page now, so that touching one can never be a bus error.
fn reserve(directory: &Directory, file: &fs::File, path: &Path, bytes: u64) -> Result<()> {
    if bytes > directory.free_bytes()? {
        return Err(full_or(directory, bytes, path, io::Error::from_raw_os_error(libc::ENOSPC)));
    }
    if huge::are_offered(directory, bytes) && huge::populate(file, bytes).is_ok() {
        return Ok(());
    }
    map::reserve(file, bytes).map_err(|error| full_or(directory, bytes, path, error))
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

/// Noise does not persist: only a segment says that it does.
fn persists(file: &fs::File) -> bool {
    let mut front = [0; words::FLAGS_OFFSET as usize + 8];
    let read = file.read_exact_at(&mut front, 0).is_ok();
    read && front.starts_with(&MAGIC) && front[words::FLAGS_OFFSET as usize] & words::PERSIST as u8 != 0
}

/// What [`Header::read`] needs of an open file.
fn front(file: &fs::File) -> Result<Vec<u8>> {
    let failed = |error| Error::os("pread", "", error);
    let bytes = file.metadata().map_err(failed)?.len();
    let read = |count: u64| {
        let mut front = vec![0; count.min(bytes) as usize];
        let read = file.read_exact_at(&mut front, 0);
        read.map(|()| front).map_err(failed)
    };
    let first = read(crate::format::PAGE_BYTES)?;
    read(Header::bytes_needed("", &first, bytes)?)
}

/// Whether a message holds a segment that nobody maps: no process can.
fn is_under_way(directory: &Directory, file: &fs::File, header: &Header) -> bool {
    let mut front = vec![0; header.header_bytes as usize];
    if file.read_exact_at(&mut front, 0).is_err() {
        return false; // cut short meanwhile: nobody can attach it
    }
    let mut messages = header.entries(&front).filter(|entry| entry.held && is_message(entry.about)).peekable();
    if messages.peek().is_none() {
        return false;
    }
    let lives = Lives::look(directory);
    messages.any(|entry| lives.as_ref().is_none_or(|lives| !lives.is_void(entry.holder, entry.about)))
}

fn is_same(path: &Path, facts: &fs::Metadata) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (facts.dev(), facts.ino()))
}

/// Removes a name if it still leads to that file. The lock keeps a new array of that name out.
fn unlink_if_same(directory: &Directory, name: &ArrayName, facts: &fs::Metadata) -> Result<()> {
    let path = directory.name_path(name);
    let _lock = NameLock::take(directory, name);
    match is_same(&path, facts) {
        true => fs::remove_file(&path).map_err(|error| Error::os("unlink", &path, error)),
        false => Ok(()),
    }
}

fn give_back_leftover(directory: &Directory, path: &Path) {
    let Ok(file) = open_existing(path, Access::ReadOnly) else { return };
    let header = front(&file).and_then(|front| Header::read("", &front, u64::MAX));
    drop(file);
    if let Ok(header) = header {
        let _ = give_back(directory, &header.id); // held: the caller finds the name taken and says so
    }
}
