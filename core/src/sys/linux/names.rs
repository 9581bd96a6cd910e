//! The names in the directory, read in one pass, and which of the files are this user's.
//!
//! Any user can fill the directory. So a pass has a buffer of a fixed size, keeps nothing of
//! another user's file, and asks about such a file once, by a `stat` relative to the directory that
//! is open. A list that finds no memory is an error.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{AtFlags, FileType, RawDir, Stat, statat};
use rustix::io::Errno;

use super::directory::{Directory, NAME_PREFIX, NEW_PREFIX, SEGMENT_PREFIX, own_user};
use super::fd::Fd;
use crate::error::{Error, Result};
use crate::name::{ArrayName, SegmentId};
use crate::sys::interface::{OwnFiles, TicketLink};
use crate::sys::shortage::reserve;

const TICKET_PREFIX: &str = "shmarray-ticket-";
/// The buffer for names: some 200 of them.
const BUFFER_BYTES: usize = 8 << 10;

/// An entry of the directory that is being read.
pub(super) struct Entry<'a> {
    directory: &'a File,
    c_name: &'a CStr,
    pub(super) name: &'a str,
    pub(super) inode: u64,
}

impl Entry<'_> {
    /// Returns the file's facts. A link is not followed.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/fstatat.2.html
    fn facts(&self) -> std::result::Result<Stat, Errno> {
        statat(self.directory.as_fd(), self.c_name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Whether it may be a file of that user. One about which the kernel cannot be asked counts:
    /// the operation that follows reports the error.
    fn may_be_of(&self, user: Option<u32>) -> bool {
        match self.facts() {
            Ok(facts) => user == Some(facts.st_uid),
            Err(error) => error != Errno::NOENT,
        }
    }

    /// Whether it is a regular file of that user that has no other name.
    pub(super) fn is_only_name_of(&self, user: Option<u32>) -> bool {
        self.facts().is_ok_and(|facts| {
            let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
            user == Some(facts.st_uid) && is_file && facts.st_nlink == 1
        })
    }
}

impl Directory {
    /// Calls `visit` for each name that begins with `prefix`, until it fails. Returns how many
    /// names there are, whatever they begin with.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/getdents.2.html
    pub(super) fn for_each_name(
        &self,
        prefix: &str,
        mut visit: impl FnMut(&Entry<'_>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC);
        let opened = Fd::open(|| options.open(self.path()))?;
        let (directory, mut buffer): (&File, _) = (&opened, [MaybeUninit::uninit(); BUFFER_BYTES]);
        let mut names = RawDir::new(directory.as_fd(), &mut buffer);
        let mut count = 0;
        while let Some(entry) = names.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let (c_name, inode) = (entry.file_name(), entry.ino());
            count += 1;
            if let Ok(name) = c_name.to_str()
                && name.starts_with(prefix)
            {
                visit(&Entry { directory, c_name, name, inode })?;
            }
        }
        Ok(count)
    }

    /// Returns the ids of all segments in the directory, finished or not, of any user.
    pub(crate) fn segment_ids(&self) -> Result<Vec<SegmentId>> {
        let mut ids = Vec::new();
        let read = self.for_each_name(SEGMENT_PREFIX, |entry| match id_in(entry.name) {
            Some(id) => push(&mut ids, id),
            None => Ok(()),
        });
        read.map_err(|error| self.not_listed(error, ids.len() * size_of::<SegmentId>()))?;
        Ok(ids)
    }

    /// Returns this user's files in the directory. Each file is asked about once.
    pub(crate) fn own_files(&self) -> Result<OwnFiles> {
        let (mut own, user) = (OwnFiles::default(), own_user());
        let read = self.for_each_name(SEGMENT_PREFIX, |entry| match Meaning::of(entry) {
            Some(meaning) if entry.may_be_of(user) => match meaning {
                Meaning::Segment(id) => push(&mut own.ids, id),
                Meaning::Name(name) => push(&mut own.names, name),
                Meaning::Ticket(link) => push(&mut own.tickets, link),
            },
            _ => Ok(()),
        });
        let bytes = own.ids.len() * size_of::<SegmentId>();
        own.names_read = read.map_err(|error| self.not_listed(error, bytes))?;
        Ok(own)
    }

    /// Returns the error of a list that has so many bytes so far.
    fn not_listed(&self, error: io::Error, bytes: usize) -> Error {
        match error.kind() {
            io::ErrorKind::OutOfMemory => {
                Error::NoMemory { bytes: 2 * bytes as u64, purpose: "the list of segments" }
            }
            _ => Error::os("opendir", self.path(), error),
        }
    }

    /// Returns all links of tickets in the directory, of any user, sorted by their segments.
    pub(crate) fn ticket_links(&self) -> Vec<TicketLink> {
        let mut links = Vec::new();
        let read = self.for_each_name(TICKET_PREFIX, |entry| match ticket_in(entry) {
            Some(link) => push(&mut links, link),
            None => Ok(()),
        });
        // What cannot be read is not counted. Another operation reports the error.
        let _ = read;
        links.sort_unstable_by_key(|link| link.segment);
        links
    }
}

/// What a name says that its file is.
enum Meaning {
    Segment(SegmentId),
    Name(ArrayName),
    Ticket(TicketLink),
}

impl Meaning {
    fn of(entry: &Entry<'_>) -> Option<Self> {
        if let Some(id) = id_in(entry.name) {
            return Some(Self::Segment(id));
        }
        match entry.name.strip_prefix(NAME_PREFIX) {
            Some(name) => name.parse().ok().map(Self::Name),
            None => ticket_in(entry).map(Self::Ticket),
        }
    }
}

fn id_in(file_name: &str) -> Option<SegmentId> {
    let id =
        file_name.strip_prefix(NEW_PREFIX).or_else(|| file_name.strip_prefix(SEGMENT_PREFIX))?;
    SegmentId::from_bytes(id.as_bytes())
}

fn ticket_in(entry: &Entry<'_>) -> Option<TicketLink> {
    let mut parts = entry.name.strip_prefix(TICKET_PREFIX)?.split('-');
    let segment = SegmentId::from_bytes(parts.next()?.as_bytes())?;
    let ticket = parts.next()?.parse().ok()?;
    let info = u64::from_str_radix(parts.next()?, 16).ok()? << 40;
    let cell = parts.next().and_then(|cell| cell.parse().ok());
    Some(TicketLink { segment, cell, ticket, info, inode: entry.inode })
}

/// Adds an item, or fails if no memory can be had: other users decide how many there are.
fn push<T>(items: &mut Vec<T>, item: T) -> io::Result<()> {
    reserve(items, 1)?;
    items.push(item);
    Ok(())
}
