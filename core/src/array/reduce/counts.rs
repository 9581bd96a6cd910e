//! Counts of the elements that are 0, 1, 2 …: a row of counts for each result.
//!
//! The rows grow with the numbers, so that each element is read once. A first pass for the maximum
//! would not do: another process may write a larger number before the second pass.

#![allow(unsafe_code)] // memory that the system zeroes

use std::alloc::{Layout, alloc_zeroed};
use std::fmt::Display;

use super::reduction::{AT_ONCE, Ended};
use super::walk::Sink;
use crate::value::error::{Error, Result};
use crate::value::number::Number;

/// Rows of equally many counts.
pub(super) struct Counts {
    rows: usize,
    /// The length of a row in memory; `columns` is the length of the rows that are returned.
    room: usize,
    columns: usize,
    counts: Vec<u64>,
}

/// A number that can be counted.
pub(super) trait Countable: Copy + Display {
    /// Returns the column of its count. `None` if the number is negative.
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
        if run.len() < WORTH_TABLES {
            run.iter().try_for_each(|&number| counts.count(row, number))
        } else {
            counts.add(row, &counted_by_tables(run))
        }
    }
}

/// Runs of this length and more are counted in several tables.
const WORTH_TABLES: usize = 1 << 10;
/// The number of tables. Equal neighbours are common, and an increment waits for another one of the
/// same count just before it.
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
    /// Makes rows of that many zeros.
    pub(super) fn new(rows: usize, columns: usize) -> Result<Self> {
        let mut counts = Self { rows, room: 0, columns: 0, counts: vec![] };
        counts.widen(columns)?;
        Ok(counts)
    }

    /// Cuts the rows behind the maximum of all numbers, but leaves `least` columns.
    pub(super) fn cut(&mut self, least: usize) {
        let used =
            |row: &[u64]| row.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let rows = self.counts.chunks_exact(self.room.max(1));
        self.columns = rows.map(used).max().unwrap_or(0).max(least);
    }

    /// Returns the length of the rows that [`Counts::numbers`] returns.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns all counts in C order, [`AT_ONCE`] at a time.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Vec<Number>> {
        let rows = self.counts.chunks_exact(self.room.max(1)).map(|row| &row[..self.columns]);
        let number = |&count: &u64| Number::Integer(count.into());
        rows.flat_map(|row| row.chunks(AT_ONCE))
            .map(move |counts| counts.iter().map(number).collect())
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

    /// Widens the rows. It at least doubles them, so that ever larger numbers move them seldom.
    #[cold]
    fn widen_for(&mut self, column: usize) -> Result<()> {
        let columns = column.saturating_add(1);
        self.widen(columns.max(2 * self.room)).or_else(|_| self.widen(columns))
    }

    fn widen(&mut self, columns: usize) -> Result<()> {
        let count = self.rows.checked_mul(columns).ok_or_else(|| too_many(self.rows, columns))?;
        let mut wider = zeros(count).ok_or_else(|| too_many(self.rows, columns))?;
        if self.room > 0 {
            for (to, from) in
                wider.chunks_exact_mut(columns).zip(self.counts.chunks_exact(self.room))
            {
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

/// Returns zeros that the system provides page by page, when they are written: one large number
/// makes a long row. `None` if there is not enough memory.
fn zeros(count: usize) -> Option<Vec<u64>> {
    let layout = Layout::array::<u64>(count).ok().filter(|layout| layout.size() > 0);
    let Some(layout) = layout else {
        return (count == 0).then(Vec::new);
    };
    // SAFETY: `alloc_zeroed` needs a layout with a size that is not zero, which the filter above
    // has checked.
    let start = unsafe { alloc_zeroed(layout) }.cast::<u64>();
    // SAFETY: the vector may own this memory: the global allocator returned it, not null, with the
    // layout of `count` numbers, all of which the zeros initialise.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, count, count) })
}

fn negative(number: impl Display) -> Error {
    Error::argument(
        "elements",
        format!("{number} is negative, and bincount counts numbers from 0 on"),
    )
}

fn too_many(rows: usize, columns: usize) -> Error {
    Error::argument(
        "elements",
        format!(
            "{rows} × {columns} counts, for numbers up to {}, are more than there is memory for",
            columns - 1
        ),
    )
}
