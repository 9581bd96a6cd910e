//! The initial contents of a new array, and the cheapest way to store them.
#![allow(unsafe_code)] // stores to memory that was just mapped

use std::ptr::NonNull;

use super::mapped::{Mapped, POPULATED};
use crate::element::copy::{Strided, copy_elements, write_elements};
use crate::header::control::Announced;
use crate::system::{self, Access};
use crate::value::error::Result;
use crate::value::shape::{Layout, Order};

/// From this size on, elements are written to a new file. Less costs a page fault or two.
const WRITTEN_BYTES: u64 = 16 << 10;

/// From this size on, a store to pages that this process has not mapped yet avoids a fault for each
/// of them.
const MANY_PAGES_BYTES: u64 = 256 << 10;

impl Mapped {
    /// Prepares a store of so many bytes of the data: maps all pages at once, if the store is of at
    /// least half of the data or all was written before, and this process has not done so yet. A
    /// fault for each page takes three times as long as the copy.
    pub(crate) fn prepare_stores(&self, bytes: u64) {
        if bytes < MANY_PAGES_BYTES || !self.stores_to_file() {
            return;
        }
        let before = self.stored.bytes();
        let room = self.header.data_bytes;
        let is_most = bytes >= room / 2 || before.saturating_add(bytes) > room;
        if is_most && before != POPULATED {
            self.stored.set_bytes(POPULATED);
            self.mapping.populate();
        }
    }

    /// Writes elements to the file, to the place of the elements of `to` in a cell or in the whole
    /// data, while this process has probably not mapped the pages there. To map them, and to copy
    /// then, takes twice as long. Returns whether it did.
    ///
    /// # Safety
    /// All elements of `from` can be read, and none is one of `to`. `to` has their shape and lies
    /// in the cell or the data. Another process may read its elements meanwhile, and gets old
    /// or new bytes.
    pub(crate) unsafe fn write_elements(
        &self,
        cell: Option<u32>,
        to: &Layout,
        from: Strided<'_>,
        itemsize: u64,
    ) -> bool {
        let bytes = from.layout.len() * itemsize;
        let before = self.stored.bytes();
        let room = self.header.data_bytes;
        if bytes < MANY_PAGES_BYTES
            || before.saturating_add(bytes) > room
            || self.access != Access::ReadWrite
            || !to.is_contiguous(itemsize, Order::C)
        {
            return false;
        }
        let Ok(Some(file)) = system::SegmentFile::open_own(self.directory(), &self.header.id)
        else {
            return false; // another program removed it, or there is no fd
        };
        self.stored.set_bytes(before + bytes);
        let start = self.header.header_bytes + self.part(cell).0 + to.offset;
        let write = |at, bytes: *const u8, count| file.write_at(start + at, bytes, count);
        // SAFETY: the caller promises that every element of `from` can be read.
        file.takes_writes() && unsafe { write_elements(from, itemsize, write) }.is_ok()
    }
}

/// Writes all bytes of a new array, which is this thread's alone.
pub(crate) type FillFn<'a> = dyn Fn(&mut [u8]) -> Result<()> + 'a;

/// Takes bytes that belong behind those before, or fails and may be called with them again.
pub(crate) type TakePiece<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Gives all bytes of a new array, from the first to the last.
pub(crate) type PiecesFn<'a> = dyn Fn(&mut TakePiece<'_>) -> Result<()> + 'a;

/// The initial contents of a new array.
pub(crate) enum Fill<'a> {
    /// Zeros.
    Zeros,
    /// Unspecified: the bytes of an earlier array of this user, or zeros.
    Nothing,
    /// Elements of readable memory, in the order in which they shall lie, and their size.
    Elements(Strided<'a>, u64),
    /// Bytes that a function writes to the memory, all of them. It may be called again if it failed
    /// or if there was no room.
    By(&'a FillFn<'a>),
    /// Bytes that a function gives piece by piece, for a segment of its own, which takes memory as
    /// they come: what they are made of can be given back meanwhile. The function is called once.
    Pieces(&'a PiecesFn<'a>),
}

impl Fill<'_> {
    /// Whether `apply` stores anything.
    pub(crate) fn stores(&self, is_zero: bool) -> bool {
        match self {
            Self::Zeros => !is_zero,
            Self::Nothing => false,
            Self::Elements(..) | Self::By(_) | Self::Pieces(_) => true,
        }
    }

    pub(crate) fn is_in_pieces(&self) -> bool {
        matches!(self, Self::Pieces(_))
    }

    /// Fills mapped memory. `is_zero` says that it is zero already.
    ///
    /// # Errors
    /// Those of the function.
    ///
    /// # Safety
    /// The `bytes` from `data` on are mapped writable, and no other thread uses them. The elements
    /// can be read, and take as many bytes.
    pub(crate) unsafe fn apply(&self, data: NonNull<u8>, bytes: u64, is_zero: bool) -> Result<()> {
        let announced = || Announced::around(data.as_ptr(), bytes as usize);
        match self {
            Self::Zeros if !is_zero => {
                let _around = announced();
                // SAFETY: the caller promises that `bytes` from `data` on are mapped writable and
                // used by no other thread.
                unsafe { std::ptr::write_bytes(data.as_ptr(), 0, bytes as usize) };
            }
            Self::Elements(from, itemsize) => {
                let Ok(layout) = Layout::contiguous(&from.layout.shape, *itemsize, Order::C) else {
                    return Ok(());
                };
                let _around = announced();
                let to = Strided { start: data.as_ptr(), layout: &layout };
                // SAFETY: both ends have the shape of the source, whose elements the caller lets us
                // read; the new memory is mapped writable, has room for them and is used by no
                // other thread, as the caller promises.
                unsafe { copy_elements(to, *from, *itemsize) };
            }
            Self::By(write) => {
                let _around = announced();
                // SAFETY: the caller promises that `bytes` from `data` on are mapped writable, so
                // they are initialized, and that no other thread uses them. No process has a handle
                // to them before they are filled.
                let room = unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), bytes as usize) };
                write(room)?;
            }
            Self::Pieces(pieces) => {
                let _around = announced();
                // SAFETY: as for `By`.
                let room = unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), bytes as usize) };
                let mut at = 0;
                pieces(&mut |piece| {
                    room[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Fills a cell by [`Mapped::write_elements`]. Returns whether it did.
    ///
    /// # Safety
    /// The elements can be read, and the cell has room for them and is this thread's alone.
    pub(crate) unsafe fn write_to_cell(&self, mapped: &Mapped, cell: u32) -> Result<bool> {
        let Self::Elements(from, itemsize) = self else { return Ok(false) };
        let to = Layout::contiguous(&from.layout.shape, *itemsize, Order::C)?;
        // SAFETY: the caller promises that the elements can be read, and that the cell has room for
        // them and is used by nobody else; `to` starts at the cell and has their shape.
        Ok(unsafe { mapped.write_elements(Some(cell), &to, *from, *itemsize) })
    }

    /// Fills a new file that is not mapped yet, where that is cheaper: a write makes a page, while
    /// a store to it faults first. Returns whether it did.
    ///
    /// # Safety
    /// The elements can be read, and the file has room for them from `offset` on.
    pub(crate) unsafe fn write(&self, file: &system::SegmentFile, offset: u64) -> Result<bool> {
        if !file.takes_writes() {
            return Ok(false);
        }
        let write = |at, bytes: *const u8, count| file.write_at(offset + at, bytes, count);
        match self {
            Self::Elements(from, itemsize) if from.layout.len() * itemsize >= WRITTEN_BYTES => {
                // SAFETY: every element of `from` can be read, and the file has room for them, as
                // the caller of this function promises.
                let written = unsafe { write_elements(*from, *itemsize, write) };
                written.map_err(|error| file.write_error(error))?;
            }
            Self::Pieces(pieces) => {
                let mut at = 0;
                pieces(&mut |piece| {
                    write(at, piece.as_ptr(), piece.len())
                        .map_err(|error| file.write_error(error))?;
                    at += piece.len() as u64;
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
