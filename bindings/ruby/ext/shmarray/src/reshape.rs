//! Computes strides for the same elements in another shape.

use shmarray::{Layout, Order};

/// Returns the strides that reach the elements in the same C order in another shape with as many
/// elements, if there are any.
///
/// Source: NumPy, `_attempt_nocopy_reshape`. Dimensions of both shapes are grouped until the groups
/// have as many elements; those of the old shape must have equal steps throughout.
pub(crate) fn strides_for(layout: &Layout, itemsize: u64, shape: &[u64]) -> Option<Vec<i64>> {
    let mut strides = Layout::contiguous(shape, itemsize, Order::C).ok()?.strides;
    if layout.is_empty() {
        return Some(strides);
    }
    let dims = layout.shape.iter().copied().zip(layout.strides.iter().copied());
    let mut old = dims.filter(|(count, _)| *count != 1).rev();
    let mut new = (0..shape.len()).rev().filter(|&dim| shape[dim] != 1);
    while let (Some((mut olds, step)), Some(dim)) = (old.next(), new.next()) {
        let (mut news, mut next) = (shape[dim], step.checked_mul(shape[dim] as i64)?);
        strides[dim] = step;
        while olds != news {
            if olds < news {
                let (count, stride) = old.next()?;
                if stride != step.checked_mul(olds as i64)? {
                    return None;
                }
                olds *= count;
            } else {
                let dim = new.next()?;
                strides[dim] = next;
                next = next.checked_mul(shape[dim] as i64)?;
                news *= shape[dim];
            }
        }
    }
    Some(strides)
}
