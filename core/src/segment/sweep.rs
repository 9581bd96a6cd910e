//! Giving back what dead processes held.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::mapped::Mapped;
use super::mapped::read_header;
use super::table::Table;
use super::{cells, check_id, close_without_the_dead};
use crate::error::Result;
use crate::lease::Closed;
use crate::name::SegmentId;
use crate::sys::{self, Access, Directory, Lives, Place};

/// What a sweep gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Segments.
    pub segments: u64,
    /// Bytes of shared memory.
    pub bytes: u64,
}

/// Gives back what dead processes held, and the memory that living ones only keep for reuse: this
/// process's pool, and free cells of others.
///
/// Nobody needs to call this: the first use of the library in each process does, and its end.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read.
pub fn sweep() -> Result<Swept> {
    sweep_directory(&Directory::current(), How::Pressing)
}

/// Whether a sweep takes what is only kept for reuse, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// What the dead held.
    Quietly,
    /// And what living processes keep and do not use: memory is wanted.
    Pressing,
}

pub(super) fn sweep_directory(directory: &Directory, how: How) -> Result<Swept> {
    drop(Table::empty_cache(how == How::Pressing));
    let mut swept = Swept { bytes: cells::let_go(how), ..Swept::default() };
    let ids = directory.segment_ids()?;
    let mut seen = 0; // of what stays
    if let Some(lives) = Lives::look(directory) {
        sys::sweep_tickets(directory, &lives);
    }
    for id in &ids {
        // What cannot be given back by us, another user's for one, does not stop us.
        let (bytes, ended) = match sys::give_back(directory, id) {
            Ok(Some(bytes)) => (bytes, true),
            _ => give_back_mapped(directory, id, how, &mut seen).unwrap_or_default(),
        };
        seen += usize::from(!ended);
        swept.segments += u64::from(ended);
        swept.bytes += bytes;
    }
    SEEN_BY_SWEEP.store(seen, Ordering::Relaxed);
    Ok(swept)
}

/// Gives back what is mapped somewhere, but by nobody who holds it any more. Returns its bytes,
/// and whether it is gone.
fn give_back_mapped(directory: &Directory, id: &SegmentId, how: How, seen: &mut usize) -> Result<(u64, bool)> {
    let file = sys::File::open(directory.clone(), Place::Id(id), Access::ReadWrite)?;
    let header = read_header(id.as_str(), &file)?;
    check_id(Place::Id(id), &header)?;
    let mapped = Mapped::map(&file, header, Access::ReadWrite)?;
    drop(file); // the mapping holds it: if that is the last hold, its end gives the segment back
    let leases = mapped.leases();
    let segment_bytes = mapped.header.segment_bytes();
    if let Some(division) = mapped.header.division {
        *seen += division.cells as usize / 4; // a cell costs less than a file
        let (bytes, ended) = cells::sweep(&mapped, how);
        return Ok((if ended { segment_bytes } else { bytes }, ended));
    }
    let closed = !leases.is_by_lock() && close_without_the_dead(&leases, directory) == Closed::Last;
    let dead = closed || leases.is_dead(); // by somebody who died before he unlinked it
    let ended = dead && mapped.discard();
    Ok((if ended { segment_bytes } else { 0 }, ended))
}

/// How many segments the last sweep of this process looked at, and creates since.
static SEEN_BY_SWEEP: AtomicUsize = AtomicUsize::new(0);
static CREATES: AtomicUsize = AtomicUsize::new(0);
/// Creates between two sweeps, at the least.
const CREATES_BETWEEN_SWEEPS: usize = 64;

/// Where this process used the library first.
static FIRST_DIRECTORY: OnceLock<Directory> = OnceLock::new();
/// An end of a process is not made longer by more than a few milliseconds.
const SEEN_AT_EXIT: usize = 256;

/// The first use in a process gives back what dead processes left.
pub(super) fn sweep_at_first_use(directory: &Directory) {
    FIRST_DIRECTORY.get_or_init(|| {
        let _ = sweep_directory(directory, How::Quietly); // one that cannot be read is reported by what comes next
        directory.clone()
    });
}

/// So does its end, for those that died meanwhile: when there is little to look at.
pub(super) fn sweep_at_exit() {
    if let Some(directory) = FIRST_DIRECTORY.get()
        && SEEN_BY_SWEEP.load(Ordering::Relaxed) <= SEEN_AT_EXIT
    {
        let _ = sweep_directory(directory, How::Quietly); // nobody is left to be told
    }
}

/// So does a create now and then that makes a file: as often as its cost, a look at each segment, allows.
pub(super) fn sweep_at_times(directory: &Directory) {
    sweep_at_first_use(directory);
    let creates = CREATES.fetch_add(1, Ordering::Relaxed);
    if creates >= CREATES_BETWEEN_SWEEPS.max(SEEN_BY_SWEEP.load(Ordering::Relaxed)) {
        CREATES.store(0, Ordering::Relaxed);
        let _ = sweep_directory(directory, How::Quietly);
    }
}
