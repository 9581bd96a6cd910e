//! Copies the elements of an array without the gaps between them.
#![allow(unsafe_code)] // memory that NumPy describes

use crate::memory::Facts;

struct Dim {
    count: usize,
    step: isize,
}

/// Elements without gaps, and their layout.
pub(super) struct Gathered {
    pub(super) bytes: Vec<u8>,
    /// The offset of the first element.
    pub(super) offset: usize,
    pub(super) strides: Vec<isize>,
}

/// Copies the elements of an array in its own order of dimensions and in its directions. Returns
/// `None` if elements overlap.
pub(super) fn without_gaps(facts: &Facts<'_>) -> Option<Gathered> {
    let item = facts.itemsize() as usize;
    let shape = facts.shape();
    let steps = facts.strides();
    let mut axes: Vec<usize> = (0..shape.len()).filter(|axis| shape[*axis] > 1).collect();
    axes.sort_by_key(|axis| steps[*axis].unsigned_abs()); // from the innermost on
    let mut strides = vec![0; shape.len()];
    let mut within = item;
    let mut size = item;
    let mut offset = 0;
    let mut dims = Vec::with_capacity(axes.len());
    for axis in axes {
        let count = shape[axis] as usize;
        let step = steps[axis];
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
    // SAFETY: NumPy says that the lowest element is at this address, and that the elements of
    // `dims` with their strides are those of the array. The caller's `facts` keep the array alive.
    unsafe { copy(facts.extent().0 as *const u8, &dims, item, &mut bytes) };
    Some(Gathered { bytes, offset, strides })
}

/// Copies the elements of an array in C order.
pub(super) fn in_c_order(facts: &Facts<'_>) -> Gathered {
    let item = facts.itemsize() as usize;
    let mut strides = vec![0; facts.shape().len()];
    let mut size = item;
    let mut dims = Vec::with_capacity(strides.len());
    for (axis, (count, step)) in facts.shape().iter().zip(facts.strides()).enumerate().rev() {
        strides[axis] = size as isize;
        size *= *count as usize;
        dims.push(Dim { count: *count as usize, step: *step });
    }
    let mut bytes = Vec::with_capacity(size);
    // SAFETY: NumPy says that the first element is at this address, and that the elements of `dims`
    // with their strides are those of the array. The caller's `facts` keep the array alive.
    unsafe { copy(facts.address(), &dims, item, &mut bytes) };
    Gathered { bytes, offset: 0, strides }
}

/// Appends the elements of dimensions, the innermost of which is first.
///
/// # Safety
/// At `start` and at every offset that the dimensions reach there are `item` initialized bytes.
unsafe fn copy(start: *const u8, dims: &[Dim], item: usize, bytes: &mut Vec<u8>) {
    let Some((dim, inner)) = dims.split_last() else {
        // SAFETY: the caller guarantees `item` initialized bytes at `start`: without dimensions
        // left, `start` is the address of one element.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, item) });
        return;
    };
    if inner.is_empty() && dim.step == item as isize {
        // SAFETY: the caller guarantees the elements of this dimension. Its step is the item size,
        // so they are `item * dim.count` adjacent bytes.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, item * dim.count) });
        return;
    }
    let items = (0..dim.count).map(|index| start.wrapping_offset(index as isize * dim.step));
    for item_start in items {
        match (inner, item) {
            // SAFETY: `item_start` is an element of this dimension, of 1 byte, which the caller
            // guarantees.
            ([], 1) => bytes.push(unsafe { *item_start }),
            // SAFETY: `item_start` is an element of this dimension, of 2 bytes, which the caller
            // guarantees. A byte array needs no alignment.
            ([], 2) => bytes.extend(unsafe { item_start.cast::<[u8; 2]>().read() }),
            // SAFETY: `item_start` is an element of this dimension, of 4 bytes, which the caller
            // guarantees. A byte array needs no alignment.
            ([], 4) => bytes.extend(unsafe { item_start.cast::<[u8; 4]>().read() }),
            // SAFETY: `item_start` is an element of this dimension, of 8 bytes, which the caller
            // guarantees. A byte array needs no alignment.
            ([], 8) => bytes.extend(unsafe { item_start.cast::<[u8; 8]>().read() }),
            // SAFETY: `item_start` is an offset that this dimension reaches, so the caller's
            // guarantee holds for the inner dimensions from there on.
            _ => unsafe { copy(item_start, inner, item, bytes) },
        }
    }
}
