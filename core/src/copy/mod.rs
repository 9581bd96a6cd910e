//! Copies between memory of any strides, counted: the only copies that core makes.
//!
//! | file | |
//! |---|---|
//! | `end` | one side of a copy |
//! | `plan` | in which order a copy walks |
//! | `walk` | its loops |
//! | `parts` | its parts, and the threads that copy them |
//! | `pieces` | the elements as pieces that are written to a file |

mod end;
mod plan;
mod parts;
mod pieces;
mod walk;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shape::{Layout, Order};
pub(crate) use end::End;
use parts::{in_threads, parts_of};
use pieces::Pieces;
use plan::Plan;

static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of array data that this process has copied with this library so far.
///
/// Handing an array over by its handle copies none.
#[must_use]
pub fn copied_bytes() -> u64 {
    COPIED_BYTES.load(Ordering::Relaxed)
}

/// Copies all elements of `from` to the elements of `to` with the same indices.
///
/// # Safety
/// The layouts have one shape, both are checked against memory that is mapped at their
/// `start`, `to`'s is writable, and the two do not overlap. Another process may write to
/// either meanwhile: then the bytes copied are some of its bytes.
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_elements(to: End<'_>, from: End<'_>, itemsize: u64) {
    let bytes = to.layout.len() * itemsize;
    // SAFETY: the caller's.
    unsafe { copy_in_parts(to, from, itemsize, parts_of(bytes)) };
    COPIED_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// As [`copy_elements`], of what is no array's data: it is not counted.
///
/// # Safety
/// As [`copy_elements`].
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_uncounted(to: End<'_>, from: End<'_>) {
    // SAFETY: the caller's.
    unsafe { copy_in_parts(to, from, 1, parts_of(to.layout.len())) };
}

/// As [`copy_elements`], with so many threads.
///
/// # Safety
/// As [`copy_elements`].
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_in_parts(to: End<'_>, from: End<'_>, itemsize: u64, parts: usize) {
    match dense_bytes(to.layout, from.layout, itemsize) {
        Some(0) => {}
        // SAFETY: the caller's; the first element of each is where all begin.
        Some(bytes) if parts == 1 => unsafe {
            std::ptr::copy_nonoverlapping(from.first().cast_const(), to.first(), bytes as usize);
        },
        _ => {
            let plan = Plan::new(to, from, itemsize as usize);
            // SAFETY: the caller's.
            unsafe { run_in_parts(plan, parts) };
        }
    }
}

/// # Safety
/// As [`Plan::run`].
#[allow(unsafe_code)]
unsafe fn run_in_parts(plan: Plan, parts: usize) {
    let parts = if plan.any_order { parts } else { 1 };
    let plan = Shared(plan);
    in_threads(parts, |part| {
        // SAFETY: the caller's; the parts have no element in common.
        unsafe { plan.part(part, parts).run() };
    });
}

/// Calls `write` with all elements, as they lie side by side in C order: pieces of them, with
/// their offset, address and size in bytes, from several threads and in any order. The first error
/// ends it.
///
/// The pieces are addresses and no slices: the source may change meanwhile.
///
/// # Errors
/// Those of `write`.
///
/// # Safety
/// The layout is checked against memory that is mapped at `start`.
#[allow(unsafe_code)]
pub(crate) unsafe fn write_elements(
    from: End<'_>,
    itemsize: u64,
    write: impl Fn(u64, *const u8, usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let bytes = from.layout.len() * itemsize;
    // The kernel lets one thread at a time write to a file: another can only gather meanwhile.
    let gathers = !from.layout.is_contiguous(itemsize, Order::C);
    let parts = if gathers { parts_of(bytes).min(2) } else { 1 };
    // SAFETY: the caller's.
    unsafe { write_in_parts(from, itemsize, parts, write) }?;
    COPIED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}

/// As [`write_elements`], with so many threads.
///
/// # Safety
/// As [`write_elements`].
#[allow(unsafe_code)]
pub(crate) unsafe fn write_in_parts(
    from: End<'_>,
    itemsize: u64,
    parts: usize,
    write: impl Fn(u64, *const u8, usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
    if from.layout.is_empty() || itemsize == 0 {
        return Ok(());
    }
    let strides = c_strides(&from.layout.shape, itemsize);
    let layout = Layout { shape: from.layout.shape.clone(), strides, offset: 0 };
    let to = End { start: std::ptr::null_mut(), layout: &layout };
    let plan = Shared(Plan::new(to, from, itemsize as usize));
    let failed = OnceLock::new();
    in_threads(parts, |part| {
        // SAFETY: the caller's.
        unsafe { Pieces::new(&write, &failed).of(&plan.part(part, parts)) };
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// The bytes of all elements, if they lie side by side in C order in both.
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

/// Strides of elements side by side, of a size that has been checked.
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
struct Shared(Plan);

// SAFETY: the addresses in it are used as its owner vouches for, by threads that end before he
// returns.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    fn part(&self, part: usize, parts: usize) -> Plan {
        self.0.part(part, parts)
    }
}
