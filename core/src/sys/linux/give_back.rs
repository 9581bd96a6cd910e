//! Giving back a segment that no process maps: of the dead, and of those who held it by its lock
//! alone.
//!
//! Whether somebody maps it only the kernel knows: every mapping of a holder keeps the file's lock.
//! The answer counts for the moment in which it is given, so it is asked for while the state is
//! CLOSING (`Leases::close_unmapped`): who attaches takes the lock first and looks at the state
//! then, finds CLOSING, and makes it LIVE again. Nobody ever takes that lock exclusively, and
//! nobody waits for it.
//!
//! Only files of this user are looked at. What has the name of a segment and no valid header is
//! left as it is: it may be of a later version, or no file of this library.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::directory::{Directory, is_own};
use super::fd::Fd;
use super::links;
use super::lock::{self, Patience};
use super::map::Page;
use super::name_lock::NameLock;
use super::open::open_existing;
use super::registry::{Liveness, is_message};
use crate::control::ControlWords;
use crate::error::{Error, Result};
use crate::format::{Header, PAGE_BYTES};
use crate::lease::{Closed, Leases};
use crate::name::{ArrayName, SegmentId};
use crate::sys::Access;

/// An open file of this user's with a valid header, that nobody maps.
struct Found {
    file: Fd,
    facts: fs::Metadata,
    header: Header,
}

/// Gives a segment back if nobody holds it and it need not persist. Returns its bytes.
pub(crate) fn give_back(directory: &Directory, id: &SegmentId) -> Result<Option<u64>> {
    let path = directory.segment_path(id);
    if let Some(bytes) = remove_hidden(directory, id, &path) {
        return Ok(Some(bytes)); // another file of that id is listed beside it
    }
    let Some(found) = find(&path)?.filter(|found| found.header.id == *id) else { return Ok(None) };
    if !found.ends(directory)? {
        return Ok(None);
    }
    match unlink_all(directory, &found, &path)? {
        true => Ok(Some(found.facts.blocks() * 512)),
        false => Ok(None),
    }
}

/// The same for the array that a name leads to, also when its id leads nowhere any more.
pub(super) fn give_back_named(directory: &Directory, name: &ArrayName) -> Result<()> {
    let path = directory.name_path(name);
    let Some(found) = find(&path)? else { return Ok(()) };
    let by_id = directory.segment_path(&found.header.id);
    if is_same(&by_id, &found.facts) {
        return give_back(directory, &found.header.id).map(drop);
    }
    if found.ends(directory)? {
        unlink_if_same(directory, name, &found.facts)?;
    }
    Ok(())
}

/// Names whose segment has no other link are ended when nobody holds it: nobody finds it by its id.
pub(crate) fn sweep_names(directory: &Directory) {
    for name in directory.array_names() {
        let facts = fs::symlink_metadata(directory.name_path(&name));
        if facts.is_ok_and(|facts| facts.is_file() && is_own(&facts) && facts.nlink() == 1) {
            let _ = give_back_named(directory, &name); // what cannot be ended now is ended by a later sweep
        }
    }
}

fn find(path: &Path) -> Result<Option<Found>> {
    let file = match open_existing(path, Access::ReadWrite) {
        Ok(file) => file,
        Err(error) if is_none_of_ours(&error) => return Ok(None),
        Err(error) => return Err(Error::os("open", path, error)),
    };
    let facts = file.metadata().map_err(|error| Error::os("fstat", path, error))?;
    if !facts.is_file() || !is_own(&facts) || !lock::is_unheld(&file) {
        return Ok(None);
    }
    let header = front(&file, facts.len()).and_then(|front| Header::read("", &front, facts.len()));
    Ok(header.ok().map(|header| Found { file, facts, header }))
}

/// Gone, another user's, or no file.
pub(crate) fn is_none_of_ours(error: &io::Error) -> bool {
    let numbers = [libc::ENOENT, libc::EACCES, libc::EPERM, libc::EISDIR, libc::ELOOP, libc::ENXIO];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

impl Found {
    /// Whether it has ended: here, or earlier by somebody who died of it. What nobody holds in a
    /// state that no segment can have, which nobody could ever attach, has ended, too.
    #[allow(unsafe_code)]
    fn ends(&self, directory: &Directory) -> Result<bool> {
        let is_unheld = || lock::is_unheld(&self.file) && !self.is_under_way(directory);
        if !is_unheld() {
            return Ok(false);
        }
        let mapped = Page::map(&self.file, directory.page_bytes());
        let page = mapped.map_err(|error| Error::os("mmap", directory.path(), error))?;
        // SAFETY: the first page of a valid header, mapped until `page` is dropped. Of the entries
        // none is asked for here.
        let leases = Leases::of_segment(unsafe { ControlWords::new(page.start(), 0, None) });
        Ok(leases.close_unmapped(is_unheld) != Closed::Held)
    }

    /// Whether a message holds a segment that nobody maps: by an entry, or by a link.
    fn is_under_way(&self, directory: &Directory) -> bool {
        let Ok(facts) = self.file.metadata() else { return true };
        let name = self.header.name.as_ref().map(|name| directory.name_path(name));
        let own_links = 1 + u64::from(name.is_some_and(|name| is_same(&name, &facts)));
        let mut front = vec![0; self.header.header_bytes as usize];
        if self.file.read_exact_at(&mut front, 0).is_err() {
            return true; // cut short meanwhile: left as it is
        }
        let mut messages = self
            .header
            .entries(&front)
            .filter(|entry| entry.held && is_message(entry.owner_info))
            .peekable();
        let liveness = messages.peek().and_then(|_| Liveness::look(directory));
        messages.any(|entry| {
            liveness
                .as_ref()
                .is_none_or(|liveness| !liveness.is_dead_owner(entry.owner, entry.owner_info))
        }) || facts.nlink() > own_links && links::has_tickets(directory, &self.header.id)
    }
}

/// Unlinks what has ended: its name, then its id. `false` when somebody was faster, or the name
/// cannot be looked at now: then a later sweep finds it by its id.
fn unlink_all(directory: &Directory, found: &Found, path: &Path) -> Result<bool> {
    match &found.header.name {
        Some(name) if !unlink_if_same(directory, name, &found.facts)? => Ok(false),
        _ => unlink_segment(path),
    }
}

/// Unlinks a segment that has become dead by the caller's hand, and its name. `false` when somebody
/// who met it dead was faster.
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

fn unlink_segment(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::os("unlink", path, error)),
    }
}

/// Removes a name if it leads to that file. The lock keeps a new array of that name out. `false`
/// when another process keeps the name's lock.
fn unlink_if_same(directory: &Directory, name: &ArrayName, facts: &fs::Metadata) -> Result<bool> {
    let path = directory.name_path(name);
    if !is_same(&path, facts) {
        return Ok(true);
    }
    let Ok(_lock) = NameLock::take(directory, name, Patience::Little) else { return Ok(false) };
    match is_same(&path, facts) {
        true => {
            fs::remove_file(&path).map(|()| true).map_err(|error| Error::os("unlink", &path, error))
        }
        false => Ok(true),
    }
}

pub(super) fn is_same(path: &Path, facts: &fs::Metadata) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (facts.dev(), facts.ino()))
}

/// What [`Header::read`] needs of an open file.
fn front(file: &fs::File, bytes: u64) -> Result<Vec<u8>> {
    let read = |count: u64| {
        let mut front = vec![0; count.min(bytes) as usize];
        let read = file.read_exact_at(&mut front, 0);
        read.map(|()| front).map_err(|error| Error::os("pread", "", error))
    };
    let first = read(PAGE_BYTES)?;
    match Header::bytes_needed("", &first, bytes)? {
        needed if needed <= first.len() as u64 => Ok(first),
        needed => read(needed),
    }
}

/// A hidden file whose creator has died, or is about to remove it himself because it has its id.
///
/// The creator holds the file from its first moment but one, in which it has no header either. So
/// its lock is taken exclusively here, and a creator that meets it makes another file.
fn remove_hidden(directory: &Directory, id: &SegmentId, path: &Path) -> Option<u64> {
    let hidden = directory.hidden_path(id);
    let file = open_existing(&hidden, Access::ReadWrite).ok()?;
    let facts = file.metadata().ok().filter(|facts| facts.is_file() && is_own(facts))?;
    let is_segment = is_same(path, &facts);
    if !is_segment && !lock::try_exclusive(&file) {
        return None;
    }
    let removed = fs::remove_file(&hidden).is_ok(); // another sweep may have been there first
    (removed && !is_segment).then(|| facts.blocks() * 512)
}
