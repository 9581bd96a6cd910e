//! The registry's file: found or created, even if another user took its name.
//!
//! Its name is `shmarray-registry-UID`. In a directory that all users share anybody can take that
//! name first. Then the registry is `shmarray-registry-UID-RANDOM`, which nobody can foresee. If
//! there are several, the first by name counts, so that two processes that create one at once agree
//! afterwards. A registry must be a regular file of this user with mode 0600 and one link, because
//! processes write to it.
//!
//! If the foreign file goes away, older processes stay in the registry that they have. Entries say
//! which one it is (`cookie`), and [`all`] finds both.

use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::super::directory::{Directory, Fnv1a, c_path, user};
use super::super::fd::Fd;
use crate::error::{Error, Result};
use crate::name::SegmentId;

const PREFIX: &str = "shmarray-registry-";

/// An open registry.
pub(in crate::sys::linux) struct Registry {
    pub(in crate::sys::linux) file: Fd,
    /// 24 bits that identify the file's inode.
    pub(super) cookie: u64,
}

/// Returns the upper 24 bits of FNV-1a over the device and the inode as text.
fn cookie(facts: &Metadata) -> u64 {
    let mut hash = Fnv1a::new();
    let _ = write!(hash, "({}, {})", facts.dev(), facts.ino()); // a hasher accepts any text
    hash.value() >> 40
}

/// Opens this user's registry; creates it if there is none.
pub(in crate::sys::linux) fn open(directory: &Directory) -> Result<Registry> {
    open_and_name(directory).map(|(registry, _)| registry)
}

/// Opens or creates the registry and returns its path as well. A fork, which must not allocate,
/// opens it by that path.
pub(super) fn open_and_name(directory: &Directory) -> Result<(Registry, CString)> {
    let plain = directory.path().join(plain_name());
    match open_at(&plain, true) {
        Ok(registry) => Ok((registry, c_path(&plain))),
        Err(error) if is_squatted(&error) => {
            open_random(directory).map(|(registry, path)| (registry, c_path(&path)))
        }
        Err(error) => Err(Error::os("open", plain, error)),
    }
}

/// Opens the registry without creating it; fails with `NotFound` if there is none.
pub(super) fn find(directory: &Directory) -> io::Result<Registry> {
    let random = || random_names(directory).iter().find_map(|path| open_at(path, false).ok());
    match open_at(&directory.path().join(plain_name()), false) {
        Err(error) if is_squatted(&error) => random().ok_or_else(|| io::ErrorKind::NotFound.into()),
        found => found,
    }
}

/// Opens all registries of this user in the directory.
pub(super) fn all(directory: &Directory) -> Vec<Registry> {
    let plain = open_at(&directory.path().join(plain_name()), false).ok();
    plain
        .into_iter()
        .chain(random_names(directory).iter().filter_map(|path| open_at(path, false).ok()))
        .collect()
}

/// Returns the registry's name if no other user has taken it.
fn plain_name() -> String {
    format!("{PREFIX}{}", user())
}

/// Whether another user has the name, or it leads to no regular file.
fn is_squatted(error: &io::Error) -> bool {
    let numbers = [libc::EACCES, libc::EPERM, libc::EISDIR, libc::ELOOP, libc::ENXIO, libc::EEXIST];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

/// Opens the registry with a random name that is the first by name; creates one if there is none.
fn open_random(directory: &Directory) -> Result<(Registry, PathBuf)> {
    let failed = |error| Error::os("open", directory.path().join(plain_name()), error);
    for attempt in 0..2 {
        for path in random_names(directory) {
            if let Ok(registry) = open_at(&path, false) {
                return Ok((registry, path));
            }
        }
        if attempt == 0 {
            let path = directory.path().join(format!("{}-{}", plain_name(), SegmentId::random()?));
            // The next attempt opens the first by name: this one, or another process's.
            drop(open_at(&path, true).map_err(failed)?);
        }
    }
    Err(failed(io::ErrorKind::NotFound.into()))
}

/// Returns the paths of the registries with random names, sorted.
fn random_names(directory: &Directory) -> Vec<PathBuf> {
    let start = plain_name() + "-";
    let names = directory.names(|name| name.starts_with(&start).then(|| name.to_owned()));
    let mut paths: Vec<_> =
        names.unwrap_or_default().iter().map(|name| directory.path().join(name)).collect();
    paths.sort_unstable();
    paths
}

/// Opens the registry at a path; creates it if `makes`.
fn open_at(path: &Path, makes: bool) -> io::Result<Registry> {
    open_at_c(&c_path(path), makes)
}

/// Opens a registry without allocating: a fork calls this, maybe in a signal handler that
/// interrupted the allocator.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/open.2.html
pub(super) fn open_at_c(path: &CStr, makes: bool) -> io::Result<Registry> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let flags = if makes { flags | libc::O_CREAT } else { flags };
    let file = Fd::open(|| {
        loop {
            // SAFETY: the path must be a C string during the call; `path` is a borrowed `CStr`, and
            // the kernel checks the flags.
            match unsafe { libc::open(path.as_ptr(), flags, 0o600) } {
                // SAFETY: the fd must be open and owned by nobody else; `open` returned it just
                // now, and it is not negative.
                fd @ 0.. => return Ok(unsafe { File::from_raw_fd(fd) }),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    })?;
    let facts = file.metadata()?;
    if facts.uid() != user() || !facts.is_file() || facts.nlink() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    if facts.mode() & 0o777 != 0o600 {
        // A user who may open the file may lock it; and the umask may have removed this user's own
        // access.
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(Registry { cookie: cookie(&facts), file })
}
