//! The table of this process's allocations.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::array::Array;
use crate::system::{self, Mutex};
use crate::value::error::{Error, Result};

/// The most bytes of idle allocations. Beyond that the least recently freed ones go back to the
/// pool, from which a new allocation takes 9 µs where an idle one takes 1.
const MOST_IDLE_BYTES: usize = 64 << 20;

/// What a process has allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The allocations that are in use.
    pub live: usize,
    /// Their bytes.
    pub live_bytes: usize,
    /// The most bytes that were in use at a time.
    pub peak_bytes: usize,
    /// The bytes of idle allocations.
    pub idle_bytes: usize,
    /// How many allocations there were.
    pub allocations: u64,
    /// How many of them used memory of an idle one again.
    pub reused: u64,
    /// How many were left to the other allocator, because the pool had no room.
    pub fell_back: u64,
    /// How many were moved to another process.
    pub moved: u64,
    /// The bytes of those.
    pub moved_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    /// With the number of its free among all.
    Idle(u64),
    Offered,
    Dropped,
    /// A message has it, and this process may read it until it is freed.
    Moved,
}

struct Allocation {
    array: Array,
    bytes: usize,
    state: State,
}

#[derive(Default)]
struct Table {
    /// By the address of the first byte.
    all: BTreeMap<usize, Allocation>,
    /// The addresses of idle allocations by size, the most recently freed last.
    idle: BTreeMap<usize, Vec<usize>>,
    /// The addresses of idle allocations by the number of their free.
    by_age: BTreeMap<u64, usize>,
    frees: u64,
    /// The number of forks that this process was forked by.
    forks: u32,
    stats: Stats,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// No array may be dropped in here: `change` returns it.
fn with<T>(change: impl FnOnce(&mut Table) -> T) -> T {
    system::without_fork(|| change(TABLE.lock().get_or_insert_default()))
}

/// What became of memory that was freed.
pub(super) enum Freed {
    /// It is no allocation.
    Unknown,
    /// It stays in the table.
    Kept,
    /// These left the table.
    Gone(Vec<Array>),
}

impl Table {
    fn take_idle(&mut self, start: usize, bytes: usize, freed: u64) {
        self.by_age.remove(&freed);
        if let Some(starts) = self.idle.get_mut(&bytes) {
            if let Some(at) = starts.iter().rposition(|one| *one == start) {
                starts.remove(at);
            }
            if starts.is_empty() {
                self.idle.remove(&bytes);
            }
        }
        self.stats.idle_bytes -= bytes;
    }

    fn remove(&mut self, start: usize) -> Option<Array> {
        let allocation = self.all.remove(&start)?;
        if let State::Idle(freed) = allocation.state {
            self.take_idle(start, allocation.bytes, freed);
        } else {
            self.stats.live -= 1;
            self.stats.live_bytes -= allocation.bytes;
        }
        Some(allocation.array)
    }

    /// Makes an allocation idle, or removes it if it is frozen. Returns what left the table.
    fn free(&mut self, start: usize) -> Vec<Array> {
        let Some(one) = self.all.get_mut(&start) else { return Vec::new() };
        if !one.array.is_owned() || one.bytes > MOST_IDLE_BYTES {
            return self.remove(start).into_iter().collect();
        }
        let bytes = one.bytes;
        self.frees += 1;
        one.state = State::Idle(self.frees);
        self.by_age.insert(self.frees, start);
        self.idle.entry(bytes).or_default().push(start);
        self.stats.live -= 1;
        self.stats.live_bytes -= bytes;
        self.stats.idle_bytes += bytes;
        let mut gone = Vec::new();
        while self.stats.idle_bytes > MOST_IDLE_BYTES
            && let Some((_, oldest)) = self.by_age.first_key_value()
        {
            gone.extend(self.remove(*oldest));
        }
        gone
    }

    fn count(&mut self, bytes: usize) {
        let stats = &mut self.stats;
        stats.allocations += 1;
        stats.live += 1;
        stats.live_bytes += bytes;
        stats.peak_bytes = stats.peak_bytes.max(stats.live_bytes);
    }

    /// Removes all idle allocations.
    fn remove_idle(&mut self) -> Vec<Array> {
        let starts: Vec<usize> = self.by_age.values().copied().collect();
        starts.into_iter().filter_map(|start| self.remove(start)).collect()
    }
}

/// Makes an idle allocation of at least so many bytes live. Returns it, and what left the table.
pub(super) fn take_idle(bytes: u64) -> (Option<NonNull<u8>>, Vec<Array>) {
    let wanted = bytes as usize;
    with(|table| {
        let mut gone = Vec::new();
        if table.forks != system::forks() {
            table.forks = system::forks();
            gone = table.remove_idle(); // the parent's, and frozen
        }
        // The next sizes are larger by an eighth each.
        while let Some((&bytes, starts)) = table.idle.range(wanted..=wanted + wanted / 4).next()
            && let Some(&start) = starts.last()
        {
            let found = table.all.get_mut(&start);
            let found = found.filter(|one| one.array.is_owned());
            let Some(Allocation { state: State::Idle(freed), .. }) = found else {
                gone.extend(table.remove(start)); // frozen by a fork
                continue;
            };
            let freed = *freed;
            table.take_idle(start, bytes, freed);
            table.all.entry(start).and_modify(|one| one.state = State::Live);
            table.count(bytes);
            table.stats.reused += 1;
            return (NonNull::new(start as *mut u8), gone);
        }
        (None, gone)
    })
}

pub(super) fn take_all_idle() -> Vec<Array> {
    with(Table::remove_idle)
}

/// Adds a new allocation, which is live.
pub(super) fn insert(start: usize, bytes: usize, array: Array) {
    with(|table| {
        table.all.insert(start, Allocation { array, bytes, state: State::Live });
        table.count(bytes);
    });
}

pub(super) fn fell_back() {
    with(|table| table.stats.fell_back += 1);
}

pub(super) fn stats() -> Stats {
    with(|table| table.stats)
}

/// Returns how many bytes the pool may keep without an array: with idle allocations, half of what
/// was in use at a time. So all of it has at most one and a half times that, or [`MOST_IDLE_BYTES`]
/// more.
pub(super) fn most_spare() -> u64 {
    let stats = stats();
    (stats.peak_bytes / 2).max(MOST_IDLE_BYTES).saturating_sub(stats.idle_bytes) as u64
}

pub(super) fn size(start: usize) -> Option<usize> {
    with(|table| table.all.get(&start).map(|one| one.bytes))
}

pub(super) fn has(address: usize) -> bool {
    with(|table| {
        let found = table.all.range(..=address).next_back();
        found.is_some_and(|(start, one)| address - start < one.bytes)
    })
}

pub(super) fn free(start: usize) -> Freed {
    with(|table| {
        let Some(one) = table.all.get_mut(&start) else { return Freed::Unknown };
        match one.state {
            State::Live => {
                let gone = table.free(start);
                if gone.is_empty() { Freed::Kept } else { Freed::Gone(gone) }
            }
            State::Offered => {
                one.state = State::Dropped;
                Freed::Kept
            }
            State::Moved => Freed::Gone(table.remove(start).into_iter().collect()),
            // Freed twice: another allocator would abort or lose data.
            State::Idle(_) | State::Dropped => Freed::Kept,
        }
    })
}

/// Makes the live allocation offered that has the memory at an address. Returns its first byte and
/// its size.
pub(super) fn offer(address: usize) -> Option<(usize, usize)> {
    with(|table| {
        let (start, one) = table.all.range_mut(..=address).next_back()?;
        if address - start >= one.bytes || one.state != State::Live || !one.array.is_owned() {
            return None;
        }
        one.state = State::Offered;
        Some((*start, one.bytes))
    })
}

pub(super) fn is_dropped(start: usize) -> bool {
    with(|table| table.all.get(&start).is_some_and(|one| one.state == State::Dropped))
}

/// Removes an allocation that was freed while it was offered.
pub(super) fn take_dropped(start: usize) -> Option<Array> {
    with(|table| {
        let one = table.all.get(&start).filter(|one| one.state == State::Dropped)?;
        table.stats.moved += 1;
        table.stats.moved_bytes += one.bytes as u64;
        table.remove(start)
    })
}

/// Ends an offer that took nothing. Returns what left the table.
pub(super) fn withdraw(start: usize) -> Vec<Array> {
    with(|table| {
        let Some(one) = table.all.get_mut(&start) else { return Vec::new() };
        match one.state {
            State::Offered => one.state = State::Live,
            State::Dropped => {
                one.state = State::Live;
                return table.free(start);
            }
            State::Live | State::Idle(_) | State::Moved => {}
        }
        Vec::new()
    })
}

/// Makes the live allocation moved that has the memory at an address. Returns its array. `None` if
/// it is offered to a message, or if none has the memory.
///
/// # Errors
/// [`Error::InvalidArgument`] if a message has it.
pub(super) fn move_in_use(address: usize) -> Result<Option<Array>> {
    with(|table| {
        let found = table.all.range_mut(..=address).next_back();
        let Some((_, one)) = found.filter(|(start, one)| address - **start < one.bytes) else {
            return Ok(None);
        };
        match one.state {
            State::Live => one.state = State::Moved,
            State::Moved => return Err(Error::argument("array", "its memory was moved already")),
            State::Idle(_) | State::Offered | State::Dropped => return Ok(None),
        }
        Ok(Some(one.array.clone()))
    })
}

/// Makes an allocation live again that could not be moved.
pub(super) fn keep(start: usize) {
    with(|table| {
        table.all.entry(start).and_modify(|one| one.state = State::Live);
    });
}

pub(super) fn was_moved(bytes: usize) {
    with(|table| {
        table.stats.moved += 1;
        table.stats.moved_bytes += bytes as u64;
    });
}
