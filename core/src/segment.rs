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

use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::format::{Header, PAGE_BYTES};
use crate::lease::{Closed, Leases};
use crate::name::{ArrayName, SegmentId, random_generation};
use crate::sys::{self, Access, Directory, Identity, Lives, Place};
use crate::words::{self, Words};

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
        let file = sys::File::create(directory.clone(), &id, header.segment_bytes(), birth.mode)?;
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
        Ok(Self::register(mapping, header, generation, access, place))
    }

    fn register(mapping: sys::Mapping, header: Header, generation: u64, access: Access, place: usize) -> Arc<Self> {
        let (place, childs_place) = (AtomicUsize::new(place), AtomicUsize::new(BY_LOCK));
        let segment = Arc::new(Self { mapping: Some(mapping), header, generation, access, place, childs_place });
        Table::insert(&segment);
        segment
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
        persistent = read_header("", file).and_then(|header| no_longer_persistent(file, header)).ok();
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

/// What a sweep gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Segments.
    pub segments: u64,
    /// Bytes of shared memory.
    pub bytes: u64,
}

/// Gives back what dead processes held.
///
/// Nobody needs to call this: the first use of the library in each process does.
///
/// # Errors
/// [`Error::Os`] when the directory cannot be read.
pub fn sweep() -> Result<Swept> {
    sweep_directory(&Directory::current())
}

fn sweep_directory(directory: &Directory) -> Result<Swept> {
    let mut swept = Swept::default();
    let ids = directory.segment_ids()?;
    SEEN_BY_SWEEP.store(ids.len(), Ordering::Relaxed);
    for id in &ids {
        let unmapped = sys::give_back(directory, id)?;
        if let Some(bytes) = unmapped.or_else(|| give_back_mapped(directory, id).ok().flatten()) {
            swept.segments += 1;
            swept.bytes += bytes;
        }
    }
    Ok(swept)
}

/// Gives back what is mapped somewhere, but by nobody who holds it any more.
fn give_back_mapped(directory: &Directory, id: &SegmentId) -> Result<Option<u64>> {
    let file = sys::File::open(directory.clone(), Place::Id(id), Access::ReadWrite)?;
    let header = read_header(id.as_str(), &file)?;
    check_id(Place::Id(id), &header)?;
    let mapping = file.map(Access::ReadWrite, header.header_bytes)?;
    let leases = leases(&mapping, &header);
    match leases.is_by_lock() || close_without_the_dead(&leases, directory) != Closed::Dead {
        true => Ok(None),
        false => sys::discard(directory, id, header.name.as_ref()).map(|()| Some(file.bytes())),
    }
}

/// What there is to know of a segment without attaching it.
#[derive(Debug, Clone)]
pub struct SegmentInfo {
    /// Its id.
    pub id: SegmentId,
    /// The name a person gave it.
    pub name: Option<String>,
    /// Size in bytes, the header included.
    pub segment_bytes: u64,
    /// Element type of its array.
    pub dtype: crate::dtype::DType,
    /// Shape of its array, in elements.
    pub shape: Vec<u64>,
    /// The pids of the processes that hold it by a lease, as each saw itself. Some may have died
    /// since, and who holds by lock alone is not among them.
    pub holders: Vec<u32>,
    /// The process that made it, as that process saw itself.
    pub creator_pid: u32,
    /// When it was made: nanoseconds since 1970.
    pub created_ns: u64,
}

/// The segments that exist and that we may look into.
///
/// # Errors
/// [`Error::Os`] when the directory cannot be read.
pub fn segments() -> Result<Vec<SegmentInfo>> {
    let directory = Directory::current();
    Ok(directory.segment_ids()?.iter().filter_map(|id| look_into(&directory, id).ok()).collect())
}

fn look_into(directory: &Directory, id: &SegmentId) -> Result<SegmentInfo> {
    let file = sys::File::open(directory.clone(), Place::Id(id), Access::ReadOnly)?;
    let header = read_header(id.as_str(), &file)?;
    check_id(Place::Id(id), &header)?;
    let holders = header.holders(&file.read_front(PAGE_BYTES)?);
    Ok(SegmentInfo {
        id: *id,
        holders,
        name: header.name.as_ref().map(ToString::to_string),
        segment_bytes: header.segment_bytes(),
        dtype: header.dtype,
        shape: header.layout.shape,
        creator_pid: header.creator_pid,
        created_ns: header.created_ns,
    })
}

/// How many segments the last sweep of this process looked at, and creates since.
static SEEN_BY_SWEEP: AtomicUsize = AtomicUsize::new(0);
static CREATES: AtomicUsize = AtomicUsize::new(0);
/// Creates between two sweeps, at the least.
const CREATES_BETWEEN_SWEEPS: usize = 64;

/// The first use in a process gives back what dead processes left.
fn sweep_at_first_use(directory: &Directory) {
    static FIRST_USE: Once = Once::new();
    FIRST_USE.call_once(|| {
        let _ = sweep_directory(directory); // one that cannot be read is reported by what comes next
    });
}

/// So does a create now and then: as often as its cost, a look at each segment, allows.
fn sweep_at_times(directory: &Directory) {
    sweep_at_first_use(directory);
    let creates = CREATES.fetch_add(1, Ordering::Relaxed);
    if creates >= CREATES_BETWEEN_SWEEPS.max(SEEN_BY_SWEEP.load(Ordering::Relaxed)) {
        CREATES.store(0, Ordering::Relaxed);
        let _ = sweep_directory(directory);
    }
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

/// The segments that this process has mapped.
#[derive(Default)]
struct Table {
    by_id: HashMap<(SegmentId, Access), Weak<Segment>>,
    /// By where the data starts, and by the segment: without data, two may start at one place.
    by_address: BTreeMap<(usize, usize), Weak<Segment>>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

impl Table {
    fn with<T>(change: impl FnOnce(&mut Self) -> T) -> T {
        change(TABLE.lock().get_or_insert_default())
    }

    /// Every segment in the table, while it is locked.
    #[allow(unsafe_code)]
    fn for_each(table: &Option<Self>, mut visit: impl FnMut(&Segment)) {
        for entry in table.iter().flat_map(|table| table.by_address.values()) {
            // SAFETY: a segment takes itself out of the table before anything of it is dropped,
            // and waits for the lock to do so; its memory stays as long as this weak pointer.
            visit(unsafe { &*entry.as_ptr() });
        }
    }

    fn find(id: &SegmentId, access: Access) -> Option<Arc<Segment>> {
        Self::with(|table| table.by_id.get(&(*id, access))?.upgrade())
    }

    fn insert(segment: &Arc<Segment>) {
        let key = (segment.header.id, segment.access);
        Self::with(|table| {
            table.by_id.insert(key, Arc::downgrade(segment));
            table.by_address.insert(segment.address(), Arc::downgrade(segment));
        });
    }

    /// Only the entries that are this segment's own: a later mapping may have taken the key.
    fn remove(segment: &Segment) {
        let key = (segment.header.id, segment.access);
        let own = |entry: &Weak<Segment>| std::ptr::eq(entry.as_ptr(), segment);
        Self::with(|table| {
            if table.by_id.get(&key).is_some_and(own) {
                table.by_id.remove(&key);
            }
            table.by_address.remove(&segment.address());
        });
    }

    /// The segment with that byte; for the byte behind its last, too, where a view without
    /// elements may stand.
    fn containing(address: usize) -> Option<Arc<Segment>> {
        let (start, there) = Self::with(|table| {
            let ((start, _), _) = table.by_address.range(..=(address, usize::MAX)).next_back()?;
            let there = table.by_address.range((*start, 0)..=(*start, usize::MAX));
            Some((*start, there.filter_map(|(_, entry)| entry.upgrade()).collect::<Vec<_>>()))
        })?;
        let largest = there.into_iter().max_by_key(|segment| segment.header.data_bytes)?;
        (address - start <= largest.header.data_bytes as usize).then_some(largest)
    }
}

/// What happens to what this process holds when it forks and when it ends.
///
/// A child holds what its parent held from its first instruction on: the parent makes the
/// child's entries before the fork, and both tables stay locked over it. At exit leases are
/// given back while the memory stays mapped, for whoever still runs.
mod process {
    use super::{Once, TABLE, Table, sys};

    /// At the first use.
    pub(super) fn begin() {
        static FIRST_USE: Once = Once::new();
        FIRST_USE.call_once(|| sys::on_fork_and_exit(before_fork, after_in_parent, after_in_child, exit));
    }

    extern "C" fn before_fork() {
        let table = TABLE.lock();
        sys::before_fork();
        Table::for_each(&table, super::Segment::lend_to_child);
        super::MutexGuard::leak(table);
    }

    extern "C" fn after_in_parent() {
        sys::after_in_parent();
        #[allow(unsafe_code)]
        // SAFETY: `before_fork` locked it in this thread.
        unsafe {
            TABLE.force_unlock();
        };
    }

    extern "C" fn after_in_child() {
        sys::after_in_child();
        #[allow(unsafe_code)]
        // SAFETY: `before_fork` locked it in this thread, the only one of this process.
        Table::for_each(unsafe { &*TABLE.data_ptr() }, super::Segment::become_childs);
        sys::remake(&TABLE);
    }

    extern "C" fn exit() {
        let table = TABLE.lock();
        Table::for_each(&table, |segment| {
            if let Some(mapping) = &segment.mapping {
                segment.leave(mapping);
            }
        });
    }
}
