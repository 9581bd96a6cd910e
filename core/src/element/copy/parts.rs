//! A copy in parts, one for each of several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, available_parallelism, scope};

use super::plan::Plan;

/// The least bytes of a part. For less a thread costs more than it saves.
const PART_BYTES: u64 = 4 << 20;
/// The most threads. More of them would wait for the same memory.
const MOST_THREADS: usize = 8;
/// The page size at which parts of a run begin.
const PAGE_BYTES: usize = 4096;

/// Returns the number of threads that copy that many bytes.
pub(crate) fn parts_of(bytes: u64) -> usize {
    match bytes / PART_BYTES {
        0 | 1 => 1,
        parts => parallelism().min(MOST_THREADS).min(parts as usize),
    }
}

/// Returns the number of threads that this process may run at once, as it was at the first call:
/// finding it out reads files.
///
/// Two threads may both find it out. A lock would stay taken in a child that another thread forks
/// meanwhile.
pub(crate) fn parallelism() -> usize {
    static PARALLELISM: AtomicUsize = AtomicUsize::new(0);
    match PARALLELISM.load(Ordering::Relaxed) {
        0 => {
            let found = available_parallelism().map_or(1, usize::from);
            PARALLELISM.store(found, Ordering::Relaxed);
            found
        }
        parallelism => parallelism,
    }
}

/// Calls `work` with every part, each in a thread. The caller does the first part, and those whose
/// threads could not be started.
pub(crate) fn in_threads(parts: usize, work: impl Fn(usize) + Sync) {
    match parts {
        0 | 1 => work(0),
        _ => scope(|scope| {
            let here: Vec<_> = (1..parts).filter(|&part| !starts(scope, part, &work)).collect();
            work(0);
            here.into_iter().for_each(&work);
        }),
    }
}

/// The stack of a thread. The loops need a tile and a few frames.
const STACK_BYTES: usize = 256 << 10;

fn starts<'scope>(
    scope: &'scope Scope<'scope, '_>,
    part: usize,
    work: &'scope (impl Fn(usize) + Sync),
) -> bool {
    let thread = Builder::new().name("shmarray copy".into()).stack_size(STACK_BYTES);
    thread.spawn_scoped(scope, move || work(part)).is_ok()
}

impl Plan {
    /// Returns one of so many parts, which have no element in common and together are the whole
    /// plan.
    pub(super) fn part(&self, part: usize, parts: usize) -> Self {
        let mut piece = self.clone();
        match self.dim_for(parts) {
            Some(dim) => {
                let (first, end) = bounds(self.dims[dim].count, part, parts);
                piece.skip(dim, first);
                piece.dims[dim].count = end - first;
            }
            None => piece.part_of_run(part, parts),
        }
        piece
    }

    /// Returns the outermost dimension that gives parts of nearly one size. `None` if the run is
    /// divided.
    fn dim_for(&self, parts: usize) -> Option<usize> {
        let counts = || self.dims.iter().map(|dim| dim.count).enumerate();
        let largest = || {
            counts().max_by_key(|&(_, count)| count).filter(|&(_, count)| count >= self.run_pages())
        };
        counts().find(|&(_, count)| count >= 4 * parts).or_else(largest).map(|(dim, _)| dim)
    }

    fn run_pages(&self) -> usize {
        self.run_bytes.div_ceil(PAGE_BYTES)
    }

    fn part_of_run(&mut self, part: usize, parts: usize) {
        let (first, end) = bounds(self.run_pages(), part, parts);
        let [first, end] = [first, end].map(|page| (page * PAGE_BYTES).min(self.run_bytes));
        self.to = self.to.wrapping_add(first);
        self.from = self.from.wrapping_add(first);
        self.run_bytes = end - first;
    }
}

fn bounds(count: usize, part: usize, parts: usize) -> (usize, usize) {
    let bound = |part| (count as u128 * part as u128 / parts as u128) as usize;
    (bound(part), bound(part + 1))
}
