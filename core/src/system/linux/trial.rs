//! The trial of a directory: whether its file system does what this library stands on.
//!
//! A process tries each directory once, when it first uses it; its forked children need not. The
//! trial does with an empty file what a holder and its neighbour do:
//!
//! | step | shows | is not so, for example |
//! |---|---|---|
//! | lock the file, ask through another open of it | that opens by different names reach one file | FUSE file systems that know files by their paths |
//! | map it, close it, ask again | that a mapping keeps the lock | overlayfs: it maps the file below |
//! | reserve a page, look at the file's blocks | that reserved memory exists | |
//!
//! The kind of the file system would be a guess: what lies below an overlay or a FUSE file system
//! decides, and a seccomp filter can deny the question itself. So the result is not stored for
//! other processes either, which may have another filter or another mount.
//!
//! The file has no name, and so a crash leaves nothing. On a file system without unnamed files it
//! has a hidden name, and the other open is by a second one, because there every segment is made in
//! that way. A crash leaves them as it leaves a hidden file of a creator; the file is empty.
//!
//! If the file cannot be made, opened or mapped, the trial says nothing: no room, no right to write
//! there. The operation that follows then reports what it lacks, and the next one tries again. A
//! process that may only read there attaches segments that a process with a trial of its own made.
//!
//! A child that another thread has just started by vfork(2), which runs no handlers, has the file
//! open until it execs, and for so long the kernel keeps its lock anywhere.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::append::AppendList;
use super::directory::{Directory, hidden_file, lacks_unnamed_files, link_file};
use super::fd::without_fork;
use super::map::Page;
use super::open::{file_again, unnamed_file};
use super::{limits, lock, pages};
use crate::value::error::{Error, Result};
use crate::value::name::SegmentId;

/// The directories that this process, or the one that forked it, found to be usable.
static USABLE: AppendList<PathBuf> = AppendList::new();

const ANOTHER_FILE: &str = "a link to a file there leads to another file, so no process sees who \
                            holds an array";
const NOT_KEPT: &str = "the kernel drops the lock of a file there although the file is still \
                        mapped, as on an overlay, so every holder of an array looks dead";
const NOT_RESERVED: &str = "fallocate reserves no memory there, so a store could raise SIGBUS";

/// Tries a directory, unless it was found to be usable before. Returns `false` if it cannot be
/// tried.
///
/// # Errors
/// [`Error::UnusableDirectory`]; [`Error::Os`] if the kernel may not be asked for locks.
pub(crate) fn is_usable(directory: &Directory) -> Result<bool> {
    if directory.is_tried() {
        return Ok(true);
    }
    if USABLE.find(|path| path == directory.path()).is_none() {
        // A forked child would keep the file, mapped or open.
        if !without_fork(|| attempt(directory))? {
            return Ok(false);
        }
        USABLE.append(directory.path().to_owned());
    }
    directory.set_tried();
    Ok(true)
}

/// Makes the trial. Returns `false` if it cannot be made.
fn attempt(directory: &Directory) -> Result<bool> {
    let Ok((file, other)) = open_twice(directory) else { return Ok(false) };
    let denied = |error| Error::os("fcntl(F_OFD_GETLK)", directory.path(), error);
    let sees_hold = || lock::sees_hold(&other).map_err(denied);
    let unusable =
        |reason| Err(Error::UnusableDirectory { directory: directory.path().to_owned(), reason });
    if !sees_hold()? {
        return unusable(ANOTHER_FILE);
    }
    let Ok(_page) = Page::map(&file, directory.page_bytes()) else { return Ok(false) };
    drop(file);
    if !sees_hold()? {
        return unusable(NOT_KEPT);
    }
    match reserves(&other, directory) {
        Ok(true) => Ok(true),
        Ok(false) => unusable(NOT_RESERVED),
        Err(_) => Ok(false),
    }
}

/// Returns a new file, held, and another open of it.
fn open_twice(directory: &Directory) -> Result<(File, File)> {
    let failed = |error| Error::os("open", directory.path(), error);
    match unnamed_file(directory) {
        Ok(file) => {
            hold(&file).map_err(failed)?;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let other = file_again(path.as_ref()).or_else(|_| open_by_link(directory, &file));
            Ok((file, other.map_err(failed)?))
        }
        Err(error) if lacks_unnamed_files(&error) => {
            let name = Removed(directory.hidden_path(&SegmentId::random()?));
            let file = hidden_file(&name.0).map_err(failed)?;
            hold(&file).map_err(failed)?;
            let other = open_by_link(directory, &file).map_err(failed)?;
            Ok((file, other))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Holds a new file. The umask may have removed this user's own access to it.
fn hold(file: &File) -> io::Result<()> {
    lock::try_shared(file)?;
    match file.metadata()?.mode() & 0o600 {
        0o600 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(0o600)),
    }
}

/// Opens a file by one more name, a hidden one.
fn open_by_link(directory: &Directory, file: &File) -> io::Result<File> {
    let id = SegmentId::random().map_err(io::Error::other)?;
    let name = Removed(directory.hidden_path(&id));
    link_file(file, &name.0)?;
    file_again(&name.0)
}

/// A name that is removed when this is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // a sweep may have removed it, or it was not made
    }
}

/// Whether a page that is reserved in an empty file exists. In a hugetlbfs the kernel counts the
/// reserved pages by itself, and a page takes long to clear. Where pages cannot be reserved, they
/// are written instead.
fn reserves(file: &File, directory: &Directory) -> io::Result<bool> {
    let bytes = limits::page_bytes();
    if directory.is_huge() {
        return Ok(true);
    }
    if bytes > limits::file_limit() {
        return Err(io::ErrorKind::FileTooLarge.into()); // the kernel would send SIGXFSZ
    }
    match pages::allocate(file, 0, bytes) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(true),
        done => done.and_then(|()| Ok(file.metadata()?.blocks() * 512 >= bytes)),
    }
}
