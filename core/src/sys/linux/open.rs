//! Opening files of segments: existing ones without following links, new ones without a name.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::directory::{self, Directory};
use super::fd::Fd;
use crate::error::{Error, Result};
use crate::name::SegmentId;
use crate::sys::Access;

/// A file that nobody can find: unnamed, or where the file system has no such thing, hidden.
pub(super) fn create_unnamed(
    directory: &Directory,
    id: &SegmentId,
) -> Result<(Fd, Option<PathBuf>)> {
    let path = directory.path();
    let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
    match Fd::open(|| options(Access::ReadWrite).mode(0o600).custom_flags(flags).open(path)) {
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
pub(super) fn open_for(path: &Path, access: Access) -> io::Result<(Fd, bool)> {
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
pub(super) fn open_existing(path: &Path, access: Access) -> io::Result<Fd> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    Fd::open(|| options(access).custom_flags(flags).open(path))
}
