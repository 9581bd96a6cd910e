//! Attaching a segment of another process, or one that this process has already.

use std::sync::Arc;

use super::held::{Segment, find, find_held};
use super::hold::{end_if_unheld, enter, release_ticket};
use crate::header::control::Ordering;
use crate::header::lease::Leases;
use crate::memory::mapping::{self, Mapped, PrivateBytes, read_header};
use crate::memory::operation::Operation;
use crate::system::{self, Access, Directory, Lookup};
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentText};

/// The result of a lookup.
enum FoundSegment {
    /// A segment that this process holds already.
    Segment(Arc<Segment>),
    /// A file that this process has mapped already.
    Known(Arc<Mapped>),
    New(Arc<Mapped>),
}

impl Segment {
    /// Returns the segment of a descriptor, mapped now or found in the table.
    pub(crate) fn attach(
        operation: Operation,
        descriptor: &Descriptor,
        access: Access,
    ) -> Result<Arc<Self>> {
        Self::attach_by(operation, Lookup::Id(&descriptor.segment.id), descriptor, access)
    }

    /// Returns the segment of a descriptor if it is this user's.
    pub(crate) fn attach_own(
        operation: Operation,
        descriptor: &Descriptor,
        access: Access,
    ) -> Result<Arc<Self>> {
        Self::attach_by(operation, Lookup::OwnId(&descriptor.segment.id), descriptor, access)
    }

    fn attach_by(
        operation: Operation,
        lookup: Lookup<'_>,
        descriptor: &Descriptor,
        access: Access,
    ) -> Result<Arc<Self>> {
        let text = &descriptor.segment;
        let expected = descriptor.generation;
        let segment = match find(text, access) {
            Some(segment) => segment,
            None => Self::open(operation, lookup, text.cell, access)?,
        };
        let found = segment.generation();
        if found == expected {
            Ok(segment)
        } else {
            Err(Error::StaleHandle { segment: text.to_string(), expected, found })
        }
    }

    /// Returns the segment that has a name.
    pub(crate) fn attach_name(
        operation: Operation,
        name: &ArrayName,
        access: Access,
    ) -> Result<Arc<Self>> {
        Self::open(operation, Lookup::Name(name), None, access)
    }

    fn open(
        operation: Operation,
        lookup: Lookup<'_>,
        cell: Option<u32>,
        access: Access,
    ) -> Result<Arc<Self>> {
        let _operation = operation.awaited();
        system::refresh_user();
        let directory = Directory::current();
        system::is_usable(&directory)?;
        let (mapped, is_new) = match map(&directory, lookup, access)? {
            FoundSegment::Segment(segment) => return Ok(segment), // the name of one held already
            FoundSegment::Known(mapped) => (mapped, false),
            FoundSegment::New(mapped) => (mapped, true),
        };
        let leases = leases_of(&mapped, cell, &lookup.to_string())?;
        let Some(hold) = enter(&leases, &mapped, cell) else {
            if !mapped.header_is_writable() && !leases.is_lock_only() {
                // A process that cannot write the header can hold by its lock alone. A segment that
                // is not LOCK_ONLY is closed without asking for locks, so such a hold has no
                // effect.
                let error = std::io::ErrorKind::ReadOnlyFilesystem.into();
                return Err(Error::os("attach", directory.path(), error));
            }
            if mapped.leases().is_dead() {
                mapping::evict_cached(&mapped.header.id);
            }
            return Err(given_back(lookup, cell, &directory));
        };
        if is_new {
            mapping::cache_if_reusable(&mapped);
        }
        let generation = leases.control.generation();
        let room = mapped.part(cell).1;
        let data_bytes = match cell {
            Some(_) => leases.control.data_bytes().load(Ordering::Relaxed).min(room),
            None => room,
        };
        let segment = Self::new(mapped, cell, data_bytes, generation, hold);
        segment.check_generation(&lookup.to_string()).map(|()| segment)
    }
}

/// The error for a segment that is still there and that nobody holds: it is being removed.
fn given_back(lookup: Lookup<'_>, cell: Option<u32>, directory: &Directory) -> Error {
    let directory = directory.path().to_owned();
    match lookup {
        Lookup::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
        Lookup::Id(&id) | Lookup::OwnId(&id) | Lookup::Listed(&id) => {
            Error::SegmentNotFound { segment: SegmentText { id, cell }.to_string(), directory }
        }
    }
}

/// Returns the leases of the segment or cell that a handle names.
fn leases_of(mapped: &Mapped, cell: Option<u32>, label: &str) -> Result<Leases> {
    let whole = mapped.leases();
    let leases = match (mapped.header.slab_layout, cell) {
        (None, None) => Some(whole),
        (Some(_), Some(cell)) => whole.cell(cell),
        _ => None,
    };
    leases.ok_or_else(|| Error::handle("segment", format!("{label} has no such cell")))
}

fn map(directory: &Directory, lookup: Lookup<'_>, access: Access) -> Result<FoundSegment> {
    if let Lookup::Id(id) = lookup
        && let Some(mapped) = mapping::find(id, access)
    {
        return Ok(FoundSegment::Known(mapped));
    }
    let file = system::SegmentFile::open(directory.clone(), lookup, access)?;
    let header = read_header(lookup, &file)?;
    if let (Lookup::Name(_), text) = (lookup, SegmentText { id: header.id, cell: None })
        && let Some(segment) = find(&text, access)
    {
        return Ok(FoundSegment::Segment(segment));
    }
    let mapped = Arc::new(Mapped::map(&file, header, access)?);
    if mapped.header.slab_layout.is_some() {
        mapping::insert(&mapped);
    }
    Ok(FoundSegment::New(mapped))
}

/// Gives back what a message holds of an array. This process need not have attached it. Returns
/// whether the message held it until now.
///
/// # Errors
/// As for attaching it.
pub(crate) fn discard(
    _operation: Operation,
    directory: &Directory,
    descriptor: &Descriptor,
    ticket: u64,
) -> Result<bool> {
    let text = &descriptor.segment;
    if let Some(segment) = find_held(text) {
        return Ok(segment.take_ticket(ticket));
    }
    system::is_usable(directory)?;
    let (FoundSegment::Known(mapped) | FoundSegment::New(mapped)) =
        map(directory, Lookup::Id(&text.id), Access::ReadWrite)?
    else {
        return Ok(false);
    };
    let leases = leases_of(&mapped, text.cell, &text.to_string())?;
    let was_held = release_ticket(&mapped, text.cell, &leases, ticket);
    drop(end_if_unheld(&mapped, text.cell, &leases));
    Ok(was_held)
}

/// A process attaches received arrays until this library uses this part of the process's mappings
/// (one fourth), and copies them from then on.
const MAPPINGS_PART: usize = 4;
/// The part of shared memory that one process may keep in arrays that were sent to it alone (one
/// eighth).
const PRIVATE_PART: u64 = 8;
/// The part of shared memory that stays free for others (one fourth).
const FREE_PART: u64 = 4;

/// Tries the directory that segments live in: whether its file system does what this library stands
/// on. Every process does so when it first uses a directory, and then makes and attaches nothing
/// there if it does not. Returns `false` if it cannot be tried, because nothing can be made there
/// now.
///
/// # Errors
/// [`Error::UnusableDirectory`]; [`Error::Os`] if the kernel may not be asked for locks.
pub fn try_directory() -> Result<bool> {
    system::is_usable(&Directory::current())
}

/// Whether a quarter of shared memory would still be free with so many more bytes in use. For
/// memory that could as well be private; a new array may use the last byte.
#[must_use]
pub fn has_room(bytes: u64) -> bool {
    free_and_total().is_some_and(|space| has_room_of(space, bytes))
}

fn free_and_total() -> Option<(u64, u64)> {
    let directory = Directory::current();
    Some((directory.free_bytes().ok()?, directory.total_bytes().ok()?))
}

fn has_room_of((free, total): (u64, u64), bytes: u64) -> bool {
    free.saturating_sub(bytes) >= total / FREE_PART
}

/// Whether a receiver that wants the array of a descriptor for itself alone should copy it to
/// private memory rather than attach it, [`Access::Owned`] or [`Access::CopyOnWrite`].
///
/// Such a mapping costs no copy. But it keeps shared memory, of which a container may have
/// 64 MB, and a process may have `vm.max_map_count` mappings, 65,530 by default. Without a free
/// mapping a process can neither open a file nor start a thread. So the answer is yes when this
/// library uses a quarter of this process's mappings, when the process would keep more than an
/// eighth of shared memory in this way, or when less than a quarter of shared memory is free.
#[must_use]
pub fn should_copy(descriptor: &Descriptor) -> bool {
    if system::is_orphaned() {
        return false; // the attach that follows is refused
    }
    if mapping::mappings() >= system::most_mappings() / MAPPINGS_PART {
        return true;
    }
    let Some(space) = free_and_total() else { return false };
    let bytes = descriptor.layout.len().saturating_mul(descriptor.dtype.itemsize());
    let kept = PrivateBytes::total().saturating_add(bytes);
    !has_room_of(space, 0) || kept > space.1 / PRIVATE_PART
}
