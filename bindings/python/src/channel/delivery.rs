//! A received message, with what its sender and the channel said of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Channel;
use super::direct::{WithGil, told_pyo3};
use super::slot_array::{Kept, SlotArray};
use crate::first_use::interned;

/// A delivery and its array, while they are held.
pub(super) struct Held {
    pub(super) delivery: shmarray::Delivery,
    pub(super) array: SlotArray,
}

impl Held {
    /// Empties the array and gives the slot back. Where the program has views of the array, they
    /// keep the slot, and the last of them gives it back. An array outside of the channel stays.
    pub(super) fn end(self, py: Python<'_>, channel: &Channel) -> PyResult<()> {
        if self.array.slot.is_none() {
            return Ok(());
        }
        self.array.empty(py);
        if self.array.has_views(py, &channel.arrays) {
            told_pyo3(|| self.outlive(py, channel))
        } else {
            self.delivery.release();
            Ok(())
        }
    }

    /// Lets the array and its views keep the slot.
    pub(super) fn outlive(self, py: Python<'_>, channel: &Channel) -> PyResult<()> {
        if let Some(slot) = self.array.slot {
            channel.arrays.forget(py, slot);
            self.array.keep(py, Kept::Delivery(self.delivery))
        } else {
            Ok(())
        }
    }
}

/// A received message: its array, and what is known of it.
#[pyclass(frozen, module = "shmarray")]
pub(crate) struct Delivery {
    channel: Py<Channel>,
    array: Py<PyAny>,
    held: WithGil<Option<Held>>,
    #[pyo3(get)]
    meta: Py<PyBytes>,
    #[pyo3(get)]
    sequence: u64,
    #[pyo3(get)]
    time_ns: u64,
    #[pyo3(get)]
    missed: u64,
}

impl Delivery {
    pub(super) fn new(py: Python<'_>, channel: Py<Channel>, held: Held) -> Self {
        let delivery = &held.delivery;
        Self {
            channel,
            array: held.array.ndarray(py).unbind(),
            meta: PyBytes::new(py, delivery.meta()).unbind(),
            sequence: delivery.sequence(),
            time_ns: delivery.time_ns(),
            missed: delivery.missed(),
            held: WithGil::new(Some(held)),
        }
    }

    fn take(&self, py: Python<'_>) -> Option<Held> {
        self.held.borrow(py).take()
    }

    pub(super) fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.take(py).map_or(Ok(()), |held| held.end(py, self.channel.get()))
    }

    pub(super) fn outlive(&self, py: Python<'_>) -> PyResult<()> {
        self.take(py).map_or(Ok(()), |held| held.outlive(py, self.channel.get()))
    }
}

#[pymethods]
impl Delivery {
    #[getter]
    fn array<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.array.bind(py)
    }

    /// Lets the array keep its slot for as long as the array or a view of it lives.
    fn keep<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        match self.take(py) {
            Some(held) => held.outlive(py, self.channel.get()).map(|()| self.array.bind(py)),
            None => Err(PyValueError::new_err("the message's slot was given back")),
        }
    }

    /// Returns a private copy of the array.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.held.borrow(py).is_none() {
            return Err(PyValueError::new_err("the message's slot was given back"));
        }
        self.array.bind(py).call_method0(interned!(py, "copy"))
    }

    /// The seconds since it was published.
    #[getter]
    fn age(&self) -> f64 {
        let published = UNIX_EPOCH + Duration::from_nanos(self.time_ns);
        let age = SystemTime::now().duration_since(published);
        age.unwrap_or_default().as_secs_f64() // none, if the clock was set back
    }

    fn __repr__(&self) -> String {
        format!("<shmarray.Delivery {} of {:?}>", self.sequence, self.channel.get().channel.name())
    }
}
