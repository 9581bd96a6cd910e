//! A message that was received.

use super::head::{Body, HEADER_BYTES, Head, INLINE_BYTES, no_message, text};
use crate::array::Array;
use crate::system::{self, Access, OwnedFd, socket};
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};

/// The arrays and bytes of a received message.
///
/// It holds its arrays until it is dropped; an array that was attached by then lives on by itself.
/// It belongs to the process that received it: what a forked child does with its copy has no
/// effect.
#[derive(Debug)]
pub struct Message {
    payload: Vec<u8>,
    descriptors: Vec<Descriptor>,
    /// The handle of the body, if the body came in shared memory.
    body: Option<Descriptor>,
    /// The fds that the sender added.
    fds: Vec<OwnedFd>,
    /// The fds that keep the tickets. They are closed after the tickets were given back.
    _locks: Vec<OwnedFd>,
    /// The number of forks when it was received: a forked child's copy gives nothing back.
    forks: u32,
}

impl Message {
    /// Reads a packet, which was received in two parts: the head and the handles, or all that is no
    /// payload; and the payload behind them.
    pub(super) fn read(packet: &[u8], payload: Vec<u8>, mut locks: Vec<OwnedFd>) -> Result<Self> {
        let Head { body, fds, arrays, handles_bytes, .. } = Head::read(packet)?;
        let file = if body == Body::File { locks.pop() } else { None };
        let own =
            locks.len().checked_sub(fds).ok_or_else(|| no_message("its fds are not with it"))?;
        let fds = locks.split_off(own);
        let descriptors = Vec::new();
        let forks = system::forks();
        let mut message = Self { payload, descriptors, body: None, fds, _locks: locks, forks };
        let inline = &packet[HEADER_BYTES..];
        let handles = match file {
            Some(file) => {
                message.payload =
                    system::read_memory_file(file).map_err(|error| Error::os("read", "", error))?;
                message.split_handles(handles_bytes)?
            }
            None if body == Body::Array => {
                let handle = message.body.insert(Descriptor::parse(text(inline)?)?);
                // A mapping to read and write is cached for the next message, and a read-only one
                // is not.
                message.payload =
                    Array::attach_descriptor(handle, Access::ReadWrite)?.to_bytes()?;
                message.split_handles(handles_bytes)?
            }
            None => inline.to_vec(),
        };
        if handles.len() != handles_bytes {
            return Err(no_message("its handles are cut"));
        }
        for line in text(&handles)?.lines() {
            // Tickets of handles that follow an error are given back by a sweep.
            system::check_headroom()?; // for the small parts of a descriptor
            system::reserve_for("the handles of a message", &mut message.descriptors, 1)?;
            message.descriptors.push(Descriptor::parse(line)?);
        }
        if message.descriptors.len() == arrays {
            Ok(message)
        } else {
            Err(no_message("its number of handles is not the one in its head"))
        }
    }

    /// Takes the handles off the front of a payload.
    fn split_handles(&mut self, bytes: usize) -> Result<Vec<u8>> {
        if bytes <= self.payload.len() {
            let mut handles = system::room_for("the handles of a message", bytes as u64)?;
            handles.extend(self.payload.drain(..bytes));
            Ok(handles)
        } else {
            Err(no_message("its handles are cut"))
        }
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns the descriptors of the arrays.
    #[must_use]
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// Takes the fds that the sender added. They are the caller's from now on.
    #[must_use]
    pub fn take_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }

    /// Attaches one of the arrays.
    ///
    /// # Errors
    /// [`Error::IndexOutOfBounds`], or as for [`Array::attach`].
    pub fn array(&self, index: usize, access: Access) -> Result<Array> {
        let at = index as i128;
        let count = self.descriptors.len() as u64;
        let handle =
            self.descriptors.get(index).ok_or(Error::IndexOutOfBounds { index: at, count })?;
        Array::attach_descriptor(handle, access)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let is_own = self.forks == system::forks();
        for descriptor in self.descriptors.iter().chain(&self.body).filter(|_| is_own) {
            // An array that is gone has nothing to give back.
            let _ = Array::discard_descriptor(descriptor);
        }
        socket::take_back(std::mem::take(&mut self.payload), INLINE_BYTES);
    }
}
