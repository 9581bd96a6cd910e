//! How often each whole number stands there, from 0 on: a row of counts for each result.
//!
//! The rows grow as greater numbers come, so that the elements are read once: another process may
//! change them in between.

#![allow(unsafe_code)] // zeros that the system gives

use std::alloc::{Layout, alloc_zeroed};
use std::fmt::Display;

use super::results::Number;
use super::walk::Sink;
use super::{AT_ONCE, Ended};
use crate::error::{Error, Result};

/// Rows of equally many counts.
pub(super) struct Counts {
    rows: usize,
    /// Counts of a row for which there is memory, and those that are given.
    room: usize,
    columns: usize,
    counts: Vec<u64>,
}

/// A number that can be counted.
pub(super) trait Countable: Copy + Display {
    /// The number itself, if it is not negative.
    fn column(self) -> Option<usize>;

    /// Counts a run of one result.
    fn count(run: &[Self], counts: &mut Counts, row: usize) -> Result<()> {
        run.iter().try_for_each(|&number| counts.count(row, number))
    }
}

macro_rules! countable {
    ($($type:ty),*) => {$(
        impl Countable for $type {
            fn column(self) -> Option<usize> {
                usize::try_from(self).ok()
            }
        }
    )*};
}

countable!(u16, u32, u64, i8, i16, i32, i64);

impl Countable for u8 {
    fn column(self) -> Option<usize> {
        Some(self.into())
    }

    fn count(run: &[Self], counts: &mut Counts, row: usize) -> Result<()> {
        match run.len() < WORTH_TABLES {
            true => run.iter().try_for_each(|&number| counts.count(row, number)),
            false => counts.add(row, &counted_by_tables(run)),
        }
    }
}

/// Runs from this length on.
const WORTH_TABLES: usize = 1 << 10;
/// So that equal neighbours, which are common, need not wait for one another.
const TABLES: usize = 4;

fn counted_by_tables(run: &[u8]) -> [u32; 256] {
    let mut tables = [[0u32; 256]; TABLES];
    let mut rows = run.chunks_exact(TABLES);
    for row in &mut rows {
        tables.iter_mut().zip(row).for_each(|(table, &number)| table[usize::from(number)] += 1);
    }
    let [mut sums, others @ ..] = tables;
    rows.remainder().iter().for_each(|&number| sums[usize::from(number)] += 1);
    for table in others {
        sums.iter_mut().zip(table).for_each(|(sum, count)| *sum += count);
    }
    sums
}

impl Counts {
    /// No counts yet, in rows of that many at least.
    pub(super) fn new(rows: usize, columns: usize) -> Result<Self> {
        let mut counts = Self { rows, room: 0, columns: 0, counts: vec![] };
        counts.widen(columns)?;
        Ok(counts)
    }

    /// Cuts the rows to the greatest number there is, but not below `least` columns.
    pub(super) fn cut(&mut self, least: usize) {
        let used = |row: &[u64]| row.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let rows = self.counts.chunks_exact(self.room.max(1));
        self.columns = rows.map(used).max().unwrap_or(0).max(least);
    }

    /// How long the rows are.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// All counts in C order, by and by.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Vec<Number>> {
        let rows = self.counts.chunks_exact(self.room.max(1)).map(|row| &row[..self.columns]);
        let number = |&count: &u64| Number::Integer(count.into());
        rows.flat_map(|row| row.chunks(AT_ONCE)).map(move |counts| counts.iter().map(number).collect())
    }

    fn count(&mut self, row: usize, number: impl Countable) -> Result<()> {
        let column = number.column().ok_or_else(|| negative(number))?;
        if column >= self.room {
            self.widen_for(column)?;
        }
        self.counts[row * self.room + column] += 1;
        Ok(())
    }

    fn add(&mut self, row: usize, found: &[u32; 256]) -> Result<()> {
        let used = found.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        if used > self.room {
            self.widen(used)?;
        }
        let counts = &mut self.counts[row * self.room..][..used];
        counts.iter_mut().zip(found).for_each(|(count, &more)| *count += u64::from(more));
        Ok(())
    }

    /// So that the rows need not be moved for every number that is greater by one.
    #[cold]
    fn widen_for(&mut self, column: usize) -> Result<()> {
        let columns = column.saturating_add(1);
        self.widen(columns.max(2 * self.room)).or_else(|_| self.widen(columns))
    }

    fn widen(&mut self, columns: usize) -> Result<()> {
        let count = self.rows.checked_mul(columns).ok_or_else(|| too_many(self.rows, columns))?;
        let mut wider = zeros(count).ok_or_else(|| too_many(self.rows, columns))?;
        if self.room > 0 {
            for (to, from) in wider.chunks_exact_mut(columns).zip(self.counts.chunks_exact(self.room)) {
                to[..self.room].copy_from_slice(from);
            }
        }
        (self.room, self.counts) = (columns, wider);
        Ok(())
    }
}

impl<N: Countable> Sink<N> for Counts {
    fn take_run(&mut self, result: usize, run: &[N]) -> Ended {
        Ok(N::count(run, self, result)?)
    }

    fn take_each(&mut self, result: usize, step: isize, row: &[N]) -> Ended {
        let results = (0..).map(|index| result.wrapping_add_signed(index * step));
        Ok(results.zip(row).try_for_each(|(result, &number)| self.count(result, number))?)
    }
}

/// Memory that takes no room before it is counted in: one great number makes a long row. `None` if there is not
/// so much.
fn zeros(count: usize) -> Option<Vec<u64>> {
    let layout = Layout::array::<u64>(count).ok().filter(|layout| layout.size() > 0);
    let Some(layout) = layout else {
        return (count == 0).then(Vec::new);
    };
    // SAFETY: the layout has a size.
    let start = unsafe { alloc_zeroed(layout) }.cast::<u64>();
    // SAFETY: from the global allocator, with the layout of so many numbers, all of them zero.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, count, count) })
}

fn negative(number: impl Display) -> Error {
    Error::argument("elements", format!("{number} is negative, and bincount counts numbers from 0 on"))
}

fn too_many(rows: usize, columns: usize) -> Error {
    Error::argument(
        "elements",
        format!("{rows} × {columns} counts, for numbers up to {}, are more than there is memory for", columns - 1),
    )
}
