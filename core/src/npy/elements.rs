//! The elements of an array that is to be saved, in pieces in the order of the file.
#![allow(unsafe_code)] // memory that languages describe by its address

use std::marker::PhantomData;

use super::header::Header;
use crate::array::Array;
use crate::copy::{End, copy_elements};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::{Layout, Order, size_bytes};

/// The size of a piece in bytes, as far as rows of the array allow it.
const PIECE_BYTES: u64 = 1 << 20;

/// The elements of an array that is to be saved.
pub struct Elements<'a> {
    start: *const u8,
    header: Header,
    /// The elements in the order of the file: bytes of one dimension where they lie side by side.
    layout: Layout,
    /// The size of an item of `layout`.
    itemsize: u64,
    /// The items along the first dimension that one piece has.
    rows: u64,
    lifetime: PhantomData<&'a Array>,
}

// SAFETY: shared references must be usable by several threads at once; they only read the memory,
// which any thread may, as `memory` demands.
unsafe impl Sync for Elements<'_> {}

impl<'a> Elements<'a> {
    /// Returns the elements of an array.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when their size overflows, as it may with strides of zero.
    pub fn of(array: &'a Array) -> Result<Self> {
        let layout = Layout { offset: 0, ..array.layout().clone() };
        // SAFETY: every element of the array's layout, from its first on, can be read while the
        // array lives, which `'a` borrows.
        unsafe { Self::memory(array.as_ptr(), array.dtype().clone(), layout) }
    }

    /// Returns elements of memory, counted from `start`.
    ///
    /// # Errors
    /// As for [`Elements::of`].
    ///
    /// # Safety
    /// Every element of `layout`, from `start` on, can be read by any thread during `'a`.
    pub unsafe fn memory(start: *const u8, dtype: DType, layout: Layout) -> Result<Self> {
        let itemsize = dtype.itemsize();
        let is_c = layout.is_contiguous(itemsize, Order::C);
        let is_f = !is_c && layout.is_contiguous(itemsize, Order::F);
        let order = if is_f { Order::F } else { Order::C };
        let header = Header::new(dtype, &layout.shape, order)?;
        let bytes = size_bytes(&layout.shape, itemsize)?;
        let (layout, itemsize) = match is_c || is_f {
            true => {
                (Layout { offset: layout.offset, ..Layout::contiguous(&[bytes], 1, Order::C)? }, 1)
            }
            false => (layout, itemsize),
        };
        let row_bytes = size_bytes(layout.shape.get(1..).unwrap_or(&[]), itemsize)?;
        let rows = (PIECE_BYTES / row_bytes.max(1)).max(1);
        Ok(Self { start, header, layout, itemsize, rows, lifetime: PhantomData })
    }

    /// Returns the header of a file with these elements.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of pieces: at least one, which may be empty.
    pub(super) fn pieces(&self) -> u64 {
        let rows = self.layout.shape.first().copied().unwrap_or(1);
        if self.layout.is_empty() { 1 } else { rows.div_ceil(self.rows) }
    }

    /// Appends the bytes of a piece to `to`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn read_piece(&self, piece: u64, to: &mut Vec<u8>) -> Result<()> {
        if self.layout.is_empty() || self.itemsize == 0 {
            return Ok(());
        }
        let first = piece * self.rows;
        let layout = match self.layout.ndim() {
            0 => self.layout.clone(),
            _ => self.layout.slice(
                0,
                Some(first as i64),
                Some(first.saturating_add(self.rows).min(i64::MAX as u64) as i64),
                1,
            )?,
        };
        let dense = Layout::contiguous(&layout.shape, self.itemsize, Order::C)?;
        let bytes = size_bytes(&layout.shape, self.itemsize)?;
        let (before, size) = (to.len(), bytes as usize);
        to.try_reserve_exact(size)
            .map_err(|_| Error::NoMemory { bytes, purpose: "a row of an array" })?;
        to.resize(before + size, 0);
        let room = End { start: to[before..].as_mut_ptr(), layout: &dense };
        // SAFETY: `dense` has the shape of `layout` and the vector has room for it, as was just
        // made; `memory` was promised that the elements can be read; the vector is private.
        unsafe {
            copy_elements(
                room,
                End { start: self.start.cast_mut(), layout: &layout },
                self.itemsize,
            );
        }
        Ok(())
    }
}
