//! A segment's file: made without a name, published whole, opened and held.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::directory::{self, Directory, link_file};
use super::fd::Fd;
use super::give_back::{give_back_named, is_same};
use super::lock::{self, Patience};
use super::map::Mapping;
use super::name_lock::NameLock;
use super::open::{create_unnamed, open_for};
use super::pages;
use super::reserve::{or_full, reserve};
use crate::error::{Error, Result};
use crate::name::{ArrayName, SegmentId};
use crate::sys::{Access, Lookup};

/// A segment's file, open and held.
pub(crate) struct SegmentFile {
    file: Fd,
    directory: Directory,
    path: PathBuf,
    bytes: u64,
    /// Another user may have let us read only.
    is_writable: bool,
    /// Where it was made, if that was under a name; goes away with this.
    hidden: Option<PathBuf>,
}

impl SegmentFile {
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
    pub(crate) fn open(directory: Directory, lookup: Lookup<'_>, access: Access) -> Result<Self> {
        let path = match lookup {
            Lookup::Id(id) => directory.segment_path(id),
            Lookup::Name(name) => directory.name_path(name),
        };
        let not_found = |call, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => missing(&directory, lookup),
            _ => Error::os(call, &path, error),
        };
        let opened = open_for(&path, access);
        let (file, is_writable) = opened.map_err(|error| not_found("open", error))?;
        let facts = file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        if facts.nlink() == 0 {
            return Err(missing(&directory, lookup));
        }
        check_owner(lookup, &path, &facts)?;
        lock::try_shared(&file).map_err(|error| Error::os("fcntl(F_OFD_SETLK)", &path, error))?;
        Ok(Self { file, directory, path, bytes: facts.len(), is_writable, hidden: None })
    }

    /// The file of a segment if it is this user's: nobody maps a stranger's unasked.
    pub(crate) fn open_own(directory: &Directory, id: &SegmentId) -> Result<Option<Self>> {
        match Self::open(directory.clone(), Lookup::Id(id), Access::ReadWrite) {
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

    /// Whether [`SegmentFile::write_at`] works, and is faster than stores to the mapped file.
    pub(crate) fn takes_writes(&self) -> bool {
        !self.directory.is_huge()
    }

    /// Writes bytes that may change meanwhile.
    pub(crate) fn write_at(&self, offset: u64, bytes: *const u8, count: usize) -> io::Result<()> {
        pages::write_at(&self.file, offset, bytes, count)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the whole file. The mapping carries the hold on when the file is closed.
    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        let Self { file, directory, bytes, is_writable, .. } = self;
        Mapping::new(file, directory, *bytes, *is_writable, access, header_bytes)
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

impl SegmentFile {
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

impl Drop for SegmentFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_file(hidden); // a sweep may have been there first
        }
    }
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
    before: impl FnOnce(&SegmentFile) -> Result<()>,
) -> Result<SegmentFile> {
    let path = directory.name_path(name);
    let _lock = NameLock::take(directory, name, Patience::Much)?;
    let file = SegmentFile::open(directory.clone(), Lookup::Name(name), Access::ReadWrite)?;
    before(&file)?;
    fs::remove_file(&path).map_err(|error| Error::os("unlink", &path, error))?;
    Ok(file)
}

/// An id finds what its owner shares by mode; a name finds only what is our own, since
/// anybody can put a name into a directory that all users share.
fn check_owner(lookup: Lookup<'_>, path: &Path, facts: &fs::Metadata) -> Result<()> {
    let (owner, user, mode) = (facts.uid(), directory::user(), facts.mode() & 0o777);
    let shared = matches!(lookup, Lookup::Id(_)) && mode & 0o066 != 0;
    if owner != user && !shared {
        return Err(Error::NotOwner { path: path.to_owned(), owner, user, mode });
    }
    match facts.is_file() {
        true => Ok(()),
        false => Err(Error::InvalidSegment {
            segment: lookup.to_string(),
            field: "type",
            expected: "a regular file".to_owned(),
            found: format!("mode {:o}", facts.mode()),
        }),
    }
}

fn missing(directory: &Directory, lookup: Lookup<'_>) -> Error {
    let directory = directory.path().to_owned();
    match lookup {
        Lookup::Id(id) => Error::SegmentNotFound { segment: id.to_string(), directory },
        Lookup::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
    }
}
