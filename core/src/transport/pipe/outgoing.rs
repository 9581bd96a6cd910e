//! A message that is being sent.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::head::{Body, HEADER_BYTES, Head, no_message};
use crate::array::{Array, Options};
use crate::memory::operation::Operation;
use crate::system::{self, Directory, OwnedFd, Owner, socket};
use crate::value::descriptor::Descriptor;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::name::SegmentText;

/// The holder of a message's tickets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TicketHolder {
    /// The fds that go with it.
    Fds,
    /// The family of this process. The message is sent without such fds.
    Family,
}

/// Options of a send.
#[derive(Clone, Copy)]
pub(super) struct SendOptions {
    pub(super) ticket_holder: TicketHolder,
    /// The most bytes of a packet. A longer body goes through shared memory.
    pub(super) inline_bytes: usize,
}

/// A message that is being made. If it is dropped before it is sent it gives its tickets back.
pub(super) struct Outgoing<'a> {
    operation: Operation,
    head: [u8; HEADER_BYTES],
    /// The handles, or the handle of the body.
    handles: Vec<u8>,
    /// The payload, if it goes behind the handles.
    payload: &'a [&'a [u8]],
    /// The fds that keep the tickets, one for each directory.
    pub(super) locks: Vec<OwnedFd>,
    /// A long body that found no room in shared memory.
    pub(super) file: Option<OwnedFd>,
    /// The ticket for each directory.
    tickets: Vec<(Directory, Owner)>,
    pub(super) held: FxHashMap<SegmentText, (Array, u64)>,
    ticket_holder: TicketHolder,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(
        operation: Operation,
        payload: &'a [&'a [u8]],
        arrays: &[&Array],
        fds: usize,
        options: SendOptions,
    ) -> Result<Self> {
        let mut outgoing = Self {
            operation,
            head: [0; HEADER_BYTES],
            handles: Vec::new(),
            payload,
            locks: Vec::new(),
            file: None,
            tickets: Vec::new(),
            held: FxHashMap::default(),
            ticket_holder: options.ticket_holder,
        };
        let handles_bytes = outgoing.hold_all(arrays)?;
        let payload_bytes: usize = payload.iter().map(|piece| piece.len()).sum();
        let body = if HEADER_BYTES + handles_bytes + payload_bytes <= options.inline_bytes {
            Body::Inline
        } else {
            outgoing.place(handles_bytes + payload_bytes)?
        };
        let locks = outgoing.locks.len();
        outgoing.head = Head { locks, fds, body, arrays: arrays.len(), handles_bytes }.to_bytes();
        Ok(outgoing)
    }

    /// Returns the bytes that go into the socket.
    pub(super) fn pieces(&self) -> Vec<IoSlice<'_>> {
        [&self.head, &*self.handles]
            .into_iter()
            .chain(self.payload.iter().copied())
            .map(IoSlice::new)
            .collect()
    }

    /// Holds all arrays and stores their handles. Returns the size of the handles in bytes.
    fn hold_all(&mut self, arrays: &[&Array]) -> Result<usize> {
        for array in arrays {
            let mut handle = self.hold(array)?.to_handle();
            handle.push('\n');
            system::reserve_for("the handles of a message", &mut self.handles, handle.len())?;
            self.handles.extend(handle.as_bytes());
        }
        let bytes = self.handles.len();
        u32::try_from(bytes).map_err(|_| no_message("its handles are over 4 GiB"))?;
        Ok(bytes)
    }

    /// Makes the message hold an array. Returns its descriptor with the ticket.
    fn hold(&mut self, array: &Array) -> Result<Descriptor> {
        let descriptor = array.descriptor();
        let ticket = match self.held.get(&descriptor.segment) {
            Some((_, ticket)) => *ticket,
            None => self.hold_segment(array)?,
        };
        Ok(Descriptor { ticket: Some(ticket), ..descriptor })
    }

    fn hold_segment(&mut self, array: &Array) -> Result<u64> {
        system::check_headroom()?; // for the small parts of its handle
        self.held.try_reserve(1).map_err(|_| Error::NoMemory {
            bytes: (self.held.len() * size_of::<(SegmentText, (Array, u64))>()) as u64,
            purpose: "the tickets of a message",
        })?;
        loop {
            let ticket = self.ticket(array.directory())?;
            if array.hold_for_message(self.operation, ticket)? {
                self.held.insert(array.descriptor().segment, (array.clone(), ticket.id));
                return Ok(ticket.id);
            }
            // A hold with that number exists already: another number is needed.
            self.tickets.retain(|(directory, _)| directory != array.directory());
        }
    }

    fn ticket(&mut self, directory: &Directory) -> Result<Owner> {
        if let Some((_, ticket)) = self.tickets.iter().find(|(of, _)| of == directory) {
            return Ok(*ticket);
        }
        let ticket = match self.ticket_holder {
            TicketHolder::Family => system::family_message(directory)?,
            TicketHolder::Fds if self.locks.len() == socket::MAX_FDS => {
                return Err(no_message("its arrays lie in too many directories"));
            }
            TicketHolder::Fds => {
                let (ticket, lock) = system::message(directory)?;
                self.locks.push(lock);
                ticket
            }
        };
        self.tickets.push((directory.clone(), ticket));
        Ok(ticket)
    }

    /// Moves a long body to shared memory and leaves its handle. If there is no room, moves it to a
    /// file without a name, which no file system limits.
    fn place(&mut self, bytes: usize) -> Result<Body> {
        match self.share(bytes) {
            Ok(handle) => {
                (self.handles, self.payload) = (handle.into_bytes(), &[]);
                Ok(Body::Array)
            }
            Err(error) => {
                let pieces: Vec<&[u8]> =
                    [&*self.handles].into_iter().chain(self.payload.iter().copied()).collect();
                self.file = Some(system::memory_file(&pieces).map_err(|_| error)?);
                (self.handles, self.payload) = (Vec::new(), &[]);
                IN_BAND.fetch_add(bytes as u64, Ordering::Relaxed);
                Ok(Body::File)
            }
        }
    }

    /// Copies the body, of so many bytes, to shared memory. Returns its handle.
    #[allow(unsafe_code)]
    fn share(&mut self, bytes: usize) -> Result<String> {
        let options = Options::new().uninitialized(true);
        let shared = Array::create(DType::parse("|u1")?, &[bytes as u64], &options)?;
        let mut at = 0;
        for piece in [&*self.handles].into_iter().chain(self.payload.iter().copied()) {
            // SAFETY: `write_bytes` needs a piece that does not overlap the array: the array was
            // created here, and no other thread or process has it yet.
            unsafe { shared.write_bytes(at, piece) }?;
            at += piece.len() as u64;
        }
        self.hold(&shared).map(|handle| handle.to_handle())
    }
}

/// The count that [`in_band_bytes`] returns.
static IN_BAND: AtomicU64 = AtomicU64::new(0);

/// Returns the number of bytes that this process has sent in messages without shared memory so far,
/// because there was no room. Such messages arrive, too; their bytes are copied once more.
#[must_use]
pub fn in_band_bytes() -> u64 {
    IN_BAND.load(Ordering::Relaxed)
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        for (array, ticket) in self.held.values() {
            array.release_ticket(*ticket);
        }
    }
}
