//! A message that was received.

use std::os::fd::OwnedFd;

use super::head::{Body, HEADER_BYTES, Head, INLINE_BYTES, no_message, text};
use crate::array::Array;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::sys::{self, Access, socket};

/// Arrays and bytes that were received.
///
/// It holds its arrays until it is dropped; those that were attached by then live on by themselves. It is the message
/// of the process that received it: what a forked child does with its copy is of no account.
#[derive(Debug)]
pub struct Message {
    payload: Vec<u8>,
    descriptors: Vec<Descriptor>,
    /// The handle of the body, where that came in shared memory.
    body: Option<Descriptor>,
    /// Those that the sender added.
    fds: Vec<OwnedFd>,
    /// What keeps the tickets; closed after they were given back.
    _locks: Vec<OwnedFd>,
    /// Which process received it: a forked child's copy gives nothing back.
    forks: u32,
}

impl Message {
    /// That of a packet's two parts: its head and handles, or all that is no payload; and the
    /// payload behind them.
    pub(super) fn read(packet: &[u8], payload: Vec<u8>, mut locks: Vec<OwnedFd>) -> Result<Self> {
        let Head { body, fds, arrays, handles_bytes, .. } = Head::read(packet)?;
        let file = if body == Body::File { locks.pop() } else { None };
        let own =
            locks.len().checked_sub(fds).ok_or_else(|| no_message("its fds are not with it"))?;
        let fds = locks.split_off(own);
        let (descriptors, forks) = (Vec::new(), sys::fork::forks());
        let mut message = Self { payload, descriptors, body: None, fds, _locks: locks, forks };
        let inline = &packet[HEADER_BYTES..];
        let handles = match file {
            Some(file) => {
                message.payload =
                    sys::read_memory_file(file).map_err(|error| Error::os("read", "", error))?;
                message.split_handles(handles_bytes)?
            }
            None if body == Body::Array => {
                let handle = message.body.insert(Descriptor::parse(text(inline)?)?);
                // A mapping to read and write is kept for the next message, and one to read only is
                // not.
                message.payload = Array::attach_descriptor(handle, Access::ReadWrite)?.to_bytes();
                message.split_handles(handles_bytes)?
            }
            None => inline.to_vec(),
        };
        if handles.len() != handles_bytes {
            return Err(no_message("its handles are cut"));
        }
        for line in text(&handles)?.lines() {
            message.descriptors.push(Descriptor::parse(line)?); // what follows an error is given back by a sweep
        }
        match message.descriptors.len() == arrays {
            true => Ok(message),
            false => Err(no_message("it has not as many handles as it says")),
        }
    }

    /// The handles before a payload, which stays.
    fn split_handles(&mut self, bytes: usize) -> Result<Vec<u8>> {
        match bytes <= self.payload.len() {
            true => Ok(self.payload.drain(..bytes).collect()),
            false => Err(no_message("its handles are cut")),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The handles of the arrays.
    #[must_use]
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// The fds that the sender added, which are the caller's from now on.
    #[must_use]
    pub fn take_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }

    /// One of the arrays.
    ///
    /// # Errors
    /// [`Error::IndexOutOfBounds`], or as [`Array::attach`].
    pub fn array(&self, index: usize, access: Access) -> Result<Array> {
        let (at, count) = (index as i128, self.descriptors.len() as u64);
        let handle =
            self.descriptors.get(index).ok_or(Error::IndexOutOfBounds { index: at, count })?;
        Array::attach_descriptor(handle, access)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let is_own = self.forks == sys::fork::forks();
        for descriptor in self.descriptors.iter().chain(&self.body).filter(|_| is_own) {
            let _ = Array::discard_descriptor(descriptor); // of one that is gone there is nothing to give back
        }
        socket::take_back(std::mem::take(&mut self.payload), INLINE_BYTES);
    }
}
