//! Files that have a hidden name, or none, until they are complete.
//!
//! A file takes the place of an older one by a rename, and for a rename it needs a name. On Linux
//! it has none while it is written (`O_TMPFILE`). Where such files are not to be had, it has the
//! hidden name from the beginning. Its maker locks it (`flock`) until it is renamed:
//!
//! | step | what a kill after it leaves |
//! |---|---|
//! | open, without a name; lock; write | nothing |
//! | link as `.shmarray-N.tmp` | the older file, and the new one under that name |
//! | rename | the new file |
//! | or: create as `.shmarray-N.tmp`; lock; write | the older file, and a part under that name |
//!
//! The kernel gives the lock of a killed maker back, so a file under such a name whose lock is free
//! is a leftover. There are [`NAMES`] names for each folder. A file takes the first that is free:
//! mostly `.shmarray-0.tmp`, and another one while others of the same folder have theirs. Each save
//! looks for leftovers under the first name and under one of the others in turn, which a process
//! has all seen after some saves. A folder in which all names are taken, by savers or by strangers'
//! files, costs no save: it takes a random name, and a kill leaves a file that nobody removes. So
//! it is where files cannot be locked.
//!
//! * H1: only the holder of a file's lock removes or renames its hidden name, and it looks after
//!   locking whether the name still leads to the file. A file that was just created is not locked
//!   yet; its maker looks, too, and takes the next name if it was removed.
//! * H2: what another user puts under such a name is opened without following links and without
//!   waiting, and is not written.
//!
//! A process that is forked during a save holds the lock as well: until it ends, the file of a
//! killed maker counts as one that is being saved.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::value::name::SegmentId;

/// The hidden names of a folder.
const NAMES: usize = 8;
/// The turn of the names after the first, at which one save each looks.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// A file that is complete before it has a path. It is removed with this value.
pub(super) struct Hidden {
    pub(super) file: File,
    folder: PathBuf,
    /// Whether that is not the folder of the path for which it was made.
    is_in_temporary_folder: bool,
    /// Whether other savers can see that its maker lives.
    is_locked: bool,
    /// The hidden name, if it has one now.
    name: Option<PathBuf>,
}

impl Hidden {
    /// Creates a file in a folder, and removes what killed savers left there.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        // From the process's id on, because many a process saves once.
        let turn = TURN.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() as usize);
        let turn = turn % (NAMES - 1);
        [0, 1 + turn].into_iter().for_each(|number| remove_leftover(&numbered(folder, number)));
        match create_unnamed(folder) {
            Some(file) => {
                let is_locked = lock(&file).is_ok_and(|is_locked| is_locked);
                Ok(Self::new(folder, file, is_locked, None))
            }
            None => Self::create_named(folder),
        }
    }

    /// Creates a file that will not be renamed: in the folder of temporary files, or in memory.
    pub(super) fn create_in_temporary_folder() -> io::Result<Self> {
        let folder = std::env::temp_dir();
        let Ok(mut hidden) = Self::create(&folder) else {
            return Ok(Self::new(&folder, create_in_memory()?, false, None));
        };
        hidden.is_in_temporary_folder = true;
        Ok(hidden)
    }

    fn create_named(folder: &Path) -> io::Result<Self> {
        let with_name = |name: PathBuf| -> io::Result<(File, PathBuf)> {
            let file = File::options().read(true).write(true).create_new(true).open(&name)?;
            Ok((file, name))
        };
        for number in 0..NAMES {
            let (file, name) = match with_name(numbered(folder, number)) {
                Ok(made) => made,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            match lock(&file) {
                Ok(true) if leads_to(&name, &file)? => {
                    return Ok(Self::new(folder, file, true, Some(name)));
                }
                Ok(_) => {} // another saver takes it for a leftover, and removes it
                Err(_) => {
                    fs::remove_file(&name)?;
                    break;
                }
            }
        }
        let (file, name) = with_name(random(folder)?)?;
        Ok(Self::new(folder, file, false, Some(name)))
    }

    fn new(folder: &Path, file: File, is_locked: bool, name: Option<PathBuf>) -> Self {
        Self { file, folder: folder.to_owned(), is_in_temporary_folder: false, is_locked, name }
    }

    /// Returns its folder, if that is not the one of the path for which it was made.
    pub(super) fn other_folder(&self) -> Option<&Path> {
        self.is_in_temporary_folder.then_some(&self.folder)
    }

    /// Gives the file a path, and removes an older file there. The error has the call that failed.
    pub(super) fn rename(&mut self, path: &Path) -> Result<(), (&'static str, io::Error)> {
        let name = match self.name.take() {
            Some(name) => name,
            None => link_hidden(&self.file, &self.folder, self.is_locked)
                .map_err(|error| ("linkat", error))?,
        };
        if let Err(error) = fs::rename(&name, path) {
            self.name = Some(name);
            return Err(("rename", error));
        }
        if self.is_locked {
            unlock(&self.file); // for a process that was forked meanwhile, too
        }
        Ok(())
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name); // the error that led here is the one to tell
        }
    }
}

fn numbered(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!(".shmarray-{number}.tmp"))
}

fn random(folder: &Path) -> io::Result<PathBuf> {
    let id = SegmentId::random().map_err(io::Error::other)?;
    Ok(folder.join(format!(".shmarray-{id}.tmp")))
}

/// Links a file under the first hidden name that is free, and returns the name.
fn link_hidden(file: &File, folder: &Path, is_locked: bool) -> io::Result<PathBuf> {
    for number in 0..if is_locked { NAMES } else { 0 } {
        let name = numbered(folder, number);
        match link(file, &name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let name = random(folder)?;
    link(file, &name)?;
    Ok(name)
}

#[cfg(target_os = "linux")]
use linux::{create_in_memory, create_unnamed, leads_to, link, lock, remove_leftover, unlock};

#[cfg(target_os = "linux")]
mod linux {
    //! Files without a name, locks, and leftovers.

    use std::fs::{self, File};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, FlockOperation, MemfdFlags, flock, linkat, memfd_create};
    use rustix::io::{Errno, retry_on_intr};

    pub(super) fn create_unnamed(folder: &Path) -> Option<File> {
        let unnamed = libc::O_TMPFILE;
        let file =
            File::options().read(true).write(true).custom_flags(unnamed).open(folder).ok()?;
        fs::metadata("/proc/self/fd").ok()?; // without it, it could not be linked
        Some(file)
    }

    pub(super) fn create_in_memory() -> io::Result<File> {
        Ok(memfd_create(c"shmarray-saved", MemfdFlags::CLOEXEC)?.into())
    }

    /// Gives an open file a name.
    pub(super) fn link(file: &File, name: &Path) -> io::Result<()> {
        let fd = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, fd, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Locks a file, and returns whether it was free. An error says that it cannot be locked.
    pub(super) fn lock(file: &File) -> io::Result<bool> {
        match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn unlock(file: &File) {
        let _ = flock(file, FlockOperation::Unlock); // otherwise its last close does
    }

    /// Whether a name is that of an open file.
    pub(super) fn leads_to(name: &Path, file: &File) -> io::Result<bool> {
        let facts = |found: fs::Metadata| (found.dev(), found.ino());
        match fs::symlink_metadata(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            named => Ok(facts(named?) == facts(file.metadata()?)),
        }
    }

    /// Removes the file under a hidden name if its maker is dead. What cannot be removed stays.
    pub(super) fn remove_leftover(name: &Path) {
        // Mostly there is none, and to look costs less than to open.
        if !fs::symlink_metadata(name).is_ok_and(|facts| facts.is_file()) {
            return;
        }
        let Some(file) = open_as_it_is(name) else { return };
        let is_leftover = || -> io::Result<bool> {
            Ok(file.metadata()?.is_file() && lock(&file)? && leads_to(name, &file)?)
        };
        if is_leftover().is_ok_and(|is_leftover| is_leftover) {
            let _ = fs::remove_file(name);
        }
    }

    /// Opens a file for its lock: NFS locks those that are open for writing.
    fn open_as_it_is(name: &Path) -> Option<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let open = |writes| File::options().read(true).write(writes).custom_flags(flags).open(name);
        match open(true) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(false).ok(),
            Err(_) => None,
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::{create_in_memory, create_unnamed, leads_to, link, lock, remove_leftover, unlock};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    //! Files have random names from the beginning.

    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn create_unnamed(_folder: &Path) -> Option<File> {
        None
    }

    pub(super) fn create_in_memory() -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn link(_file: &File, _name: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn lock(_file: &File) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn unlock(_file: &File) {}

    pub(super) fn leads_to(_name: &Path, _file: &File) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn remove_leftover(_name: &Path) {}
}
