//! Private arrays of Numo's that are being copied while other Ruby threads run.
//!
//! Such a thread could free the memory, or have Numo replace it: the guards ask here first.

use std::process;
use std::sync::{Mutex, PoisonError};

use rb_sys::VALUE;

/// The arrays that have the elements, and the process whose threads copy them: a forked child has no such
/// thread. Locked by who has Ruby's global lock, so never while another thread forks.
static SOURCES: Mutex<Vec<(u32, VALUE)>> = Mutex::new(Vec::new());

/// While this lives an array is being copied.
pub(crate) struct Source((u32, VALUE));

impl Source {
    pub(crate) fn of(holder: VALUE) -> Self {
        let entry = (process::id(), holder);
        SOURCES.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Self(entry)
    }

    pub(crate) fn is_one(holder: VALUE) -> bool {
        SOURCES.lock().unwrap_or_else(PoisonError::into_inner).contains(&(process::id(), holder))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = sources.iter().position(|entry| *entry == self.0) {
            sources.swap_remove(at);
        }
    }
}
