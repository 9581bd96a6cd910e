//! The elements of an array with gaps between them, without the gaps.
#![allow(unsafe_code)] // memory that NumPy vouches for

use crate::memory::Facts;

struct Dim {
    count: usize,
    step: isize,
}

/// Elements without gaps, and how they lie there.
pub(super) struct Gathered {
    pub(super) bytes: Vec<u8>,
    /// Where the first of them is.
    pub(super) offset: usize,
    pub(super) strides: Vec<isize>,
}

/// The elements of an array, in its own order of dimensions and in its directions. What repeats is
/// there once. `None` where two elements have bytes in common otherwise.
pub(super) fn gather(facts: &Facts<'_>) -> Option<Gathered> {
    let item = facts.itemsize() as usize;
    let (shape, steps) = (facts.shape(), facts.strides());
    let mut axes: Vec<usize> =
        (0..shape.len()).filter(|axis| shape[*axis] > 1 && steps[*axis] != 0).collect();
    axes.sort_by_key(|axis| steps[*axis].unsigned_abs()); // from the innermost on
    let mut strides = vec![0; shape.len()];
    let (mut within, mut size, mut offset) = (item, item, 0);
    let mut dims = Vec::with_capacity(axes.len());
    for axis in axes {
        let (count, step) = (shape[axis] as usize, steps[axis]);
        if step.unsigned_abs() < within {
            return None;
        }
        within += (count - 1) * step.unsigned_abs();
        strides[axis] = size as isize * step.signum();
        offset += if step < 0 { (count - 1) * size } else { 0 };
        size *= count;
        dims.push(Dim { count, step: step.unsigned_abs() as isize });
    }
    let mut bytes = Vec::with_capacity(size);
    // SAFETY: NumPy says that these are elements of the array, from the lowest on.
    unsafe { copy(facts.extent().0 as *const u8, &dims, item, &mut bytes) };
    Some(Gathered { bytes, offset, strides })
}

/// Adds the elements of dimensions, the innermost first.
///
/// # Safety
/// From `start` on there are items of so many bytes wherever the dimensions lead.
unsafe fn copy(start: *const u8, dims: &[Dim], item: usize, bytes: &mut Vec<u8>) {
    let Some((dim, inner)) = dims.split_last() else {
        // SAFETY: the caller's.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, item) });
        return;
    };
    if inner.is_empty() && dim.step == item as isize {
        // SAFETY: the caller's: they follow one another.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, item * dim.count) });
        return;
    }
    let items = (0..dim.count).map(|index| start.wrapping_offset(index as isize * dim.step));
    for item_start in items {
        match (inner, item) {
            // SAFETY: the caller's.
            ([], 1) => bytes.push(unsafe { *item_start }),
            // SAFETY: the caller's.
            ([], 2) => bytes.extend(unsafe { item_start.cast::<[u8; 2]>().read() }),
            // SAFETY: the caller's.
            ([], 4) => bytes.extend(unsafe { item_start.cast::<[u8; 4]>().read() }),
            // SAFETY: the caller's.
            ([], 8) => bytes.extend(unsafe { item_start.cast::<[u8; 8]>().read() }),
            // SAFETY: the caller's.
            _ => unsafe { copy(item_start, inner, item, bytes) },
        }
    }
}
