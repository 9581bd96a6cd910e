//! The elements of an array that is to be saved, in pieces in the order of the file.
#![allow(unsafe_code)] // memory that languages describe by its address

use std::marker::PhantomData;

use super::header::NpyHeader;
use crate::array::Array;
use crate::element::copy::{Strided, copy_elements};
use crate::system;
use crate::value::dtype::DType;
use crate::value::error::Result;
use crate::value::shape::{Layout, Order, size_bytes};

/// The most bytes of a piece, unless one item has more.
const PIECE_BYTES: u64 = if cfg!(miri) { 64 } else { 1 << 20 };

/// The elements of an array that is to be saved.
pub struct Elements<'a> {
    /// The address of the lowest element.
    start: *const u8,
    header: NpyHeader,
    /// The elements in the order of the file: bytes of one dimension where they lie side by side.
    layout: Layout,
    /// The size of an item of `layout`.
    itemsize: u64,
    /// The dimension along which pieces are cut: each has one index of those before it.
    dim: usize,
    /// The indices along that dimension that one piece has.
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
    /// [`crate::Error::InvalidArgument`] when their size overflows, as it may with strides of zero.
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
        let (start, layout) = from_lowest(start, layout);
        let is_c = layout.is_contiguous(itemsize, Order::C);
        let is_f = !is_c && layout.is_contiguous(itemsize, Order::F);
        let order = if is_f { Order::F } else { Order::C };
        let header = NpyHeader::new(dtype, &layout.shape, order)?;
        let bytes = size_bytes(&layout.shape, itemsize)?;
        let (layout, itemsize) = if is_c || is_f {
            (Layout { offset: layout.offset, ..Layout::contiguous(&[bytes], 1, Order::C)? }, 1)
        } else {
            (layout, itemsize)
        };
        let (dim, rows) = cut_of(&layout.shape, itemsize)?;
        Ok(Self { start, header, layout, itemsize, dim, rows, lifetime: PhantomData })
    }

    /// Returns the header of a file with these elements.
    #[must_use]
    pub fn header(&self) -> &NpyHeader {
        &self.header
    }

    /// Returns the number of pieces: at least one, which may be empty.
    pub(super) fn pieces(&self) -> u64 {
        if self.layout.is_empty() || self.itemsize == 0 {
            return 1;
        }
        let outer: u64 = self.layout.shape.iter().take(self.dim).product();
        outer * self.pieces_of_a_row()
    }

    /// Returns the number of pieces along the dimension that is cut.
    fn pieces_of_a_row(&self) -> u64 {
        self.layout.shape.get(self.dim).map_or(1, |count| count.div_ceil(self.rows))
    }

    /// Returns the elements of a piece.
    fn layout_of(&self, piece: u64) -> Result<Layout> {
        let mut outer = piece / self.pieces_of_a_row();
        let cut = piece % self.pieces_of_a_row();
        let mut layout = self.layout.clone();
        for dim in (0..self.dim).rev() {
            let count = layout.shape[dim];
            layout = layout.select(dim, (outer % count) as i64)?;
            outer /= count;
        }
        if layout.ndim() == 0 {
            return Ok(layout);
        }
        let first = cut * self.rows;
        let end = first.saturating_add(self.rows).min(i64::MAX as u64);
        layout.slice(0, Some(first as i64), Some(end as i64), 1)
    }

    /// Appends the bytes of a piece to `to`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn read_piece(&self, piece: u64, to: &mut Vec<u8>) -> Result<()> {
        if self.layout.is_empty() || self.itemsize == 0 {
            return Ok(());
        }
        let layout = self.layout_of(piece)?;
        let dense = Layout::contiguous(&layout.shape, self.itemsize, Order::C)?;
        let bytes = size_bytes(&layout.shape, self.itemsize)?;
        let before = to.len();
        let size = bytes as usize;
        system::reserve_for("a piece of an array", to, size)?;
        to.resize(before + size, 0);
        let room = Strided { start: to[before..].as_mut_ptr(), layout: &dense };
        // SAFETY: `dense` has the shape of `layout` and the vector has room for it, as was just
        // made; `memory` was promised that the elements can be read; the vector is private.
        unsafe {
            copy_elements(
                room,
                Strided { start: self.start.cast_mut(), layout: &layout },
                self.itemsize,
            );
        }
        Ok(())
    }
}

/// Returns the address of the lowest element, and the layout from there: an offset counts upwards
/// only, and with negative strides a piece begins below the first element.
fn from_lowest(start: *const u8, layout: Layout) -> (*const u8, Layout) {
    let dims = layout.shape.iter().zip(&layout.strides);
    let below = |(count, stride): (&u64, &i64)| {
        stride.min(&0).unsigned_abs().wrapping_mul(count.saturating_sub(1))
    };
    let below = if layout.is_empty() { 0 } else { dims.map(below).fold(0, u64::wrapping_add) };
    let lowest = start.wrapping_add(layout.offset as usize).wrapping_sub(below as usize);
    (lowest, Layout { offset: below, ..layout })
}

/// Returns the outermost dimension of which one index fits into a piece, and how many do.
fn cut_of(shape: &[u64], itemsize: u64) -> Result<(usize, u64)> {
    let mut cut = (0, 1);
    for dim in 0..shape.len() {
        let row_bytes = size_bytes(&shape[dim + 1..], itemsize)?;
        cut = (dim, (PIECE_BYTES / row_bytes.max(1)).max(1));
        if row_bytes <= PIECE_BYTES {
            break;
        }
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the elements of a layout one after the other, as the pieces have them.
    fn in_pieces(memory: &[u8], layout: Layout) -> (u64, Vec<u8>) {
        let dtype = DType::parse("<u2").unwrap();
        // SAFETY: every element of the layout can be read, since the callers make it of a layout
        // that takes the vector's size.
        let elements = unsafe { Elements::memory(memory.as_ptr(), dtype, layout) }.unwrap();
        let mut bytes = Vec::new();
        for piece in 0..elements.pieces() {
            let before = bytes.len();
            elements.read_piece(piece, &mut bytes).unwrap();
            assert!((bytes.len() - before) as u64 <= PIECE_BYTES);
        }
        (elements.pieces(), bytes)
    }

    fn one_by_one(memory: &[u8], layout: &Layout) -> Vec<u8> {
        let mut places = vec![layout.offset as i64];
        for (&count, &stride) in layout.shape.iter().zip(&layout.strides) {
            let along = |place: i64| (0..count as i64).map(move |index| place + index * stride);
            places = places.into_iter().flat_map(along).collect();
        }
        let elements: Vec<&[u8]> =
            places.into_iter().map(|place| &memory[place as usize..][..2]).collect();
        elements.concat()
    }

    #[test]
    fn pieces_are_cut_along_any_dimension_in_either_direction() {
        let large = PIECE_BYTES / 2 + 1;
        for shape in [&[3, large][..], &[2, large], &[2, 3, large / 2], &[large, 3], &[large], &[]]
        {
            let plain = Layout::contiguous(shape, 2, Order::C).unwrap();
            let size = size_bytes(shape, 2).unwrap();
            let memory: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut views = vec![plain.clone(), plain.transpose()];
            for dim in 0..shape.len() {
                views.push(plain.slice(dim, None, None, -1).unwrap());
                views.push(plain.slice(dim, Some(1), None, 2).unwrap().transpose());
            }
            for view in views {
                let (pieces, bytes) = in_pieces(&memory, view.clone());
                let is_f = !view.is_contiguous(2, Order::C) && view.is_contiguous(2, Order::F);
                let in_file = if is_f { view.transpose() } else { view.clone() };
                assert!(bytes == one_by_one(&memory, &in_file), "{view:?}");
                assert!(pieces >= view.len() * 2 / PIECE_BYTES);
            }
        }
    }
}
