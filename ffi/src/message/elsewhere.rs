//! Pipes where there are none: types without values, and the error that says so.

use std::ffi::c_int;
use std::time::Duration;

use shmarray::{Access, Array, Descriptor, Error, Result};

use crate::error::Failure;

/// A pipe, of which there is none.
pub(super) enum Pipe {}

/// A message, of which there is none.
pub(super) enum Message {}

/// The outcome of a send, of which there is none.
#[allow(dead_code, clippy::enum_variant_names, reason = "the names of the Linux backend's")]
pub(super) enum Sent {
    Sent,
    TimedOut,
    Closed,
    OfALaterVersion,
}

/// The outcome of a receive, of which there is none.
#[allow(dead_code, reason = "the names of the Linux backend's outcomes")]
pub(super) enum Received {
    Message(Message),
    TimedOut,
    Closed,
    OfALaterVersion,
}

const NO_PIPES: Error = Error::Unsupported { what: "pipes for arrays, on this platform" };

/// Fails: this system has no pipes for arrays.
pub(super) fn check() -> std::result::Result<(), Failure> {
    Err(NO_PIPES.into())
}

pub(super) fn fd_of(pipe: &Pipe) -> c_int {
    match *pipe {}
}

/// Fails.
///
/// # Safety
/// Any fd will do: it is not used.
pub(super) unsafe fn take_over(_fd: c_int) -> std::result::Result<Pipe, Failure> {
    Err(NO_PIPES.into())
}

impl Pipe {
    pub(super) fn pair() -> Result<(Self, Self)> {
        Err(NO_PIPES)
    }

    pub(super) fn send(
        &self,
        _payload: &[u8],
        _arrays: &[&Array],
        _timeout: Option<Duration>,
    ) -> Result<Sent> {
        match *self {}
    }

    pub(super) fn receive(&self, _timeout: Option<Duration>) -> Result<Received> {
        match *self {}
    }
}

impl Message {
    pub(super) fn payload(&self) -> &[u8] {
        match *self {}
    }

    pub(super) fn descriptors(&self) -> &[Descriptor] {
        match *self {}
    }

    pub(super) fn array(&self, _index: usize, _access: Access) -> Result<Array> {
        match *self {}
    }
}
