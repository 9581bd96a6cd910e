//! A file that appears under its name when it is complete, and not before.
//!
//! On Linux the file has no name while it is written (`O_TMPFILE`), so a crash leaves nothing. Then
//! it is linked beside the target under a random name, and that name is renamed to the target,
//! which replaces an older file. A crash between these two leaves a complete file under the random
//! name. Where files without names are not to be had, the file has the random name from the
//! beginning.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::fault::{Fault, Place};
use crate::error::Result;
use crate::name::SegmentId;

/// The most links from one to the next, as Linux has it.
const LINKS_MOST: usize = 40;

/// A file that is being written.
pub(super) struct Target {
    file: File,
    place: Place,
    /// The final path. `None` for a target that is no regular file, such as a pipe: it is written
    /// as it is.
    path: Option<PathBuf>,
    /// The random name, if the file has it now.
    hidden: Option<PathBuf>,
}

impl Target {
    /// Opens a file that shall replace the one at `path`, if there is one. A link is followed.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let place = Place::Path(path.to_owned());
        let invalid = |reason| place.invalid(None, Fault::new("file", reason));
        let path = &followed(path).map_err(|error| place.os("readlink", error))?;
        let older = match fs::metadata(path) {
            Ok(older) => Some(older),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(place.os("stat", error)),
        };
        match &older {
            Some(older) if older.is_dir() => return Err(invalid("it is a directory")),
            Some(older) if !older.is_file() => {
                let file = File::options().write(true).open(path);
                let file = file.map_err(|error| place.os("open", error))?;
                return Ok(Self { file, place, path: None, hidden: None });
            }
            _ => {}
        }
        let (file, hidden) =
            create_hidden(folder_of(path)).map_err(|error| place.os("open", error))?;
        let target = Self { file, place, path: Some(path.clone()), hidden };
        if let Some(older) = older {
            // The umask is for new files; one that is replaced keeps its mode.
            let kept = target.file.set_permissions(older.permissions());
            kept.map_err(|error| target.place.os("fchmod", error))?;
        }
        Ok(target)
    }

    /// Returns the file if what was written can be written again: if it is a regular one.
    pub(super) fn seekable(&mut self) -> Option<&mut File> {
        self.path.is_some().then_some(&mut self.file)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        if self.hidden.is_none() {
            let name = hidden_name(folder_of(&path)).and_then(|name| {
                link(&self.file, &name)?;
                Ok(name)
            });
            self.hidden = Some(name.map_err(|error| self.place.os("linkat", error))?);
        }
        let renamed = self.hidden.as_ref().map_or(Ok(()), |hidden| fs::rename(hidden, path));
        renamed.map_err(|error| self.place.os("rename", error))?;
        self.hidden = None;
        Ok(())
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_file(hidden); // the error that led here is the one to tell
        }
    }
}

/// Returns the path to which the links at a path lead, whether or not there is a file.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MOST {
        match fs::read_link(&path) {
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => return Ok(path), // no link, or none to be read: then its use has the error
        }
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns a name that nobody has guessed, in the same file system as the target.
fn hidden_name(folder: &Path) -> io::Result<PathBuf> {
    let id = SegmentId::random().map_err(io::Error::other)?;
    Ok(folder.join(format!(".shmarray-{id}.tmp")))
}

/// Creates a file without a name. If that is not to be had, one with a random name.
#[cfg(target_os = "linux")]
fn create_hidden(folder: &Path) -> io::Result<(File, Option<PathBuf>)> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(folder, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) if fs::metadata("/proc/self/fd").is_ok() => Ok((file.into(), None)),
        _ => create_named(folder),
    }
}

#[cfg(not(target_os = "linux"))]
fn create_hidden(folder: &Path) -> io::Result<(File, Option<PathBuf>)> {
    create_named(folder)
}

fn create_named(folder: &Path) -> io::Result<(File, Option<PathBuf>)> {
    let name = hidden_name(folder)?;
    Ok((File::options().write(true).create_new(true).open(&name)?, Some(name)))
}

/// Gives an open file a name.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};
    let fd = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, fd, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _name: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into()) // every file has a name from the beginning
}
