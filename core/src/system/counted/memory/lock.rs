//! The mutex under Miri.
//!
//! `parking_lot`'s mutex keeps pointers to waiting threads in integers, which strict provenance
//! refuses. A thread that waits for this one sleeps in a `Condvar`, so that Miri sees a deadlock.
#![allow(unsafe_code)] // the trait of a raw mutex

use std::sync::{self, Condvar, PoisonError};

use parking_lot::lock_api::{self, GuardNoSend, RawMutex};

pub(crate) type Mutex<T> = lock_api::Mutex<Sleeping, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Sleeping, T>;

pub(crate) struct Sleeping {
    is_locked: sync::Mutex<bool>,
    freed: Condvar,
}

impl Sleeping {
    fn is_locked(&self) -> sync::MutexGuard<'_, bool> {
        // No code panics while the inner mutex is locked.
        self.is_locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: the lock must be exclusive; a thread sets `is_locked` from false to true under the inner
// mutex, and no other can until it is false again.
unsafe impl RawMutex for Sleeping {
    #[allow(clippy::declare_interior_mutable_const)] // required by the trait
    const INIT: Self = Self { is_locked: sync::Mutex::new(false), freed: Condvar::new() };
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        let free = self.freed.wait_while(self.is_locked(), |is_locked| *is_locked);
        *free.unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.is_locked(), true)
    }

    unsafe fn unlock(&self) {
        *self.is_locked() = false;
        self.freed.notify_one();
    }
}
