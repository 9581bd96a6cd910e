//! A look at what there is.

use super::check_id;
use super::mapped::read_header;
use crate::dtype::DType;
use crate::error::Result;
use crate::format::{EntryCopy, Header, described_cell};
use crate::name::{SegmentId, SegmentText};
use crate::sys::{self, Access, Directory, Place};
use crate::words::PERSIST;

/// What there is to know of an array without attaching it.
#[derive(Debug, Clone)]
pub struct SegmentInfo {
    /// Its segment, and its cell there.
    pub segment: SegmentText,
    /// The name a person gave it.
    pub name: Option<String>,
    /// Size in bytes: of a segment with its header, of a cell.
    pub segment_bytes: u64,
    /// Element type.
    pub dtype: DType,
    /// Shape, in elements.
    pub shape: Vec<u64>,
    /// The pids of the processes that hold it by a lease, as each saw itself. Some may have died
    /// since, and who holds by lock alone is not among them.
    pub holders: Vec<u32>,
    /// How many messages hold it.
    pub tickets: u64,
    /// Whether it stays without holders until its name is unlinked.
    pub persists: bool,
    /// The process that made it, as that process saw itself.
    pub creator_pid: u32,
    /// When it was made: nanoseconds since 1970. Of a cell, when its segment was.
    pub created_ns: u64,
}

/// The arrays that exist and that we may look into.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read.
pub fn segments() -> Result<Vec<SegmentInfo>> {
    let directory = Directory::current();
    Ok(directory.segment_ids()?.iter().filter_map(|id| look_into(&directory, id).ok()).flatten().collect())
}

fn look_into(directory: &Directory, id: &SegmentId) -> Result<Vec<SegmentInfo>> {
    let file = sys::File::open(directory.clone(), Place::Id(id), Access::ReadOnly)?;
    let header = read_header(id.as_str(), &file)?;
    check_id(Place::Id(id), &header)?;
    let copy = file.read_front(header.header_bytes)?;
    if let Some(division) = header.division {
        return Ok((0..division.cells).filter_map(|cell| look_into_cell(&header, &copy, cell)).collect());
    }
    let segment = SegmentText { id: *id, cell: None };
    let entries: Vec<_> = header.entries(&copy).collect();
    let name = header.name.as_ref().map(ToString::to_string);
    let info =
        info(&header, segment, header.segment_bytes(), (header.dtype.clone(), header.layout.shape.clone()), &entries);
    let linked = file.links().saturating_sub(1 + u64::from(name.is_some()));
    let persists = header.flags(&copy) & PERSIST != 0;
    Ok(vec![SegmentInfo { name, persists, tickets: info.tickets + linked, ..info }])
}

fn look_into_cell(header: &Header, copy: &[u8], cell: u32) -> Option<SegmentInfo> {
    let division = header.division?;
    let start = division.head_offset(cell);
    let head = copy.get(start..start + division.head_bytes as usize)?;
    let entries = Header::entries_of_live_cell(head)?;
    let segment = SegmentText { id: header.id, cell: Some(cell) };
    Some(info(header, segment, division.cell_bytes, described_cell(head)?, &entries))
}

fn info(
    header: &Header,
    segment: SegmentText,
    bytes: u64,
    array: (DType, Vec<u64>),
    entries: &[EntryCopy],
) -> SegmentInfo {
    let held = || entries.iter().filter(|entry| entry.held);
    SegmentInfo {
        segment,
        name: None,
        segment_bytes: bytes,
        dtype: array.0,
        shape: array.1,
        holders: held().filter(|entry| !sys::is_message(entry.about)).map(EntryCopy::pid).collect(),
        tickets: held().filter(|entry| sys::is_message(entry.about)).count() as u64,
        persists: false,
        creator_pid: header.creator_pid,
        created_ns: header.created_ns,
    }
}
