//! Where a file is saved: a new file for a path, an older one in place, or a pipe.
//!
//! A regular file is always written to a hidden file first ([`hidden`](super::hidden)), so an error
//! and a kill leave the older one. Then, in this order of preference:
//!
//! | what is under the path | what becomes of the hidden file |
//! |---|---|
//! | nothing | it gets the path |
//! | a file whose owner, mode and attributes it can have, with one name | it gets the path, by a rename |
//! | another file; one that cannot be replaced, such as a mount | it is copied into the older one |
//!
//! Where the path's folder may not be written, the hidden file is in the folder of temporary files
//! or in memory: an array that is a mapping of the older file must be read before that is written.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::fault::{Fault, Place};
use super::hidden::Hidden;
use super::older::{can_stand_for, copy_over};
use crate::value::error::Result;

/// The most links from one to the next, as Linux has it.
const LINKS_MOST: usize = 40;

/// A file that is being written.
pub(super) struct Target {
    to: To,
    /// The path that was given.
    place: Place,
    /// What is written before the file is finished.
    written: Place,
}

enum To {
    /// No regular file, such as a pipe: it is written as it is.
    Stream(File),
    /// A hidden file that shall have a path.
    Replacing { hidden: Hidden, path: PathBuf, is_new: bool },
    /// A hidden file that is copied into an older one.
    InPlace { hidden: Hidden, older: File },
}

impl Target {
    /// Opens a file that shall have a path, or the contents of the file there. A link is followed.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let place = Place::Path(path.to_owned());
        let os = |call| move |error| (call, error);
        let to = match Existing::at(path).map_err(os("stat")) {
            Ok(Existing::Nothing(path)) => Hidden::create(folder_of(&path))
                .map(|hidden| To::Replacing { hidden, path, is_new: true })
                .map_err(os("open")),
            Ok(Existing::File { facts, .. }) if facts.is_dir() => {
                return Err(place.invalid(None, Fault::new("file", "it is a directory")));
            }
            Ok(Existing::File { path, facts, .. }) if !facts.is_file() => {
                open_for_writing(&path).map(To::Stream).map_err(os("open"))
            }
            Ok(Existing::File { path, facts, is_open }) => {
                over(path, &facts, is_open).map_err(os("open"))
            }
            Err(failed) => Err(failed),
        };
        let to = to.map_err(|(call, error)| place.os(call, error))?;
        let written = match &to {
            To::InPlace { hidden, .. } => {
                hidden.other_folder().map(|it| Place::Path(it.to_owned()))
            }
            To::Stream(_) | To::Replacing { .. } => None,
        };
        Ok(Self { to, written: written.unwrap_or_else(|| place.clone()), place })
    }

    /// Returns the file if what was written can be written again: if it is a regular one.
    pub(super) fn seekable(&mut self) -> Option<&mut File> {
        match &mut self.to {
            To::Stream(_) => None,
            To::Replacing { hidden, .. } | To::InPlace { hidden, .. } => Some(&mut hidden.file),
        }
    }

    /// Returns what an error of a write is about: where an older file is written in place, perhaps
    /// the folder of temporary files.
    pub(super) fn written(&self) -> &Place {
        &self.written
    }

    /// Gives the file its path, or the older one its contents.
    pub(super) fn finish(self) -> Result<()> {
        let (mut hidden, mut older) = match self.to {
            To::Stream(_) => return Ok(()),
            To::InPlace { hidden, older } => (hidden, older),
            To::Replacing { mut hidden, path, is_new } => {
                let Err((call, error)) = hidden.rename(&path) else { return Ok(()) };
                match open_for_writing(&path) {
                    Ok(older) if !is_new => (hidden, older),
                    _ => return Err(self.place.os(call, error)),
                }
            }
        };
        copy_over(&mut older, &mut hidden.file).map_err(|error| self.place.os("write", error))
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stream(file) => file.write(bytes),
            To::Replacing { hidden, .. } | To::InPlace { hidden, .. } => hidden.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // a File has no buffer
    }
}

/// What is under a path.
enum Existing {
    /// Nothing; a new file shall have this path, to which links may have led.
    Nothing(PathBuf),
    /// A file. `is_open` tells that the path is that of an open file, such as `/dev/stdout`: its
    /// name is unknown.
    File { path: PathBuf, facts: Metadata, is_open: bool },
}

impl Existing {
    fn at(path: &Path) -> io::Result<Self> {
        match existing(fs::symlink_metadata(path))? {
            Some(facts) if facts.is_symlink() => {
                // First the kernel: it refuses links that others have planted in a shared folder.
                let facts = existing(fs::metadata(path))?;
                let (path, is_open) = followed(path)?;
                Ok(match facts {
                    Some(facts) => Self::File { path, facts, is_open },
                    None => Self::Nothing(path),
                })
            }
            Some(facts) => Ok(Self::File { path: path.to_owned(), facts, is_open: false }),
            None => Ok(Self::Nothing(path.to_owned())),
        }
    }
}

fn existing(found: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the path to which the links at a path lead, whether or not there is a file, and whether
/// it is one of an open file in `/proc`, of which the link only tells a name that it once had.
fn followed(path: &Path) -> io::Result<(PathBuf, bool)> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MOST {
        let Ok(target) = fs::read_link(&path) else {
            return Ok((path, false)); // no link, or none to be read: then its use has the error
        };
        if fs::canonicalize(folder_of(&path)).is_ok_and(|folder| folder.starts_with("/proc")) {
            return Ok((path, true));
        }
        path = folder_of(&path).join(target);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn open_for_writing(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

/// Opens a hidden file that shall replace an older one, or be copied into it.
fn over(path: PathBuf, facts: &Metadata, is_open: bool) -> io::Result<To> {
    let refused = match Hidden::create(folder_of(&path)) {
        Ok(hidden) if !is_open && can_stand_for(&hidden.file, facts, &path) => {
            return Ok(To::Replacing { hidden, path, is_new: false });
        }
        Ok(hidden) => return Ok(To::InPlace { hidden, older: open_for_writing(&path)? }),
        Err(refused) => refused,
    };
    match (open_for_writing(&path), Hidden::create_in_temporary_folder()) {
        (Ok(older), Ok(hidden)) => Ok(To::InPlace { hidden, older }),
        _ => Err(refused), // the folder's, because that is what a user can mend
    }
}
