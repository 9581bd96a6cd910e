//! The array that an object has until it is closed.
//!
//! # Rationale
//! A lock would cost more than reading an element does. Ruby's own locks are enough:
//! * S1 An object that is not frozen belongs to one Ractor, and only the thread that has that
//!   Ractor's lock calls a method of it. A frozen object may be in several Ractors at once, and
//!   never changes.
//! * S2 No reference into a slot outlives a function of this file, and no closure passed here calls
//!   Ruby: so no other thread runs meanwhile. Work that goes on longer has an `Arc` of its own.
#![allow(unsafe_code)] // a cell that Ruby's locks guard

use std::cell::UnsafeCell;
use std::sync::Arc;

use shmarray::Array;

use crate::collector::Counted;

/// An array, and what the collector was told of it. A view holds the same segment and counts
/// nothing.
pub(crate) struct Open {
    pub(crate) array: Arc<Array>,
    pub(crate) counted: Option<Counted>,
}

/// `None` when the array was closed.
#[derive(Default)]
pub(crate) struct Slot(UnsafeCell<Option<Open>>);

// SAFETY: S1 and S2: it changes only while one thread can reach it.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn new(open: Open) -> Self {
        Self(UnsafeCell::new(Some(open)))
    }

    /// What a closure that calls nothing of Ruby's makes of it.
    #[inline]
    pub(crate) fn look<T>(&self, make: impl FnOnce(Option<&Open>) -> T) -> T {
        // SAFETY: nobody changes it meanwhile (S1, S2).
        make(unsafe { &*self.0.get() }.as_ref())
    }

    /// The array, which stays until this is dropped, whoever closes the object meanwhile.
    pub(crate) fn array(&self) -> Option<Arc<Array>> {
        self.look(|open| open.map(|open| Arc::clone(&open.array)))
    }

    /// Puts something else in, and returns what was there. The object must not be frozen.
    pub(crate) fn replace(&self, open: Option<Open>) -> Option<Open> {
        // SAFETY: nobody else looks at it (S1, S2); what was there is dropped by the caller.
        unsafe { self.0.get().replace(open) }
    }
}
