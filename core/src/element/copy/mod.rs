//! Copies between memory of any strides, counted: the only copies of array data in this crate.
//!
//! * `end`: one side of a copy.
//! * `plan`: the order in which a copy walks.
//! * `walk`: its loops, and `item`: what they move.
//! * `parts`: its parts, and the threads that copy them.
//! * `pieces`: the elements as pieces that are written to a file.

mod strided;
mod plan;
mod parts;
mod pieces;
mod item;
mod walk;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::element::per_byte;
use crate::value::shape::{Layout, Order};
pub(crate) use parts::{in_threads, parallelism, parts_of};
use pieces::Pieces;
use plan::Plan;
pub(crate) use strided::Strided;

static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The bytes of array data that this process has copied with this library so far.
///
/// An array that is handed over by its handle is not copied.
#[must_use]
pub fn copied_bytes() -> u64 {
    COPIED_BYTES.load(Ordering::Relaxed)
}

/// Counts bytes of array data that another module copied.
pub(crate) fn count_copied(bytes: u64) {
    COPIED_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// Copies all elements of `from` to the elements of `to` with the same indices.
///
/// # Safety
/// Both layouts have one shape and were checked against memory that is mapped at their `start`.
/// `to`'s memory is writable, and the two do not overlap. Another process may write to either
/// meanwhile: then the bytes copied are some of its bytes.
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_elements(to: Strided<'_>, from: Strided<'_>, itemsize: u64) {
    let bytes = to.layout.len() * itemsize;
    // SAFETY: the caller makes the same promises about both ends as `copy_in_parts` asks for.
    unsafe { copy_in_parts(to, from, itemsize, parts_of(bytes)) };
    COPIED_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// Copies as [`copy_elements`] does, but bytes that are no array's data: they are not counted.
///
/// # Safety
/// As [`copy_elements`].
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_uncounted(to: Strided<'_>, from: Strided<'_>) {
    // SAFETY: the caller makes the same promises about both ends, of which the items are bytes, as
    // `copy_in_parts` asks for.
    unsafe { copy_in_parts(to, from, 1, parts_of(to.layout.len())) };
}

/// Copies as [`copy_elements`] does, with so many threads.
///
/// # Safety
/// As [`copy_elements`].
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_in_parts(
    to: Strided<'_>,
    from: Strided<'_>,
    itemsize: u64,
    parts: usize,
) {
    match dense_bytes(to.layout, from.layout, itemsize) {
        Some(0) => {}
        // SAFETY: the elements of both ends lie side by side in C order from their first on
        // (`dense_bytes`); the caller promises that they are mapped, that `to` is writable, and
        // that they do not overlap.
        Some(bytes) if parts == 1 => unsafe {
            per_byte::copy(to.first(), from.first(), bytes as usize);
        },
        _ => {
            let plan = Plan::new(to, from, itemsize as usize);
            // SAFETY: the plan reads and writes elements of the two ends only, which the caller
            // promises are mapped, writable in `to`, and do not overlap.
            unsafe { run_in_parts(plan, parts) };
        }
    }
}

/// # Safety
/// As [`Plan::run`].
#[allow(unsafe_code)]
unsafe fn run_in_parts(plan: Plan, parts: usize) {
    let parts = if plan.any_order { parts } else { 1 };
    let plan = SharedPlan(plan);
    in_threads(parts, |part| {
        // SAFETY: the caller promises what `Plan::run` needs for the whole plan, and `Plan::part`
        // gives each thread elements that no other part has.
        unsafe { plan.part(part, parts).run() };
    });
}

/// Calls `write` with all elements, as if they lay side by side in C order: in pieces, each with
/// its offset, address and size in bytes, from several threads and in any order. Stops after the
/// first error.
///
/// The pieces are addresses and not slices, because the source may change meanwhile.
///
/// # Errors
/// Those of `write`.
///
/// # Safety
/// The layout was checked against memory that is mapped at `start`.
#[allow(unsafe_code)]
pub(crate) unsafe fn write_elements(
    from: Strided<'_>,
    itemsize: u64,
    write: impl Fn(u64, *const u8, usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let bytes = from.layout.len() * itemsize;
    // The kernel lets one thread at a time write to a file. Another can only gather meanwhile.
    let gathers = !from.layout.is_contiguous(itemsize, Order::C);
    let parts = if gathers { parts_of(bytes).min(2) } else { 1 };
    // SAFETY: the caller promises that the layout was checked against memory that is mapped at
    // `start`.
    unsafe { write_in_parts(from, itemsize, parts, write) }?;
    COPIED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}

/// Writes as [`write_elements`] does, with so many threads.
///
/// # Safety
/// As [`write_elements`].
#[allow(unsafe_code)]
pub(crate) unsafe fn write_in_parts(
    from: Strided<'_>,
    itemsize: u64,
    parts: usize,
    write: impl Fn(u64, *const u8, usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
    if from.layout.is_empty() || itemsize == 0 {
        return Ok(());
    }
    let strides = c_strides(&from.layout.shape, itemsize);
    let layout = Layout { shape: from.layout.shape.clone(), strides, offset: 0 };
    let to = Strided { start: std::ptr::null_mut(), layout: &layout };
    let plan = SharedPlan(Plan::new(to, from, itemsize as usize));
    let failed = OnceLock::new();
    in_threads(parts, |part| {
        // SAFETY: the plan reads elements of `from` only, which the caller promises are mapped;
        // what it writes are offsets from null, which are not dereferenced.
        unsafe { Pieces::new(&write, &failed).of(&plan.part(part, parts)) };
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Returns the bytes of all elements, if they lie side by side in C order in both layouts.
fn dense_bytes(to: &Layout, from: &Layout, itemsize: u64) -> Option<u64> {
    if to.is_empty() || itemsize == 0 {
        return Some(0);
    }
    let mut bytes = itemsize;
    for (&count, strides) in to.shape.iter().zip(to.strides.iter().zip(&from.strides)).rev() {
        if count > 1 && strides != (&(bytes as i64), &(bytes as i64)) {
            return None;
        }
        bytes *= count;
    }
    Some(bytes)
}

/// Returns the strides of elements side by side, whose size was checked before.
fn c_strides(shape: &[u64], itemsize: u64) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = itemsize;
    for (stride, count) in strides.iter_mut().zip(shape).rev() {
        *stride = step as i64;
        step *= count;
    }
    strides
}

/// A plan that several threads read.
struct SharedPlan(Plan);

// SAFETY: sharing the plan's addresses between threads is sound, because their owner promises that
// they may be used until it returns, and `in_threads` joins its threads before that.
#[allow(unsafe_code)]
unsafe impl Sync for SharedPlan {}

impl SharedPlan {
    fn part(&self, part: usize, parts: usize) -> Plan {
        self.0.part(part, parts)
    }
}
