//! Gives back segments that no process maps: those of the dead, and lock-only ones.
//!
//! Only the kernel knows whether a process maps a segment: every holder's mapping keeps the file's
//! lock. The answer is true only at the moment when it is given, so it is asked for while the state
//! is CLOSING (`Leases::close_unmapped`). A process that attaches takes the lock first and reads
//! the state then; it finds CLOSING and makes it LIVE again. No process takes that lock exclusively
//! on a file that is visible by its id, and none waits for it. (On a hidden file `remove_hidden`
//! takes it.)
//!
//! Only files of this user are considered. A file that has the name of a segment and no valid
//! header is left alone: it may be of a later version, or not of this library.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::directory::{Directory, is_own};
use super::fd::Fd;
use super::lock::{self, Patience};
use super::map::Page;
use super::mmap;
use super::name_lock::NameLock;
use super::open::open_existing;
use super::registry::{Liveness, is_message};
use crate::header::control::ControlWords;
use crate::header::format::{Header, PAGE_BYTES};
use crate::header::lease::{Closed, Leases};
use crate::system::interface::{Access, OwnFiles};
use crate::system::shortage::zeros;
use crate::value::error::{Error, ErrorKind, Result};
use crate::value::name::{ArrayName, SegmentId};

/// An open file of this user with a valid header that no process maps.
struct UnmappedSegment {
    file: Fd,
    facts: fs::Metadata,
    header: Header,
}

/// Gives a segment back if it has no holder and does not persist. Returns its bytes.
pub(crate) fn reclaim(
    directory: &Directory,
    id: &SegmentId,
    liveness: &Liveness,
) -> Result<Option<u64>> {
    let path = directory.segment_path(id);
    if let Some(bytes) = remove_hidden(directory, id, &path) {
        // Another file of that id is listed as an entry of its own.
        return Ok(Some(bytes));
    }
    let Some(found) = find(&path)?.filter(|found| found.header.id == *id) else { return Ok(None) };
    if !found.ends(directory, liveness)? {
        return Ok(None);
    }
    if unlink_all(directory, &found, &path)? {
        Ok(Some(found.facts.blocks() * 512))
    } else {
        Ok(None)
    }
}

/// Gives back the segment that a name leads to, even if its id leads nowhere any more.
pub(super) fn reclaim_named(
    directory: &Directory,
    name: &ArrayName,
    liveness: &Liveness,
) -> Result<()> {
    let path = directory.name_path(name);
    let Some(found) = find(&path)? else { return Ok(()) };
    let by_id = directory.segment_path(&found.header.id);
    if is_same(&by_id, &found.facts) {
        return reclaim(directory, &found.header.id, liveness).map(drop);
    }
    if found.ends(directory, liveness)? {
        unlink_if_same(directory, name, &found.facts)?;
    }
    Ok(())
}

/// Gives back segments whose only link is a name and that have no holder: no id leads to them.
pub(crate) fn sweep_names(directory: &Directory, files: &OwnFiles, liveness: &Liveness) {
    for name in files.names() {
        let facts = fs::symlink_metadata(directory.name_path(&name));
        if facts.is_ok_and(|facts| facts.is_file() && is_own(&facts) && facts.nlink() == 1) {
            // A later sweep retries after a failure.
            let _ = reclaim_named(directory, &name, liveness);
        }
    }
}

/// Opens a file of this user that no process holds and whose header is valid.
fn find(path: &Path) -> Result<Option<UnmappedSegment>> {
    let file = match open_existing(path, Access::ReadWrite) {
        Ok(file) => file,
        Err(error) if is_absent_or_foreign(&error) => return Ok(None),
        Err(error) => return Err(Error::os("open", path, error)),
    };
    let facts = file.metadata().map_err(|error| Error::os("fstat", path, error))?;
    if !facts.is_file() || !is_own(&facts) || !lock::is_unheld(&file) {
        return Ok(None);
    }
    let header = front(&file, facts.len()).and_then(|front| Header::read("", &front, facts.len()));
    match header {
        Ok(header) => Ok(Some(UnmappedSegment { file, facts, header })),
        Err(error) if error.kind() == ErrorKind::NoMemory => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether the file is gone, another user's, or no regular file.
pub(crate) fn is_absent_or_foreign(error: &io::Error) -> bool {
    let numbers = [libc::ENOENT, libc::EACCES, libc::EPERM, libc::EISDIR, libc::ELOOP, libc::ENXIO];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

impl UnmappedSegment {
    /// Whether the segment has ended: by this call, or by an earlier process that died before the
    /// unlink. A segment that nobody holds and whose state is none of the valid ones, so that no
    /// process could ever attach it, has ended, too.
    #[allow(unsafe_code)]
    fn ends(&self, directory: &Directory, liveness: &Liveness) -> Result<bool> {
        let is_unheld = || lock::is_unheld(&self.file) && !self.is_under_way(directory, liveness);
        if !is_unheld() {
            return Ok(false);
        }
        let mapped = Page::map(&self.file, directory.page_bytes());
        let page_bytes = directory.page_bytes();
        let page = mapped.map_err(|error| mmap::failed(directory.path(), page_bytes, error))?;
        // SAFETY: the address must be a mapped header page while the words are used; `page` maps
        // the first page of a file whose header `find` validated (I1 and I2 of `format`), and lives
        // to the end of this function. No cells and no entries are accessed.
        let leases = Leases::of_segment(unsafe { ControlWords::new(page.start(), 0, None) });
        Ok(leases.close_unmapped(is_unheld) != Closed::Held)
    }

    /// Whether a message holds the segment, which no process maps: by an entry, or by a link.
    fn is_under_way(&self, directory: &Directory, liveness: &Liveness) -> bool {
        let Ok(facts) = self.file.metadata() else { return true };
        // A file that was truncated meanwhile is left alone.
        let Ok(front) = read_front(&self.file, self.header.header_bytes) else { return true };
        let mut messages =
            self.header.entries(&front).filter(|entry| entry.held && is_message(entry.owner_info));
        messages.any(|entry| !liveness.is_dead_owner(entry.owner, entry.owner_info))
            || ticket_links_of(directory, &facts, &self.header) > 0
    }
}

/// Unlinks an ended segment: its name, then its id. Returns `false` if another process was faster,
/// or if the name's lock cannot be taken: then a later sweep finds the segment by its id.
fn unlink_all(directory: &Directory, found: &UnmappedSegment, path: &Path) -> Result<bool> {
    match &found.header.name {
        Some(name) if !unlink_if_same(directory, name, &found.facts)? => Ok(false),
        _ => unlink_segment(path),
    }
}

/// Unlinks a segment that the caller made DEAD, and its name. Returns `false` if another process,
/// which found it DEAD, was faster.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/unlink.2.html
pub(crate) fn discard(
    directory: &Directory,
    id: &SegmentId,
    name: Option<&ArrayName>,
) -> Result<bool> {
    let path = directory.segment_path(id);
    let Some(name) = name else { return unlink_segment(&path) };
    match fs::symlink_metadata(&path) {
        Ok(facts) if !unlink_if_same(directory, name, &facts)? => Ok(false),
        Ok(_) => unlink_segment(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::os("lstat", path, error)), // both links stay for a sweep
    }
}

/// Removes a name if it leads to this segment, which lives on. Returns `false` if the name's lock
/// cannot be taken.
pub(crate) fn remove_name(directory: &Directory, id: &SegmentId, name: &ArrayName) -> Result<bool> {
    let path = directory.segment_path(id);
    let facts =
        fs::symlink_metadata(&path).map_err(|error| Error::os("lstat", path.clone(), error))?;
    unlink_if_same(directory, name, &facts)
}

/// Returns the permission bits of a segment's file.
pub(crate) fn file_mode(directory: &Directory, id: &SegmentId) -> Result<u32> {
    let path = directory.segment_path(id);
    let facts =
        fs::symlink_metadata(&path).map_err(|error| Error::os("lstat", path.clone(), error))?;
    Ok(facts.mode() & 0o777)
}

/// Unlinks a file. Returns `false` if it was gone.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/unlink.2.html
fn unlink_segment(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::os("unlink", path, error)),
    }
}

/// Removes a name if it leads to that file; its lock keeps a new array of that name out. Returns
/// `false` if the lock cannot be taken.
fn unlink_if_same(directory: &Directory, name: &ArrayName, facts: &fs::Metadata) -> Result<bool> {
    let path = directory.name_path(name);
    if !is_same(&path, facts) {
        return Ok(true);
    }
    let Ok(_lock) = NameLock::take(directory, name, Patience::Little) else { return Ok(false) };
    if is_same(&path, facts) {
        fs::remove_file(&path).map(|()| true).map_err(|error| Error::os("unlink", &path, error))
    } else {
        Ok(true)
    }
}

/// Returns how many links a file has beside its own names. Each holds it for a message: a sweep
/// removes those of the dead before it asks.
pub(super) fn ticket_links_of(directory: &Directory, facts: &fs::Metadata, header: &Header) -> u64 {
    let id = directory.segment_path(&header.id);
    let name = header.name.as_ref().map(|name| directory.name_path(name));
    let own = name.into_iter().chain([id]).filter(|path| is_same(path, facts)).count();
    facts.nlink().saturating_sub(own as u64)
}

/// Whether a path leads to that file.
pub(super) fn is_same(path: &Path, facts: &fs::Metadata) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| is_one_file(&there, facts))
}

/// Whether two lookups found one file.
pub(super) fn is_one_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Returns the bytes of an open file that [`Header::read`] needs.
fn front(file: &fs::File, bytes: u64) -> Result<Vec<u8>> {
    let read = |count: u64| {
        let read = read_front(file, count.min(bytes));
        read.map_err(|error| Error::os("pread", "", error))
    };
    let first = read(PAGE_BYTES)?;
    match Header::bytes_needed("", &first, bytes)? {
        needed if needed <= first.len() as u64 => Ok(first),
        needed => read(needed),
    }
}

/// Returns the first `bytes` bytes of a file, whose size its owner decides.
pub(super) fn read_front(file: &fs::File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut front = zeros(usize::try_from(bytes).map_err(io::Error::other)?)?;
    file.read_exact_at(&mut front, 0)?;
    Ok(front)
}

/// Removes a hidden file whose creator has died, or whose creator is about to remove it because the
/// file has its id. Returns the bytes that this freed.
///
/// The creator holds the file from its creation on, except for one moment in which it has no header
/// either. So its lock is taken exclusively here, and a creator that fails to hold its file creates
/// another.
fn remove_hidden(directory: &Directory, id: &SegmentId, path: &Path) -> Option<u64> {
    let hidden = directory.hidden_path(id);
    let file = open_existing(&hidden, Access::ReadWrite).ok()?;
    let facts = file.metadata().ok().filter(|facts| facts.is_file() && is_own(facts))?;
    let is_segment = is_same(path, &facts);
    if !is_segment && !lock::try_exclusive(&file) {
        return None;
    }
    // Another sweep may have removed it before.
    let removed = fs::remove_file(&hidden).is_ok();
    (removed && !is_segment).then(|| facts.blocks() * 512)
}
