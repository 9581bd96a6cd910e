//! What is known of the message that was received last.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What is known of the message that was received last.
#[pyclass(frozen, get_all, module = "shmarray._core", name = "LastMessage")]
pub(crate) struct Last {
    sequence: u64,
    time_ns: u64,
    meta: Py<PyBytes>,
    missed: u64,
}

/// The same before somebody asks for it.
#[derive(Clone, Copy)]
pub(super) struct MessageInfo {
    sequence: u64,
    time_ns: u64,
    meta: [u8; shmarray::MAX_META_BYTES],
    meta_bytes: usize,
    missed: u64,
}

impl MessageInfo {
    pub(super) fn of(delivery: &shmarray::Delivery) -> Self {
        let mut meta = [0; shmarray::MAX_META_BYTES];
        let meta_bytes = delivery.meta().len();
        meta[..meta_bytes].copy_from_slice(delivery.meta());
        let sequence = delivery.sequence();
        let time_ns = delivery.time_ns();
        let missed = delivery.missed();
        Self { sequence, time_ns, meta, meta_bytes, missed }
    }

    pub(super) fn to_last(self, py: Python<'_>) -> Last {
        let meta = PyBytes::new(py, &self.meta[..self.meta_bytes]).unbind();
        Last { sequence: self.sequence, time_ns: self.time_ns, meta, missed: self.missed }
    }
}
