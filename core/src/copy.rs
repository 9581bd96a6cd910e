//! Copies between memory of any strides, counted: the only copies that core makes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shape::Layout;

static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of array data that this process has copied with this library so far.
///
/// Handing an array over by its handle copies none.
#[must_use]
pub fn copied_bytes() -> u64 {
    COPIED_BYTES.load(Ordering::Relaxed)
}

/// Where a copy reads or writes: an address of offset 0, and where the elements are from there.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) start: *mut u8,
    pub(crate) layout: &'a Layout,
}

/// Copies all elements of `from` to the elements of `to` with the same indices.
///
/// # Safety
/// The layouts have one shape, both are checked against memory that is mapped at their
/// `start`, `to`'s is writable, and the two do not overlap. Another process may write to
/// either meanwhile: then the bytes copied are some of its bytes.
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_elements(to: End<'_>, from: End<'_>, item_bytes: u64) {
    if to.layout.is_empty() || item_bytes == 0 {
        return;
    }
    let (dims, run_bytes) = runs(to.layout, from.layout, item_bytes);
    let walk = Walk { to, from, dims, run_bytes: run_bytes as usize };
    // SAFETY: the first element of a checked layout lies inside its memory.
    unsafe { walk.dimension(0, to.layout.offset as i64, from.layout.offset as i64) };
    COPIED_BYTES.fetch_add(to.layout.len() * item_bytes, Ordering::Relaxed);
}

/// How many leading dimensions must be walked, and the bytes that lie side by side, in both,
/// at each step: trailing dimensions that are dense in both ends are one run.
fn runs(to: &Layout, from: &Layout, item_bytes: u64) -> (usize, u64) {
    let mut run_bytes = item_bytes;
    for dim in (0..to.ndim()).rev() {
        let dense = |layout: &Layout| layout.strides[dim] == run_bytes as i64;
        if to.shape[dim] > 1 && !(dense(to) && dense(from)) {
            return (dim + 1, run_bytes);
        }
        run_bytes *= to.shape[dim];
    }
    (0, run_bytes)
}

struct Walk<'a> {
    to: End<'a>,
    from: End<'a>,
    /// Dimensions that are walked; the rest is one run.
    dims: usize,
    run_bytes: usize,
}

#[allow(unsafe_code)]
impl Walk<'_> {
    /// Copies what lies at these offsets in the dimensions from `dim` on.
    ///
    /// # Safety
    /// As [`copy_elements`], and the offsets are those of an element.
    unsafe fn dimension(&self, dim: usize, to: i64, from: i64) {
        if dim == self.dims {
            let (to, from) =
                (self.to.start.wrapping_offset(to as isize), self.from.start.wrapping_offset(from as isize));
            // SAFETY: a run is elements that lie side by side in both ends, which do not overlap.
            return unsafe { std::ptr::copy_nonoverlapping(from, to, self.run_bytes) };
        }
        let (to_stride, from_stride) = (self.to.layout.strides[dim], self.from.layout.strides[dim]);
        for index in 0..self.to.layout.shape[dim] as i64 {
            // SAFETY: indices below the shape are elements.
            unsafe { self.dimension(dim + 1, to + index * to_stride, from + index * from_stride) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Order;

    #[test]
    #[allow(unsafe_code)]
    fn a_transposed_and_reversed_source_arrives_in_order() {
        let source: Vec<u16> = (0..24).collect();
        let from = Layout::contiguous(&[4, 3, 2], 2, Order::C).unwrap();
        let from = from.permute(&[1, 0, 2]).unwrap().slice(0, None, None, -1).unwrap();
        let to = Layout::contiguous(&from.shape, 2, Order::C).unwrap();
        let mut copied = vec![0u16; 24];
        let before = copied_bytes();
        let ends = [copied.as_mut_ptr().cast(), source.as_ptr().cast_mut().cast::<u8>()];
        // SAFETY: both vectors hold the 48 bytes that the layouts describe.
        unsafe { copy_elements(End { start: ends[0], layout: &to }, End { start: ends[1], layout: &from }, 2) };
        let expected: Vec<u16> =
            (0..3).rev().flat_map(|j| (0..4).flat_map(move |i| [i * 6 + j * 2, i * 6 + j * 2 + 1])).collect();
        assert_eq!(copied, expected);
        assert!(copied_bytes() >= before + 48);
    }

    #[test]
    fn dense_ends_are_one_run() {
        let dense = Layout::contiguous(&[4, 3, 2], 2, Order::C).unwrap();
        assert_eq!(runs(&dense, &dense, 2), (0, 48));
        assert_eq!(runs(&dense, &dense.slice(1, None, None, 2).unwrap().slice(1, None, None, -1).unwrap(), 2).1, 4);
    }
}
