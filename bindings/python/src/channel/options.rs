//! The options of a new channel.

use pyo3::Borrowed;
use pyo3::prelude::*;
use shmarray::{ChannelMode, ChannelOptions, WhenFull};

use crate::error::value_error;
use crate::parse_mode;

/// The options of a new channel as Python passes them, in a `dict`.
pub(super) struct Options {
    slots: i64,
    mode: String,
    when_full: String,
    varying: bool,
    exist_ok: bool,
    persist: bool,
    file_mode: i64,
    ends: i64,
}

// By hand: the derived one looks its names up in cells of pyo3's, see `first_use`.
impl<'py> FromPyObject<'_, 'py> for Options {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            slots: options.get_item("slots")?.extract()?,
            mode: options.get_item("mode")?.extract()?,
            when_full: options.get_item("when_full")?.extract()?,
            varying: options.get_item("varying")?.extract()?,
            exist_ok: options.get_item("exist_ok")?.extract()?,
            persist: options.get_item("persist")?.extract()?,
            file_mode: options.get_item("file_mode")?.extract()?,
            ends: options.get_item("ends")?.extract()?,
        })
    }
}

impl Options {
    pub(super) fn to_core(&self) -> PyResult<ChannelOptions> {
        let count = |what: &str, count: i64| {
            let refuse = |_| value_error(format!("invalid {what}: {count} is not from 1 to 1023"));
            u32::try_from(count).map_err(refuse)
        };
        let mode = match self.mode.as_str() {
            "queue" => ChannelMode::Queue,
            "broadcast" => ChannelMode::Broadcast,
            other => {
                let reason = "is neither 'queue' nor 'broadcast'";
                return Err(value_error(format!("invalid mode: {other:?} {reason}")));
            }
        };
        let when_full = match self.when_full.as_str() {
            "block" => WhenFull::Block,
            "drop_oldest" => WhenFull::DropOldest,
            "error" => WhenFull::Error,
            other => {
                let reason = "is none of 'block', 'drop_oldest' and 'error'";
                return Err(value_error(format!("invalid when_full: {other:?} {reason}")));
            }
        };
        Ok(ChannelOptions::new()
            .slots(count("slots", self.slots)?)
            .ends(count("ends", self.ends)?)
            .mode(mode)
            .when_full(when_full)
            .varying(self.varying)
            .exist_ok(self.exist_ok)
            .persist(self.persist)
            .file_mode(parse_mode(self.file_mode)?))
    }
}
