//! The options of a new channel.

use pyo3::Borrowed;
use pyo3::prelude::*;
use shmarray::ChannelOptions;

use crate::error::{to_py, value_error};
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
        Ok(ChannelOptions::new()
            .slots(count("slots", self.slots)?)
            .ends(count("ends", self.ends)?)
            .mode(self.mode.parse().map_err(to_py)?)
            .when_full(self.when_full.parse().map_err(to_py)?)
            .varying(self.varying)
            .exist_ok(self.exist_ok)
            .persist(self.persist)
            .file_mode(parse_mode(self.file_mode)?))
    }
}
