//! The array that an object has until it is closed.
//!
//! # Rationale
//! A lock would cost more than reading an element does. Ruby's own locks are enough:
//!
//! * S1 An object that is not frozen belongs to one Ractor, and only the thread that holds that
//!   Ractor's lock calls a method of it. A frozen object may be in several Ractors at once, and
//!   never changes.
//! * S2 No reference into the cell outlives a function of this file, and no closure that is passed
//!   here calls Ruby, so no other thread runs meanwhile. Longer work has an `Arc` of its own.
#![allow(unsafe_code)] // a cell that Ruby's locks guard

use std::cell::UnsafeCell;
use std::sync::Arc;

use shmarray::Array;

use crate::collector::Counted;
use crate::slot_use::{Held, Part};

/// An array, and the bytes of it that the collector was told of. A view holds the same segment and
/// counts nothing.
pub(crate) struct Open {
    pub(crate) array: Arc<Array>,
    pub(crate) counted: Option<Counted>,
    pub(crate) part: Part,
}

/// An array, or `None` after it was closed. One whose use of a slot is over is closed, too.
#[derive(Default)]
pub(crate) struct Closable(UnsafeCell<Option<Open>>);

// SAFETY: the cell changes only while one thread can reach it (S1), and no reference into it
// outlives a call (S2).
unsafe impl Sync for Closable {}

impl Closable {
    pub(crate) fn new(open: Open) -> Self {
        Self(UnsafeCell::new(Some(open)))
    }

    /// Returns the result of a closure that calls no Ruby function.
    #[inline]
    pub(crate) fn with<T>(&self, make: impl FnOnce(Option<&Open>) -> T) -> T {
        // SAFETY: no other thread changes the cell (S1), and the reference ends with `make`, which
        // calls no Ruby (S2).
        let open = unsafe { &*self.0.get() }.as_ref();
        make(open.filter(|open| !open.part.is_over()))
    }

    /// Returns the array, which stays mapped until this is dropped, even if the object is closed
    /// meanwhile.
    pub(crate) fn array(&self) -> Option<Held> {
        self.with(|open| {
            let open = open?;
            Some(Held::new(Arc::clone(&open.array), open.part.hold()?))
        })
    }

    /// Replaces the array, and returns the previous one. The object must not be frozen.
    pub(crate) fn replace(&self, open: Option<Open>) -> Option<Open> {
        // SAFETY: no other thread can reach the cell (S1) and no reference into it exists (S2); the
        // caller drops the old value.
        unsafe { self.0.get().replace(open) }
    }
}
