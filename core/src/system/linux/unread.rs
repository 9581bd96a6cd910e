//! The exit of a process closes its ends of the pipes in which messages wait.
//!
//! The kernel closes them after the exit handlers, and only then drops the locks of the messages
//! that nobody can receive any more. Nobody would be there to give their arrays back. So the exit
//! closes these ends itself, and sweeps afterwards. An end that another process has, too, stays
//! open there, with its messages.
//!
//! No record is kept of who has which end (`pipe`), so the ends are found in the fd table, by
//! the messages in them.
#![allow(unsafe_code)] // fds that are known by their numbers

use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{DupFlags, dup3};
use rustix::net::{RecvFlags, recv};

use super::socket::{HAD_ENDS, MAGIC, is_one, pair};

/// Called at exit: closes the ends of pipes in which a message waits. Returns whether this process
/// has had an end at all: the program may have closed others, with messages in them.
///
/// Another thread may still use an end, so its fd does not become free for another file: it becomes
/// an end of a pipe that is closed.
pub(crate) fn close_unread() -> bool {
    if !HAD_ENDS.load(Ordering::Relaxed) {
        return false;
    }
    let unread: Vec<RawFd> = readable_fds().into_iter().filter(|fd| has_message(*fd)).collect();
    let closed = if unread.is_empty() { None } else { pair().ok() };
    for (fd, (closed, _)) in unread.into_iter().zip(closed.iter().cycle()) {
        // SAFETY: an owned fd must be open and belong to nobody else. It is one of this process,
        // found open by `has_message` just now, and is never dropped here: its owner is not told,
        // and has an open fd before and after.
        let mut end = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let _ = dup3(closed, &mut end, DupFlags::CLOEXEC); // else it is left to a sweep
    }
    true
}

/// Returns the fds of this process that can be read now; none where there is no `/proc`.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/poll.2.html
fn readable_fds() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let open: Vec<RawFd> = entries.flatten().filter_map(number).collect();
    // SAFETY: the fds must stay open while they are borrowed. The table named them just now. One
    // that another thread closes meanwhile is POLLNVAL, or another file that is only asked.
    let borrowed = open.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) });
    let mut asked: Vec<_> =
        borrowed.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    if poll(&mut asked, Some(&Timespec::default())).is_err() {
        return Vec::new(); // what is unread is left to a sweep
    }
    let is_readable = |asked: &PollFd<'_>| asked.revents().contains(PollFlags::IN);
    open.into_iter().zip(&asked).filter(|(_, asked)| is_readable(asked)).map(|(fd, _)| fd).collect()
}

/// Whether an fd is an end of a pipe in which one of our messages waits.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/recv.2.html
fn has_message(fd: RawFd) -> bool {
    // SAFETY: the fd must stay open while it is borrowed. The table named it just now. If another
    // thread closes it meanwhile, both calls below fail or ask another file, and change nothing.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut front = [0; MAGIC.len()];
    is_one(socket)
        && recv(socket, &mut front, RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok()
        && front == *MAGIC
}
