//! A copy as parts, one for each of several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, available_parallelism, scope};

use super::plan::Plan;

/// Below this a thread costs more than it saves.
const PART_BYTES: u64 = 4 << 20;
/// More threads wait for one memory.
const MOST_THREADS: usize = 8;
/// Parts of a run begin with a page.
const PAGE_BYTES: usize = 4096;

/// How many threads copy that many bytes.
pub(super) fn parts_of(bytes: u64) -> usize {
    match bytes / PART_BYTES {
        0 | 1 => 1,
        parts => parallelism().min(MOST_THREADS).min(parts as usize),
    }
}

/// How many threads this process may run at once, as it was when it first asked: that reads files.
///
/// Two threads may both find out. A lock would stay taken in a child that another thread forks
/// meanwhile.
fn parallelism() -> usize {
    static PARALLELISM: AtomicUsize = AtomicUsize::new(0);
    match PARALLELISM.load(Ordering::Relaxed) {
        0 => {
            let found = available_parallelism().map_or(1, usize::from);
            PARALLELISM.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// Calls `work` with every part, each in a thread. The caller does the first, and those whose
/// thread cannot be started.
pub(super) fn in_threads(parts: usize, work: impl Fn(usize) + Sync) {
    match parts {
        0 | 1 => work(0),
        _ => scope(|scope| {
            let here: Vec<_> = (1..parts).filter(|&part| !starts(scope, part, &work)).collect();
            work(0);
            here.into_iter().for_each(&work);
        }),
    }
}

/// Small stacks: the loops need a tile and a few frames.
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
    /// One of so many parts, which together are all of it and have no element in common.
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

    /// The outermost dimension that makes parts of nearly one size; `None` for the run.
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
