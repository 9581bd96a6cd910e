//! Sleeping until there is a message or a slot, and waking who sleeps: CHANNELS.md, "Waiting".
//!
//! **futex word**: bit 0 says that somebody may sleep there, bits 1–31 are a count. AcqRel.
//! * bit 0 → 1: a process that is about to sleep (`announce`).
//! * bit 0 → 0 and the count + 1: a process that wakes all (`wake_unseen`).
//!
//! C4: the fence in `announce` stands between bit 0 and the look at the ring and the slots. C5
//! is its partner, in `ring`, between a change there and the load of this word.

use std::io;
use std::time::{Duration, Instant};

use crate::header::control::Ordering::Acquire;
use crate::header::control::{ControlWord, fence_after_rmw};
use crate::system;
use crate::transport::spins::Spins;
use crate::value::error::{Error, Result};

/// How often a process that waits looks for dead processes, and for what it waits for: a death
/// wakes nobody.
const LOOK: Duration = Duration::from_millis(100);
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
        fence_after_rmw(); // C4
        Ok(self.load(Acquire) as u32)
    }

    fn word(&self) -> *const u32 {
        std::ptr::from_ref(self).cast() // the lower half
    }
}

/// Looks until something is found, or the time is over: `None`. Without a timeout there is no
/// limit. `attempt` is told whether it may take longer, since the caller sleeps otherwise.
pub(super) fn wait<T>(
    sleep_word: &impl SleepWord,
    spins: &Spins,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(bool) -> Result<Look<T>>,
) -> Result<Option<T>> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Ok(match attempt(true)? {
            Look::Found(found) => Some(found),
            Look::Nothing => None,
        });
    }
    if let Look::Found(found) = attempt(false)? {
        return Ok(Some(found));
    }
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    for _ in 0..spins.count() {
        std::hint::spin_loop();
        if let Look::Found(found) = attempt(false)? {
            spins.note(true);
            return Ok(Some(found));
        }
    }
    let began = Instant::now();
    let found = sleep(sleep_word, until, attempt);
    let is_found = matches!(found, Ok(Some(_)));
    spins.note_sleep(is_found, began.elapsed());
    found
}

/// Sleeps until something is found, or the time is over: `None`.
fn sleep<T>(
    sleep_word: &impl SleepWord,
    until: Option<Instant>,
    mut attempt: impl FnMut(bool) -> Result<Look<T>>,
) -> Result<Option<T>> {
    loop {
        let seen = sleep_word.announce()?;
        if let Look::Found(found) = attempt(true)? {
            return Ok(Some(found));
        }
        let left =
            until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
        if left.is_zero() {
            return Ok(None);
        }
        system::sleep_at(sleep_word.word(), seen, left).map_err(interrupted)?;
        if let Look::Found(found) = attempt(false)? {
            return Ok(Some(found)); // without bit 0: nobody sleeps
        }
    }
}

fn interrupted(error: io::Error) -> Error {
    Error::os("futex", "", error)
}

/// Wakes who sleeps at a word, after a change and C5: one process, or all.
pub(super) fn wake(word: &ControlWord, all: bool) {
    let seen = word.load(Acquire);
    if seen & SLEEPS == 0 || !all && system::wake_at(word.word(), 1) > 0 {
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
    system::wake_at(word.word(), i32::MAX);
}

#[cfg(all(test, linux_backend))] // they sleep
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::transport::spins::{LEAST_SPINS, MOST_SPINS, can_spin};

    /// A word that nobody changes.
    struct Unchanged(u32);

    impl SleepWord for Unchanged {
        fn announce(&self) -> Result<u32> {
            Ok(self.0)
        }

        fn word(&self) -> *const u32 {
            &raw const self.0
        }
    }

    /// Waits in vain for a millisecond. Returns how often it looked.
    fn looks_in_vain(spins: &Spins) -> u32 {
        let mut looks = 0;
        let found = wait(&Unchanged(0), spins, Some(Duration::from_millis(1)), |_| {
            looks += 1;
            Ok(Look::<()>::Nothing)
        });
        assert!(found.unwrap().is_none());
        looks
    }

    #[test]
    fn after_long_waits_a_process_sleeps_at_once_and_after_short_ones_it_spins() {
        let spins = Spins::default();
        let at_first = looks_in_vain(&spins);
        assert_eq!(at_first > MOST_SPINS, can_spin(), "{at_first}");
        (0..10).for_each(|_| _ = looks_in_vain(&spins));
        let later = looks_in_vain(&spins);
        assert!(later < 10, "{later}");
        (0..10).for_each(|_| spins.note(true));
        assert_eq!(looks_in_vain(&spins) > MOST_SPINS, can_spin());
    }

    /// Lets this thread run on one of its CPUs only.
    #[allow(unsafe_code)]
    fn use_one_cpu() {
        let bytes = size_of::<libc::cpu_set_t>();
        // SAFETY: zeros are a valid value, because the structure consists of plain numbers.
        let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is valid for the call, because it points to a set of so many bytes.
        let found = unsafe { libc::sched_getaffinity(0, bytes, &raw mut cpus) };
        assert_eq!(found, 0, "{}", io::Error::last_os_error());
        // SAFETY: the index is in bounds, because each is below the bits of a set.
        let is_usable = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &cpus) };
        let one = (0..8 * bytes).find(is_usable).unwrap();
        // SAFETY: zeros are a valid value, because the structure consists of plain numbers.
        let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the index is in bounds, because it was found in a set.
        unsafe { libc::CPU_SET(one, &mut cpus) };
        // SAFETY: the pointer is valid for the call, because it points to a set of so many bytes,
        // which is only read.
        let limited = unsafe { libc::sched_setaffinity(0, bytes, &raw const cpus) };
        assert_eq!(limited, 0, "{}", io::Error::last_os_error());
    }

    #[test]
    fn where_nothing_else_can_run_meanwhile_a_process_sleeps_at_once() {
        const IS_ALONE: &str = "SHMARRAY_TEST_OF_ONE_CPU";
        if std::env::var_os(IS_ALONE).is_some() {
            use_one_cpu();
            let looks = looks_in_vain(&Spins::default());
            assert!(looks < 10, "{looks}");
            println!("it slept");
            return;
        }
        // In a process of its own, which counts its CPUs once.
        let thread = std::thread::current();
        let this = thread.name().filter(|name| *name != "main").unwrap();
        let mut alone = Command::new("/proc/self/exe");
        alone.args([this, "--exact", "--nocapture"]).env(IS_ALONE, "1").stderr(Stdio::inherit());
        let said = alone.output().unwrap();
        assert!(said.status.success());
        assert!(String::from_utf8_lossy(&said.stdout).contains("it slept"));
    }

    #[test]
    fn a_process_that_finds_something_while_it_spins_spins_longer_next_time() {
        let spins = Spins::with(LEAST_SPINS);
        let mut looks = 0;
        let found = wait(&Unchanged(0), &spins, None, |_| {
            looks += 1;
            Ok(if looks == 3 { Look::Found(looks) } else { Look::Nothing })
        });
        assert_eq!(found.unwrap(), Some(3));
        // Where a process cannot spin, it slept.
        let expected = if can_spin() { 2 * LEAST_SPINS } else { LEAST_SPINS / 2 };
        assert_eq!(spins.learned(), expected);
    }
}
