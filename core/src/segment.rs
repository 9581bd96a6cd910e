//! A segment held by this process, and the table of those it holds.
//!
//! One segment is mapped once for each access, however many arrays lie in it: the table
//! finds it by id when a handle arrives, and by address when somebody asks for the handle
//! of memory he has. The table holds nothing alive; an array's `Arc<Segment>` does.
//!
//! Invariants:
//! * I1 a `Segment` was LIVE with its generation while this process already held it.
//! * I2 its data is mapped from `data_start` for `header.data_bytes` until it is dropped.
//! * I3 what `header` says was validated when it was copied out; the original is not read again.

use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::{Arc, Once, Weak};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::format::{Header, PAGE_BYTES};
use crate::name::{ArrayName, SegmentId, random_generation};
use crate::sys::{self, Access, Directory, Place};
use crate::words::{State, Words};

/// One named piece of shared memory, mapped and held.
pub(crate) struct Segment {
    /// Taken out only by `drop`.
    mapping: Option<sys::Mapping>,
    data_start: NonNull<u8>,
    header: Header,
    generation: u64,
    access: Access,
}

// SAFETY: `data_start` points into `mapping`, which is Send and Sync for the same reason.
#[allow(unsafe_code)]
unsafe impl Send for Segment {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Segment {}

/// What a new segment may be, beyond its array.
#[derive(Debug, Clone, Default)]
pub(crate) struct Birth {
    pub(crate) persist: bool,
    pub(crate) mode: u32,
}

impl Segment {
    /// A new segment: nobody sees it before it is whole.
    pub(crate) fn create(id: SegmentId, header: Header, birth: &Birth) -> Result<Arc<Self>> {
        sweep_once();
        let file = sys::File::create(Directory::current(), &id, header.segment_bytes(), birth.mode)?;
        let mapping = file.map(Access::ReadWrite, header.header_bytes)?;
        write_header(&mapping, &header);
        let generation = random_generation()?;
        words(&mapping).set_live(generation, birth.persist);
        file.publish(&id)?;
        let linked = header.name.as_ref().map_or(Ok(()), |name| file.link_name(name));
        // The open file holds the segment too: it goes first, so that when the name is taken
        // the drop of the segment is that of the last holder.
        drop(file);
        let segment = Self::register(mapping, header, generation, Access::ReadWrite);
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
        sweep_once();
        let label = place.to_string();
        let directory = Directory::current();
        let file = sys::File::open(directory.clone(), place, access)?;
        let first = file.read_front(PAGE_BYTES)?;
        let header_bytes = Header::bytes_needed(&label, &first, file.bytes())?;
        let header = Header::read(&label, &file.read_front(header_bytes)?, file.bytes())?;
        check_id(place, &header)?;
        if let Some(segment) = Table::find(&header.id, access) {
            return Ok(segment); // a name led to what is mapped already
        }
        let mapping = file.map(access, header.header_bytes)?;
        let words = words(&mapping);
        if words.state() != State::Live {
            return Err(Error::SegmentNotFound { segment: label, directory: directory.path().to_owned() });
        }
        let generation = words.generation();
        Ok(Self::register(mapping, header, generation, access))
    }

    #[allow(unsafe_code)]
    fn register(mapping: sys::Mapping, header: Header, generation: u64, access: Access) -> Arc<Self> {
        // SAFETY: the header was read from, or written to, the front of this mapping, and
        // `Header::read` checked that header and data fit the file that was mapped whole.
        let data_start = unsafe { mapping.start().add(header.header_bytes as usize) };
        let segment = Arc::new(Self { mapping: Some(mapping), data_start, header, generation, access });
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
        self.data_start
    }

    /// The segment of this process that memory lies in.
    pub(crate) fn containing(address: usize) -> Option<Arc<Self>> {
        Table::containing(address)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        Table::remove(self);
        if let Some(mapping) = self.mapping.take() {
            // A close has nobody to tell. What it could not give back, a sweep will.
            let _ = sys::release(mapping, &self.header.id);
        }
    }
}

/// Takes a name away. The array itself goes with its last holder.
///
/// # Errors
/// [`Error::NameNotFound`], [`Error::InvalidName`], [`Error::NotOwner`].
pub fn unlink(name: &str) -> Result<()> {
    sys::unlink_name(&Directory::current(), &name.parse()?)
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
    let mut swept = Swept::default();
    let directory = Directory::current();
    for id in directory.segment_ids()? {
        if let Some(bytes) = sys::give_back(&directory, &id)? {
            swept.segments += 1;
            swept.bytes += bytes;
        }
    }
    Ok(swept)
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
    let label = id.as_str();
    let file = sys::File::open(directory.clone(), Place::Id(id), Access::ReadOnly)?;
    let header_bytes = Header::bytes_needed(label, &file.read_front(PAGE_BYTES)?, file.bytes())?;
    let header = Header::read(label, &file.read_front(header_bytes)?, file.bytes())?;
    check_id(Place::Id(id), &header)?;
    Ok(SegmentInfo {
        id: *id,
        name: header.name.as_ref().map(ToString::to_string),
        segment_bytes: header.segment_bytes(),
        dtype: header.dtype,
        shape: header.layout.shape,
        creator_pid: header.creator_pid,
        created_ns: header.created_ns,
    })
}

/// The first use in a process gives back what dead processes left.
fn sweep_once() {
    static FIRST_USE: Once = Once::new();
    FIRST_USE.call_once(|| {
        let _ = sweep(); // a directory that cannot be read is reported by what comes next
    });
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
fn words(mapping: &sys::Mapping) -> Words {
    // SAFETY: a mapping starts at a page, and every segment has at least its header page:
    // `create` made it, or `Header::read` checked the file's size.
    unsafe { Words::new(mapping.start()) }
}

#[allow(unsafe_code)]
fn write_header(mapping: &sys::Mapping, header: &Header) {
    let bytes = header.write();
    let count = bytes.len().min(mapping.bytes());
    // SAFETY: both are `count` bytes long, and nobody else has the mapping yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.start().as_ptr(), count) };
}

/// The segments that this process has mapped.
#[derive(Default)]
struct Table {
    by_id: HashMap<(SegmentId, Access), Weak<Segment>>,
    by_address: BTreeMap<usize, Weak<Segment>>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

impl Table {
    fn with<T>(change: impl FnOnce(&mut Self) -> T) -> T {
        change(TABLE.lock().get_or_insert_default())
    }

    fn find(id: &SegmentId, access: Access) -> Option<Arc<Segment>> {
        Self::with(|table| table.by_id.get(&(*id, access))?.upgrade())
    }

    fn insert(segment: &Arc<Segment>) {
        let key = (segment.header.id, segment.access);
        let address = segment.data_start.as_ptr() as usize;
        Self::with(|table| {
            table.by_id.insert(key, Arc::downgrade(segment));
            table.by_address.insert(address, Arc::downgrade(segment));
        });
    }

    /// Only the entries that are this segment's own: a later mapping may have taken the key.
    fn remove(segment: &Segment) {
        let key = (segment.header.id, segment.access);
        let address = segment.data_start.as_ptr() as usize;
        let own = |entry: &Weak<Segment>| std::ptr::eq(entry.as_ptr(), segment);
        Self::with(|table| {
            if table.by_id.get(&key).is_some_and(own) {
                table.by_id.remove(&key);
            }
            if table.by_address.get(&address).is_some_and(own) {
                table.by_address.remove(&address);
            }
        });
    }

    fn containing(address: usize) -> Option<Arc<Segment>> {
        let (start, entry) = Self::with(|table| {
            let (start, entry) = table.by_address.range(..=address).next_back()?;
            Some((*start, entry.clone()))
        })?;
        let segment = entry.upgrade()?;
        (address - start <= segment.header.data_bytes as usize).then_some(segment)
    }
}
