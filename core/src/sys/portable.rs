//! The portable backend: the crate `shared_memory`, for macOS and Windows.
//!
//! The crate cannot reserve pages, lock, or choose a directory, and a crash here leaves the
//! count of holders too high. The README's table says which promises that costs. What can
//! be had is had: the last holder that closes gives the segment back, read-only pages are
//! protected, a name finds its segment, half-made segments cannot be attached (their count
//! of holders is zero).
#![allow(unsafe_code)] // pages' protection, and words in mapped memory

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shared_memory::{Shmem, ShmemConf, ShmemError};

use super::{Access, Place};
use crate::error::{Error, Result};
use crate::format::{Header, MAGIC, PAGE_BYTES};
use crate::name::{ArrayName, SegmentId};
use crate::words::Words;

/// Where names live; the segments themselves are wherever the system has them.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("SHMARRAY_DIR") {
        Some(directory) if !directory.is_empty() => directory.into(),
        _ => std::env::temp_dir(),
    }
}

/// The unit of memory protection.
pub(crate) fn page_bytes() -> u64 {
    region::page::size() as u64
}

/// Shared memory that is mapped, and counted once somebody may see it.
struct Held {
    shmem: Shmem,
    counted: AtomicBool,
}

// SAFETY: a mapping belongs to the process, not to a thread; the crate's type only holds
// its address and numbers, and is changed only by `drop`, which has it alone.
unsafe impl Send for Held {}
// SAFETY: as for Send.
unsafe impl Sync for Held {}

impl Held {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.shmem.as_ptr()).unwrap_or(NonNull::dangling())
    }

    fn bytes(&self) -> u64 {
        self.shmem.len() as u64
    }

    fn words(&self) -> Words {
        // SAFETY: `File::create` and `File::open` see to it that a header page is there.
        unsafe { Words::new(self.start()) }
    }

    fn front(&self, bytes: u64) -> Vec<u8> {
        let mut front = vec![0; bytes.min(self.bytes()) as usize];
        // SAFETY: the mapping has at least that many bytes, and `front` is new.
        unsafe { std::ptr::copy_nonoverlapping(self.start().as_ptr(), front.as_mut_ptr(), front.len()) };
        front
    }

    /// The name it was given, if that still leads here.
    fn name(&self) -> Option<ArrayName> {
        let needed = Header::bytes_needed("", &self.front(PAGE_BYTES), self.bytes()).ok()?;
        let header = Header::read("", &self.front(needed), self.bytes()).ok()?;
        header.name.filter(|name| named(name).is_ok_and(|id| id == header.id))
    }

    /// One holder more, unless there is none: then it is being given back, or made.
    fn count(&self) -> bool {
        let more = |holders: u64| (holders != 0).then_some(holders + 1);
        let counted = self.words().holders().fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok();
        self.counted.store(counted, Ordering::Relaxed);
        counted
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !*self.counted.get_mut() {
            return; // never seen: its maker owns it; only looked at: nobody's
        }
        let last = self.words().holders().fetch_sub(1, Ordering::AcqRel) == 1;
        let goes = last && !self.words().persists();
        self.shmem.set_owner(goes);
        if let Some(name) = self.name().filter(|_| goes) {
            let _ = fs::remove_file(name_path(&name)); // a close has nobody to tell
        }
    }
}

/// A segment, mapped whole.
pub(crate) struct File(Arc<Held>);

/// The same segment with its pages protected.
pub(crate) struct Mapping(Arc<Held>);

impl Mapping {
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.shmem.len()
    }
}

impl File {
    pub(crate) fn create(id: &SegmentId, bytes: u64, mode: u32) -> Result<Self> {
        if mode != 0o600 {
            return Err(Error::Unsupported { what: "a mode other than 0600" });
        }
        let created = ShmemConf::new().os_id(os_id(id)).size(bytes as usize).create();
        let shmem = created.map_err(|error| failed("create", id, error))?;
        Ok(Self(Arc::new(Held { shmem, counted: AtomicBool::new(false) })))
    }

    pub(crate) fn open(place: Place<'_>, _access: Access) -> Result<Self> {
        let id = match place {
            Place::Id(id) => *id,
            Place::Name(name) => named(name)?,
        };
        let missing = || missing(place);
        let shmem = ShmemConf::new().os_id(os_id(&id)).open().map_err(|_| missing())?;
        let file = Self(Arc::new(Held { shmem, counted: AtomicBool::new(false) }));
        // Before the words are touched: is this a segment at all?
        match file.0.bytes() >= PAGE_BYTES && file.read_front(8)? == MAGIC {
            true => Ok(file),
            false => Err(missing()),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(crate) fn read_front(&self, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.0.front(bytes))
    }

    /// Everything is mapped already: counts this holder, and protects the data.
    pub(crate) fn map(&self, access: Access, header_bytes: u64) -> Result<Mapping> {
        let made_here = self.0.shmem.is_owner();
        if !made_here && !self.0.count() {
            return Err(Error::SegmentNotFound {
                segment: self.0.shmem.get_os_id().to_owned(),
                directory: directory(),
            });
        }
        let data_bytes = self.bytes().saturating_sub(header_bytes) as usize;
        if access == Access::ReadOnly && data_bytes > 0 {
            let data = self.0.start().as_ptr().wrapping_add(header_bytes as usize);
            // SAFETY: pages of this mapping, which no reference points into.
            let protected = unsafe { region::protect(data, data_bytes, region::Protection::READ) };
            protected.map_err(|error| Error::os("protect", directory(), io::Error::other(error)))?;
        }
        Ok(Mapping(Arc::clone(&self.0)))
    }

    /// Its maker is the first holder; from now on an attach can count itself.
    pub(crate) fn publish(&self, _id: &SegmentId) -> Result<()> {
        self.0.words().holders().store(1, Ordering::Release); // pairs with `count`
        self.0.counted.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn link_name(&self, name: &ArrayName) -> Result<()> {
        let path = name_path(name);
        for attempt in 0..2 {
            match fs::File::create_new(&path) {
                Ok(mut link) => {
                    let written = link.write_all(self.0.shmem.get_os_id().as_bytes());
                    return written.map_err(|error| Error::os("write", path, error));
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::os("open", path, error));
                }
                Err(_) if attempt == 0 && is_leftover(name) => drop(fs::remove_file(&path)),
                Err(_) => break,
            }
        }
        Err(Error::NameExists { name: name.to_string(), directory: directory() })
    }
}

/// The last holder gives the segment back as it unmaps it.
pub(crate) fn release(mapping: Mapping, _id: &SegmentId) -> Result<()> {
    drop(mapping);
    Ok(())
}

/// Nobody but the last holder can tell that a segment is not held.
pub(crate) fn give_back(_id: &SegmentId) -> Result<Option<u64>> {
    Ok(None)
}

/// The system does not list them.
pub(crate) fn segment_ids() -> Result<Vec<SegmentId>> {
    Ok(Vec::new())
}

pub(crate) fn unlink_name(name: &ArrayName) -> Result<()> {
    let id = named(name)?;
    let path = name_path(name);
    fs::remove_file(&path).map_err(|error| Error::os("unlink", path, error))?;
    if let Ok(file) = File::open(Place::Id(&id), Access::ReadWrite) {
        file.0.words().clear_persist();
        give_back_unheld(&file, id);
    }
    Ok(())
}

/// What persisted without holders goes with its name.
fn give_back_unheld(file: &File, id: SegmentId) {
    if file.0.words().holders().load(Ordering::Acquire) != 0 {
        return;
    }
    if let Ok(mut shmem) = ShmemConf::new().os_id(os_id(&id)).open() {
        shmem.set_owner(true);
    }
}

fn name_path(name: &ArrayName) -> PathBuf {
    directory().join(format!("shmarray-name-{name}"))
}

/// The segment that a name stands for.
fn named(name: &ArrayName) -> Result<SegmentId> {
    let text = fs::read_to_string(name_path(name)).unwrap_or_default();
    let id = text.strip_prefix("/").unwrap_or(&text).strip_prefix("shma-");
    id.and_then(|id| SegmentId::from_bytes(id.as_bytes())).ok_or_else(|| missing(Place::Name(name)))
}

fn is_leftover(name: &ArrayName) -> bool {
    named(name).and_then(|id| File::open(Place::Id(&id), Access::ReadWrite)).is_err()
}

/// Fits the 30 characters that macOS has for a name.
fn os_id(id: &SegmentId) -> String {
    match cfg!(windows) {
        true => format!("shma-{id}"),
        false => format!("/shma-{id}"),
    }
}

fn missing(place: Place<'_>) -> Error {
    let directory = directory();
    match place {
        Place::Id(id) => Error::SegmentNotFound { segment: id.to_string(), directory },
        Place::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
    }
}

fn failed(call: &'static str, id: &SegmentId, error: ShmemError) -> Error {
    Error::os(call, os_id(id), io::Error::other(error.to_string()))
}
