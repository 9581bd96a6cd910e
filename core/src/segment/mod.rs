//! A segment held by this process, and the table of those it holds.
//!
//! One segment is mapped once for each access, however many arrays lie in it: the table
//! finds it by id when a handle arrives, and by address when somebody asks for the handle
//! of memory he has. The table holds nothing alive; an array's `Arc<Segment>` does.
//!
//! Invariants:
//! * I1 a `Segment` was LIVE with its generation while this process already held it.
//! * I2 its data is mapped from `data_start()` for `header.data_bytes` until it is dropped.
//! * I3 what `header` says was validated when it was copied out; the original is not read again.

mod process;
mod sweep;
mod table;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::descriptor::GENERATION_LIMIT;
use crate::error::{Error, Result};
use crate::format::{Header, PAGE_BYTES};
use crate::lease::{Closed, Leases};
use crate::name::{ArrayName, SegmentId, random_generation};
use crate::sys::{self, Access, Directory, Identity, Lives, Place};
use crate::words::{self, Words};

pub use sweep::{SegmentInfo, Swept, segments, sweep};
use sweep::{sweep_at_first_use, sweep_at_times, sweep_directory};
use table::Table;

/// One named piece of shared memory, mapped and held.
pub(crate) struct Segment {
    /// Taken out only by `drop`.
    mapping: Option<sys::Mapping>,
    header: Header,
    generation: u64,
    access: Access,
    /// Our entry in its lease table, or BY_LOCK.
    place: AtomicUsize,
    /// The child's, while a fork is under way.
    childs_place: AtomicUsize,
}

/// No entry: the mapping's lock is what holds.
const BY_LOCK: usize = usize::MAX;

/// What a new segment may be, beyond its array.
#[derive(Debug, Clone, Default)]
pub(crate) struct Birth {
    pub(crate) persist: bool,
    pub(crate) mode: u32,
}

impl Birth {
    /// Readers who may not write the header cannot enter: who lets them in holds by lock.
    fn flags(&self) -> u64 {
        let readers = self.mode & 0o044 != 0;
        (if self.persist { words::PERSIST } else { 0 }) | (if readers { words::BY_LOCK } else { 0 })
    }
}

impl Segment {
    /// A new segment: nobody sees it before it is whole.
    pub(crate) fn create(id: SegmentId, header: Header, birth: &Birth) -> Result<Arc<Self>> {
        process::begin();
        let directory = Directory::current();
        sweep_at_times(&directory);
        let file = reserve(&directory, &id, &header, birth)?;
        let mapping = file.map(Access::ReadWrite, header.header_bytes)?;
        write_header(&mapping, &header);
        let generation = random_generation()?;
        let leases = leases(&mapping, &header);
        leases.0.set_generation(generation);
        leases.set_live(birth.flags());
        let place = enter(&leases, &mapping).unwrap_or(BY_LOCK); // nobody else has seen it: it is live
        file.publish(&id)?;
        let linked = header.name.as_ref().map_or(Ok(()), |name| file.link_name(name));
        // The open file holds the segment too: it goes first, so that when the name is taken
        // the drop of the segment is that of the last holder.
        drop(file);
        let segment = Self::register(mapping, header, generation, Access::ReadWrite, place);
        linked.map(|()| segment)
    }

    /// The segment of a handle, mapped now or found in the table.
    pub(crate) fn attach(id: &SegmentId, generation: u64, access: Access) -> Result<Arc<Self>> {
        let segment = match Table::find(id, access) {
            Some(segment) => segment,
            None => Self::open(Place::Id(id), access)?,
        };
        match segment.generation == generation {
            true => Ok(segment),
            false => {
                Err(Error::StaleHandle { segment: id.to_string(), expected: generation, found: segment.generation })
            }
        }
    }

    /// The segment that has a name.
    pub(crate) fn attach_name(name: &ArrayName, access: Access) -> Result<Arc<Self>> {
        Self::open(Place::Name(name), access)
    }

    fn open(place: Place<'_>, access: Access) -> Result<Arc<Self>> {
        process::begin();
        let directory = Directory::current();
        sweep_at_first_use(&directory);
        let label = place.to_string();
        let file = sys::File::open(directory.clone(), place, access)?;
        let header = read_header(&label, &file)?;
        check_id(place, &header)?;
        if let Some(segment) = Table::find(&header.id, access) {
            return Ok(segment); // a name led to what is mapped already
        }
        let mapping = file.map(access, header.header_bytes)?;
        let leases = leases(&mapping, &header);
        let Some(place) = enter(&leases, &mapping) else {
            return Err(Error::SegmentNotFound { segment: label, directory: directory.path().to_owned() });
        };
        let generation = leases.0.generation();
        let segment = Self::register(mapping, header, generation, access, place);
        segment.check_generation(&label).map(|()| segment)
    }

    fn register(mapping: sys::Mapping, header: Header, generation: u64, access: Access, place: usize) -> Arc<Self> {
        let (place, childs_place) = (AtomicUsize::new(place), AtomicUsize::new(BY_LOCK));
        let segment = Arc::new(Self { mapping: Some(mapping), header, generation, access, place, childs_place });
        Table::insert(&segment);
        segment
    }

    /// One that no handle could name is nobody's of ours.
    fn check_generation(&self, label: &str) -> Result<()> {
        if self.generation < GENERATION_LIMIT {
            return Ok(());
        }
        let (expected, found) = (format!("below {GENERATION_LIMIT}"), self.generation.to_string());
        Err(Error::InvalidSegment { segment: label.to_owned(), field: "generation", expected, found })
    }

    /// What it says of itself.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// First byte of the data (I2).
    pub(crate) fn data_start(&self) -> NonNull<u8> {
        let start = self.mapping.as_ref().map_or(std::ptr::null_mut(), sys::Mapping::data);
        NonNull::new(start).unwrap_or(NonNull::dangling()) // null only while it is being dropped
    }

    /// What the table knows it by.
    fn address(&self) -> (usize, usize) {
        (self.data_start().as_ptr() as usize, std::ptr::from_ref(self) as usize)
    }

    /// The segment of this process that memory lies in.
    pub(crate) fn containing(address: usize) -> Option<Arc<Self>> {
        Table::containing(address)
    }

    /// Gives our lease back, and the segment if that was the last. From then on what is left of
    /// our hold is the mapping's lock.
    fn leave(&self, mapping: &sys::Mapping) {
        let leases = leases(mapping, &self.header);
        let place = self.place.swap(BY_LOCK, Ordering::Relaxed);
        if place == BY_LOCK {
            return;
        }
        leases.leave(place);
        let closed = match leases.close() {
            Closed::Held if !leases.is_by_lock() => close_without_the_dead(&leases, mapping.directory()),
            closed => closed,
        };
        if closed == Closed::Dead {
            // A close has nobody to tell. What it could not unlink, a sweep will.
            let _ = sys::discard(mapping.directory(), &self.header.id, self.header.name.as_ref());
        }
    }

    /// Before a fork: what this process holds, the child will hold. Allocates nothing.
    fn lend_to_child(&self) {
        let Some(mapping) = &self.mapping else { return };
        let leases = leases(mapping, &self.header);
        let childs = sys::identity_of_child(mapping.directory());
        let holds = self.place.load(Ordering::Relaxed) != BY_LOCK;
        let place = childs.filter(|_| holds).and_then(|child| leases.claim(child.holder, child.about));
        match place {
            Some(place) => leases.set_held(place), // we hold meanwhile, so it is alive
            None if mapping.header_is_writable() => drop(leases.hold_by_lock()),
            None => {} // a reader's segment is by lock already
        }
        self.childs_place.store(place.unwrap_or(BY_LOCK), Ordering::Relaxed);
    }

    /// After a fork, in the child.
    fn become_childs(&self) {
        self.place.store(self.childs_place.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        Table::remove(self);
        let Some(mapping) = self.mapping.take() else { return };
        self.leave(&mapping);
        match leases(&mapping, &self.header).is_by_lock() {
            true => drop(sys::release(mapping, &self.header.id)),
            false => drop(mapping),
        }
    }
}

/// A new file. What the dead left makes room before shared memory is said to be full.
fn reserve(directory: &Directory, id: &SegmentId, header: &Header, birth: &Birth) -> Result<sys::File> {
    let create = || sys::File::create(directory.clone(), id, header.segment_bytes(), birth.mode);
    match create() {
        Err(Error::NoSpace { .. }) if sweep_directory(directory)?.segments > 0 => create(),
        created => created,
    }
}

/// Holds a mapped segment: by an entry, or where none can be had by the mapping's lock alone.
/// `None` when it is not alive.
fn enter(leases: &Leases, mapping: &sys::Mapping) -> Option<usize> {
    if !mapping.header_is_writable() {
        return (leases.is_by_lock() && leases.is_live()).then_some(BY_LOCK);
    }
    let directory = mapping.directory();
    let claim = |who: Identity| {
        leases.claim(who.holder, who.about).or_else(|| {
            clear_dead(leases, directory);
            leases.claim(who.holder, who.about)
        })
    };
    match sys::identity(directory).and_then(claim) {
        Some(place) => leases.enter(place).then_some(place),
        None => leases.hold_by_lock().then_some(BY_LOCK),
    }
}

fn clear_dead(leases: &Leases, directory: &Directory) {
    if let Some(lives) = Lives::look(directory) {
        leases.clear_void(|holder, about| lives.is_void(holder, about));
    }
}

/// Somebody holds it, or somebody did and died.
fn close_without_the_dead(leases: &Leases, directory: &Directory) -> Closed {
    clear_dead(leases, directory);
    leases.close()
}

fn read_header(label: &str, file: &sys::File) -> Result<Header> {
    let header_bytes = Header::bytes_needed(label, &file.read_front(PAGE_BYTES)?, file.bytes())?;
    Header::read(label, &file.read_front(header_bytes)?, file.bytes())
}

/// Takes a name away. The array itself goes with its last holder.
///
/// # Errors
/// [`Error::NameNotFound`], [`Error::InvalidName`], [`Error::NotOwner`].
pub fn unlink(name: &str) -> Result<()> {
    let (directory, name) = (Directory::current(), name.parse()?);
    let mut persistent = None;
    let file = sys::unlink_name(&directory, &name, |file| {
        let read = read_header("", file).and_then(|header| no_longer_persistent(file, header));
        persistent = read.inspect_err(|_| file.clear_flags()).ok(); // of what is no segment, a sweep takes the rest
    })?;
    let Some((mapping, header)) = persistent else { return Ok(()) }; // not a segment: its name was all
    drop(file);
    if close_without_the_dead(&leases(&mapping, &header), &directory) == Closed::Dead {
        sys::discard(&directory, &header.id, None)?;
    }
    sys::release(mapping, &header.id)
}

/// Before the name goes: a crash in between must not leave what persists without a name.
fn no_longer_persistent(file: &sys::File, header: Header) -> Result<(sys::Mapping, Header)> {
    let mapping = file.map(Access::ReadWrite, header.header_bytes)?;
    leases(&mapping, &header).0.flags().fetch_and(!words::PERSIST, Ordering::SeqCst);
    Ok((mapping, header))
}

fn check_id(place: Place<'_>, header: &Header) -> Result<()> {
    match place {
        Place::Id(id) if *id != header.id => Err(Error::InvalidSegment {
            segment: id.to_string(),
            field: "id",
            expected: id.to_string(),
            found: header.id.to_string(),
        }),
        _ => Ok(()),
    }
}

#[allow(unsafe_code)]
fn leases(mapping: &sys::Mapping, header: &Header) -> Leases {
    // SAFETY: a mapping starts at a page, and every segment has at least its header page, with
    // room for the entries: `create` made it, or `Header::read` checked both.
    Leases(unsafe { Words::new(mapping.header(), header.leases_count as usize) })
}

#[allow(unsafe_code)]
fn write_header(mapping: &sys::Mapping, header: &Header) {
    let bytes = header.write();
    // SAFETY: the file was made as long as the header says, which is at least its own bytes;
    // nobody else has the mapping yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.header().as_ptr(), bytes.len()) };
}
