//! A pipe: it carries messages, whose arrays are held by tickets on their way.
//!
//! With each message goes an fd that keeps a byte of the registry locked, and each of its arrays
//! has an entry, or a link, that names this byte: the ticket. So the kernel knows at any time
//! between `send` and `receive` whether anybody can still receive: it drops the lock when the
//! sender dies before it has sent, when the receiver dies, and when the last end of the pipe is
//! closed. No process keeps a record of who has which end.
//!
//! What a crash leaves after each step, and what gives it back:
//! * Send, the ticket's byte is locked: nothing, because the kernel drops the lock.
//! * Send, entries and links are made: tickets whose lock went with the sender. Any sweep.
//! * Send, the message is sent: tickets that hold, since their lock is in the socket. The receiver,
//!   or the kernel and any sweep.
//! * Receive, the message is taken: tickets whose lock went with the receiver. Any sweep.
//! * Receive, the tickets are given back, one by one: the rest of them, without their lock. Any
//!   sweep.
//!
//! FORMAT.md specifies the bytes of a message.
//!
//! A message is one packet, of at most [`INLINE_BYTES`] with its header, so it is received as a
//! whole or not at all. A longer body goes through shared memory as well.

mod head;
mod incoming;
mod outgoing;

use std::fmt;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::check_system;
use super::spins::Spins;
use crate::array::Array;
use crate::memory::operation::Operation;
use crate::memory::sweep::{self, Occasion};
use crate::system::{self, AsFd, BorrowedFd, Directory, OwnedFd, socket};
use crate::value::error::{Error, Result};
use head::{INLINE_BYTES, expected, no_message};
pub use incoming::Message;
pub use outgoing::in_band_bytes;
use outgoing::{Outgoing, SendOptions, TicketHolder};

/// One end of a pipe that carries arrays and bytes in both directions.
///
/// Any number of processes may share an end. Each message is received once, and as a whole. A
/// message that no process can receive any more releases its arrays.
///
/// ```
/// use shmarray::{Access, Array, DType, Options, Pipe, Received};
/// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
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
pub struct Pipe {
    fd: OwnedFd,
    spins: Spins,
}

const PIPES: &str = "pipes for arrays, on this platform";

/// The outcome of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// The message is in the pipe.
    Sent,
    /// There was no room in the pipe in that time.
    TimedOut,
    /// No process has the other end.
    Closed,
}

/// The outcome of an attempt to receive.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
#[non_exhaustive]
pub enum Received {
    /// A message.
    Message(Message),
    /// No message came in that time.
    TimedOut,
    /// No process has the other end, and all that was sent has been received.
    Closed,
}

const CLOSED: &str = "nobody has the other end of the pipe";

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sent => "the message was sent",
            Self::TimedOut => "the pipe had no room in that time",
            Self::Closed => CLOSED,
        })
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message(_) => "a message was received",
            Self::TimedOut => "no message came in that time",
            Self::Closed => CLOSED,
        })
    }
}

impl Pipe {
    /// Makes a pipe and returns its two ends. Their fds close on exec.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::Unsupported`] except on Linux.
    pub fn pair() -> Result<(Self, Self)> {
        check_system(PIPES)?;
        let (one, other) = socket::pair().map_err(|error| Error::os("socketpair", "", error))?;
        let spins = || Spins::with(0);
        Ok((Self { fd: one, spins: spins() }, Self { fd: other, spins: spins() }))
    }

    /// Returns an end that came from another process.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the fd is not an end of such a pipe; [`Error::Unsupported`]
    /// except on Linux.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        check_system(PIPES)?;
        if socket::is_one(fd.as_fd()) {
            Ok(Self { fd, spins: Spins::with(0) })
        } else {
            Err(Error::argument("fd", "it is not an end of a pipe that carries arrays"))
        }
    }

    /// Sends arrays and bytes. The message holds the arrays until it is received.
    ///
    /// Without a timeout it waits until there is room in the pipe.
    ///
    /// # Errors
    /// [`Error::Os`], with `EINTR` when a signal ended the wait. Then nothing was sent. A long
    /// payload that finds no room in shared memory is sent in band: see [`in_band_bytes`].
    pub fn send(
        &self,
        payload: &[u8],
        arrays: &[&Array],
        timeout: Option<Duration>,
    ) -> Result<Sent> {
        self.send_with(payload, arrays, &[], timeout)
    }

    /// Sends arrays, bytes and copies of fds, which the receiver can [take](Message::take_fds).
    ///
    /// # Errors
    /// As for [`Pipe::send`]; [`Error::InvalidArgument`] when there are more fds than a message can
    /// carry; [`Error::Os`] when the system allows this user no more fds in sockets.
    pub fn send_with(
        &self,
        payload: &[u8],
        arrays: &[&Array],
        fds: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Sent> {
        self.send_vectored(&[payload], arrays, fds, timeout)
    }

    /// Sends what [`Pipe::send_with`] does, with a payload in pieces, which are received as one.
    /// The caller need not join them.
    ///
    /// # Errors
    /// As for [`Pipe::send_with`].
    pub fn send_vectored(
        &self,
        payload: &[&[u8]],
        arrays: &[&Array],
        fds: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Sent> {
        let operation = Operation::enter()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut options =
            SendOptions { ticket_holder: TicketHolder::Fds, inline_bytes: INLINE_BYTES };
        loop {
            let outgoing = Outgoing::new(operation, payload, arrays, fds.len(), options)?;
            match self.send_whole(outgoing, fds, until) {
                Err(Error::Os { source, .. })
                    if options.ticket_holder == TicketHolder::Fds
                        && socket::is_too_many_fds(&source) =>
                {
                    if !fds.is_empty() {
                        return Err(Error::os("sendmsg", "", source));
                    }
                    // No more fds may be in sockets, so the family holds the tickets instead.
                    options.ticket_holder = TicketHolder::Family;
                }
                Err(Error::Os { source, .. })
                    if options.inline_bytes > 0 && socket::is_too_long(&source) =>
                {
                    options.inline_bytes = 0;
                }
                done => return done,
            }
        }
    }

    fn send_whole(
        &self,
        mut outgoing: Outgoing<'_>,
        fds: &[BorrowedFd<'_>],
        until: Option<Instant>,
    ) -> Result<Sent> {
        let locks = outgoing.locks.iter().map(AsFd::as_fd);
        let with: Vec<_> = locks
            .chain(fds.iter().copied())
            .chain(outgoing.file.as_ref().map(AsFd::as_fd))
            .collect();
        if with.len() > socket::MAX_FDS {
            let most = socket::MAX_FDS;
            return Err(Error::argument(
                "fds",
                format!("{} are more than the {most} of a message", with.len()),
            ));
        }
        let pieces = outgoing.pieces();
        loop {
            match socket::send(self.as_fd(), &pieces, &with) {
                Ok(()) => {
                    drop((with, pieces));
                    outgoing.held.clear(); // the message's now
                    return Ok(Sent::Sent);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
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
    /// [`Error::Os`], with `EINTR` when a signal ended the wait, and with `EMFILE` when this
    /// process has no fd left: then nothing was received. [`Error::InvalidArgument`] when the
    /// packet is no message.
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Received> {
        let _operation = Operation::enter()?;
        if timeout == Some(Duration::ZERO) {
            return Ok(self.receive_now()?.unwrap_or(Received::TimedOut));
        }
        // A look is a system call, and takes several times as long as one at memory.
        let looks = self.spins.count() / 4;
        for look in 0..looks {
            if let Some(received) = self.receive_now()? {
                if look > 0 {
                    self.spins.note(true);
                }
                return Ok(received);
            }
            std::thread::yield_now(); // the sender may wait for this processor
        }
        let began = Instant::now();
        let received = self.receive_by(timeout.and_then(|timeout| began.checked_add(timeout)));
        self.spins.note_sleep(matches!(received, Ok(Received::Message(_))), began.elapsed());
        received
    }

    /// Sleeps until there is a message, or the time is over.
    fn receive_by(&self, until: Option<Instant>) -> Result<Received> {
        loop {
            if let Some(received) = self.receive_now()? {
                return Ok(received);
            }
            if !self.wait(false, until)? {
                return Ok(Received::TimedOut);
            }
        }
    }

    /// Receives a message, or the end, if there is one.
    fn receive_now(&self) -> Result<Option<Received>> {
        loop {
            let read = |packet: &[u8], payload, locks| {
                if packet.is_empty() {
                    Ok(None)
                } else {
                    Message::read(packet, payload, locks).map(Some)
                }
            };
            match socket::receive(self.as_fd(), INLINE_BYTES, expected, read) {
                Ok(received) => {
                    sweep::check(&Directory::current(), Occasion::Received);
                    return match received? {
                        Some(message) => Ok(Some(Received::Message(message))),
                        None => self.ended().map(Some),
                    };
                }
                Err(Error::Os { source, .. }) if source.kind() == ErrorKind::WouldBlock => {
                    return Ok(None);
                }
                // Reported once, before what can still be received.
                Err(Error::Os { source, .. }) if socket::is_closed(&source) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What an empty packet means: the end, or a packet that another program sent.
    fn ended(&self) -> Result<Received> {
        match socket::has_ended(self.as_fd()) {
            Ok(true) => Ok(Received::Closed),
            Ok(false) => Err(no_message("it is empty")),
            Err(error) => Err(Error::os("poll", "", error)),
        }
    }

    pub(super) fn wait(&self, to_send: bool, until: Option<Instant>) -> Result<bool> {
        socket::wait(self.as_fd(), to_send, until).map_err(|error| Error::os("poll", "", error))
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Pipe> for OwnedFd {
    fn from(pipe: Pipe) -> Self {
        pipe.fd
    }
}

/// Returns this process's family, and an fd that keeps it alive.
///
/// An array that was sent out of band, by [`Array::handle_to_send`], is held as long as a process
/// of its sender's family lives. A forked process is of its parent's family. A launcher that starts
/// programs passes them the number in the environment, `SHMARRAY_FAMILY`. A program is of that
/// family from its first use of shared memory on; until then the fd, which the launcher passes to
/// it, keeps the family alive.
///
/// # Errors
/// [`Error::Os`] when there is no access to the registry.
pub fn family() -> Result<(u64, OwnedFd)> {
    let _operation = Operation::enter()?;
    system::keep_family(&Directory::current())
}
