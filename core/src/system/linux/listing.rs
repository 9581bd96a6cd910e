//! The names of the files in the directory, read in one pass, and which of the files are this
//! user's.
//!
//! Any user can fill the directory. So the names are visited in a buffer of a fixed size, a pass
//! keeps nothing of a file that it has no use for, and asks about another user's file at most once,
//! by a `stat` relative to the directory that is open. A list that cannot be allocated is an error.

use std::convert::Infallible;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{AtFlags, FileType, RawDir, Stat, statat};
use rustix::io::Errno;

use super::directory::{
    Directory, NAME_PREFIX, NEW_PREFIX, SEGMENT_PREFIX, TICKET_PREFIX, own_user,
};
use super::fd::Fd;
use crate::system::interface::{OwnFiles, TicketLink};
use crate::system::shortage::reserve_for;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};

/// The buffer for names: some 200 of them.
const PART_BYTES: usize = 8 << 10;

/// What needs memory for each file that other programs have made.
const LIST: &str = "the list of segments";

/// An entry of the directory that is being read.
pub(super) struct DirEntry<'a> {
    directory: &'a File,
    c_name: &'a CStr,
    inode: u64,
}

impl<'a> DirEntry<'a> {
    /// Returns the file's name. No file of this library has a name that is not UTF-8: such a name
    /// is empty here.
    pub(super) fn name(&self) -> &'a str {
        self.c_name.to_str().unwrap_or_default()
    }

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

    /// Returns the ticket's link that the name says this is.
    pub(super) fn ticket_link(&self) -> Option<TicketLink> {
        let mut parts = self.name().strip_prefix(TICKET_PREFIX)?.split('-');
        let segment = SegmentId::from_bytes(parts.next()?.as_bytes())?;
        let ticket = parts.next()?.parse().ok()?;
        let info = u64::from_str_radix(parts.next()?, 16).ok()? << 40;
        let cell = parts.next().and_then(|cell| cell.parse().ok());
        Some(TicketLink { segment, cell, ticket, info, inode: self.inode })
    }
}

impl Directory {
    /// Calls `visit` with each entry of the directory until it breaks, and returns the value with
    /// which it did. It may remove the file. A forked child has the directory open no longer than
    /// this process. Allocates nothing but the path.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/getdents.2.html
    pub(super) fn visit_names<T>(
        &self,
        mut visit: impl FnMut(&DirEntry<'_>) -> ControlFlow<T>,
    ) -> io::Result<Option<T>> {
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
        let opened =
            Fd::open(|| OpenOptions::new().read(true).custom_flags(flags).open(self.path()))?;
        let mut part = [MaybeUninit::uninit(); PART_BYTES];
        let mut entries = RawDir::new(&*opened, &mut part);
        while let Some(entry) = entries.next() {
            let entry = match &entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(error) => return Err((*error).into()),
            };
            let c_name = entry.file_name();
            let inode = entry.ino();
            if let ControlFlow::Break(value) =
                visit(&DirEntry { directory: &opened, c_name, inode })
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Calls `visit` with each entry of the directory.
    pub(super) fn visit_all_names(&self, mut visit: impl FnMut(&DirEntry<'_>)) -> io::Result<()> {
        let visited = self.visit_names(|entry| {
            visit(entry);
            ControlFlow::<Infallible>::Continue(())
        });
        visited.map(|_| ())
    }

    /// Calls `list` with each entry of the directory until it fails.
    fn list_names(&self, mut list: impl FnMut(&DirEntry<'_>) -> Result<()>) -> Result<()> {
        let visited = self.visit_names(|entry| match list(entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        let full = visited.map_err(|error| Error::os("opendir", self.path(), error))?;
        full.map_or(Ok(()), Err)
    }

    /// Returns the ids of all segments in the directory, finished or not, of any user.
    pub(crate) fn segment_ids(&self) -> Result<Vec<SegmentId>> {
        let mut ids = Vec::new();
        self.list_names(|entry| id_in(entry.name()).map_or(Ok(()), |id| add(&mut ids, id)))?;
        Ok(ids)
    }

    /// Returns this user's files in the directory. Each file is asked about once.
    pub(crate) fn own_files(&self) -> Result<OwnFiles> {
        let mut own = OwnFiles::default();
        let user = own_user();
        self.list_names(|entry| {
            own.names_read += 1;
            match Meaning::of(entry) {
                Some(meaning) if entry.may_be_of(user) => match meaning {
                    Meaning::Segment(id) => add(&mut own.ids, id),
                    Meaning::Name(name) => add_name(&mut own, name),
                    Meaning::Ticket(link) => add(&mut own.tickets, link),
                },
                _ => Ok(()),
            }
        })?;
        Ok(own)
    }

    /// Returns all links of tickets in the directory, of any user, sorted by their segments.
    pub(crate) fn ticket_links(&self) -> Result<Vec<TicketLink>> {
        let mut links = Vec::new();
        self.list_names(|entry| entry.ticket_link().map_or(Ok(()), |link| add(&mut links, link)))?;
        links.sort_unstable_by_key(|link| link.segment);
        Ok(links)
    }
}

/// What a name says that its file is.
enum Meaning<'a> {
    Segment(SegmentId),
    Name(&'a str),
    Ticket(TicketLink),
}

impl<'a> Meaning<'a> {
    fn of(entry: &DirEntry<'a>) -> Option<Self> {
        if let Some(id) = id_in(entry.name()) {
            return Some(Self::Segment(id));
        }
        match entry.name().strip_prefix(NAME_PREFIX) {
            Some(name) => ArrayName::is_valid(name).then_some(Self::Name(name)),
            None => entry.ticket_link().map(Self::Ticket),
        }
    }
}

fn id_in(file_name: &str) -> Option<SegmentId> {
    let id =
        file_name.strip_prefix(NEW_PREFIX).or_else(|| file_name.strip_prefix(SEGMENT_PREFIX))?;
    SegmentId::from_bytes(id.as_bytes())
}

fn add<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    reserve_for(LIST, list, 1)?;
    list.push(item);
    Ok(())
}

fn add_name(own: &mut OwnFiles, name: &str) -> Result<()> {
    reserve_for(LIST, &mut own.name_bytes, name.len() + 1)?;
    own.name_bytes.extend_from_slice(name.as_bytes());
    own.name_bytes.push(b'/');
    Ok(())
}
