//! The elements in C order, in pieces, for a file that is written rather than mapped.
//!
//! A store to a page that a new file does not have yet faults first, while write(2) makes the page
//! and fills it at once.
#![allow(unsafe_code)] // copies into a buffer

use std::io;
use std::sync::OnceLock;

use super::plan::{Dim, LINE_BYTES, Plan};

/// The size of the buffer in which one piece is gathered.
const BUFFER_BYTES: usize = if cfg!(miri) { 64 } else { 256 << 10 };
/// Runs of this size and more are pieces themselves.
const DIRECT_BYTES: usize = BUFFER_BYTES / 4;
/// If a piece has less than half of each cache line that it reads, neighbouring pieces are gathered
/// together: so many bytes and so many pieces at most.
const TOGETHER_BYTES: usize = if cfg!(miri) { 256 } else { 1 << 20 };
const NEAR_BYTES: usize = 4 * LINE_BYTES;
const MOST_PIECES: usize = if cfg!(miri) { 4 } else { 64 };

/// Calls `write` with pieces until one call fails.
pub(super) struct Pieces<'a, W> {
    write: &'a W,
    failed: &'a OnceLock<io::Error>,
    buffer: Vec<u8>,
    /// The dimension whose pieces are gathered together.
    together: Option<Dim>,
}

impl<'a, W: Fn(u64, *const u8, usize) -> io::Result<()>> Pieces<'a, W> {
    pub(super) fn new(write: &'a W, failed: &'a OnceLock<io::Error>) -> Self {
        Self { write, failed, buffer: Vec::new(), together: None }
    }

    /// Writes what the plan copies. Its `to` counts from null.
    ///
    /// # Safety
    /// All addresses from which the plan reads can be read.
    pub(super) unsafe fn of(&mut self, plan: &Plan) {
        match (plan.dims.first(), self.together) {
            _ if self.failed.get().is_some() || plan.bytes() == 0 => {}
            (None, None) => self.piece(plan.to.addr(), plan.from, plan.run_bytes),
            // SAFETY: the plan is a piece, as was just found, and the caller promises that all it
            // reads can be read.
            _ if plan.is_piece(self.room()) => unsafe { self.gather(plan) },
            // SAFETY: the caller promises that all the plan reads can be read, and `cut` needs no
            // more than that.
            (Some(&outer), _) => unsafe { self.cut(plan, outer) },
            (None, Some(_)) => unreachable!("a run of what is near in the source fits the buffer"),
        }
    }

    /// Returns the bytes of buffer that one piece may have.
    fn room(&self) -> usize {
        self.together.map_or(BUFFER_BYTES, |dim| TOGETHER_BYTES / dim.count)
    }

    /// # Safety
    /// As [`Pieces::of`].
    unsafe fn cut(&mut self, plan: &Plan, outer: Dim) {
        let rows = plan.rows_in(self.room());
        let step = outer.from.unsigned_abs();
        let near = (NEAR_BYTES / step.max(1)).clamp(1, MOST_PIECES);
        let far_apart =
            plan.nearest_source() == 0 && plan.is_across(0) && rows * step < LINE_BYTES / 2;
        if far_apart && self.together.is_none() {
            for first in (0..outer.count).step_by(near) {
                self.together = Some(Dim { count: near.min(outer.count - first), ..outer });
                // SAFETY: the caller promises that all the plan reads can be read; this one reads
                // some of its indices.
                unsafe { self.of(&plan.rows(first, 1)) };
            }
            self.together = None;
        } else {
            for first in (0..outer.count).step_by(rows) {
                // SAFETY: the caller promises that all the plan reads can be read; this one reads
                // some of its indices.
                unsafe { self.of(&plan.rows(first, rows.min(outer.count - first))) };
            }
        }
    }

    /// # Safety
    /// As for [`Pieces::of`], and the plan is a piece.
    unsafe fn gather(&mut self, plan: &Plan) {
        self.buffer.reserve(self.room() * self.together.map_or(1, |dim| dim.count));
        let buffer = self.buffer.as_mut_ptr();
        let bytes = plan.bytes();
        let pieces = self.together.unwrap_or(Dim { count: 1, to: 0, from: 0 });
        let side_by_side = Dim { to: bytes as isize, ..pieces };
        let dims =
            [side_by_side].into_iter().filter(|dim| dim.count > 1).chain(plan.dims.iter().copied());
        // SAFETY: the caller promises that all the plan reads can be read; what it writes fits the
        // private buffer, which has room for `count` pieces of `room` bytes.
        unsafe { Plan { to: buffer, dims: dims.collect(), ..plan.clone() }.run() };
        for index in 0..pieces.count {
            let offset = plan.to.wrapping_offset(pieces.to * index as isize).addr();
            self.piece(offset, buffer.wrapping_add(bytes * index), bytes);
        }
    }

    fn piece(&self, offset: usize, start: *const u8, bytes: usize) {
        if let Err(error) = (self.write)(offset as u64, start, bytes) {
            let _: Result<(), io::Error> = self.failed.set(error); // a later error is dropped
        }
    }
}

impl Plan {
    /// Whether what the plan writes lies side by side, fits that room, and is worth gathering.
    fn is_piece(&self, room: usize) -> bool {
        let mut bytes = self.run_bytes;
        let dense = self.dims.iter().rev().all(|dim| {
            let dense = dim.to == bytes as isize;
            bytes *= dim.count;
            dense
        });
        dense && bytes <= room && self.run_bytes < DIRECT_BYTES
    }

    /// Returns the number of indices of the outermost dimension that are one piece; at least one.
    fn rows_in(&self, room: usize) -> usize {
        let row = self.rows(0, 1);
        let dense = row.is_piece(room) && self.dims[0].to == row.bytes() as isize;
        if dense { room / row.bytes() } else { 1 }
    }

    /// Returns the plan for `count` indices of the outermost dimension, from `first` on.
    fn rows(&self, first: usize, count: usize) -> Self {
        let mut rows = self.clone();
        rows.skip(0, first);
        rows.dims[0].count = count;
        if count == 1 {
            rows.dims.remove(0);
        }
        rows
    }
}
