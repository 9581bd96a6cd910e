//! The list of segments: every byte of shared memory that this library uses, and who holds it.
//!
//! Files are read and never mapped, because they may be another user's.

use std::collections::BTreeMap;

use crate::header::control::PERSIST;
use crate::header::format::{EntryCopy, Header, SlabLayout, described_cell};
use crate::memory::mapping::read_header;
use crate::memory::operation::Operation;
use crate::system::{self, Access, Directory, Liveness, Lookup, TicketLink};
use crate::value::descriptor::Descriptor;
use crate::value::dtype::DType;
use crate::value::error::{ErrorKind, Result};
use crate::value::name::{SegmentId, SegmentText};

/// The use of a part of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentKind {
    /// An array that a process or a message holds, or that persists.
    Array,
    /// A channel that a process has open, or that persists.
    Channel,
    /// Memory that processes keep in their pools for their next arrays.
    Pool,
    /// Left by dead processes. The next use of the library by its owner gives it back.
    Remains,
}

impl SegmentKind {
    /// `array`, `channel`, `pool` or `remains`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Channel => "channel",
            Self::Pool => "pool",
            Self::Remains => "remains",
        }
    }
}

/// The description of an array that need not be attached, or of memory that is no array now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// Its segment, and its cell there. Memory that is no array is the rest of a segment, without a
    /// cell.
    pub segment: SegmentText,
    /// The name that a person gave it.
    pub name: Option<String>,
    /// Whether it is an array, a channel, memory of a pool, or what dead processes left.
    pub kind: SegmentKind,
    /// Whether it stays without holders until its name is unlinked.
    pub persists: bool,
    /// Its size in shared memory, in bytes, with the header unless arrays share that.
    pub segment_bytes: u64,
    /// The dtype; `|u1` for memory that is no array.
    pub dtype: DType,
    /// The number of elements along each dimension.
    pub shape: Vec<u64>,
    /// The pids of the living processes that hold it by a lease or keep it in their pool, as each
    /// process sees its own pid. Lock-only holders are not listed.
    pub holders: Vec<u32>,
    /// The number of messages that can still be received and hold it.
    pub tickets: u64,
    /// The user whose it is, if that is another than this process's: this one's sweeps leave it.
    pub other_user: Option<u32>,
    /// The pid of the process that made it, as that process saw it.
    pub creator_pid: u32,
    /// When it was made, in nanoseconds since 1970. For a cell, when its segment was made.
    pub created_ns: u64,
}

/// Returns all that exists and that this process may read: arrays, arrays of messages, pools, and
/// what dead processes left. With privileges, such as root's, that is all of every user.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read;
/// [`Error::NoMemory`](crate::Error::NoMemory) when this process has no memory for the list;
/// [`Error::Unsupported`](crate::Error::Unsupported) as for every call.
pub fn segments() -> Result<Vec<SegmentInfo>> {
    let _operation = Operation::without_handlers()?;
    let directory = Directory::current();
    let mut ids = directory.segment_ids()?;
    ids.sort_unstable();
    ids.dedup(); // one that is being made may have two names
    let liveness = Liveness::for_sweep(&directory);
    let mut of_others = BTreeMap::new();
    let links = directory.ticket_links()?;
    let mut all = Vec::new();
    for id in &ids {
        let first = links.partition_point(|link| link.segment < *id);
        let links = &links[first..];
        let links = &links[..links.partition_point(|link| link.segment == *id)];
        match describe(&directory, id, &liveness, &mut of_others, links) {
            Ok(infos) => {
                system::reserve_for(LIST, &mut all, infos.len())?;
                all.extend(infos);
            }
            Err(error) if error.kind() == ErrorKind::NoMemory => return Err(error),
            Err(_) => {} // it was given back meanwhile, or is not for this user to read
        }
    }
    Ok(all)
}

/// What needs memory for each segment that other programs have made.
const LIST: &str = "the list of segments";

/// Whether a process of the family that sent a handle out of band is alive, as far as the registry
/// of this process's directory shows. If none is, that message holds nothing there any more.
///
/// # Errors
/// [`Error::InvalidHandle`](crate::Error::InvalidHandle);
/// [`Error::Unsupported`](crate::Error::Unsupported) as for every call.
pub fn is_family_alive(handle: &str) -> Result<bool> {
    let _operation = Operation::without_handlers()?;
    let directory = Directory::current();
    let handle = Descriptor::parse(handle)?;
    let liveness = Liveness::of(&directory);
    if !liveness.has_registry() {
        return Ok(false); // this process registers below, and so makes one
    }
    let ticket_and_own = handle.ticket.zip(system::process_owner(&directory));
    Ok(ticket_and_own.is_some_and(|(ticket, own)| !liveness.is_dead_owner(ticket, own.info)))
}

/// A copy of one file, as it was when it was read.
struct Copied<'a> {
    header: Header,
    bytes: Vec<u8>,
    /// The bytes of memory that the file has.
    allocated_bytes: u64,
    /// Whether any process has it mapped. If none has, no entry of a process counts.
    is_mapped: bool,
    links: MessageLinks,
    other_user: Option<u32>,
    liveness: &'a Liveness,
}

/// The links that hold a file for messages which can still be received.
struct MessageLinks {
    count: u64,
    /// The cells that they are for. A link that an older version made names none.
    cells: Vec<u32>,
}

impl MessageLinks {
    /// Counts the links of a file, of which the kernel says how many there are and the names whose
    /// they are. `named` has those with the name of a link to this segment.
    fn of(
        file: &system::SegmentFile,
        header: &Header,
        named: &[TicketLink],
        liveness: &Liveness,
    ) -> Result<Self> {
        let (count, inode) = file.ticket_links(header);
        let mut links = Self { count, cells: Vec::new() };
        for link in named.iter().filter(|link| count > 0 && link.inode == inode) {
            if liveness.is_dead_owner(link.ticket, link.info) {
                links.count = links.count.saturating_sub(1);
            } else if let Some(cell) = link.cell {
                system::reserve_for(LIST, &mut links.cells, 1)?;
                links.cells.push(cell);
            }
        }
        Ok(links)
    }

    fn of_cell(&self, cell: u32) -> u64 {
        self.cells.iter().filter(|of| **of == cell).count() as u64
    }
}

fn describe(
    directory: &Directory,
    id: &SegmentId,
    own: &Liveness,
    of_others: &mut BTreeMap<u32, Liveness>,
    links: &[TicketLink],
) -> Result<Vec<SegmentInfo>> {
    let file = system::SegmentFile::open(directory.clone(), Lookup::Listed(id), Access::ReadOnly)?;
    let other_user = file.other_user();
    let liveness = match other_user {
        Some(user) => of_others.entry(user).or_insert_with(|| Liveness::for_list(directory, user)),
        None => own,
    };
    let header = read_header(Lookup::Listed(id), &file)?;
    let bytes = file.read_front(header.header_bytes)?;
    let allocated_bytes = file.allocated_bytes();
    let is_mapped = file.is_held();
    let links = MessageLinks::of(&file, &header, links, liveness)?;
    let copied = Copied { header, bytes, allocated_bytes, is_mapped, links, other_user, liveness };
    match copied.header.slab_layout {
        Some(layout) => copied.cells(layout),
        None => Ok(vec![copied.whole()]),
    }
}

impl Copied<'_> {
    fn whole(&self) -> SegmentInfo {
        let header = &self.header;
        let entries: Vec<_> = header.entries(&self.bytes).collect();
        let name = header.name.as_ref().map(ToString::to_string);
        let persists = header.flags(&self.bytes) & PERSIST != 0;
        let array = (header.dtype.clone(), header.layout.shape.clone());
        let info = self.info(None, self.allocated_bytes, array, &entries);
        let tickets = info.tickets + self.links.count;
        let is_lock_only = self.is_mapped && header.is_lock_only(&self.bytes);
        let is_held = persists || tickets > 0 || !info.holders.is_empty() || is_lock_only;
        let kind = if !is_held {
            SegmentKind::Remains
        } else if header.channel.is_some() {
            SegmentKind::Channel
        } else {
            SegmentKind::Array
        };
        SegmentInfo { name, persists, tickets, kind, ..info }
    }

    /// Returns the arrays in cells, and the rest.
    fn cells(&self, layout: SlabLayout) -> Result<Vec<SegmentInfo>> {
        let mut infos = Vec::new();
        system::reserve_for(LIST, &mut infos, layout.cells as usize + 1)?;
        infos.extend((0..layout.cells).filter_map(|cell| self.cell(layout, cell)));
        match infos.first_mut() {
            Some(only) if layout.cells == 1 => only.segment_bytes = self.allocated_bytes,
            _ => {
                let arrays_bytes = infos.iter().map(|info| info.segment_bytes).sum();
                infos.push(self.rest(self.allocated_bytes.saturating_sub(arrays_bytes)));
            }
        }
        Ok(infos)
    }

    fn cell(&self, layout: SlabLayout, cell: u32) -> Option<SegmentInfo> {
        let start = layout.head_offset(cell);
        let head = self.bytes.get(start..start + layout.head_bytes as usize)?;
        let entries = Header::entries_of_live_cell(head)?;
        let info = self.info(Some(cell), layout.cell_bytes, described_cell(head)?, &entries);
        let linked = match layout.cells {
            1 => self.links.count,
            _ => self.links.of_cell(cell),
        };
        let tickets = info.tickets + linked;
        // It waits for the last mapping of its slab, and for the last message that has a link.
        let is_slab_held = self.is_mapped || self.links.count > 0;
        let is_lock_only = is_slab_held && Header::is_cell_lock_only(head);
        let is_held = !info.holders.is_empty() || tickets > 0 || is_lock_only;
        let kind = if is_held { SegmentKind::Array } else { SegmentKind::Remains };
        Some(SegmentInfo { kind, tickets, ..info })
    }

    /// Returns the memory of a slab that no array has: its header and its free cells. Dead
    /// processes left it if no living process has a pool lease on it and none of its cells is in
    /// use.
    fn rest(&self, bytes: u64) -> SegmentInfo {
        let all: Vec<_> = self.header.entries(&self.bytes).collect();
        let own: Vec<_> = self.header.own_entries(&self.bytes).collect();
        let is_anybodys =
            self.pids(&all).next().is_some() || self.tickets(&all) > 0 || self.links.count > 0;
        let kind = if is_anybodys { SegmentKind::Pool } else { SegmentKind::Remains };
        SegmentInfo {
            kind,
            ..self.info(None, bytes, (self.header.dtype.clone(), vec![bytes]), &own)
        }
    }

    fn info(
        &self,
        cell: Option<u32>,
        bytes: u64,
        array: (DType, Vec<u64>),
        entries: &[EntryCopy],
    ) -> SegmentInfo {
        SegmentInfo {
            segment: SegmentText { id: self.header.id, cell },
            name: None,
            kind: SegmentKind::Array,
            persists: false,
            segment_bytes: bytes,
            dtype: array.0,
            shape: array.1,
            holders: self.pids(entries).collect(),
            tickets: self.tickets(entries),
            other_user: self.other_user,
            creator_pid: self.header.creator_pid,
            created_ns: self.header.created_ns,
        }
    }

    fn holding<'a>(&'a self, entries: &'a [EntryCopy]) -> impl Iterator<Item = &'a EntryCopy> {
        let is_dead_owner =
            |entry: &EntryCopy| self.liveness.is_dead_owner(entry.owner, entry.owner_info);
        entries.iter().filter(move |entry| entry.held && !is_dead_owner(entry))
    }

    fn pids<'a>(&'a self, entries: &'a [EntryCopy]) -> impl Iterator<Item = u32> + use<'a> {
        let is_holder =
            |entry: &&EntryCopy| self.is_mapped && !system::is_message(entry.owner_info);
        self.holding(entries).filter(is_holder).map(EntryCopy::pid)
    }

    fn tickets(&self, entries: &[EntryCopy]) -> u64 {
        self.holding(entries).filter(|entry| system::is_message(entry.owner_info)).count() as u64
    }
}
