//! The links to files: in each directory ids, names and tickets.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::absent::never_due;
use super::bytes::Bytes;
use super::lock::Mutex;
use crate::header::format::PAGE_BYTES;
use crate::system::interface::{LastCheck, Lookup, OwnFiles, TicketLink};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId, SegmentText};

/// The bytes that the files of one directory may have together.
const MOST_BYTES: u64 = 64 << 20;

/// The directory that segments live in: only a name here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Directory(Arc<Path>);

/// The links to the files of a directory.
#[derive(Default)]
pub(super) struct Links {
    pub(super) ids: BTreeMap<SegmentId, Arc<Bytes>>,
    pub(super) names: BTreeMap<String, Arc<Bytes>>,
    tickets: BTreeSet<(SegmentId, Option<u32>, u64)>,
}

static LINKS: Mutex<Vec<(Arc<Path>, Links)>> = Mutex::new(Vec::new());

impl Directory {
    pub(crate) fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    pub(crate) fn total_bytes(&self) -> Result<u64> {
        Ok(MOST_BYTES)
    }

    pub(crate) fn free_bytes(&self) -> Result<u64> {
        Ok(MOST_BYTES.saturating_sub(self.links(|links| links.bytes())))
    }

    /// Returns the directory that `SHMARRAY_DIR` names now.
    pub(crate) fn current() -> Self {
        let named = std::env::var_os("SHMARRAY_DIR").filter(|directory| !directory.is_empty());
        Self(named.map_or_else(PathBuf::new, PathBuf::from).into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a check that is never due: no process dies here.
    pub(crate) fn last_check(&self) -> &LastCheck {
        never_due()
    }

    pub(crate) fn segment_ids(&self) -> Result<Vec<SegmentId>> {
        Ok(self.links(|links| links.ids.keys().copied().collect()))
    }

    pub(crate) fn own_files(&self) -> Result<OwnFiles> {
        Ok(OwnFiles { ids: self.segment_ids()?, ..OwnFiles::default() })
    }

    /// Returns all links of tickets, sorted by their segments.
    pub(crate) fn ticket_links(&self) -> Result<Vec<TicketLink>> {
        let link = |&(segment, cell, ticket): &(SegmentId, Option<u32>, u64)| TicketLink {
            segment,
            cell,
            ticket,
            info: 0,
            inode: 0,
        };
        Ok(self.links(|links| links.tickets.iter().map(link).collect()))
    }

    /// Reads or changes the links while no other thread does.
    pub(super) fn links<T>(&self, change: impl FnOnce(&mut Links) -> T) -> T {
        let mut all = LINKS.lock();
        let at = all
            .iter()
            .position(|(path, _)| path.as_os_str() == self.0.as_os_str())
            .unwrap_or_else(|| {
                all.push((Arc::clone(&self.0), Links::default()));
                all.len() - 1
            });
        change(&mut all[at].1)
    }
}

impl Links {
    pub(super) fn find(&self, lookup: Lookup<'_>) -> Option<&Arc<Bytes>> {
        match lookup {
            Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => self.ids.get(id),
            Lookup::Name(name) => self.names.get(name.as_str()),
        }
    }

    /// The size of all files together.
    pub(super) fn bytes(&self) -> u64 {
        self.ids.values().map(|bytes| bytes.count()).sum()
    }

    fn names_of(&self, bytes: &Arc<Bytes>) -> usize {
        self.names.values().filter(|link| Arc::ptr_eq(link, bytes)).count()
    }

    pub(super) fn tickets_of(&self, id: &SegmentId) -> usize {
        self.tickets.range((*id, None, 0)..=(*id, Some(u32::MAX), u64::MAX)).count()
    }

    /// Whether anything but its id and its names refers to a file.
    fn is_held(&self, id: &SegmentId, bytes: &Arc<Bytes>) -> bool {
        Arc::strong_count(bytes) > 1 + self.names_of(bytes) || self.tickets_of(id) > 0
    }

    /// Removes a file's id and names; returns its size.
    pub(super) fn unlink(&mut self, id: &SegmentId) -> Option<u64> {
        let bytes = self.ids.remove(id)?;
        self.names.retain(|_, link| !Arc::ptr_eq(link, &bytes));
        Some(bytes.count())
    }

    /// Gives a file back if it has no holder and does not persist; returns its size.
    pub(super) fn reclaim(&mut self, id: &SegmentId) -> Option<u64> {
        let bytes = self.ids.get(id)?;
        if bytes.persists() || self.is_held(id, bytes) || bytes.is_under_way() {
            return None;
        }
        bytes.mark_dead();
        self.unlink(id)
    }

    /// Gives back, in the same way, the file that a name leads to.
    pub(super) fn reclaim_named(&mut self, name: &ArrayName) -> Option<u64> {
        let named = self.names.get(name.as_str())?;
        let id = *self.ids.iter().find(|(_, link)| Arc::ptr_eq(link, named))?.0;
        self.reclaim(&id)
    }
}

pub(crate) fn link_ticket(
    directory: &Directory,
    of: &SegmentText,
    ticket: u64,
    _info: u64,
) -> Result<bool> {
    let gone = || Error::os("link", directory.path(), io::ErrorKind::NotFound.into());
    directory
        .links(|links| {
            let is_there = links.ids.contains_key(&of.id);
            is_there.then(|| links.tickets.insert((of.id, of.cell, ticket)))
        })
        .ok_or_else(gone)
}

pub(crate) fn unlink_ticket(directory: &Directory, of: &SegmentText, ticket: u64) -> bool {
    directory.links(|links| links.tickets.remove(&(of.id, of.cell, ticket)))
}
