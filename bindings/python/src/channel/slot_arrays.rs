//! The ndarrays of a channel's slots.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::dtypes;
use crate::first_use::FirstUse;
use crate::segment_memory;

/// The ndarray of each slot, where all messages have one shape. Each message gets a view of it,
/// since to make it takes longer than the rest of a message.
///
/// No Python code runs while the mutex is locked: it could hand the GIL to a thread that waits for
/// the mutex.
pub(super) struct SlotArrays {
    made: Mutex<Vec<Option<Py<PyAny>>>>,
}

/// Makes an ndarray read-only: its slot has gone back.
pub(super) fn make_readonly(array: &Bound<'_, PyAny>) -> PyResult<()> {
    static SETFLAGS: FirstUse<Py<PyAny>> = FirstUse::new();
    method_of_ndarray(array.py(), &SETFLAGS, "setflags")?.call1((array, false)).map(drop)
}

fn view_of<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static VIEW: FirstUse<Py<PyAny>> = FirstUse::new();
    method_of_ndarray(array.py(), &VIEW, "view")?.call1((array,))
}

/// Returns a method of ndarrays, to be called with an ndarray. This takes less time than to look it
/// up in each.
fn method_of_ndarray<'py>(
    py: Python<'py>,
    found: &'static FirstUse<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let method = || py.import("numpy")?.getattr("ndarray")?.getattr(name).map(Bound::unbind);
    found.get_or_try_make(py, method).map(|method| method.bind(py))
}

impl SlotArrays {
    pub(super) fn of(channel: &shmarray::Channel) -> Self {
        let slots = if channel.varies() || channel.has_handles() { 0 } else { channel.slots() };
        Self { made: Mutex::new((0..slots).map(|_| None).collect()) }
    }

    /// Returns a new ndarray of a message's elements, for the time that the message is held. `slot`
    /// is where they lie, if they lie in one.
    pub(super) fn view<'py>(
        &self,
        py: Python<'py>,
        slot: Option<u32>,
        array: &shmarray::Array,
    ) -> PyResult<Bound<'py, PyAny>> {
        let earlier = slot.and_then(|slot| {
            let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.get(slot as usize)?.as_ref().map(|ndarray| ndarray.bind(py).clone())
        });
        if let Some(earlier) = earlier {
            return view_of(&earlier);
        }
        let made = segment_memory::to_ndarray(
            &dtypes::to_numpy(py, array.dtype())?,
            array.without_slot(),
        )?;
        if slot.is_some_and(|slot| self.keep(slot, &made)) { view_of(&made) } else { Ok(made) }
    }

    /// Returns whether the ndarray is kept.
    fn keep(&self, slot: u32, array: &Bound<'_, PyAny>) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_slot) = made.get_mut(slot as usize) else { return false };
        let before = of_slot.replace(array.clone().unbind());
        drop(made);
        drop(before);
        true
    }

    /// Gives the ndarrays up, and with them the mapping.
    pub(super) fn clear(&self) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let given_up = std::mem::take(&mut *made);
        drop(made);
        drop(given_up);
    }
}
