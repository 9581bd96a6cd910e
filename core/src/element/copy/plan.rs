//! The order in which a copy walks: numbers, and the two addresses that they are added to.
//!
//! The order of the indices does not matter to a copy. So the dimensions are sorted by the strides
//! of the end that is written; dimensions of one element are dropped; neighbours that are one
//! dimension in both ends are merged; elements that lie side by side in both ends are a run, which
//! is copied as one. NumPy's iterator does the same.
//!
//! Where the elements written may overlap (a stride of zero), the last one in the order of the
//! indices must stay, so the order is kept and one thread walks.

use std::cmp::Reverse;

use super::strided::Strided;

/// A dimension, and its steps in both ends, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dim {
    pub(super) count: usize,
    pub(super) to: isize,
    pub(super) from: isize,
}

/// How the innermost two dimensions are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inner {
    /// The inner one once for each index of the outer one.
    Rows,
    /// The inner one is long and the other short: in pieces of the inner one that stay in the
    /// cache.
    Strips,
    /// Elements that are near in one end are far apart in the other, and both dimensions are long:
    /// in squares.
    Tiles,
    /// As `Tiles`, but the items are large: a few of them along the dimension that is near in the
    /// source, for all of the other.
    Streams,
}

/// A copy of `run_bytes` at every index of `dims`, which go from the outermost to the innermost.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) to: *mut u8,
    pub(super) from: *const u8,
    pub(super) dims: Vec<Dim>,
    pub(super) run_bytes: usize,
    /// Whether the elements may be written in any order, and by several threads at once.
    pub(super) any_order: bool,
}

/// The size of a processor's cache line.
pub(super) const LINE_BYTES: usize = 64;
/// The size of a cache that is nearly as fast as the first-level cache. Up to this size tiles pay
/// off only for items smaller than a word, because four such items are one store.
const CACHED_BYTES: usize = 256 << 10;
const WORD_BYTES: usize = 4;
/// From this size on a cache line has so few items that copying them once more, in a tile, costs
/// more than it saves.
const WIDE_BYTES: usize = 16;
/// A loop over fewer indices costs more than its elements.
const SHORT: usize = 8;

impl Plan {
    /// Plans a copy. The ends have one shape, and there are elements.
    pub(super) fn new(to: Strided<'_>, from: Strided<'_>, itemsize: usize) -> Self {
        let dims = dims_of(to, from);
        let to = to.first();
        let from = from.first();
        let mut plan = Self { to, from, dims, run_bytes: itemsize, any_order: true };
        plan.sort();
        plan.merge();
        plan.take_run();
        plan
    }

    pub(super) fn bytes(&self) -> usize {
        self.dims.iter().map(|dim| dim.count).product::<usize>() * self.run_bytes
    }

    /// Sorts the dimensions by the steps of the written end, the largest first, and makes those
    /// steps positive. Where elements written may overlap, the dimensions stay as they are.
    fn sort(&mut self) {
        let mut sorted = self.dims.clone();
        sorted.sort_by_key(|dim| Reverse(dim.to.unsigned_abs()));
        self.any_order = are_apart(&sorted, self.run_bytes);
        if self.any_order {
            self.dims = sorted;
            (0..self.dims.len()).for_each(|dim| self.turn_forward(dim));
        }
    }

    /// Walks a dimension from its other end if its step in the written end is negative.
    fn turn_forward(&mut self, dim: usize) {
        let Dim { count, to, from } = self.dims[dim];
        if to < 0 {
            self.skip(dim, count - 1);
            self.dims[dim] = Dim { count, to: -to, from: -from };
        }
    }

    /// Starts at another index of a dimension.
    pub(super) fn skip(&mut self, dim: usize, index: usize) {
        let Dim { to, from, .. } = self.dims[dim];
        self.to = self.to.wrapping_offset(to * index as isize);
        self.from = self.from.wrapping_offset(from * index as isize);
    }

    fn merge(&mut self) {
        let mut merged: Vec<Dim> = Vec::with_capacity(self.dims.len());
        for &dim in &self.dims {
            match merged.last_mut() {
                Some(outer) if outer.is_one_dimension_with(dim) => {
                    *outer = Dim { count: outer.count * dim.count, ..dim }
                }
                _ => merged.push(dim),
            }
        }
        self.dims = merged;
    }

    fn take_run(&mut self) {
        let dense = self.run_bytes as isize;
        if let Some(row) = self.dims.last().filter(|row| (row.to, row.from) == (dense, dense)) {
            self.run_bytes *= row.count;
            self.dims.pop();
        }
    }

    /// Makes the two dimensions innermost that are best walked together.
    pub(super) fn arrange(&mut self) -> Inner {
        let count = self.dims.len();
        if !self.any_order || count < 2 {
            return Inner::Rows;
        }
        let near = self.nearest_source();
        let across = self.is_across(near);
        if across {
            let near = self.dims.remove(near);
            self.dims.insert(count - 2, near);
        }
        let [outer, inner] = [self.dims[count - 2].count, self.dims[count - 1].count];
        if outer.min(inner) >= SHORT {
            return if !across {
                Inner::Rows
            } else if self.run_bytes >= WIDE_BYTES {
                Inner::Streams
            } else {
                Inner::Tiles
            };
        }
        if outer > inner {
            self.dims.swap(count - 2, count - 1);
        }
        Inner::Strips
    }

    /// Returns the dimension with the smallest steps in the source.
    pub(super) fn nearest_source(&self) -> usize {
        // A step of zero is none, so it counts as the largest.
        let steps = |&dim: &usize| self.dims[dim].from.unsigned_abs().wrapping_sub(1);
        (0..self.dims.len()).rev().min_by_key(steps).unwrap_or(0)
    }

    /// Whether a cache line of the source has elements of several indices of a dimension, and is
    /// worth keeping for them.
    pub(super) fn is_across(&self, dim: usize) -> bool {
        let shared = self.dims[dim].from.unsigned_abs() < LINE_BYTES && self.run_bytes < LINE_BYTES;
        let cached = self.run_bytes >= WORD_BYTES && self.bytes() <= CACHED_BYTES;
        dim + 1 < self.dims.len() && shared && !cached
    }
}

impl Dim {
    /// Whether the two are one dimension in both ends.
    fn is_one_dimension_with(&self, inner: Self) -> bool {
        let count = inner.count as isize;
        self.to == inner.to * count && self.from == inner.from * count
    }
}

fn dims_of(to: Strided<'_>, from: Strided<'_>) -> Vec<Dim> {
    let strides = to.layout.strides.iter().zip(&from.layout.strides);
    let dims = to.layout.shape.iter().zip(strides).filter(|&(&count, _)| count > 1);
    dims.map(|(&count, (&to, &from))| Dim {
        count: count as usize,
        to: to as isize,
        from: from as isize,
    })
    .collect()
}

/// Whether each step is larger than all that lies inside it, so that no two elements share a byte.
fn are_apart(sorted: &[Dim], itemsize: usize) -> bool {
    let mut extent = itemsize;
    sorted.iter().rev().all(|dim| {
        let step = dim.to.unsigned_abs();
        let apart = step >= extent;
        extent += step * (dim.count - 1);
        apart
    })
}
