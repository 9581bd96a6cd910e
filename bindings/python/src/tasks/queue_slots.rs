//! The queue slots of a bounded queue.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shmarray::{QUEUE_SLOT_BYTES, QueueSlot};

use crate::error::{to_py, value_error};
use crate::wait::wait;

use super::pipe::{Pipe, copy_of};

/// Wraps `shmarray::QueueSlots`.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct QueueSlots(shmarray::QueueSlots);

#[pymethods]
impl QueueSlots {
    /// Returns this number of slots. An unbounded queue has none.
    #[new]
    fn new(count: u32) -> PyResult<Self> {
        shmarray::QueueSlots::new(count).map(Self).map_err(to_py)
    }

    /// Returns the slots of an fd, which they own from then on. If this raises, the caller still
    /// owns it.
    #[staticmethod]
    #[allow(unsafe_code)]
    fn from_fd(fd: RawFd) -> PyResult<Self> {
        shmarray::QueueSlots::from_fd(copy_of(fd)?).map_err(to_py)?;
        // SAFETY: `copy_of` has found that `fd` is open, and the caller passes its ownership on.
        shmarray::QueueSlots::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }).map(Self).map_err(to_py)
    }

    /// Returns the fd, which the slots still own.
    fn fileno(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    /// Takes a slot. Returns the bytes that travel with its message, or `None` if none was free in
    /// time.
    fn take<'py>(
        &self,
        py: Python<'py>,
        reader: &Pipe,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let slot = match self.0.take_now().map_err(to_py)? {
            None => {
                let reader = reader.open()?;
                wait(py, timeout, |left| self.0.take(&*reader, left))?
            }
            slot => slot,
        };
        Ok(slot.map(|slot| PyBytes::new(py, &slot.to_bytes())))
    }

    /// The message waits in this process for room in the pipe.
    fn set_waiting(&self, slot: &[u8]) -> PyResult<()> {
        self.0.set_waiting(slot_of(slot)?);
        Ok(())
    }

    /// This process is about to send the message.
    fn set_sending(&self, slot: &[u8]) -> PyResult<()> {
        self.0.set_sending(slot_of(slot)?);
        Ok(())
    }

    /// The message is in the pipe.
    fn set_in_pipe(&self, slot: &[u8]) -> PyResult<()> {
        self.0.set_in_pipe(slot_of(slot)?);
        Ok(())
    }

    /// The message was received, or will not be sent. More bytes may follow the slot.
    fn free(&self, slot: &[u8]) -> PyResult<()> {
        self.0.free(slot_of(slot)?);
        Ok(())
    }

    /// Returns how many slots are taken.
    fn count_taken(&self, reader: &Pipe) -> PyResult<u32> {
        Ok(self.0.taken(&*reader.open()?))
    }

    /// Adds to the counter of an unbounded queue.
    fn add_to_count(&self, change: i64) {
        self.0.add_to_count(change);
    }

    /// Returns the counter.
    fn count(&self) -> i64 {
        self.0.count()
    }
}

fn slot_of(bytes: &[u8]) -> PyResult<QueueSlot> {
    match bytes.first_chunk::<QUEUE_SLOT_BYTES>() {
        Some(slot) => Ok(QueueSlot::from_bytes(*slot)),
        None => Err(value_error("invalid message: it has no queue slot")),
    }
}
