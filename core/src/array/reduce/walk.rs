//! The order in which a reduction reads: blocks of elements, copied aside, each element once.
//!
//! As in NumPy's iterator, a reduction is an assignment to results whose step is zero along the
//! reduced dimensions. The dimensions are sorted by the strides of the elements, so that memory is
//! read in its own order; dimensions of one element are dropped; and neighbours that are one
//! dimension in both the elements and the results are merged.
//!
//! Another process may write to the elements meanwhile, so no slice is made of them. A block of
//! elements that fits the first-level cache is copied to private memory, where ordinary loops,
//! which the compiler vectorises, reduce it. Each element is read once, so a value that was checked
//! cannot change before it is used.
#![allow(unsafe_code)] // copies out of the memory of an array

use std::cmp::Reverse;

use zerocopy::{FromBytes, IntoBytes};

use super::item::Item;
use super::reduction::{Ended, Stop};
use crate::element::copy::{Strided, copy_in_parts};
use crate::element::per_byte;
use crate::value::shape::Layout;

/// The size of a block in bytes.
pub(super) const BLOCK_BYTES: usize = if cfg!(miri) { 64 } else { 16 << 10 };
/// A loop over a shorter innermost dimension costs more than its elements. Then the next dimension
/// becomes the innermost.
const SHORT: usize = 8;

/// Takes the numbers of a walk.
pub(super) trait Sink<N> {
    /// Takes numbers of one result: at most as many as a block has.
    fn take_run(&mut self, result: usize, run: &[N]) -> Ended;

    /// Takes one number for each of several results: `result` and the next ones, `step` apart.
    fn take_each(&mut self, result: usize, step: isize, row: &[N]) -> Ended;
}

/// A dimension, and its steps: `from` bytes among the elements, `to` indices among the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReducedDim {
    count: usize,
    from: isize,
    to: isize,
}

/// A part of a walk: the dimensions from the outermost to the innermost, and where they begin.
#[derive(Debug, Clone)]
struct WalkPart {
    from: *const u8,
    result: isize,
    dims: Vec<ReducedDim>,
}

/// A walk over all elements.
pub(super) struct ReductionWalk {
    whole: WalkPart,
    itemsize: usize,
}

impl ReductionWalk {
    /// Plans a walk. `steps` are the indices by which each dimension moves among the results: 0
    /// where it is reduced. There is at least one element.
    pub(super) fn new(from: Strided<'_>, itemsize: usize, steps: &[isize]) -> Self {
        let strides = from.layout.strides.iter().zip(steps);
        let dims = from.layout.shape.iter().zip(strides).filter(|&(&count, _)| count > 1);
        let dims = dims.map(|(&count, (&from, &to))| ReducedDim {
            count: count as usize,
            from: from as isize,
            to,
        });
        let mut whole = WalkPart { from: from.first(), result: 0, dims: dims.collect() };
        (0..whole.dims.len()).for_each(|dim| whole.turn_forward(dim));
        whole.dims.sort_by_key(|dim| Reverse(dim.from));
        whole.merge();
        Self { whole, itemsize }
    }

    /// Passes all elements to the sink. Calls `go_on` before each block, and stops if it returns
    /// `false`.
    ///
    /// # Safety
    /// The layout was checked against memory that is mapped at its start, and its items have the
    /// size of `T`.
    pub(super) unsafe fn run<T: Item>(
        &self,
        sink: &mut impl Sink<T::Value>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Ended {
        let most = self.block_counts();
        let bytes = most.iter().product::<usize>() * self.itemsize;
        let mut buffer = vec![0u64; bytes.div_ceil(8)];
        let mut space = Vec::new();
        self.whole.cut(0, &most, &mut |part| {
            if !go_on() {
                return Err(Stop::Asked);
            }
            let part = part.with_long_rows();
            let bytes = &mut buffer.as_mut_bytes()[..part.count() * self.itemsize];
            // SAFETY: the caller promises that all elements can be read, those of a part are among
            // them, and the buffer was cut to their size.
            unsafe { part.read_into(bytes, self.itemsize) };
            let (items, _) = <[T]>::ref_from_prefix_with_elems(bytes, part.count())
                .expect("a block begins at a word and has bytes for all its elements");
            reduce(&part.dims, part.result, T::numbers(items, &mut space), sink)
        })
    }

    /// Returns the elements of a block along each dimension: as many as fit, the innermost
    /// dimension first.
    fn block_counts(&self) -> Vec<usize> {
        let mut room = BLOCK_BYTES / self.itemsize;
        let mut counts: Vec<_> = self.whole.dims.iter().map(|dim| dim.count).collect();
        for count in counts.iter_mut().rev() {
            let pieces = count.div_ceil(room);
            *count = count.div_ceil(pieces); // pieces of nearly one size
            room = if pieces > 1 { 1 } else { room / *count };
        }
        counts
    }
}

impl WalkPart {
    fn count(&self) -> usize {
        self.dims.iter().map(|dim| dim.count).product()
    }

    /// Reads a dimension from its other end if its stride is negative.
    fn turn_forward(&mut self, dim: usize) {
        let ReducedDim { count, from, to } = self.dims[dim];
        if from < 0 {
            self.skip(dim, count - 1);
            self.dims[dim] = ReducedDim { count, from: -from, to: -to };
        }
    }

    /// Starts at another index of a dimension.
    fn skip(&mut self, dim: usize, index: usize) {
        let ReducedDim { from, to, .. } = self.dims[dim];
        self.from = self.from.wrapping_offset(from * index as isize);
        self.result += to * index as isize;
    }

    fn merge(&mut self) {
        let mut merged: Vec<ReducedDim> = Vec::with_capacity(self.dims.len());
        for &dim in &self.dims {
            match merged.last_mut() {
                Some(outer) if outer.is_one_dimension_with(dim) => {
                    *outer = ReducedDim { count: outer.count * dim.count, ..dim }
                }
                _ => merged.push(dim),
            }
        }
        self.dims = merged;
    }

    /// Calls `visit` with parts of at most `most` indices along each dimension, from `dim` on.
    fn cut(&self, dim: usize, most: &[usize], visit: &mut dyn FnMut(&Self) -> Ended) -> Ended {
        let Some(&step) = most.get(dim) else {
            return visit(self);
        };
        for first in (0..self.dims[dim].count).step_by(step) {
            let mut part = self.clone();
            part.skip(dim, first);
            part.dims[dim].count = step.min(self.dims[dim].count - first);
            part.cut(dim + 1, most, visit)?;
        }
        Ok(())
    }

    /// Returns the same elements, those of the next dimension side by side if the innermost is
    /// short.
    fn with_long_rows(&self) -> Self {
        let mut part = self.clone();
        if let [.., outer, inner] = &mut part.dims[..] {
            let alike = (outer.to == 0) == (inner.to == 0);
            if !alike && inner.count < SHORT && inner.count < outer.count {
                std::mem::swap(outer, inner);
            }
        }
        part
    }

    /// Copies the elements aside, in the order of the dimensions.
    ///
    /// # Safety
    /// The elements can be read, and take as many bytes as the buffer has.
    unsafe fn read_into(&self, bytes: &mut [u8], itemsize: usize) {
        if self.is_dense(itemsize) {
            // SAFETY: the caller promises that so many bytes can be read, which lie side by side
            // from `from` on (`is_dense`); the buffer is private.
            unsafe { per_byte::copy(bytes.as_mut_ptr(), self.from, bytes.len()) };
        } else {
            let shape: Vec<_> = self.dims.iter().map(|dim| dim.count as u64).collect();
            let strides = self.dims.iter().map(|dim| dim.from as i64).collect();
            let to = Layout {
                strides: c_steps(&shape, itemsize as i64),
                shape: shape.clone(),
                offset: 0,
            };
            let from = Layout { shape, strides, offset: 0 };
            let to = Strided { start: bytes.as_mut_ptr(), layout: &to };
            let from = Strided { start: self.from.cast_mut(), layout: &from };
            // SAFETY: the caller promises that the elements can be read; the buffer is private, and
            // `to` is the dense layout of all its bytes.
            unsafe { copy_in_parts(to, from, itemsize as u64, 1) };
        }
    }

    /// Whether the elements lie side by side, in the order of the dimensions.
    fn is_dense(&self, itemsize: usize) -> bool {
        let mut step = itemsize as isize;
        self.dims.iter().rev().all(|dim| {
            let dense = dim.from == step;
            step *= dim.count as isize;
            dense
        })
    }
}

impl ReducedDim {
    /// Whether the two are one dimension in the elements and in the results.
    fn is_one_dimension_with(&self, inner: Self) -> bool {
        let count = inner.count as isize;
        self.from == inner.from * count && self.to == inner.to * count
    }
}

/// Passes numbers that lie side by side to the sink, in the order of the dimensions.
fn reduce<N>(dims: &[ReducedDim], result: isize, run: &[N], sink: &mut impl Sink<N>) -> Ended {
    match dims {
        _ if dims.iter().all(|dim| dim.to == 0) => sink.take_run(result as usize, run),
        [row] => sink.take_each(result as usize, row.to, run),
        [outer, inner @ ..] => {
            let mut parts = run.chunks_exact(run.len() / outer.count).zip(0..);
            parts.try_for_each(|(part, index)| reduce(inner, result + outer.to * index, part, sink))
        }
        [] => unreachable!("all of no dimensions are reduced"),
    }
}

/// Returns the step of each dimension in C order: `item` for the last.
pub(super) fn c_steps(shape: &[u64], item: i64) -> Vec<i64> {
    let mut steps = vec![0; shape.len()];
    let mut step = item;
    for (slot, &count) in steps.iter_mut().zip(shape).rev() {
        *slot = step;
        step = step.saturating_mul(count as i64);
    }
    steps
}
