//! Channels where there are none: types without values, and the error that says so.

use std::ffi::c_int;
use std::time::Duration;

use shmarray::{Array, ChannelMode, DType, Error, Layout, Result, WhenFull};

use crate::error::Failure;

/// A channel, of which there is none.
pub(crate) enum Channel {}

/// A loan, of which there is none.
pub(crate) enum Loan {}

/// A message, of which there is none.
pub(crate) enum Delivery {}

/// The outcome of a request for a slot, of which there is none.
#[allow(dead_code, reason = "the names of the Linux backend's outcomes")]
pub(crate) enum Loaned {
    Loan(Loan),
    TimedOut,
    Full,
    OfALaterVersion,
}

/// The outcome of a send, of which there is none.
#[allow(dead_code, clippy::enum_variant_names, reason = "the names of the Linux backend's")]
pub(crate) enum Posted {
    Posted(u64),
    TimedOut,
    Full,
    OfALaterVersion,
}

/// The outcome of a receive, of which there is none.
#[allow(dead_code, reason = "the names of the Linux backend's outcomes")]
pub(crate) enum Delivered {
    Message(Delivery),
    TimedOut,
    Ended { died: bool },
    OfALaterVersion,
}

const NO_CHANNELS: Error = Error::Unsupported { what: "channels, on this platform" };

/// Fails: this system has no channels.
pub(crate) fn check() -> std::result::Result<(), Failure> {
    Err(NO_CHANNELS.into())
}

/// The options of a channel, of which there is none.
pub(crate) struct ChannelOptions;

impl ChannelOptions {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn slots(self, _slots: u32) -> Self {
        self
    }

    pub(crate) fn ends(self, _ends: u32) -> Self {
        self
    }

    pub(crate) fn mode(self, _mode: ChannelMode) -> Self {
        self
    }

    pub(crate) fn when_full(self, _when_full: WhenFull) -> Self {
        self
    }

    pub(crate) fn varying(self, _varying: bool) -> Self {
        self
    }

    pub(crate) fn exist_ok(self, _exist_ok: bool) -> Self {
        self
    }

    pub(crate) fn persist(self, _persist: bool) -> Self {
        self
    }

    pub(crate) fn file_mode(self, _file_mode: u32) -> Self {
        self
    }
}

impl Channel {
    pub(crate) fn create(
        _name: &str,
        _dtype: DType,
        _shape: &[u64],
        _options: &ChannelOptions,
    ) -> Result<Self> {
        Err(NO_CHANNELS)
    }

    pub(crate) fn create_by_handle(_name: &str, _options: &ChannelOptions) -> Result<Self> {
        Err(NO_CHANNELS)
    }

    pub(crate) fn open(_handle_or_name: &str, _receives: bool) -> Result<Self> {
        Err(NO_CHANNELS)
    }

    pub(crate) fn open_within(
        _handle_or_name: &str,
        _receives: bool,
        _timeout: Option<Duration>,
    ) -> Result<Option<Self>> {
        Err(NO_CHANNELS)
    }

    pub(crate) fn dtype(&self) -> &DType {
        match *self {}
    }

    pub(crate) fn shape(&self) -> &[u64] {
        match *self {}
    }

    pub(crate) fn handle(&self) -> String {
        match *self {}
    }

    pub(crate) fn has_handles(&self) -> bool {
        match *self {}
    }

    pub(crate) fn loan(&self, _timeout: Option<Duration>) -> Result<Loaned> {
        match *self {}
    }

    pub(crate) fn loan_shape(&self, _shape: &[u64], _timeout: Option<Duration>) -> Result<Loaned> {
        match *self {}
    }

    /// Cannot be called.
    ///
    /// # Safety
    /// None: there is no channel of which it could be called.
    pub(crate) unsafe fn send(
        &self,
        _source: *const u8,
        _dtype: &DType,
        _layout: &Layout,
        _meta: &[u8],
        _timeout: Option<Duration>,
    ) -> Result<Posted> {
        match *self {}
    }

    pub(crate) fn send_array(
        &self,
        _array: &Array,
        _meta: &[u8],
        _timeout: Option<Duration>,
    ) -> Result<Posted> {
        match *self {}
    }

    pub(crate) fn receive(&self, _timeout: Option<Duration>) -> Result<Delivered> {
        match *self {}
    }

    pub(crate) fn is_ready(&self) -> Result<bool> {
        match *self {}
    }

    pub(crate) fn fd(&self) -> Result<c_int> {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }
}

impl Loan {
    pub(crate) fn array(&self) -> &Array {
        match *self {}
    }

    pub(crate) fn publish(self, _meta: &[u8]) -> Result<u64> {
        match self {}
    }

    pub(crate) fn cancel(self) {
        match self {}
    }
}

impl Delivery {
    pub(crate) fn array(&self) -> &Array {
        match *self {}
    }

    pub(crate) fn sequence(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn time_ns(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn missed(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn meta(&self) -> &[u8] {
        match *self {}
    }

    pub(crate) fn release(self) {
        match self {}
    }
}
