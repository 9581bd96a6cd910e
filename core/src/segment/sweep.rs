//! Giving back what dead processes held, and a look at what there is.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{check_id, close_without_the_dead, leases, read_header};
use crate::error::Result;
use crate::format::PAGE_BYTES;
use crate::lease::Closed;
use crate::name::SegmentId;
use crate::sys::{self, Access, Directory, Place};

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
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read.
pub fn sweep() -> Result<Swept> {
    sweep_directory(&Directory::current())
}

pub(super) fn sweep_directory(directory: &Directory) -> Result<Swept> {
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
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read.
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
pub(super) fn sweep_at_first_use(directory: &Directory) {
    static FIRST_USE: Once = Once::new();
    FIRST_USE.call_once(|| {
        let _ = sweep_directory(directory); // one that cannot be read is reported by what comes next
    });
}

/// So does a create now and then: as often as its cost, a look at each segment, allows.
pub(super) fn sweep_at_times(directory: &Directory) {
    sweep_at_first_use(directory);
    let creates = CREATES.fetch_add(1, Ordering::Relaxed);
    if creates >= CREATES_BETWEEN_SWEEPS.max(SEEN_BY_SWEEP.load(Ordering::Relaxed)) {
        CREATES.store(0, Ordering::Relaxed);
        let _ = sweep_directory(directory);
    }
}
