//! The registry's file: found, or made, whatever a stranger has put in its place.
//!
//! Its name is `shmarray-registry-UID`. Anybody can take that name first in a directory that all
//! users share. Then the registry is `shmarray-registry-UID-RANDOM`, which nobody can foresee; of
//! several the first by name, so that two processes that make one at once agree afterwards. A
//! registry is a regular file of this user with mode 0600 and one link: something is written into
//! it.
//!
//! When the stranger's file goes away, older processes stay in the registry that they have. Entries
//! say which one it is (`cookie`), and [`all`] finds both.

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
    /// 24 bits of which inode it is.
    pub(super) cookie: u64,
}

/// Of FNV-1a over the device and the inode as text.
fn cookie(facts: &Metadata) -> u64 {
    let mut hash = Fnv1a::new();
    let _ = write!(hash, "({}, {})", facts.dev(), facts.ino()); // it takes everything
    hash.value() >> 40
}

/// This user's registry, made when there is none.
pub(in crate::sys::linux) fn open(directory: &Directory) -> Result<Registry> {
    open_and_name(directory).map(|(registry, _)| registry)
}

/// The same, and where it is: a fork opens it there, where nothing may be allocated.
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

/// The same without making one: an error of the kind `NotFound` where there is none.
pub(super) fn find(directory: &Directory) -> io::Result<Registry> {
    let random = || random_names(directory).iter().find_map(|path| open_at(path, false).ok());
    match open_at(&directory.path().join(plain_name()), false) {
        Err(error) if is_squatted(&error) => random().ok_or_else(|| io::ErrorKind::NotFound.into()),
        found => found,
    }
}

/// All that this user has there.
pub(super) fn all(directory: &Directory) -> Vec<Registry> {
    let plain = open_at(&directory.path().join(plain_name()), false).ok();
    plain
        .into_iter()
        .chain(random_names(directory).iter().filter_map(|path| open_at(path, false).ok()))
        .collect()
}

fn plain_name() -> String {
    format!("{PREFIX}{}", user())
}

/// Somebody else has the name, or it is no file.
fn is_squatted(error: &io::Error) -> bool {
    let numbers = [libc::EACCES, libc::EPERM, libc::EISDIR, libc::ELOOP, libc::ENXIO, libc::EEXIST];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

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
            drop(open_at(&path, true).map_err(failed)?); // then the first by name is ours: it, or another's
        }
    }
    Err(failed(io::ErrorKind::NotFound.into()))
}

/// Sorted.
fn random_names(directory: &Directory) -> Vec<PathBuf> {
    let start = plain_name() + "-";
    let names = directory.names(|name| name.starts_with(&start).then(|| name.to_owned()));
    let mut paths: Vec<_> =
        names.unwrap_or_default().iter().map(|name| directory.path().join(name)).collect();
    paths.sort_unstable();
    paths
}

fn open_at(path: &Path, makes: bool) -> io::Result<Registry> {
    open_at_c(&c_path(path), makes)
}

/// Allocates nothing: a fork opens it so, maybe in a signal handler that has interrupted the
/// allocator.
pub(super) fn open_at_c(path: &CStr, makes: bool) -> io::Result<Registry> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let flags = if makes { flags | libc::O_CREAT } else { flags };
    let file = Fd::open(|| {
        loop {
            // SAFETY: takes a C string and numbers.
            match unsafe { libc::open(path.as_ptr(), flags, 0o600) } {
                // SAFETY: a new fd.
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
        file.set_permissions(Permissions::from_mode(0o600))?; // who may open it may lock it; and a umask may have closed it to us
    }
    Ok(Registry { cookie: cookie(&facts), file })
}
