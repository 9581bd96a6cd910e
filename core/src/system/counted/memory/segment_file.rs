//! A file and its mapping: an allocation that both keep.

use std::ptr::NonNull;
use std::sync::Arc;

use super::super::absent::Liveness;
use super::bytes::Bytes;
use super::directory::Directory;
use crate::header::format::Header;
use crate::system::interface::{Access, Lookup};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};

/// A segment's file, open and held.
pub(crate) struct SegmentFile {
    bytes: Arc<Bytes>,
    directory: Directory,
}

/// A segment's file, mapped and held.
pub(crate) struct Mapping {
    bytes: Arc<Bytes>,
    directory: Directory,
    header_bytes: usize,
}

impl Mapping {
    pub(crate) fn header(&self) -> NonNull<u8> {
        self.bytes.start()
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.bytes.start().as_ptr().wrapping_add(self.header_bytes)
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }
}

impl SegmentFile {
    pub(crate) fn create(
        directory: Directory,
        id: &SegmentId,
        bytes: u64,
        _reserved: u64,
        _mode: u32,
    ) -> Result<Self> {
        let free_bytes = directory.free_bytes()?;
        if bytes > free_bytes {
            return Err(Error::NoSpace {
                asked_bytes: bytes,
                free_bytes,
                lacks_inode: false,
                directory: directory.path().to_owned(),
            });
        }
        let bytes = Bytes::new(bytes).map_err(|error| Error::os("allocate", id.as_str(), error))?;
        Ok(Self { bytes: Arc::new(bytes), directory })
    }

    pub(crate) fn open(directory: Directory, lookup: Lookup<'_>, _access: Access) -> Result<Self> {
        match directory.links(|links| links.find(lookup).cloned()) {
            Some(bytes) => Ok(Self { bytes, directory }),
            None => Err(missing(&directory, lookup)),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.count()
    }

    pub(crate) fn ticket_links(&self, header: &Header) -> (u64, u64) {
        (self.directory.links(|links| links.tickets_of(&header.id)) as u64, 0)
    }

    pub(crate) fn read_front(&self, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.bytes.front(bytes))
    }

    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        if access.is_private() {
            return Err(Error::Unsupported { what: "a private mapping on this platform" });
        }
        let bytes = Arc::clone(&self.bytes);
        let directory = self.directory.clone();
        Ok(Mapping { bytes, directory, header_bytes: header_bytes as usize })
    }

    pub(crate) fn publish(&self, id: &SegmentId) -> Result<()> {
        self.directory.links(|links| links.ids.insert(*id, Arc::clone(&self.bytes)));
        Ok(())
    }

    /// Makes the segment visible by a name as well. A dead segment of that name is given back
    /// first.
    pub(crate) fn link_name(&self, name: &ArrayName) -> Result<()> {
        let is_taken = self.directory.links(|links| {
            links.reclaim_named(name);
            let found =
                links.names.entry(name.to_string()).or_insert_with(|| Arc::clone(&self.bytes));
            !Arc::ptr_eq(found, &self.bytes)
        });
        if is_taken {
            Err(Error::NameExists {
                name: name.to_string(),
                directory: self.directory.path().to_owned(),
            })
        } else {
            Ok(())
        }
    }

    /// Marks the segment, if it still has its name, while no thread can remove the name.
    pub(crate) fn mark_named(&self, name: &ArrayName, mark: impl FnOnce()) -> Result<()> {
        self.directory.links(|links| {
            if links.names.get(name.as_str()).is_some_and(|bytes| Arc::ptr_eq(bytes, &self.bytes)) {
                mark();
            }
        });
        Ok(())
    }
}

pub(crate) fn discard(
    directory: &Directory,
    id: &SegmentId,
    _name: Option<&ArrayName>,
) -> Result<bool> {
    Ok(directory.links(|links| links.unlink(id)).is_some())
}

pub(crate) fn is_found(directory: &Directory, id: &SegmentId) -> bool {
    directory.links(|links| links.ids.contains_key(id))
}

pub(crate) fn is_findable(directory: &Directory, id: &SegmentId) -> bool {
    is_found(directory, id)
}

pub(crate) fn reclaim(
    directory: &Directory,
    id: &SegmentId,
    _liveness: &Liveness,
) -> Result<Option<u64>> {
    Ok(directory.links(|links| links.reclaim(id)))
}

pub(crate) fn unlink_name(
    directory: &Directory,
    name: &ArrayName,
    before: impl FnOnce(&SegmentFile) -> Result<()>,
) -> Result<SegmentFile> {
    let unlinked = directory.links(|links| {
        let file = SegmentFile {
            bytes: Arc::clone(links.names.get(name.as_str())?),
            directory: directory.clone(),
        };
        let marked = before(&file);
        if marked.is_ok() {
            links.names.remove(name.as_str());
        }
        Some(marked.map(|()| file))
    });
    unlinked.unwrap_or_else(|| Err(missing(directory, Lookup::Name(name))))
}

/// Zeroes parts of a segment by stores, so that Miri sees a race with a thread that still reads
/// them.
pub(crate) fn decommit(directory: &Directory, id: &SegmentId, parts: &[(u64, u64)]) -> Result<()> {
    let file = SegmentFile::open(directory.clone(), Lookup::Id(id), Access::ReadWrite)?;
    parts.iter().for_each(|(offset, bytes)| file.bytes.clear(*offset, *bytes));
    Ok(())
}

fn missing(directory: &Directory, lookup: Lookup<'_>) -> Error {
    let directory = directory.path().to_owned();
    match lookup {
        Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => {
            Error::SegmentNotFound { segment: id.to_string(), directory }
        }
        Lookup::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
    }
}
