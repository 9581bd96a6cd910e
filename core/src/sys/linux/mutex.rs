//! Locks that a fork does not break.
//!
//! A fork copies the process and one of its threads. A lock that another thread had stays taken in
//! the child for ever, and a lock library's queue of waiting threads names stacks that are not
//! there. So the locks of this library are futex words with nothing beside them:
//!
//! | word | values | moved by |
//! |---|---|---|
//! | [`RawMutex`] | 0 free, 1 taken, 2 taken and somebody may wait | `lock`, `unlock`: Acquire and Release on the word are each other's partners |
//! | [`Gate`] | bit 31: closed by a fork; below: threads inside | `enter`, `leave`: as above; `close`, `open`: the forking thread |
//!
//! The thread that forks takes every lock before (`segment::fork`), so that what they protect is
//! whole in the child; there the words are stored anew, since nobody waits and nobody else has
//! them.
//!
//! Each thread counts the locks that it has: a fork inside of one would wait for itself (`fork`).
#![allow(unsafe_code)] // futex(2), and a raw mutex's contract

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::lock_api::{self, GuardNoSend};

/// A mutex that the thread which forks can take before, and that is free in the child.
pub(crate) type Mutex<T> = lock_api::Mutex<RawMutex, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

/// The word of a [`Mutex`] (Drepper, "Futexes are tricky", mutex 2).
pub(crate) struct RawMutex(AtomicU32);

// SAFETY: who moves the word from FREE has the lock alone until it stores FREE.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "what the trait wants")]
    const INIT: Self = Self(AtomicU32::new(FREE));
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        enter();
        if self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
                wait(&self.0, AWAITED);
            }
        }
    }

    fn try_lock(&self) -> bool {
        let taken =
            self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            enter();
        }
        taken
    }

    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            wake(&self.0, 1);
        }
        leave();
    }
}

/// Makes a mutex free in a child whose forking thread had taken it: who waited is not here.
pub(crate) fn free_in_child<T>(mutex: &Mutex<T>) {
    // SAFETY: only the word is used; the forking thread, the only one here, has the lock.
    let raw = unsafe { mutex.raw() };
    raw.0.store(FREE, Ordering::Release);
    leave();
}

/// What threads are inside of for a moment, several at a time, and no fork meanwhile.
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

    /// Waits until nobody is inside, and keeps everybody out. One thread at a time does so.
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

/// While it lives its thread is inside.
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
    /// Locks that this thread has, or waits for.
    static LOCKS: Cell<u32> = const { Cell::new(0) };
}

fn enter() {
    LOCKS.with(|locks| locks.set(locks.get() + 1));
}

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

/// The same, until then at most: `false` when it is then.
pub(super) fn wait_until(word: &AtomicU32, value: u32, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let most = libc::timespec {
        tv_sec: left.as_secs() as libc::time_t,
        tv_nsec: left.subsec_nanos().into(),
    };
    wait_for(word, value, &raw const most);
    !left.is_zero()
}

fn wait_for(word: &AtomicU32, value: u32, most: *const libc::timespec) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: an aligned word and a time, or none, that outlive the call; the kernel compares the
    // word and sleeps.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, most) };
}

pub(super) fn wake(word: &AtomicU32, most: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address alone.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}
