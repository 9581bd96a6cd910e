//! Sleeping until there is a message or a slot, and waking who sleeps: PROTOCOL.md, "Waiting".
//!
//! **futex word**: bit 0 says that somebody may sleep there, bits 1–31 are a count. AcqRel.
//! * bit 0 → 1: a process that is about to sleep (`announce`).
//! * bit 0 → 0 and the count + 1: a process that wakes all (`wake_unseen`).
//!
//! C4: the fence in `announce` stands between bit 0 and the look at the ring and the slots. C5
//! is its partner, in `ring`, between a change there and the load of this word.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::control::Ordering::{Acquire, SeqCst};
use crate::control::{ControlWord, fence};
use crate::error::{Error, Result};
use crate::sys;

/// How often a process that waits looks for dead processes, and for what it waits for: a death
/// wakes nobody.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How often a process looks before it sleeps, where another can run meanwhile. A wake-up takes a
/// few microseconds; so do these looks.
const SPINS: u32 = 200;
const SLEEPS: u64 = 1;
const ONE: u64 = 2;
/// The bits that the kernel compares.
const HALF: u64 = 0xffff_ffff;

/// The outcome of a look.
pub(super) enum Look<T> {
    Found(T),
    /// Nothing is there now.
    Nothing,
}

/// A word of shared memory at which processes sleep.
pub(super) trait SleepWord {
    /// Says that this process is about to sleep. What it looks at afterwards may be new; if not, it
    /// sleeps if the word is still the one that this returns.
    fn announce(&self) -> Result<u32>;

    fn word(&self) -> *const u32;
}

impl SleepWord for ControlWord {
    fn announce(&self) -> Result<u32> {
        self.set(SLEEPS);
        fence(SeqCst); // C4
        Ok(self.load(Acquire) as u32)
    }

    fn word(&self) -> *const u32 {
        std::ptr::from_ref(self).cast() // the lower half
    }
}

/// Looks until something is found, or the time is over: `None`. Without a timeout there is no
/// limit. `look` is told whether it may take longer, since the caller sleeps otherwise.
pub(super) fn wait<T>(
    sleep_word: &impl SleepWord,
    timeout: Option<Duration>,
    mut look: impl FnMut(bool) -> Result<Look<T>>,
) -> Result<Option<T>> {
    if let Look::Found(found) = look(false)? {
        return Ok(Some(found));
    }
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Ok(match look(true)? {
            Look::Found(found) => Some(found),
            Look::Nothing => None,
        });
    }
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    if can_spin() {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if let Look::Found(found) = look(false)? {
                return Ok(Some(found));
            }
        }
    }
    loop {
        let seen = sleep_word.announce()?;
        if let Look::Found(found) = look(true)? {
            return Ok(Some(found));
        }
        let left =
            until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
        if left.is_zero() {
            return Ok(None);
        }
        sys::sleep_at(sleep_word.word(), seen, left).map_err(interrupted)?;
        if let Look::Found(found) = look(false)? {
            return Ok(Some(found)); // without bit 0: nobody sleeps
        }
    }
}

fn interrupted(error: io::Error) -> Error {
    Error::os("futex", "", error)
}

/// Whether another thread can run while this one looks.
///
/// Two threads may both store the number. A `OnceLock` would stay locked in a child that another
/// thread forks meanwhile.
fn can_spin() -> bool {
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    let mut cpus = CPUS.load(Relaxed);
    if cpus == 0 {
        cpus = std::thread::available_parallelism().map_or(1, usize::from);
        CPUS.store(cpus, Relaxed);
    }
    cpus > 1
}

/// Wakes who sleeps at a word, after a change and C5: one process, or all.
pub(super) fn wake(word: &ControlWord, all: bool) {
    let seen = word.load(Acquire);
    if seen & SLEEPS == 0 || !all && sys::wake_at(word.word(), 1) > 0 {
        return;
    }
    // Nobody was woken, or all are to be: somebody may have begun to sleep in between.
    wake_unseen(word);
}

/// Wakes all who sleep at a word, also those who may not set bit 0.
pub(super) fn wake_unseen(word: &ControlWord) {
    loop {
        let seen = word.load(Acquire);
        if word.replace(seen, (seen & !SLEEPS).wrapping_add(ONE) & HALF) {
            break;
        }
    }
    sys::wake_at(word.word(), i32::MAX);
}
