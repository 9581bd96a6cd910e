//! Locks that a fork does not break.
//!
//! A fork copies the process and one of its threads. A lock that another thread held would stay
//! locked in the child for ever, and a lock library's queue of waiting threads would refer to
//! stacks that do not exist there. So the locks of this library are futex words and nothing else:
//!
//! | word | values |
//! |---|---|
//! | [`RawMutex`] | 0 free, 1 locked, 2 locked and a thread may wait |
//! | [`Gate`] | bit 31: closed by a fork; bits below: the threads inside |
//!
//! `lock` and `unlock` change the first; `enter` and the drop of [`Inside`] change the second, and
//! the forking thread does so by `close` and `open`. Acquire and Release on the same word are each
//! other's partners.
//!
//! Before it forks, a thread takes every lock (`segment::fork`), so that the data that they protect
//! are consistent in the child. The child stores the words anew, because it has no waiting thread
//! and no other owner of a lock.
//!
//! Each thread counts the locks that it has, because a fork inside of one would wait for itself
//! (`fork`).
#![allow(unsafe_code)] // futex(2), and a raw mutex's contract

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::lock_api::{self, GuardNoSend};

use super::clock::timespec;

/// A mutex that a forking thread can lock before the fork and that is free in the child.
pub(crate) type Mutex<T> = lock_api::Mutex<RawMutex, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const AWAITED: u32 = 2;

/// The word of a [`Mutex`] (Drepper, "Futexes are tricky", mutex 2).
pub(crate) struct RawMutex(AtomicU32);

// SAFETY: the lock must be exclusive; only one thread can change the word from FREE, and no other
// can until that thread stores FREE in `unlock`.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait requires a constant")]
    const INIT: Self = Self(AtomicU32::new(FREE));
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        enter();
        if self.0.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
                wait(&self.0, AWAITED);
            }
        }
    }

    fn try_lock(&self) -> bool {
        let is_locked =
            self.0.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_locked {
            enter();
        }
        is_locked
    }

    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            wake(&self.0, 1);
        }
        leave();
    }
}

/// Frees a mutex in a child whose forking thread had locked it. Threads that waited for it do not
/// exist there.
pub(crate) fn free_in_child<T>(mutex: &Mutex<T>) {
    // SAFETY: the raw lock must not be unlocked while another thread relies on it; the forking
    // thread, which locked it, is the only thread of this child.
    let raw = unsafe { mutex.raw() };
    raw.0.store(FREE, Ordering::Release);
    leave();
}

/// A gate for code that no fork may interrupt. Several threads may be inside at a time.
pub(super) struct Gate(AtomicU32);

const CLOSED: u32 = 1 << 31;

impl Gate {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(super) fn enter(&self) -> Inside<'_> {
        enter();
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & CLOSED != 0 {
                wait(&self.0, word);
            } else if self
                .0
                .compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Inside(self);
            }
        }
    }

    /// Keeps further threads out and waits until no thread is inside. Only one thread at a time
    /// calls this.
    pub(super) fn close(&self) {
        let mut word = self.0.fetch_or(CLOSED, Ordering::Acquire) | CLOSED;
        while word != CLOSED {
            wait(&self.0, word);
            word = self.0.load(Ordering::Acquire);
        }
    }

    pub(super) fn open(&self) {
        self.0.store(0, Ordering::Release);
        wake(&self.0, i32::MAX);
    }
}

/// Keeps its thread inside the gate until dropped.
#[must_use]
pub(super) struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.0.0.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            wake(&self.0.0, i32::MAX);
        }
        leave();
    }
}

thread_local! {
    /// The locks that this thread has or waits for.
    static LOCKS: Cell<u32> = const { Cell::new(0) };
}

/// Counts a lock that this thread takes or waits for.
fn enter() {
    LOCKS.with(|locks| locks.set(locks.get() + 1));
}

/// Counts a lock that this thread no longer has.
fn leave() {
    LOCKS.with(|locks| locks.set(locks.get() - 1));
}

/// Whether a fork by this thread would wait for this thread itself.
pub(crate) fn is_inside() -> bool {
    LOCKS.with(Cell::get) > 0
}

/// Sleeps while the word has this value; may return earlier.
fn wait(word: &AtomicU32, value: u32) {
    wait_for(word, value, std::ptr::null());
}

/// Sleeps while the word has this value, until `until` at the latest; may return earlier. Returns
/// `false` if that time had come before.
pub(super) fn wait_until(word: &AtomicU32, value: u32, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let most = timespec(left);
    wait_for(word, value, &raw const most);
    !left.is_zero()
}

/// Sleeps while the word has this value, for at most `most` if that is not null.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/futex.2.html
fn wait_for(word: &AtomicU32, value: u32, most: *const libc::timespec) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time must be valid and aligned during the call; `word` is borrowed,
    // and `most` is null or points to a local variable of `wait_until`. The kernel only reads both.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, most) };
}

/// Wakes at most `most` threads that wait on the word.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/futex.2.html
pub(super) fn wake(word: &AtomicU32, most: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: FUTEX_WAKE uses the address as a key and reads no value there; `word` is borrowed
    // during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}
