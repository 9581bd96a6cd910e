//! A segment's file in memory, and its validated header.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::usage;
use crate::header::control::{Announced, ControlWords};
use crate::header::format::{Header, PAGE_BYTES};
use crate::header::lease::Leases;
use crate::system::{self, Access, Directory, Liveness, Lookup};
use crate::value::error::{Error, Result};
use crate::value::name::SegmentId;

/// A file, mapped once for each access, however many arrays lie in it.
pub(crate) struct Mapped {
    // Fields are dropped in this order: `last` looks for other holders after the mapping's lock has
    // gone.
    pub(crate) mapping: system::Mapping,
    last: LastLockOnly,
    pub(crate) header: Header,
    pub(crate) access: Access,
    pub(super) stored: Stored,
}

/// What a process has stored to a mapping so far, as far as it decides how it stores next.
#[derive(Default)]
pub(crate) struct Stored {
    /// The process of which `bytes` tells. A forked child has the mapping and none of its pages.
    process: AtomicU32,
    bytes: AtomicU64,
}

/// The count of bytes that says that all pages are mapped.
pub(super) const POPULATED: u64 = u64::MAX;

impl Stored {
    /// The bytes that this process has stored.
    pub(super) fn bytes(&self) -> u64 {
        if self.process.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
            self.bytes.store(0, Ordering::Relaxed);
        }
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Reads and validates the header of an open file. Most headers are one page, which is read once.
///
/// # Errors
/// [`Error::InvalidSegment`], also when the file was looked up by id and its header has another id,
/// or by name and the id in its header leads to another file.
pub(crate) fn read_header(lookup: Lookup<'_>, file: &system::SegmentFile) -> Result<Header> {
    let label = lookup.to_string();
    let page = file.read_front(PAGE_BYTES)?;
    let header = match Header::bytes_needed(&label, &page, file.bytes())? {
        all if all <= page.len() as u64 => {
            Header::read(&label, &page[..all as usize], file.bytes())?
        }
        all => Header::read(&label, &file.read_front(all)?, file.bytes())?,
    };
    let expected = match lookup {
        Lookup::Id(id) | Lookup::OwnId(id) | Lookup::Listed(id) if *id != header.id => {
            label.clone()
        }
        // A copy of a segment's file: what ended it would end the original.
        Lookup::Name(_) if file.is_another_than(&header.id)? => "the id of this file".to_owned(),
        _ => return Ok(header),
    };
    let found = header.id.to_string();
    Err(Error::InvalidSegment { segment: label, field: "id", expected, found })
}

/// Gives a LOCK_ONLY segment back when it is dropped, if no other mapping holds its lock.
struct LastLockOnly {
    id: SegmentId,
    directory: Directory,
    was_lock_only: AtomicBool,
}

impl Drop for LastLockOnly {
    fn drop(&mut self) {
        if *self.was_lock_only.get_mut() {
            let liveness = Liveness::of(&self.directory);
            // There is nobody to tell of an error; a sweep will do it.
            let _ = system::reclaim(&self.directory, &self.id, &liveness);
        }
    }
}

impl Mapped {
    pub(crate) fn new(mapping: system::Mapping, header: Header, access: Access) -> Self {
        let id = header.id;
        let directory = mapping.directory().clone();
        let last = LastLockOnly { id, directory, was_lock_only: AtomicBool::new(false) };
        usage::file_was_mapped();
        Self { mapping, last, header, access, stored: Stored::default() }
    }

    /// Maps an open file whose header was read.
    pub(crate) fn map(file: &system::SegmentFile, header: Header, access: Access) -> Result<Self> {
        Ok(Self::new(file.map(access, header.header_bytes)?, header, access))
    }

    /// Maps the header alone of an open file whose header was read: for a sweep and an unlink,
    /// which touch no data.
    pub(crate) fn map_header(file: &system::SegmentFile, header: Header) -> Result<Self> {
        Ok(Self::new(file.map_header(header.header_bytes)?, header, Access::ReadWrite))
    }

    /// Whether the segment has ended, or its file cannot be found any more: no array will be
    /// attached through this mapping.
    pub(super) fn is_over(&self) -> bool {
        self.leases().is_dead() || !system::is_found(self.directory(), &self.header.id)
    }

    pub(crate) fn directory(&self) -> &Directory {
        self.mapping.directory()
    }

    pub(crate) fn header_is_writable(&self) -> bool {
        self.mapping.header_is_writable()
    }

    /// Returns the leases of the segment or slab as a whole.
    #[allow(unsafe_code)]
    pub(crate) fn leases(&self) -> Leases {
        let entries = self.header.leases_count as usize;
        // SAFETY: the header is mapped and aligned, because a mapping starts at a page and lives as
        // long as `self`. It has room for the entries and the heads, because `Header::new` or
        // `Header::of_slab` made it so, or `Header::read` checked both.
        let control =
            unsafe { ControlWords::new(self.mapping.header(), entries, self.header.slab_layout) };
        match self.header.slab_layout {
            Some(_) => Leases::of_slab(control),
            None => Leases::of_segment(control),
        }
    }

    /// Returns the leases of a cell, or of the segment as a whole.
    pub(crate) fn leases_of(&self, cell: Option<u32>) -> Leases {
        let whole = self.leases();
        let Some(number) = cell else { return whole };
        let Some(leases) = whole.cell(number) else {
            unreachable!("the number of a cell was checked when it was claimed or attached")
        };
        leases
    }

    /// Returns the offset of a cell in the data, and its size; or those of all data.
    pub(crate) fn part(&self, cell: Option<u32>) -> (u64, u64) {
        match (self.header.slab_layout, cell) {
            (Some(layout), Some(cell)) => {
                debug_assert!(cell < layout.cells, "I3 of `segment`: the number was validated");
                (u64::from(cell) * layout.cell_bytes, layout.cell_bytes)
            }
            _ => (0, self.header.data_bytes),
        }
    }

    /// Returns the first byte of the data of a cell, or of the segment.
    pub(crate) fn data(&self, cell: Option<u32>) -> NonNull<u8> {
        let start = self.mapping.data().wrapping_add(self.part(cell).0 as usize);
        NonNull::new(start).unwrap_or(NonNull::dangling()) // a mapping is never at 0
    }

    /// Writes the header of a new file, before any other process can see it.
    #[allow(unsafe_code)]
    pub(crate) fn write_header(&self) {
        let bytes = self.header.write();
        let start = self.mapping.header().as_ptr();
        let _around = Announced::around(start, bytes.len());
        // SAFETY: the mapping has room for the bytes, because the file was made as long as the
        // header says, which is no less than the header itself; no other thread or process has it
        // yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
    }

    /// Frees the memory of a channel that the caller has ended: a process may keep it mapped for
    /// arrays that it does not use any more. Followers read to the end, and hold nothing.
    pub(crate) fn decommit_channel(&self) {
        if self.header.channel.is_some_and(|channel| !channel.is_followed) {
            let data = (self.header.header_bytes, self.header.data_bytes);
            let _ = system::decommit(self.directory(), &self.header.id, &[data]); // else it stays
        }
    }

    /// Unlinks a segment that the caller has ended. Returns whether it did. A close has no caller
    /// to report an error to: a sweep takes what stays because of another user or a crash.
    pub(crate) fn discard(&self) -> bool {
        system::discard(self.directory(), &self.header.id, self.header.name.as_ref())
            .unwrap_or_default()
    }

    /// Begins the next use of a private mapping that was cached. Cached mappings are inherited by
    /// forked children, which have them in their caches, too.
    pub(super) fn begin_private_use(&self) {
        if self.mapping.is_owned() {
            self.mapping.let_forks_inherit(false);
        }
    }

    /// Ends the use of a private mapping by an array in a cell: it shows the shared memory again.
    /// `false` where that cannot be done, and where no later attach looks for it: what was owned
    /// late was attached to copy on write, as the next array will be.
    pub(crate) fn end_private_use(&self, cell: Option<u32>, data_bytes: u64) -> bool {
        if self.mapping.is_owned() {
            self.mapping.let_forks_inherit(true);
            return self.access == Access::Owned;
        }
        let start = self.part(cell).0;
        self.mapping.is_frozen() && self.mapping.drop_written_pages(start, data_bytes)
    }

    /// How the next array has a private mapping that is cached.
    pub(super) fn private_access(&self) -> Access {
        if self.mapping.is_frozen() { Access::CopyOnWrite } else { Access::Owned }
    }

    /// Freezes the data of an array that this process alone has, before a fork. Allocates nothing.
    #[cfg(linux_backend)]
    pub(crate) fn freeze(&self) {
        if self.access.is_private() {
            self.mapping.freeze(&self.header.id);
        }
    }

    /// Closes the gap in a child for which the data could not be frozen.
    #[cfg(linux_backend)]
    pub(crate) fn close_gap_in_child(&self) {
        if self.access.is_private() {
            self.mapping.close_gap_in_child();
        }
    }

    /// Whether the data are the cell's pages, which this process alone has.
    pub(crate) fn is_owned(&self) -> bool {
        self.access.is_private() && self.mapping.is_owned()
    }

    /// Whether a store goes to the file.
    pub(super) fn stores_to_file(&self) -> bool {
        self.access.stores_to_file() && self.mapping.is_owned()
    }

    /// Makes copy-on-write data owned, if no page was stored to. Returns whether they are.
    pub(crate) fn own(&self) -> bool {
        self.is_owned() || self.access.is_private() && self.mapping.thaw(&self.header.id)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        usage::file_was_unmapped();
        self.last.was_lock_only.store(self.leases().is_lock_only(), Ordering::Relaxed);
    }
}
