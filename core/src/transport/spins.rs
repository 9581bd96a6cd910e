//! How often to look for something before a sleep, learned from the waits before.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The most looks before a process sleeps. A wake-up takes a few microseconds; so do these looks.
pub(crate) const MOST_SPINS: u32 = 200;
/// The least looks after a short wait.
pub(crate) const LEAST_SPINS: u32 = 25;
/// A wait is short below this. It is then little more than a wake-up, which spinning might have
/// spared.
const SHORT: Duration = Duration::from_micros(50);

/// The number of looks before a sleep. It doubles after each short wait, and halves after each long
/// one.
#[derive(Debug)]
pub(crate) struct Spins(AtomicU32);

impl Default for Spins {
    fn default() -> Self {
        Self(AtomicU32::new(MOST_SPINS))
    }
}

impl Spins {
    pub(crate) const fn with(count: u32) -> Self {
        Self(AtomicU32::new(count))
    }

    #[cfg(test)]
    pub(crate) fn learned(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Returns how often to look now.
    pub(crate) fn count(&self) -> u32 {
        if can_spin() { self.0.load(Relaxed) } else { 0 }
    }

    /// Learns from a wait. If two threads do so at once, the number may learn from only one.
    pub(crate) fn note(&self, was_short: bool) {
        let count = self.0.load(Relaxed);
        let next = if was_short { (2 * count).clamp(LEAST_SPINS, MOST_SPINS) } else { count / 2 };
        if next != count {
            self.0.store(next, Relaxed);
        }
    }

    /// Learns from a wait that ended in a sleep.
    pub(crate) fn note_sleep(&self, is_found: bool, slept: Duration) {
        self.note(is_found && slept < SHORT);
    }
}

/// Whether another thread can run while this one looks.
///
/// Two threads may both store the number. A `OnceLock` would stay locked in a child that another
/// thread forks meanwhile.
pub(crate) fn can_spin() -> bool {
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    let mut cpus = CPUS.load(Relaxed);
    if cpus == 0 {
        cpus = std::thread::available_parallelism().map_or(1, usize::from);
        CPUS.store(cpus, Relaxed);
    }
    cpus > 1
}
