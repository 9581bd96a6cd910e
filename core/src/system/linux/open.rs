//! Opens segment files: existing ones without following links, new ones without a name.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::directory::{self, Directory};
use super::fd::Fd;
use crate::system::interface::{Access, Lookup};
use crate::value::error::{Error, Result};
use crate::value::name::SegmentId;

/// Creates a file that no other process can find: unnamed or, on a file system without `O_TMPFILE`,
/// under a hidden path, which is returned with it.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/open.2.html
pub(super) fn create_unnamed(
    directory: &Directory,
    id: &SegmentId,
) -> Result<(Fd, Option<PathBuf>)> {
    match Fd::open(|| unnamed_file(directory)) {
        Err(error) if directory::lacks_unnamed_files(&error) => {
            let hidden = directory.hidden_path(id);
            Ok((directory::create_hidden(&hidden)?, Some(hidden)))
        }
        unnamed => unnamed
            .map(|file| (file, None))
            .map_err(|error| Error::os("open(O_TMPFILE)", directory.path(), error)),
    }
}

/// Creates a file without a name; fails if the file system has none.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/open.2.html
pub(super) fn unnamed_file(directory: &Directory) -> io::Result<fs::File> {
    let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
    options(Access::ReadWrite).mode(0o600).custom_flags(flags).open(directory.path())
}

/// Opens a file for reading and writing, by a path that may be a link of /proc.
pub(super) fn file_again(path: &Path) -> io::Result<fs::File> {
    options(Access::ReadWrite).custom_flags(libc::O_CLOEXEC).open(path)
}

fn options(access: Access) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(access.stores_to_file());
    options
}

/// Opens a file for `access` and returns whether the file is writable. A reader opens it for
/// writing if it may, because a reader too has an entry in the header.
pub(super) fn open_for(path: &Path, access: Access) -> io::Result<(Fd, bool)> {
    match open_existing(path, Access::ReadWrite) {
        Err(error) if is_for_readers(&error) && !access.stores_to_file() => {
            open_existing(path, Access::ReadOnly).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

/// Whether a file can at best be read: another user owns it, or the mount is read-only.
fn is_for_readers(error: &io::Error) -> bool {
    [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem].contains(&error.kind())
}

/// Opens a file without following a symbolic link and without waiting for the other end of a FIFO.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/open.2.html
pub(super) fn open_existing(path: &Path, access: Access) -> io::Result<Fd> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    Fd::open(|| options(access).custom_flags(flags).open(path))
}

/// Checks the owner of a file. An id finds what its owner shares by the file's mode, and all that
/// can be read if it is only listed. A name finds only files of this user, because anybody can
/// create a name in a directory that all users share.
pub(super) fn check_owner(lookup: Lookup<'_>, path: &Path, facts: &fs::Metadata) -> Result<()> {
    let owner = facts.uid();
    let user = directory::user();
    let mode = facts.mode() & 0o777;
    let shared = match lookup {
        Lookup::Id(_) => mode & 0o066 != 0,
        Lookup::Listed(_) => true,
        Lookup::OwnId(_) | Lookup::Name(_) => false,
    };
    if owner != user && !shared {
        return Err(Error::NotOwner { path: path.to_owned(), owner, user, mode });
    }
    if facts.is_file() {
        Ok(())
    } else {
        Err(Error::InvalidSegment {
            segment: lookup.to_string(),
            field: "type",
            expected: "a regular file".to_owned(),
            found: format!("mode {:o}", facts.mode()),
        })
    }
}

/// Returns the error for a file that could not be opened. If that is because it is no file, another
/// user may have put it there to take the name.
pub(super) fn not_opened(path: &Path, error: io::Error) -> Error {
    let of_no_file = [libc::ELOOP, libc::EISDIR, libc::ENXIO];
    let is_no_file = error.raw_os_error().is_some_and(|number| of_no_file.contains(&number));
    let facts = if is_no_file { fs::symlink_metadata(path).ok() } else { None };
    let user = directory::user();
    match facts.filter(|facts| facts.uid() != user) {
        Some(facts) => {
            let path = path.to_owned();
            let owner = facts.uid();
            let mode = facts.mode() & 0o777;
            Error::NotOwner { path, owner, user, mode }
        }
        None => Error::os("open", path, error),
    }
}
