//! Private Numo arrays that are being copied while other Ruby threads run.
//!
//! Such a thread could free the memory, or have Numo replace it, so the guards ask here first.
//! There is no lock: a fork in another Ractor could leave it taken in the child.

use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rb_sys::VALUE;

/// The arrays that have the elements; 0 marks a free entry.
static SOURCES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// The process whose threads copy them. A forked child has none of these threads.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// An array that is being copied, until this is dropped.
pub(crate) struct Source(&'static AtomicU64);

impl Source {
    /// Adds an array. Returns `None` if all entries are taken: then no other thread may run
    /// meanwhile.
    pub(crate) fn of(holder: VALUE) -> Option<Self> {
        if PROCESS.swap(process::id(), Ordering::Relaxed) != process::id() {
            SOURCES.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
        }
        let take = |entry: &&AtomicU64| {
            entry.compare_exchange(0, holder, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        SOURCES.iter().find(take).map(Self)
    }

    pub(crate) fn is_one(holder: VALUE) -> bool {
        let is_it = |entry: &AtomicU64| entry.load(Ordering::Relaxed) == holder;
        PROCESS.load(Ordering::Relaxed) == process::id() && SOURCES.iter().any(is_it)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
