//! A segment: mapped whole, counted by its holders, found by its id or a name.
#![allow(unsafe_code)] // pages' protection, and control words in mapped memory

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shared_memory::{Shmem, ShmemConf, ShmemError};

use super::directory::{Directory, missing, page_bytes};
use crate::header::control::ControlWords;
use crate::header::format::{Header, MAGIC, PAGE_BYTES};
use crate::system::interface::{Access, Lookup};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};

/// Mapped shared memory. It counts as a holder once other processes may see it.
struct Held {
    shmem: Shmem,
    directory: Directory,
    counted: AtomicBool,
}

// SAFETY: the value must be usable in another thread; a mapping belongs to the whole process, and
// only `drop`, which has exclusive access, changes the crate's type.
unsafe impl Send for Held {}
// SAFETY: shared references must be usable by several threads at once; the crate's type only stores
// an address and numbers, and no method of `&Held` changes them.
unsafe impl Sync for Held {}

impl Held {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.shmem.as_ptr()).unwrap_or(NonNull::dangling())
    }

    fn bytes(&self) -> u64 {
        self.shmem.len() as u64
    }

    fn control(&self) -> ControlWords {
        // SAFETY: the address must be a header page while the words are used; `SegmentFile::create`
        // and `SegmentFile::open` ensure that the mapping has one, and `self` keeps it.
        unsafe { ControlWords::new(self.start(), 0, None) }
    }

    fn front(&self, bytes: u64) -> Vec<u8> {
        let mut front = vec![0; bytes.min(self.bytes()) as usize];
        // SAFETY: both ranges must be valid and must not overlap; `front` was cut to the mapping's
        // length above, and it is a new allocation.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start().as_ptr(), front.as_mut_ptr(), front.len())
        };
        front
    }

    /// Returns the segment's name, if that still leads to this segment.
    fn name(&self) -> Option<ArrayName> {
        let needed = Header::bytes_needed("", &self.front(PAGE_BYTES), self.bytes()).ok()?;
        let header = Header::read("", &self.front(needed), self.bytes()).ok()?;
        header.name.filter(|name| self.directory.named(name).is_ok_and(|id| id == header.id))
    }

    /// Adds one holder, unless there is none: then the segment is being given back, or created.
    fn count(&self) -> bool {
        let more = |holders: u64| (holders != 0).then_some(holders + 1);
        let counted = self.control().holders().update(more).is_ok();
        self.counted.store(counted, Ordering::Relaxed);
        counted
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !*self.counted.get_mut() {
            return; // unpublished, so its creator owns it; or opened only to be read
        }
        let goes =
            self.control().holders().update(|holders| Some(holders.wrapping_sub(1))) == Ok(1);
        self.shmem.set_owner(goes);
        if let Some(name) = self.name().filter(|_| goes) {
            let _ = fs::remove_file(self.directory.name_path(&name)); // no caller to tell
        }
    }
}

/// A segment, mapped whole.
pub(crate) struct SegmentFile(Arc<Held>);

/// A segment whose pages have their protection.
pub(crate) struct Mapping {
    held: Arc<Held>,
    header_bytes: usize,
}

impl Mapping {
    pub(crate) fn header(&self) -> NonNull<u8> {
        self.held.start()
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.held.start().as_ptr().wrapping_add(self.header_bytes)
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.held.directory
    }
}

impl SegmentFile {
    pub(crate) fn create(
        directory: Directory,
        id: &SegmentId,
        bytes: u64,
        _reserved: u64,
        mode: u32,
    ) -> Result<Self> {
        if mode != 0o600 {
            return Err(Error::Unsupported { what: "a mode other than 0600 on this platform" });
        }
        let created = ShmemConf::new().os_id(os_id(id)).size(bytes as usize).create();
        let shmem = created.map_err(|error| failed("create", id, error))?;
        Ok(Self(Arc::new(Held { shmem, directory, counted: AtomicBool::new(false) })))
    }

    pub(crate) fn open(directory: Directory, lookup: Lookup<'_>, _access: Access) -> Result<Self> {
        let id = match lookup {
            Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) => *id,
            Lookup::Name(name) => directory.named(name)?,
        };
        let shmem =
            ShmemConf::new().os_id(os_id(&id)).open().map_err(|_| missing(&directory, lookup))?;
        let file = Self(Arc::new(Held { shmem, directory, counted: AtomicBool::new(false) }));
        // The control words may be accessed only if this is a segment.
        if file.0.bytes() >= PAGE_BYTES && file.read_front(8)? == MAGIC {
            Ok(file)
        } else {
            Err(missing(&file.0.directory, lookup))
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(crate) fn read_front(&self, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.0.front(bytes))
    }

    pub(crate) fn ticket_links(&self, _header: &Header) -> (u64, u64) {
        (0, 0)
    }

    /// Counts this holder and protects the data. The segment is mapped already.
    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        if access.is_private() {
            return Err(Error::Unsupported { what: "a private mapping on this platform" });
        }
        let made_here = self.0.shmem.is_owner();
        if !made_here && !self.0.count() {
            return Err(Error::SegmentNotFound {
                segment: self.0.shmem.get_os_id().to_owned(),
                directory: self.0.directory.path().to_owned(),
            });
        }
        let data_bytes = self.bytes().saturating_sub(header_bytes) as usize;
        if access == Access::ReadOnly && data_bytes > 0 {
            let data = self.0.start().as_ptr().wrapping_add(header_bytes as usize);
            // SAFETY: no reference may point into the pages, whose protection changes; they are the
            // data of this new mapping, which `SegmentFile` never gives out references to.
            let protected = unsafe { region::protect(data, data_bytes, region::Protection::READ) };
            protected.map_err(|error| {
                Error::os("protect", self.0.directory.path(), io::Error::other(error))
            })?;
        }
        Ok(Mapping { held: Arc::clone(&self.0), header_bytes: header_bytes as usize })
    }

    /// Makes the creator the first holder; from now on an attach can count itself.
    pub(crate) fn publish(&self, _id: &SegmentId) -> Result<()> {
        self.0.control().holders().store(1, Ordering::Release); // pairs with `count`
        self.0.counted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Marks nothing: no segment persists here.
    pub(crate) fn mark_named(&self, _name: &ArrayName, _mark: impl FnOnce()) -> Result<()> {
        Ok(())
    }

    /// Links the name's file, which is written aside so that it appears with its content.
    pub(crate) fn link_name(&self, name: &ArrayName) -> Result<()> {
        let directory = &self.0.directory;
        let aside = directory
            .path()
            .join(format!("shmarray-new-{}", self.0.shmem.get_os_id().trim_start_matches('/')));
        let written = fs::write(&aside, self.0.shmem.get_os_id());
        written.map_err(|error| Error::os("write", &aside, error))?;
        let linked = link_aside(directory, name, &aside);
        let _ = fs::remove_file(&aside); // the name's link, if made, keeps the content
        linked
    }
}

fn link_aside(directory: &Directory, name: &ArrayName, aside: &Path) -> Result<()> {
    let path = directory.name_path(name);
    for attempt in 0..2 {
        match fs::hard_link(aside, &path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::os("link", path, error));
            }
            Err(_) if attempt == 0 && is_leftover(directory, name) => drop(fs::remove_file(&path)),
            Err(_) => break,
        }
    }
    Err(Error::NameExists { name: name.to_string(), directory: directory.path().to_owned() })
}

/// Removes a name. `before` marks the segment first. A segment without holders is removed with its
/// name: it cannot be attached, so that no process would give it back later.
pub(crate) fn unlink_name(
    directory: &Directory,
    name: &ArrayName,
    before: impl FnOnce(&SegmentFile) -> Result<()>,
) -> Result<SegmentFile> {
    let id = directory.named(name)?;
    let path = directory.name_path(name);
    let opened = SegmentFile::open(directory.clone(), Lookup::Id(&id), Access::ReadWrite);
    fs::remove_file(&path).map_err(|error| Error::os("unlink", path, error))?;
    let file = opened?;
    match file.0.control().holders().load(Ordering::Acquire) {
        0 => drop(ShmemConf::new().os_id(os_id(&id)).open().map(|mut shmem| shmem.set_owner(true))),
        _ => before(&file)?,
    }
    Ok(file)
}

fn is_leftover(directory: &Directory, name: &ArrayName) -> bool {
    let open =
        |id: SegmentId| SegmentFile::open(directory.clone(), Lookup::Id(&id), Access::ReadWrite);
    directory.named(name).and_then(open).is_err()
}

/// Returns the system's name of a segment, which fits the 30 characters that macOS allows.
fn os_id(id: &SegmentId) -> String {
    if cfg!(windows) { format!("shma-{id}") } else { format!("/shma-{id}") }
}

fn failed(call: &'static str, id: &SegmentId, error: ShmemError) -> Error {
    Error::os(call, os_id(id), io::Error::other(error.to_string()))
}
