//! The slots of a bounded queue.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shmarray::{PLACE_BYTES, Place};

use crate::error::{to_py, value_error};
use crate::message::{Pipe, copy_of, wait};

/// As `shmarray::Places`.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct QueueSlots(shmarray::Places);

#[pymethods]
impl QueueSlots {
    /// So many; of a queue without a bound none.
    #[new]
    fn new(count: u32) -> PyResult<Self> {
        shmarray::Places::new(count).map(Self).map_err(to_py)
    }

    /// Those of an fd, which is theirs from then on; when this raises it is still the
    /// caller's.
    #[staticmethod]
    #[allow(unsafe_code)]
    fn from_fd(fd: RawFd) -> PyResult<Self> {
        shmarray::Places::from_fd(copy_of(fd)?).map_err(to_py)?;
        // SAFETY: it is open, and the caller's to give.
        shmarray::Places::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }).map(Self).map_err(to_py)
    }

    /// The fd, which stays theirs.
    fn fileno(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    /// A slot, as the bytes that travel with its message; `None` when there was none in that time.
    fn take<'py>(
        &self,
        py: Python<'py>,
        reader: &Pipe,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let reader = reader.open()?;
        let now = Some(std::time::Duration::ZERO);
        let slot = match self.0.take(&*reader, now).map_err(to_py)? {
            None if timeout != Some(0.0) => wait(py, timeout, |left| self.0.take(&*reader, left))?,
            slot => slot,
        };
        Ok(slot.map(|slot| PyBytes::new(py, &slot.to_bytes())))
    }

    /// The message waits in this process for room in the pipe.
    fn kept(&self, slot: &[u8]) -> PyResult<()> {
        self.0.kept(slot_of(slot)?);
        Ok(())
    }

    /// This process is about to send it.
    fn being_sent(&self, slot: &[u8]) -> PyResult<()> {
        self.0.being_sent(slot_of(slot)?);
        Ok(())
    }

    /// The message is in the pipe.
    fn sent(&self, slot: &[u8]) -> PyResult<()> {
        self.0.sent(slot_of(slot)?);
        Ok(())
    }

    /// It was received, or will not be sent. More bytes may follow.
    fn free(&self, slot: &[u8]) -> PyResult<()> {
        self.0.free(slot_of(slot)?);
        Ok(())
    }

    /// How many are taken.
    fn taken(&self, reader: &Pipe) -> PyResult<u32> {
        Ok(self.0.taken(&*reader.open()?))
    }

    /// Of a queue without a bound: one more, or less.
    fn count(&self, change: i64) {
        self.0.count(change);
    }

    /// What was counted.
    fn counted(&self) -> i64 {
        self.0.counted()
    }
}

fn slot_of(bytes: &[u8]) -> PyResult<Place> {
    match bytes.first_chunk::<PLACE_BYTES>() {
        Some(slot) => Ok(Place::from_bytes(*slot)),
        None => Err(value_error("invalid message: it has no queue slot")),
    }
}
