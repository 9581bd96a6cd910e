//! A list that any thread appends to and nobody removes from.
//!
//! It needs no lock, which a forked child could find locked.
#![allow(unsafe_code)] // entries behind pointers

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The list. Its entries are never freed or changed (I1).
pub(super) struct AppendList<T>(AtomicPtr<Node<T>>);

struct Node<T> {
    value: T,
    earlier: *const Node<T>,
}

impl<T: Send + Sync> AppendList<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the latest entry of which `is_it` is true.
    pub(super) fn find(&'static self, is_it: impl Fn(&T) -> bool) -> Option<&'static T> {
        let mut at: *const Node<T> = self.0.load(Ordering::Acquire); // pairs with the exchange
        // SAFETY: the pointer must be null or valid for reads; it is null or an entry that the
        // exchange in `append` published, and I1 holds for it.
        while let Some(entry) = unsafe { at.as_ref() } {
            if is_it(&entry.value) {
                return Some(&entry.value);
            }
            at = entry.earlier;
        }
        None
    }

    /// Appends a value. Two threads may append equal ones.
    pub(super) fn append(&'static self, value: T) {
        let mut latest = self.0.load(Ordering::Relaxed);
        let new = Box::into_raw(Box::new(Node { value, earlier: latest }));
        // Release pairs with the Acquire in `find`.
        while let Err(other) =
            self.0.compare_exchange(latest, new, Ordering::Release, Ordering::Relaxed)
        {
            latest = other;
            // SAFETY: nobody else may access `*new`; the exchange failed, so the entry from
            // `Box::into_raw` is still this thread's alone.
            unsafe { (*new).earlier = latest };
        }
    }
}
