//! The directory of names, and the unit of memory protection.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::absent::never_due;
use crate::system::interface::{LastCheck, Lookup, OwnFiles, TicketLink};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};

/// The directory that names live in. The segments themselves live where the system puts them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Directory(Arc<Path>);

impl Directory {
    /// Returns the directory in `SHMARRAY_DIR`, by default the system's temporary directory.
    pub(crate) fn current() -> Self {
        let named = std::env::var_os("SHMARRAY_DIR").filter(|directory| !directory.is_empty());
        Self(named.map_or_else(std::env::temp_dir, PathBuf::from).into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        page_bytes()
    }

    /// Returns a check that is never due: no process can be known to be dead.
    pub(crate) fn last_check(&self) -> &LastCheck {
        never_due()
    }

    /// Returns 0: there are no slabs here.
    pub(crate) fn total_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    /// Returns 0: the system does not say.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    /// Returns no ids: the system does not list segments.
    pub(crate) fn segment_ids(&self) -> Result<Vec<SegmentId>> {
        Ok(Vec::new())
    }

    /// Returns no files, for the same reason.
    pub(crate) fn own_files(&self) -> Result<OwnFiles> {
        Ok(OwnFiles::default())
    }

    /// Returns no links: messages have no tickets here.
    pub(crate) fn ticket_links(&self) -> Result<Vec<TicketLink>> {
        Ok(Vec::new())
    }

    pub(super) fn name_path(&self, name: &ArrayName) -> PathBuf {
        self.0.join(format!("shmarray-name-{name}"))
    }

    /// Returns the segment that a name stands for.
    pub(super) fn named(&self, name: &ArrayName) -> Result<SegmentId> {
        let text = fs::read_to_string(self.name_path(name)).unwrap_or_default();
        let id = text.strip_prefix("/").unwrap_or(&text).strip_prefix("shma-");
        id.and_then(|id| SegmentId::from_bytes(id.as_bytes()))
            .ok_or_else(|| missing(self, Lookup::Name(name)))
    }
}

/// The unit of memory protection.
pub(crate) fn page_bytes() -> u64 {
    region::page::size() as u64
}

pub(super) fn missing(directory: &Directory, lookup: Lookup<'_>) -> Error {
    let directory = directory.path().to_owned();
    match lookup {
        Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => {
            Error::SegmentNotFound { segment: id.to_string(), directory }
        }
        Lookup::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
    }
}
