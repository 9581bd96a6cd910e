//! Socket pairs that carry whole messages, and fds with them.
//!
//! `SOCK_SEQPACKET` sends and receives a message whole or not at all, so a process that is killed
//! in the middle leaves no partial message.

use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    sendmsg, socketpair, sockopt,
};

use super::scratch::Scratch;
use crate::system::shortage::reserve_for;
use crate::value::error::{Error, Result};

/// The bytes that a message begins with.
pub(crate) const MAGIC: &[u8; 4] = b"shmm";
/// The length of a message's front, from which its receiver learns what to prepare.
pub(crate) const FRONT_BYTES: usize = 16;
/// The maximum number of fds in one message.
pub(crate) const MAX_FDS: usize = 64;

/// Whether this process, or the one that forked it, has had an end of a pipe.
pub(super) static HAD_ENDS: AtomicBool = AtomicBool::new(false);

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(MAX_FDS));

/// Returns both ends of a new socket pair.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/socketpair.2.html
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    HAD_ENDS.store(true, Ordering::Relaxed);
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Whether an fd is an end of such a pair.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/getsockopt.2.html
pub(crate) fn is_one(socket: BorrowedFd<'_>) -> bool {
    HAD_ENDS.store(true, Ordering::Relaxed);
    sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// Sends the pieces, in order, as one message. Fails with `WouldBlock` if there is no room.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/sendmsg.2.html
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, pieces, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

thread_local! {
    /// The buffer into which this thread receives what it does not keep.
    static BUFFER: Cell<Option<Scratch>> = const { Cell::new(None) };
    /// A payload that this thread received and no longer needs. To allocate such memory for each
    /// message took longer than the message.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Takes back a payload that `receive` gave its caller.
pub(crate) fn take_back(payload: Vec<u8>, most_bytes: usize) {
    if payload.capacity() <= most_bytes {
        let _ = SPARE.try_with(|spare| spare.set(payload));
    }
}

/// The space that a message's receiver must provide.
pub(crate) struct Expected {
    /// The number of fds that must fit into this process's fd table.
    pub(crate) fds: usize,
    /// The length of the message's first part; the receiver keeps the second, the payload.
    pub(crate) first_bytes: usize,
}

/// Reads one message in two parts, with its fds. Fails with `WouldBlock` if none has come. Returns
/// an empty message if the other end is closed ([`has_ended`] says whether it is). `most_bytes` is
/// the limit of a message.
///
/// An fd that did not fit into the fd table would be lost, and with it what it keeps alive. So
/// `expect` first says from a message's front how many fds must fit. If they do not, this fails
/// with `EMFILE`, and the message stays in the socket.
///
/// # References
/// - [recv(2)]
/// - [recvmsg(2)]
///
/// [recv(2)]: https://man7.org/linux/man-pages/man2/recv.2.html [recvmsg(2)]:
/// https://man7.org/linux/man-pages/man2/recvmsg.2.html
pub(crate) fn receive<T>(
    socket: BorrowedFd<'_>,
    most_bytes: usize,
    expect: impl Fn(&[u8]) -> Expected,
    read: impl FnOnce(&[u8], Vec<u8>, Vec<OwnedFd>) -> T,
) -> Result<T> {
    let mut front = [0; FRONT_BYTES];
    let (bytes, total) =
        recv(socket, &mut front, RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT)
            .map_err(|error| failed("recv")(error.into()))?;
    let expected = expect(&front[..bytes]);
    check_fd_limit(socket, expected.fds).map_err(failed("fcntl(F_DUPFD_CLOEXEC)"))?;
    let mut buffer = match BUFFER.try_with(Cell::take) {
        Ok(Some(buffer)) => buffer,
        // The first message of this thread, or the thread is ending.
        _ => Scratch::new(most_bytes).map_err(failed("mmap"))?,
    };
    let total = total.min(most_bytes);
    let (first, rest) = buffer.bytes_mut().split_at_mut(expected.first_bytes.min(total));
    let mut payload = SPARE.try_with(Cell::take).unwrap_or_default();
    let missing = (total - first.len()).saturating_sub(payload.len());
    reserve_for("the payload of a message", &mut payload, missing)?;
    payload.resize(total - first.len(), 0);
    let done = receive_into([&mut *first, &mut payload, rest], socket).map(|(bytes, fds)| {
        if bytes == total && expect(first).first_bytes.min(bytes) == first.len() {
            return read(first, payload, fds);
        }
        // Another receiver took the message that was peeked at, and this is the next one.
        let mut whole = [&*first, &payload, rest].concat();
        whole.truncate(bytes);
        let second = whole.split_off(expect(&whole).first_bytes.min(bytes));
        read(&whole, second, fds)
    });
    let _ = BUFFER.try_with(|own| own.set(Some(buffer)));
    done.map_err(failed("recvmsg"))
}

fn failed(call: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::os(call, "", error)
}

/// Whether nothing more can be received, after `receive` returned an empty message: a process that
/// has the other end may also send one.
///
/// # References
/// - [poll(2)]
/// - [unix(7)], SIOCINQ
///
/// [poll(2)]: https://man7.org/linux/man-pages/man2/poll.2.html
/// [unix(7)]: https://man7.org/linux/man-pages/man7/unix.7.html
pub(crate) fn has_ended(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut end = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    poll(&mut end, Some(&Timespec::default()))?;
    let is_closed = end[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP);
    Ok(is_closed && ioctl_fionread(socket)? == 0)
}

/// Fails if this process cannot have `count` more fds now.
fn check_fd_limit(socket: BorrowedFd<'_>, count: usize) -> io::Result<()> {
    match count {
        0 => Ok(()),
        _ => {
            let _taken = socket.try_clone_to_owned()?;
            check_fd_limit(socket, count - 1)
        }
    }
}

fn receive_into(
    buffers: [&mut [u8]; 3],
    socket: BorrowedFd<'_>,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut buffers.map(IoSliceMut::new), &mut control, flags)?;
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = part {
            fds.extend(all);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        // Another thread used up the fd table, or another process took the message that was peeked
        // at.
        return Err(Errno::MFILE.into());
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message that is larger than any of ours",
        ));
    }
    Ok((received.bytes, fds))
}

/// Waits until `send` or `receive` may go on; returns `false` on timeout. A signal makes it fail
/// with `Interrupted`.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/poll.2.html
pub(crate) fn wait(
    socket: BorrowedFd<'_>,
    to_send: bool,
    until: Option<Instant>,
) -> io::Result<bool> {
    let events = if to_send { PollFlags::OUT } else { PollFlags::IN };
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A longer time than a timespec can hold is no limit.
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    Ok(poll(&mut [PollFd::from_borrowed_fd(socket, events)], left.as_ref())? > 0)
}

/// Whether too many fds of this user are in flight (ETOOMANYREFS).
pub(crate) fn is_too_many_fds(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error())
}

/// Whether a message is longer than the socket accepts, or than the contiguous memory that the
/// kernel can allocate for it.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    [Errno::MSGSIZE, Errno::NOBUFS]
        .iter()
        .any(|reason| error.raw_os_error() == Some(reason.raw_os_error()))
}

/// Whether the receiving end is closed.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    [Errno::PIPE, Errno::CONNRESET]
        .iter()
        .any(|closed| error.raw_os_error() == Some(closed.raw_os_error()))
}
