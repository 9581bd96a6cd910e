//! The threads of a call that reads or writes many files, members or pieces.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::element::copy::{in_threads, parallelism};
use crate::value::error::Result;

/// The most threads of a call, whatever it asks for: each may have a piece or a file in memory.
const MOST_THREADS: usize = 256;

/// Returns the number of threads of a call that asks for so many; 0 is one for each core.
pub(super) fn threads_of(asked: usize) -> usize {
    if asked == 0 { parallelism() } else { asked.min(MOST_THREADS) }
}

/// The bytes that a thread copies before it gives way: some 10 µs.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// Lets the threads that wait for this core run first.
///
/// Without this, a thread that wakes up while every core loads waits for the rest of a loading
/// thread's time slice, 3 ms, though it may need the core for microseconds: a main thread that
/// feeds a device, or draws. With no such thread it costs 0.3 µs.
pub(super) fn give_way() {
    std::thread::yield_now();
}

/// The bytes for which a thread is worth its start.
const WORTH_BYTES: u64 = 128 << 10;

/// Returns the number of threads for so many bytes of work, if so many are asked for.
pub(super) fn threads_for(asked: usize, bytes: u64) -> usize {
    let worth = usize::try_from(bytes / WORTH_BYTES).unwrap_or(MOST_THREADS);
    threads_of(asked).min(worth.max(1))
}

/// Calls `work` with each number of `order`, which has each below its length once, in so many
/// threads. Returns the results by those numbers, or the first error, which ends the work.
pub(super) fn each_in_order<T: Send + Sync>(
    order: &[usize],
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let results: Vec<OnceLock<T>> = order.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let failed = OnceLock::new();
    in_threads(threads_of(threads).min(order.len()), |_| {
        while failed.get().is_none()
            && let Some(at) = order.get(next.fetch_add(1, Ordering::Relaxed))
        {
            match work(*at) {
                Ok(result) => drop(results[*at].set(result)),
                Err(error) => drop(failed.set(error)),
            }
        }
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(results.into_iter().filter_map(OnceLock::into_inner).collect()),
    }
}
