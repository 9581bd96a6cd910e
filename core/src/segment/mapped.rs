//! A segment's file in memory, and what its header said.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::relief;
use super::table::Table;
use crate::error::Result;
use crate::format::{Header, PAGE_BYTES};
use crate::lease::Leases;
use crate::name::SegmentId;
use crate::sys::{self, Access, Directory};
use crate::words::{Announced, Words};

/// One file, mapped once for each access, however many arrays lie in it.
pub(super) struct Mapped {
    // In the order in which they go: the lock goes with the mapping.
    pub(super) mapping: sys::Mapping,
    last: LastByLock,
    pub(super) header: Header,
    pub(super) access: Access,
    /// The process whose pages of it were mapped at once (`fill`); 0 for none.
    pub(super) stored_in: AtomicU32,
}

/// What an open file says of itself. Most headers are one page, which is read once.
pub(super) fn read_header(label: &str, file: &sys::File) -> Result<Header> {
    let page = file.read_front(PAGE_BYTES)?;
    match Header::bytes_needed(label, &page, file.bytes())? {
        all if all <= page.len() as u64 => Header::read(label, &page[..all as usize], file.bytes()),
        all => Header::read(label, &file.read_front(all)?, file.bytes()),
    }
}

/// Gives a segment back that was held by its lock, if its mapping was the last.
struct LastByLock {
    id: SegmentId,
    directory: Directory,
    was_by_lock: AtomicBool,
}

impl Drop for LastByLock {
    fn drop(&mut self) {
        if *self.was_by_lock.get_mut() {
            let _ = sys::give_back(&self.directory, &self.id); // nobody to tell; a sweep will do it
        }
    }
}

impl Mapped {
    pub(super) fn new(mapping: sys::Mapping, header: Header, access: Access) -> Self {
        let (id, directory) = (header.id, mapping.directory().clone());
        let last = LastByLock { id, directory, was_by_lock: AtomicBool::new(false) };
        relief::file_was_mapped();
        Self { mapping, last, header, access, stored_in: AtomicU32::new(0) }
    }

    /// Maps an open file whose header was read.
    pub(super) fn map(file: &sys::File, header: Header, access: Access) -> Result<Self> {
        Ok(Self::new(file.map(access, header.header_bytes)?, header, access))
    }

    pub(super) fn directory(&self) -> &Directory {
        self.mapping.directory()
    }

    pub(super) fn header_is_writable(&self) -> bool {
        self.mapping.header_is_writable()
    }

    /// The leases of the file as a whole.
    #[allow(unsafe_code)]
    pub(super) fn leases(&self) -> Leases {
        let entries = self.header.leases_count as usize;
        // SAFETY: a mapping starts at a page, and every segment has at least its header page, with
        // room for the entries and heads: `create` made it, or `Header::read` checked both.
        let words = unsafe { Words::new(self.mapping.header(), entries, self.header.division) };
        match self.header.division {
            Some(_) => Leases::of_cells(words),
            None => Leases::of_segment(words),
        }
    }

    /// Where the data of a cell starts in the data, and how many bytes it has room for.
    pub(super) fn part(&self, cell: Option<u32>) -> (u64, u64) {
        match (self.header.division, cell) {
            (Some(division), Some(cell)) => {
                (u64::from(cell) * division.cell_bytes, division.cell_bytes)
            }
            _ => (0, self.header.data_bytes),
        }
    }

    /// The first byte of the data of a cell, or of the segment's.
    pub(super) fn data(&self, cell: Option<u32>) -> NonNull<u8> {
        let start = self.mapping.data().wrapping_add(self.part(cell).0 as usize);
        NonNull::new(start).unwrap_or(NonNull::dangling()) // a mapping is never at 0
    }

    /// The header's bytes, before anybody else can see them.
    #[allow(unsafe_code)]
    pub(super) fn write_header(&self) {
        let bytes = self.header.write();
        let place = self.mapping.header().as_ptr();
        let _around = Announced::around(place, bytes.len());
        // SAFETY: the file was made as long as the header says, which is at least its own bytes;
        // nobody else has the mapping yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    }

    /// Unlinks what the caller ended. A close has nobody to tell: what stays, because it is another
    /// user's or for a crash, a sweep takes.
    pub(super) fn discard(&self) -> bool {
        sys::discard(self.directory(), &self.header.id, self.header.name.as_ref())
            .unwrap_or_default()
    }

    /// The mapped file of that id, if this process has it: a common one, or one that copies on
    /// write and that nobody uses.
    pub(super) fn find(id: &SegmentId, access: Access) -> Option<Arc<Self>> {
        if access == Access::CopyOnWrite {
            return Table::take_private(id);
        }
        let mapped = Table::find_mapped(id, access)?;
        Table::use_again(&mapped);
        Some(mapped)
    }

    /// Of a mapping that copies on write: the pages that were written here go, so that it shows
    /// what is shared. `false` where that cannot be done.
    pub(super) fn give_back_own(&self, cell: Option<u32>, data_bytes: u64) -> bool {
        self.mapping.give_back_own(self.part(cell).0, data_bytes)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        relief::file_was_unmapped();
        Table::remove_mapped(self);
        self.last.was_by_lock.store(self.leases().is_by_lock(), Ordering::Relaxed);
    }
}
