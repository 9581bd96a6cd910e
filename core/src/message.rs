//! Messages: arrays on their way from one process to another, held by tickets.
//!
//! A [`Pipe`] carries them. With each message goes a descriptor that keeps a byte of the registry
//! locked, and each of its arrays has an entry, or a link, that cites this byte: the ticket.
//! Whatever happens between `send` and `receive` the kernel knows whether anybody can still
//! receive: it drops the lock when the sender dies before it sent, when the receiver dies, and when
//! the last end of the pipe is closed. Nobody keeps books of who holds which end.
//!
//! | step | a crash after it leaves | given back by |
//! |---|---|---|
//! | send: ticket's byte locked | nothing: the kernel drops the lock | |
//! | send: entries and links made | tickets whose lock went with the sender | any sweep |
//! | send: message sent | tickets that hold: their lock is in the socket | the receiver, or the kernel and any sweep |
//! | receive: message taken | tickets whose lock went with the receiver | any sweep |
//! | receive: tickets given back, one by one | the rest of them, without their lock | any sweep |
//!
//! FORMAT.md has a message's bytes.
//!
//! A message is one packet, at most [`INLINE_BYTES`] with its header: so it is received whole or
//! not at all. A longer body goes through shared memory, too.

mod head;

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::array::{Array, Options};
use crate::descriptor::Descriptor;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::name::SegmentText;
use crate::segment;
use crate::shape::{Layout, Order};
use crate::sys::{self, Access, Directory, Identity, socket};
use head::{Body, HEADER_BYTES, Head, descriptors_needed};

/// The most bytes of a message that travel in the socket.
pub(crate) const INLINE_BYTES: usize = 32 << 10;
/// One end of a pipe that carries arrays and bytes, both ways.
///
/// Any number of processes may share an end: each message is received once, and whole. A message
/// that nobody can receive any more gives its arrays back.
///
/// ```
/// use shmarray::{Access, Array, DType, Options, Pipe, Received};
/// let (here, there) = Pipe::pair()?; // `there` goes to another process: by fork, exec or a socket
/// let frame = Array::create(DType::parse("<f4")?, &[480, 640], &Options::default())?;
/// here.send(b"frame 1", &[&frame], None)?;
/// drop(frame); // the message holds it
/// let Received::Message(message) = there.receive(None)? else { return Ok(()) };
/// let frame = message.array(0, Access::ReadOnly)?;
/// assert_eq!((message.payload(), frame.shape()), (&b"frame 1"[..], &[480, 640][..]));
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Debug)]
pub struct Pipe(OwnedFd);

/// What came of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is under way.
    Sent,
    /// There was no room for it in that time.
    TimedOut,
    /// Nobody has the other end.
    Closed,
}

/// What came of an attempt to receive.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Received {
    /// A message.
    Message(Message),
    /// None came in that time.
    TimedOut,
    /// Nobody has the other end, and all that was sent has been received.
    Closed,
}

impl Pipe {
    /// A new pipe: its two ends. Their descriptors close on exec.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn pair() -> Result<(Self, Self)> {
        let (one, other) = socket::pair().map_err(|error| Error::os("socketpair", "", error))?;
        Ok((Self(one), Self(other)))
    }

    /// An end that came from another process.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the descriptor is not an end of such a pipe.
    pub fn from_fd(descriptor: OwnedFd) -> Result<Self> {
        match socket::is_one(descriptor.as_fd()) {
            true => Ok(Self(descriptor)),
            false => Err(Error::argument("descriptor", "it is not an end of a pipe that carries arrays")),
        }
    }

    /// Sends arrays and bytes. Until they are received the message holds the arrays.
    ///
    /// Without a timeout it waits until there is room.
    ///
    /// # Errors
    /// [`Error::Os`], with `EINTR` when a signal ended the wait. Then nothing was sent. A long payload
    /// that finds no room in shared memory goes beside it: see [`in_band_bytes`].
    pub fn send(&self, payload: &[u8], arrays: &[&Array], timeout: Option<Duration>) -> Result<Sent> {
        self.send_with(payload, arrays, &[], timeout)
    }

    /// Sends arrays, bytes and copies of descriptors, which the receiver can
    /// [take](Message::take_descriptors).
    ///
    /// # Errors
    /// As [`Pipe::send`]; [`Error::InvalidArgument`] when there are too many of them for one message;
    /// [`Error::Os`] when the system lets this user have no more descriptors under way.
    pub fn send_with(
        &self,
        payload: &[u8],
        arrays: &[&Array],
        descriptors: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Sent> {
        segment::begin()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let outgoing = Outgoing::new(payload, arrays, descriptors.len(), Way::Pipe)?;
        match self.send_whole(outgoing, descriptors, until) {
            Err(Error::Os { source, .. }) if socket::are_too_many(&source) && descriptors.is_empty() => {
                // The system lets this user have no more descriptors under way: the family holds instead.
                self.send_whole(Outgoing::new(payload, arrays, 0, Way::Unknown)?, &[], until)
            }
            done => done,
        }
    }

    fn send_whole(
        &self,
        mut outgoing: Outgoing,
        descriptors: &[BorrowedFd<'_>],
        until: Option<Instant>,
    ) -> Result<Sent> {
        let locks = outgoing.locks.iter().map(AsFd::as_fd);
        let with: Vec<_> =
            locks.chain(descriptors.iter().copied()).chain(outgoing.file.as_ref().map(AsFd::as_fd)).collect();
        if with.len() > socket::DESCRIPTORS_MOST {
            let most = socket::DESCRIPTORS_MOST;
            return Err(Error::argument(
                "descriptors",
                format!("{} are more than the {most} of a message", with.len()),
            ));
        }
        loop {
            match socket::send(self.as_fd(), &outgoing.packet, &with) {
                Ok(()) => {
                    drop(with);
                    outgoing.held.clear(); // the message's now
                    return Ok(Sent::Sent);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if !self.wait(true, until)? {
                        return Ok(Sent::TimedOut);
                    }
                }
                Err(error) if socket::is_closed(&error) => return Ok(Sent::Closed),
                Err(error) => return Err(Error::os("sendmsg", "", error)),
            }
        }
    }

    /// Receives a message. Without a timeout it waits until there is one, or there can be none.
    ///
    /// # Errors
    /// [`Error::Os`], with `EINTR` when a signal ended the wait, and with `EMFILE` when this process
    /// has no descriptor left: then nothing was received. [`Error::InvalidArgument`] when what came
    /// is no message.
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Received> {
        segment::begin()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let read = |packet: &[u8], locks| match packet.is_empty() {
                true => Ok(Received::Closed),
                false => Message::read(packet, locks).map(Received::Message),
            };
            match socket::receive(self.as_fd(), INLINE_BYTES, descriptors_needed, read) {
                Ok(received) => {
                    segment::look(&Directory::current(), segment::When::Received);
                    return received;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if !self.wait(false, until)? {
                        return Ok(Received::TimedOut);
                    }
                }
                Err(error) if socket::is_closed(&error) => {} // told once, before what is still there to receive
                Err(error) => return Err(Error::os("recvmsg", "", error)),
            }
        }
    }

    fn wait(&self, to_send: bool, until: Option<Instant>) -> Result<bool> {
        socket::wait(self.as_fd(), to_send, until).map_err(|error| Error::os("poll", "", error))
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Pipe> for OwnedFd {
    fn from(pipe: Pipe) -> Self {
        pipe.0
    }
}

/// This process's family, and a descriptor that keeps it.
///
/// What was sent out of band, by [`Array::handle_to_send`], is held as long as a process of its sender's
/// family lives. A forked process is of its parent's family. A launcher that starts programs tells
/// them the number in the environment, `SHMARRAY_FAMILY`; a program is of that family from its first
/// use of shared memory on, and until then the descriptor, which the launcher hands to it, stands for it.
///
/// # Errors
/// [`Error::Os`] when the registry cannot be had.
pub fn family() -> Result<(u64, OwnedFd)> {
    segment::begin()?;
    sys::keep_family(&Directory::current())
}

/// Arrays and bytes that were received.
///
/// It holds its arrays until it is dropped; those that were attached by then live on by themselves.
#[derive(Debug)]
pub struct Message {
    payload: Vec<u8>,
    handles: Vec<Descriptor>,
    /// The handle of the body, where that came in shared memory.
    body: Option<Descriptor>,
    /// Those that the sender added.
    descriptors: Vec<OwnedFd>,
    /// What keeps the tickets; closed after they were given back.
    _locks: Vec<OwnedFd>,
}

impl Message {
    fn read(packet: &[u8], mut locks: Vec<OwnedFd>) -> Result<Self> {
        let Head { body, descriptors, arrays, handles_bytes, .. } = Head::read(packet)?;
        let file = if body == Body::File { locks.pop() } else { None };
        let own = locks.len().checked_sub(descriptors).ok_or_else(|| no_message("its descriptors are not with it"))?;
        let descriptors = locks.split_off(own);
        let mut message = Self { payload: Vec::new(), handles: Vec::new(), body: None, descriptors, _locks: locks };
        let inline = &packet[HEADER_BYTES..];
        let body = match file {
            Some(file) => Cow::Owned(sys::read_memory_file(file).map_err(|error| Error::os("read", "", error))?),
            None if body == Body::Array => {
                let handle = message.body.insert(Descriptor::parse(text(inline)?)?);
                Cow::Owned(Array::attach_handle(handle, Access::ReadOnly)?.to_bytes())
            }
            None => Cow::Borrowed(inline),
        };
        let lines = body.get(..handles_bytes).ok_or_else(|| no_message("its handles are cut"))?;
        for line in text(lines)?.lines() {
            message.handles.push(Descriptor::parse(line)?); // what follows an error is given back by a sweep
        }
        match message.handles.len() == arrays {
            true => message.payload.extend_from_slice(&body[handles_bytes..]),
            false => return Err(no_message("it has not as many handles as it says")),
        }
        Ok(message)
    }

    /// The bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The handles of the arrays.
    #[must_use]
    pub fn handles(&self) -> &[Descriptor] {
        &self.handles
    }

    /// The descriptors that the sender added, which are the caller's from now on.
    #[must_use]
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    /// One of the arrays.
    ///
    /// # Errors
    /// [`Error::IndexOutOfBounds`], or as [`Array::attach`].
    pub fn array(&self, index: usize, access: Access) -> Result<Array> {
        let (at, count) = (index as i128, self.handles.len() as u64);
        let handle = self.handles.get(index).ok_or(Error::IndexOutOfBounds { index: at, count })?;
        Array::attach_handle(handle, access)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        for handle in self.handles.iter().chain(&self.body) {
            let _ = Array::discard_handle(handle); // of one that is gone there is nothing to give back
        }
    }
}

fn no_message(reason: &str) -> Error {
    Error::argument("message", reason)
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| no_message(&error.to_string()))
}

/// How a message will go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With the descriptors that keep its tickets.
    Pipe,
    /// Without: the family of this process keeps them.
    Unknown,
}

/// A message that is being made. Dropped before it is sent it gives its tickets back.
struct Outgoing {
    packet: Vec<u8>,
    /// What keeps the tickets, one for each directory.
    locks: Vec<OwnedFd>,
    /// A long body that found no room in shared memory.
    file: Option<OwnedFd>,
    /// Of each directory.
    tickets: Vec<(Directory, Identity)>,
    held: FxHashMap<SegmentText, (Array, u64)>,
    way: Way,
}

impl Outgoing {
    fn new(payload: &[u8], arrays: &[&Array], descriptors: usize, way: Way) -> Result<Self> {
        let (tickets, held) = (Vec::new(), FxHashMap::default());
        let mut outgoing = Self { packet: Vec::new(), locks: Vec::new(), file: None, tickets, held, way };
        let mut handles = String::with_capacity(arrays.len() * 256);
        for array in arrays {
            outgoing.hold(array)?.write_text(&mut handles);
            handles.push('\n');
        }
        let handles_bytes = u32::try_from(handles.len()).map_err(|_| no_message("its handles are over 4 GiB"))?;
        let inline = HEADER_BYTES + handles.len() + payload.len() <= INLINE_BYTES;
        let mut body = handles.into_bytes();
        if !inline {
            body.extend_from_slice(payload);
            body = outgoing.place(&body)?;
        }
        let head = Head {
            locks: outgoing.locks.len(),
            descriptors,
            body: match inline {
                true => Body::Inline,
                false if outgoing.file.is_some() => Body::File,
                false => Body::Array,
            },
            arrays: arrays.len(),
            handles_bytes: handles_bytes as usize,
        };
        let mut packet = Vec::with_capacity(HEADER_BYTES + body.len() + payload.len());
        packet.extend_from_slice(&head.to_bytes());
        packet.extend_from_slice(&body);
        packet.extend_from_slice(if inline { payload } else { &[] });
        outgoing.packet = packet;
        Ok(outgoing)
    }

    /// The handle of an array that this message holds from now on.
    fn hold(&mut self, array: &Array) -> Result<Descriptor> {
        let handle = array.handle();
        let ticket = match self.held.get(&handle.segment) {
            Some((_, ticket)) => *ticket,
            None => self.hold_segment(array)?,
        };
        Ok(Descriptor { ticket: Some(ticket), ..handle })
    }

    fn hold_segment(&mut self, array: &Array) -> Result<u64> {
        loop {
            let ticket = self.ticket(array.directory())?;
            if array.hold_for_message(ticket)? {
                self.held.insert(array.handle().segment, (array.clone(), ticket.holder));
                return Ok(ticket.holder);
            }
            self.tickets.retain(|(directory, _)| directory != array.directory()); // that number is taken: another
        }
    }

    fn ticket(&mut self, directory: &Directory) -> Result<Identity> {
        if let Some((_, ticket)) = self.tickets.iter().find(|(of, _)| of == directory) {
            return Ok(*ticket);
        }
        let ticket = match self.way {
            Way::Unknown => sys::family_message(directory)?,
            Way::Pipe if self.locks.len() == socket::DESCRIPTORS_MOST => {
                return Err(no_message("its arrays lie in too many directories"));
            }
            Way::Pipe => {
                let (ticket, lock) = sys::message(directory)?;
                self.locks.push(lock);
                ticket
            }
        };
        self.tickets.push((directory.clone(), ticket));
        Ok(ticket)
    }

    /// What stands for a long body: the handle of shared memory with it; nothing where there is no room,
    /// and it goes in a file without a name, that no file system limits.
    fn place(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        match self.share(body) {
            Ok(handle) => Ok(handle.into_bytes()),
            Err(error) => {
                self.file = Some(sys::memory_file(body).map_err(|_| error)?);
                IN_BAND.fetch_add(body.len() as u64, Ordering::Relaxed);
                Ok(Vec::new())
            }
        }
    }

    /// The handle of shared memory with a long body.
    #[allow(unsafe_code)]
    fn share(&mut self, body: &[u8]) -> Result<String> {
        let layout = Layout::contiguous(&[body.len() as u64], 1, Order::C)?;
        // SAFETY: `body` has the elements that the layout describes.
        let shared = unsafe { Array::share(body.as_ptr(), DType::parse("|u1")?, &layout, &Options::default()) }?;
        self.hold(&shared).map(|handle| handle.to_text())
    }
}

/// See [`in_band_bytes`].
static IN_BAND: AtomicU64 = AtomicU64::new(0);

/// Bytes of messages that this process sent beside shared memory so far, because that had no room for
/// them. They arrive all the same, and are copied once more.
#[must_use]
pub fn in_band_bytes() -> u64 {
    IN_BAND.load(Ordering::Relaxed)
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        for (array, ticket) in self.held.values() {
            array.give_back_ticket(*ticket);
        }
    }
}
