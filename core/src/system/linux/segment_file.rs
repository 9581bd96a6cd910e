//! A segment's file: created without a name, published whole, opened and held.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::directory::{self, Directory, link_file};
use super::fd::Fd;
use super::lock::{self, Patience};
use super::map::Mapping;
use super::mmap;
use super::name_lock::NameLock;
use super::open::{check_owner, create_unnamed, not_opened, open_for};
use super::pages;
use super::reclaim::{is_one_file, is_same, read_front, reclaim_named, ticket_links_of};
use super::registry::Liveness;
use super::reserve::{no_space_if_full, no_space_or_os, reserve};
use crate::header::format::Header;
use crate::system::interface::{Access, Lookup};
use crate::system::shortage::check_headroom;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};

/// A segment's file, open and held.
pub(crate) struct SegmentFile {
    file: Fd,
    directory: Directory,
    path: PathBuf,
    bytes: u64,
    /// `false` if the file could be opened for reading only, such as another user's.
    is_writable: bool,
    /// The hidden path if the file was created under one; removed when this is dropped.
    hidden: Option<PathBuf>,
}

impl SegmentFile {
    /// Creates a file of `bytes` zeros that has no name yet. The memory of the first `reserved` is
    /// reserved now; [`SegmentFile::write_at`] must write the others before they are mapped.
    pub(crate) fn create(
        directory: Directory,
        id: &SegmentId,
        bytes: u64,
        reserved: u64,
        mode: u32,
    ) -> Result<Self> {
        check_headroom()?;
        // A file that takes no writes is reserved whole.
        let reserved = if directory.is_huge() { bytes } else { reserved };
        loop {
            let unnamed = create_unnamed(&directory, id)
                .map_err(|error| no_space_if_full(error, &directory, bytes));
            let (file, hidden) = unnamed?;
            let (directory, path) = (directory.clone(), directory.segment_path(id));
            let created = Self { file, directory, path, bytes, is_writable: true, hidden };
            if created.hold()? {
                created.prepare(reserved, mode)?;
                return Ok(created);
            }
        }
    }

    /// Holds the new file. Returns `false` if the file had a hidden path and a sweep removed it in
    /// the moment before it was held, as it would a dead creator's.
    fn hold(&self) -> Result<bool> {
        match lock::try_shared(&self.file) {
            Ok(()) => Ok(self.hidden.is_none() || self.is_linked()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.hidden.is_some() => {
                Ok(false)
            }
            Err(error) => Err(Error::os("fcntl(F_OFD_SETLK)", &self.path, error)),
        }
    }

    /// Whether the file has a name, as far as the kernel says.
    fn is_linked(&self) -> bool {
        self.file.metadata().map_or(true, |facts| facts.nlink() > 0)
    }

    /// Sets the new file's mode and reserves its memory.
    fn prepare(&self, reserved: u64, mode: u32) -> Result<()> {
        let Self { file, directory, path, bytes, .. } = self;
        let made = file.metadata().map_err(|error| Error::os("fstat", path, error))?.mode() & 0o777;
        if made != mode & 0o777 {
            // The umask must neither reduce the mode that was asked for nor the owner's own access.
            let permissions = fs::Permissions::from_mode(mode);
            file.set_permissions(permissions).map_err(|error| Error::os("fchmod", path, error))?;
        }
        reserve(directory, file, path, *bytes, reserved)
    }

    /// Opens a file without following links, holds it, and checks that it exists, is whole, and is
    /// this user's or shared with it.
    pub(crate) fn open(directory: Directory, lookup: Lookup<'_>, access: Access) -> Result<Self> {
        check_headroom()?;
        let path = match lookup {
            Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => directory.segment_path(id),
            Lookup::Name(name) => directory.name_path(name),
        };
        let not_found = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => missing(&directory, lookup),
            _ => not_opened(&path, error),
        };
        let (file, is_writable) = open_for(&path, access).map_err(not_found)?;
        let facts = file.metadata().map_err(|error| Error::os("fstat", &path, error))?;
        if facts.nlink() == 0 {
            return Err(missing(&directory, lookup));
        }
        check_owner(lookup, &path, &facts)?;
        lock::try_shared(&file).map_err(|error| Error::os("fcntl(F_OFD_SETLK)", &path, error))?;
        Ok(Self { file, directory, path, bytes: facts.len(), is_writable, hidden: None })
    }

    /// Opens a segment's file if it is this user's: another user's file is never mapped unasked.
    pub(crate) fn open_own(directory: &Directory, id: &SegmentId) -> Result<Option<Self>> {
        match Self::open(directory.clone(), Lookup::OwnId(id), Access::ReadWrite) {
            Ok(file) => Ok(Some(file)),
            Err(Error::NotOwner { .. } | Error::InvalidSegment { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory that the file occupies, in bytes.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |facts| facts.blocks() * 512)
    }

    /// The user whose file it is, if that is another than this process's.
    pub(crate) fn other_user(&self) -> Option<u32> {
        let facts = self.file.metadata().ok()?;
        (!directory::is_own(&facts)).then_some(facts.uid())
    }

    /// Whether another open file description holds the file.
    pub(crate) fn is_held(&self) -> bool {
        !lock::is_unheld(&self.file)
    }

    /// The number of links that hold the file for messages, and the file's inode.
    pub(crate) fn ticket_links(&self, header: &Header) -> (u64, u64) {
        let facts = self.file.metadata();
        facts
            .map_or((0, 0), |facts| (ticket_links_of(&self.directory, &facts, header), facts.ino()))
    }

    /// Whether an id leads to another file than this one.
    pub(crate) fn is_another_than(&self, id: &SegmentId) -> Result<bool> {
        let by_id = self.directory.segment_path(id);
        let there = match fs::symlink_metadata(&by_id) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Error::os("lstat", by_id, error)),
        };
        let here = self.file.metadata().map_err(|error| Error::os("fstat", &self.path, error))?;
        Ok(!is_one_file(&here, &there))
    }

    /// Returns a copy of the first `bytes` bytes, or of all if the file is shorter.
    pub(crate) fn read_front(&self, bytes: u64) -> Result<Vec<u8>> {
        let read = read_front(&self.file, bytes.min(self.bytes));
        read.map_err(|error| Error::os("pread", &self.path, error))
    }

    /// Whether [`SegmentFile::write_at`] works and is faster than stores to the mapped file.
    pub(crate) fn takes_writes(&self) -> bool {
        !self.directory.is_huge()
    }

    /// Writes memory that other threads may change meanwhile.
    pub(crate) fn write_at(&self, offset: u64, bytes: *const u8, count: usize) -> io::Result<()> {
        pages::write_at(&self.file, offset, bytes, count)
    }

    /// Returns why a write failed.
    pub(crate) fn write_error(&self, error: io::Error) -> Error {
        no_space_or_os(&self.directory, self.bytes, "pwrite", &self.path, error)
    }

    /// Maps the whole file. The mapping keeps it held after the file is closed.
    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        let Self { file, directory, bytes, is_writable, .. } = self;
        Mapping::new(mmap::map, file, directory, *bytes, *is_writable, access, header_bytes)
            .map_err(|error| mmap::failed(&self.path, *bytes, error))
    }

    /// Maps the header for a moment, to read and write it, whatever address space the data would
    /// take.
    pub(crate) fn map_header(&self, header_bytes: u64) -> Result<Mapping> {
        let Self { file, directory, is_writable, .. } = self;
        let map = mmap::map_with_spare;
        let bytes = header_bytes;
        let access = Access::ReadWrite;
        Mapping::new(map, file, directory, bytes, *is_writable, access, header_bytes)
            .map_err(|error| mmap::failed(&self.path, bytes, error))
    }

    /// Makes the segment visible by its id, complete as it is now.
    pub(crate) fn publish(&self, id: &SegmentId) -> Result<()> {
        let path = self.directory.segment_path(id);
        let linked =
            link_file(&self.file, &path).map_err(|error| Error::os("linkat", &path, error));
        linked.map_err(|error| no_space_if_full(error, &self.directory, self.bytes))
    }

    /// Makes the segment visible by a name as well. A dead segment of that name is given back
    /// first.
    pub(crate) fn link_name(&self, name: &ArrayName) -> Result<()> {
        let path = self.directory.name_path(name);
        for attempt in 0..2 {
            match link_file(&self.file, &path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(no_space_if_full(
                        Error::os("linkat", &path, error),
                        &self.directory,
                        self.bytes,
                    ));
                }
                Err(_) if attempt == 0 => {
                    // If that segment is held or this fails, the next attempt finds the name taken
                    // and reports it.
                    let liveness = Liveness::of(&self.directory);
                    let _ = reclaim_named(&self.directory, name, &liveness);
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
    /// Marks a persistent segment if it still has its name. The name's lock keeps others from
    /// removing the name meanwhile.
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
            let _ = fs::remove_file(hidden); // a sweep may have removed it before
        }
    }
}

/// Whether an id leads to a file.
pub(crate) fn is_found(directory: &Directory, id: &SegmentId) -> bool {
    fs::symlink_metadata(directory.segment_path(id)).is_ok()
}

/// Whether an id leads to a file of this user.
pub(crate) fn is_findable(directory: &Directory, id: &SegmentId) -> bool {
    fs::symlink_metadata(directory.segment_path(id))
        .is_ok_and(|facts| facts.uid() == directory::user())
}

/// Removes a name and returns the segment, held. `before` runs first, under the name's lock, so
/// that what it marks is marked before the name is gone.
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

/// The error for an id or a name that leads to no file.
fn missing(directory: &Directory, lookup: Lookup<'_>) -> Error {
    let directory = directory.path().to_owned();
    match lookup {
        Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => {
            Error::SegmentNotFound { segment: id.to_string(), directory }
        }
        Lookup::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
    }
}
