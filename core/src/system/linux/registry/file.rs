//! The registry's file: found or created, even if another user took its name.
//!
//! Its name is `shmarray-registry-UID`. In a directory that all users share anybody can take that
//! name first. Then the registry is `shmarray-registry-UID-RANDOM`, which nobody can foresee. If
//! there are several, the first by name counts, so that two processes that create one at once agree
//! afterwards. Any user can make files with such names. So a process searches for the registry
//! once, asks only for the owner of each file, and keeps the path. A registry must be a regular
//! file of this user with mode 0600 and one link, because processes write to it.
//!
//! If the foreign file goes away, older processes stay in the registry that they have. Entries say
//! which one it is (`cookie`), and [`all`] finds both.

use std::ffi::{CStr, CString, OsStr};
use std::fmt::Write;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::super::directory::{Directory, Fnv1a, c_path, own_user, user};
use super::super::fd::Fd;
use super::super::open::open_existing;
use crate::system::interface::Access;
use crate::system::shortage::reserve;
use crate::value::error::{Error, Result};
use crate::value::name::SegmentId;

/// Where the bytes that stand for families begin.
pub(super) const FAMILIES: u64 = 1 << 52;

const PREFIX: &str = "shmarray-registry-";

/// An open registry.
pub(in crate::system::linux) struct Registry {
    pub(in crate::system::linux) file: Fd,
    /// 24 bits that identify the file's inode.
    pub(super) cookie: u64,
}

/// Returns the upper 24 bits of FNV-1a over the device and the inode as text.
fn cookie(facts: &Metadata) -> u64 {
    let mut hash = Fnv1a::new();
    let _ = write!(hash, "({}, {})", facts.dev(), facts.ino()); // a hasher accepts any text
    hash.value() >> 40
}

/// Whether the path does not lead to the registry with that cookie any more. `false` if the kernel
/// cannot be asked.
pub(super) fn is_gone(path: &CStr, of: u64) -> bool {
    match std::fs::symlink_metadata(OsStr::from_bytes(path.to_bytes())) {
        Ok(facts) => cookie(&facts) != of,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Opens this user's registry; creates it if there is none. Returns its path as well: a fork, which
/// must not allocate, opens it by that path. `used` is the path that this process used before.
pub(super) fn open(directory: &Directory, used: Option<CString>) -> Result<(Registry, CString)> {
    let plain = c_path(&directory.path().join(plain_name()));
    let error = match open_at_c(&plain, true) {
        Ok(registry) => return Ok((registry, plain)),
        Err(error) => error,
    };
    if !is_squatted(&error) {
        return Err(Error::os("open", directory.path().join(plain_name()), error));
    }
    let again = used.and_then(|path| open_at_c(&path, false).ok().map(|registry| (registry, path)));
    again.map_or_else(|| open_random(directory), Ok)
}

/// Opens the registry without creating it. Returns its path as well if it has a random name.
/// `used` is the path that this process used before.
pub(super) fn find(
    directory: &Directory,
    used: Option<&CStr>,
) -> Option<(Registry, Option<CString>)> {
    match open_at(&directory.path().join(plain_name()), false) {
        Err(error) if is_squatted(&error) => {
            let again = used.and_then(|path| Some((open_at_c(path, false).ok()?, path.to_owned())));
            let found = again.or_else(|| first_random(directory, None));
            found.map(|(registry, path)| (registry, Some(path)))
        }
        found => found.ok().map(|registry| (registry, None)),
    }
}

/// Opens all registries of this user in the directory.
pub(super) fn all(directory: &Directory) -> Vec<Registry> {
    let mut all: Vec<_> =
        open_at(&directory.path().join(plain_name()), false).into_iter().collect();
    for_each_random(directory, |name, is_own| {
        // One that cannot be opened, or that no memory is left for, is not asked.
        if is_own() && reserve(&mut all, 1).is_ok() {
            all.extend(open_at(&directory.path().join(name), false));
        }
    });
    all
}

/// Opens all registries of another user that this process may read, as one that may read anything.
/// A file that somebody puts in the place of one spoils no more than a list.
pub(super) fn all_of_another(directory: &Directory, user: u32) -> Vec<Registry> {
    let plain = format!("{PREFIX}{user}");
    let random = plain.clone() + "-";
    let mut all = Vec::new();
    let read = directory.visit_all_names(|entry| {
        let is_one = entry.name() == plain || entry.name().starts_with(&random);
        if is_one && entry.is_only_name_of(Some(user)) && reserve(&mut all, 1).is_ok() {
            let opened = open_existing(&directory.path().join(entry.name()), Access::ReadOnly);
            all.extend(opened.and_then(|file| {
                file.metadata().map(|facts| Registry { cookie: cookie(&facts), file })
            }));
        }
    });
    let _ = read; // a directory that cannot be read has no registry
    all
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
fn open_random(directory: &Directory) -> Result<(Registry, CString)> {
    if let Some(first) = first_random(directory, None) {
        return Ok(first);
    }
    let failed = |error| Error::os("open", directory.path().join(plain_name()), error);
    let name = format!("{}-{}", plain_name(), SegmentId::random()?);
    drop(open_at(&directory.path().join(&name), true).map_err(failed)?);
    // The first by name is this one, or that of another process.
    first_random(directory, Some(name)).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// Opens the registry with a random name that is the first by name. `first` is the name of one that
/// exists.
fn first_random(directory: &Directory, mut first: Option<String>) -> Option<(Registry, CString)> {
    for_each_random(directory, |name, is_own| {
        if first.as_deref().is_none_or(|first| name < first) && is_own() {
            first = Some(name.to_owned());
        }
    });
    let path = c_path(&directory.path().join(first?));
    open_at_c(&path, false).ok().map(|registry| (registry, path))
}

/// Calls `visit` with each random name of a registry of this user, and with a question: whether the
/// file is this user's. Only the names that are asked about cost more than to be read.
fn for_each_random(directory: &Directory, mut visit: impl FnMut(&str, &dyn Fn() -> bool)) {
    let start = plain_name() + "-";
    let own = own_user();
    let read = directory.visit_all_names(|entry| {
        if entry.name().starts_with(&start) {
            visit(entry.name(), &|| entry.is_only_name_of(own));
        }
    });
    // A directory that cannot be read has no registry.
    let _ = read;
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
