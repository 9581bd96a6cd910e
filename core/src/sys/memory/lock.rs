//! The mutex under Miri: that of `parking_lot` keeps pointers to who waits in integers, which
//! strict provenance refuses. Who waits here sleeps, so that Miri sees a deadlock.
#![allow(unsafe_code)] // the trait of a raw mutex

use std::sync::{self, Condvar, PoisonError};

use parking_lot::lock_api::{self, GuardNoSend, RawMutex};

pub(crate) type Mutex<T> = lock_api::Mutex<Sleeping, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Sleeping, T>;

pub(crate) struct Sleeping {
    is_taken: sync::Mutex<bool>,
    freed: Condvar,
}

impl Sleeping {
    fn is_taken(&self) -> sync::MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) // nothing panics while it is locked
    }
}

// SAFETY: who makes `is_taken` true has it alone until it is false again.
unsafe impl RawMutex for Sleeping {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait wants
    const INIT: Self = Self { is_taken: sync::Mutex::new(false), freed: Condvar::new() };
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        let free = self.freed.wait_while(self.is_taken(), |is_taken| *is_taken);
        *free.unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.is_taken(), true)
    }

    unsafe fn unlock(&self) {
        *self.is_taken() = false;
        self.freed.notify_one();
    }
}
