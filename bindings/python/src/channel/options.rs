//! The options of a new channel.

use pyo3::prelude::*;
use shmarray::{ChannelMode, ChannelOptions, WhenFull};

use crate::error::value_error;
use crate::parse_mode;

/// The options of a new channel as Python passes them.
#[derive(FromPyObject)]
pub(super) struct Options {
    #[pyo3(item)]
    slots: i64,
    #[pyo3(item)]
    mode: String,
    #[pyo3(item)]
    when_full: String,
    #[pyo3(item)]
    varying: bool,
    #[pyo3(item)]
    exist_ok: bool,
    #[pyo3(item)]
    persist: bool,
    #[pyo3(item)]
    file_mode: i64,
    #[pyo3(item)]
    ends: i64,
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
            "error" => WhenFull::Fail,
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
