//! The item that a copy moves at every index, by the fewest loads and stores.
#![allow(unsafe_code)] // they copy between addresses that the plan computed

use super::plan::Dim;
use crate::element::per_byte;

/// The item that is copied at every index.
pub(super) trait ItemCopy: Copy {
    fn of(bytes: usize) -> Self;

    fn bytes(self) -> usize;

    /// # Safety
    /// `bytes` can be read at `from` and written at `to`, and do not overlap.
    unsafe fn copy(self, to: *mut u8, from: *const u8);

    /// Copies four items that are `step` bytes apart to four side by side, in private memory.
    ///
    /// # Safety
    /// As for `copy`, for each of the four.
    #[inline(always)]
    unsafe fn four(self, to: *mut u8, from: *const u8, step: isize) {
        Dim { count: 4, to: self.bytes() as isize, from: step }.each(to, from, |to, from| {
            // SAFETY: the caller promises what `copy` needs for each of the four items, and the
            // index is below four.
            unsafe { self.copy(to, from) };
        });
    }

    /// Copies the first items of a row that is contiguous in both ends, and runs backwards in the
    /// source: as many as fill whole words. Returns their number.
    ///
    /// # Safety
    /// As for `copy`, for each of the `count` items.
    #[inline(always)]
    unsafe fn words_backwards(self, _count: usize, _to: *mut u8, _from: *const u8) -> usize {
        0
    }

    /// Copies as `four` does, for the first indices of `near`, whose items lie side by side in the
    /// source: as many as fill whole words. Returns their number.
    ///
    /// # Safety
    /// As for `four`, for each index of `near`.
    #[inline(always)]
    unsafe fn words_of_four(
        self,
        _near: Dim,
        _to: *mut u8,
        _from: *const u8,
        _step: isize,
    ) -> usize {
        0
    }
}

/// The size in bytes of a word, which one instruction loads.
const WORD_BYTES: usize = 16;

/// An item of a size that is known here: one load and one store.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const BYTES: usize>;

/// An item of one to two times `WORD` bytes: the first and the last word, which may overlap.
#[derive(Clone, Copy)]
pub(super) struct EndWords<const WORD: usize>(usize);

/// An item of any size.
#[derive(Clone, Copy)]
pub(super) struct AnySize(usize);

/// # Safety
/// `BYTES` can be read at `from` and written at `to`, and do not overlap.
#[inline(always)]
unsafe fn move_item<const BYTES: usize>(to: *mut u8, from: *const u8) {
    // SAFETY: the caller promises that so many bytes can be read.
    let item: [u8; BYTES] = unsafe { per_byte::load(from) };
    // SAFETY: the caller promises that so many bytes can be written.
    unsafe { per_byte::store(to, item) };
}

impl<const BYTES: usize> ItemCopy for Fixed<BYTES> {
    fn of(_: usize) -> Self {
        Self
    }

    #[inline(always)]
    fn bytes(self) -> usize {
        BYTES
    }

    #[inline(always)]
    unsafe fn copy(self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller promises that `BYTES` can be read and written there, and do not
        // overlap.
        unsafe { move_item::<BYTES>(to, from) };
    }

    /// Loads all four before it stores one, so that they become one store.
    #[inline(always)]
    unsafe fn four(self, to: *mut u8, from: *const u8, step: isize) {
        let four: [[u8; BYTES]; 4] = std::array::from_fn(|index| {
            let from = from.wrapping_offset(step * index as isize);
            // SAFETY: the caller promises that each of the four items can be read.
            unsafe { per_byte::load::<BYTES>(from) }
        });
        // SAFETY: the caller promises that four items side by side can be written in private
        // memory; an array of bytes needs no alignment.
        unsafe { to.cast::<[[u8; BYTES]; 4]>().write(four) };
    }

    #[inline(always)]
    unsafe fn words_backwards(self, count: usize, to: *mut u8, from: *const u8) -> usize {
        let words = count * BYTES / WORD_BYTES;
        // The first word ends where the first item does.
        let end = from.wrapping_add(BYTES);
        for word in 1..=words {
            // SAFETY: the caller promises that all items can be read, and these are whole ones.
            let items: [u8; WORD_BYTES] =
                unsafe { per_byte::load(end.wrapping_sub(word * WORD_BYTES)) };
            let turned: [u8; WORD_BYTES] = std::array::from_fn(|at| {
                items[WORD_BYTES - BYTES - at / BYTES * BYTES + at % BYTES]
            });
            // SAFETY: the caller promises that all items can be written, and these are as many.
            unsafe { per_byte::store(to.wrapping_add((word - 1) * WORD_BYTES), turned) };
        }
        words * WORD_BYTES / BYTES
    }

    #[inline(always)]
    unsafe fn words_of_four(self, near: Dim, to: *mut u8, from: *const u8, step: isize) -> usize {
        let items = WORD_BYTES / BYTES;
        let words = near.count / items;
        for word in 0..words {
            let rows: [[u8; WORD_BYTES]; 4] = std::array::from_fn(|row| {
                let from = from.wrapping_offset(step * row as isize);
                // SAFETY: the caller promises that the items of each row can be read.
                unsafe { per_byte::load(from.wrapping_add(word * WORD_BYTES)) }
            });
            for item in 0..items {
                let four: [[u8; BYTES]; 4] = std::array::from_fn(|row| {
                    std::array::from_fn(|byte| rows[row][item * BYTES + byte])
                });
                let to = to.wrapping_offset(near.to * (word * items + item) as isize);
                // SAFETY: the caller promises that four items side by side can be written in
                // private memory; an array of bytes needs no alignment.
                unsafe { to.cast::<[[u8; BYTES]; 4]>().write(four) };
            }
        }
        words * items
    }
}

impl<const WORD: usize> ItemCopy for EndWords<WORD> {
    fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, to: *mut u8, from: *const u8) {
        let last = self.0 - WORD;
        // SAFETY: the caller promises that all bytes of the item can be read and written; an item
        // of `EndWords` has at least `WORD` of them.
        unsafe { move_item::<WORD>(to, from) };
        // SAFETY: the caller promises that all bytes of the item can be read and written; the last
        // word ends where the item does.
        unsafe { move_item::<WORD>(to.wrapping_add(last), from.wrapping_add(last)) };
    }
}

impl ItemCopy for AnySize {
    fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    fn bytes(self) -> usize {
        self.0
    }

    unsafe fn copy(self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller promises that `self.0` bytes can be read and written there, and do not
        // overlap.
        unsafe { per_byte::copy(to, from, self.0) };
    }
}
