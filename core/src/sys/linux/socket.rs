//! Socket pairs that carry whole messages, and fds with them.
//!
//! `SOCK_SEQPACKET`: a message is sent and received whole or not at all, so that a process that is
//! killed in the middle leaves no half of one to the next.

use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    sendmsg, socketpair, sockopt,
};

use super::scratch::Scratch;

/// The front of a message, by which its receiver prepares.
pub(crate) const FRONT_BYTES: usize = 16;
/// The most fds with one message.
pub(crate) const FDS_MOST: usize = 64;

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(FDS_MOST));

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Whether an fd is an end of such a pair.
pub(crate) fn is_one(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// Sends one message, whose pieces follow one another, at once; or fails with `WouldBlock` when
/// there is no room.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    with: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(with));
    }
    sendmsg(socket, pieces, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

thread_local! {
    /// Where this thread receives what it does not keep.
    static ROOM: Cell<Option<Scratch>> = const { Cell::new(None) };
    /// What it received last and needs no more. To have such memory anew each time took longer than
    /// the message.
    static USED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Takes back what `receive` gave its caller to keep.
pub(crate) fn take_back(kept: Vec<u8>, most_bytes: usize) {
    if kept.capacity() <= most_bytes {
        let _ = USED.try_with(|used| used.set(kept));
    }
}

/// What a message's receiver prepares.
pub(crate) struct Expected {
    /// How many fds there must be room for.
    pub(crate) fds: usize,
    /// How long the first part of the message is; the receiver keeps the second.
    pub(crate) first_bytes: usize,
}

/// Reads one message that is there, in two parts, with its fds; fails with `WouldBlock`
/// when there is none. It is empty when the other end is closed. `most_bytes` has no message more.
///
/// An fd that found no place would be lost, and with it what it keeps. So first `expect`
/// says of a message's front how many there must be room for: without room it fails with `EMFILE`,
/// and the message stays where it is.
pub(crate) fn receive<T>(
    socket: BorrowedFd<'_>,
    most_bytes: usize,
    expect: impl Fn(&[u8]) -> Expected,
    read: impl FnOnce(&[u8], Vec<u8>, Vec<OwnedFd>) -> T,
) -> io::Result<T> {
    let mut front = [0; FRONT_BYTES];
    let (bytes, total) =
        recv(socket, &mut front, RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT)?;
    let expected = expect(&front[..bytes]);
    find_room(socket, expected.fds)?;
    let mut room = match ROOM.try_with(Cell::take) {
        Ok(Some(room)) => room,
        _ => Scratch::new(most_bytes)?, // it is the first, or the thread is ending
    };
    let total = total.min(most_bytes);
    let (first, rest) = room.bytes_mut().split_at_mut(expected.first_bytes.min(total));
    let mut kept = USED.try_with(Cell::take).unwrap_or_default();
    kept.reserve_exact((total - first.len()).saturating_sub(kept.len()));
    kept.resize(total - first.len(), 0);
    let done = receive_into([&mut *first, &mut kept, rest], socket).map(|(bytes, fds)| {
        if bytes == total && expect(first).first_bytes.min(bytes) == first.len() {
            return read(first, kept, fds);
        }
        // Another receiver has taken the one that was looked at, and this is the next.
        let mut whole = [&*first, &kept, rest].concat();
        whole.truncate(bytes);
        let second = whole.split_off(expect(&whole).first_bytes.min(bytes));
        read(&whole, second, fds)
    });
    let _ = ROOM.try_with(|kept| kept.set(Some(room)));
    done
}

/// Whether there is room for so many fds now.
fn find_room(socket: BorrowedFd<'_>, count: usize) -> io::Result<()> {
    match count {
        0 => Ok(()),
        _ => {
            let _taken = socket.try_clone_to_owned()?;
            find_room(socket, count - 1)
        }
    }
}

fn receive_into(
    rooms: [&mut [u8]; 3],
    socket: BorrowedFd<'_>,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut rooms.map(IoSliceMut::new), &mut control, flags)?;
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = part {
            fds.extend(all);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into()); // another thread took the room, or another process that message
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message that is larger than any of ours",
        ));
    }
    Ok((received.bytes, fds))
}

/// Waits until `send` or `receive` may go on: `false` when the time is over. A signal ends it with
/// `Interrupted`.
pub(crate) fn wait(
    socket: BorrowedFd<'_>,
    to_send: bool,
    until: Option<Instant>,
) -> io::Result<bool> {
    let events = if to_send { PollFlags::OUT } else { PollFlags::IN };
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok()); // what does not fit is for ever
    Ok(poll(&mut [PollFd::from_borrowed_fd(socket, events)], left.as_ref())? > 0)
}

/// Whether the system has too many fds of this user's under way.
pub(crate) fn are_too_many(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error())
}

/// Whether a message is longer than the socket takes, or than the system has memory for in one
/// piece.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    [Errno::MSGSIZE, Errno::NOBUFS]
        .iter()
        .any(|reason| error.raw_os_error() == Some(reason.raw_os_error()))
}

/// Whether nobody can receive any more.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    [Errno::PIPE, Errno::CONNRESET]
        .iter()
        .any(|closed| error.raw_os_error() == Some(closed.raw_os_error()))
}
