//! Fds that this library opens for a moment, and that no forked child keeps.
//!
//! A thread may have a file open and locked when another thread forks. The child would share the
//! open file description, and with it the lock, for its whole life: it would wait for itself, and
//! every other process for its end. Each fd is therefore listed here while it is open, and a child
//! closes the fds that it finds listed.
//!
//! Invariant:
//! * I1 while `GATE` is not closed by a fork, each fd is in `OPEN` or its thread is inside `open`
//!   or `drop`. A fork closes the gate (`before_fork`), so the child's `OPEN` is exact.
#![allow(unsafe_code)] // close in a child

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::mutex::{Gate, Mutex};

static GATE: Gate = Gate::new();
static OPEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());
/// More fds than all threads of most programs have open at once.
const INITIAL_CAPACITY: usize = 64;

/// An open file whose fd no forked child keeps.
pub(super) struct Fd(ManuallyDrop<File>);

impl Fd {
    /// Runs `open`, which must not open a second file through this type.
    pub(super) fn open(open: impl FnOnce() -> io::Result<File>) -> io::Result<Self> {
        let _no_fork = GATE.enter();
        let file = open()?;
        let mut numbers = OPEN.lock();
        if numbers.capacity() == 0 {
            // A fork opens an fd, too, and must not allocate.
            numbers.reserve(INITIAL_CAPACITY);
        }
        numbers.push(file.as_raw_fd());
        drop(numbers);
        Ok(Self(ManuallyDrop::new(file)))
    }

    /// Returns the fd as one that forked children do keep, as they keep a socket.
    pub(super) fn into_owned(mut self) -> OwnedFd {
        let _no_fork = GATE.enter();
        // SAFETY: the file must not be used or dropped again; the next statement forgets `self`, so
        // `drop` never runs.
        let file = unsafe { ManuallyDrop::take(&mut self.0) };
        std::mem::forget(self);
        forget(&file);
        file.into()
    }
}

/// Removes a file's fd from the list. The caller is in the gate: a fork between this and the close
/// would leave the child a listed number that another file may have by then.
fn forget(file: &File) {
    let number = file.as_raw_fd();
    let mut open = OPEN.lock();
    if let Some(at) = open.iter().position(|fd| *fd == number) {
        open.swap_remove(at);
    }
}

impl Deref for Fd {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let _no_fork = GATE.enter();
        forget(&self.0);
        // SAFETY: the file must not be dropped twice; `drop` runs once, and `into_owned`, the only
        // other place that takes it, forgets `self`.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// Runs code during which no thread may fork: it opens and closes an fd, or has a mutex that a
/// child uses. It waits for nothing else of this library.
pub(crate) fn without_fork<T>(read: impl FnOnce() -> T) -> T {
    let _no_fork = GATE.enter();
    read()
}

/// Closes the gate. A fork does this last, because a thread inside the gate waits for nothing else
/// of this library.
pub(crate) fn before_fork() {
    GATE.close();
}

pub(super) fn after_in_parent() {
    GATE.open();
}

/// Closes the fds that other threads of the parent had open. Allocates nothing.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/close.2.html
pub(super) fn after_in_child() {
    // SAFETY: nobody else may access the list; it is locked only inside the gate, which
    // `before_fork` closed, and a forked child has no other thread.
    let open = unsafe { &mut *OPEN.data_ptr() };
    for fd in open.drain(..) {
        // SAFETY: the fd must be open and not used afterwards; it is listed, so it is open (I1),
        // and its only user is a thread of the parent, which does not exist in this child.
        unsafe { libc::close(fd) };
    }
    GATE.open();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: F_GETFD takes no pointer and changes nothing; a number that is not open is an
        // error.
        unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
    }

    /// Returns the exit code of a child, forked with the steps that the fork handlers take.
    fn in_child(answer: impl FnOnce() -> i32) -> i32 {
        before_fork();
        // SAFETY: a raw clone without a new stack is a fork; the child calls only async-signal-safe
        // functions and `answer`, and ends by `_exit`.
        match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            0 => {
                after_in_child();
                // SAFETY: `_exit` takes a number, runs no handlers and never returns to this frame.
                unsafe { libc::_exit(answer()) }
            }
            child => {
                after_in_parent();
                let mut status = -1;
                // SAFETY: `status` must be writable during the call; it is a local variable, and
                // the child is this process's own, from the call above.
                assert_eq!(unsafe { libc::waitpid(child as i32, &mut status, 0) }, child as i32);
                libc::WEXITSTATUS(status)
            }
        }
    }

    #[test]
    fn a_child_has_none_and_its_parent_still_has_them() {
        let [first, second] = [(); 2].map(|()| Fd::open(tempfile::tempfile).unwrap());
        let owned = Fd::open(tempfile::tempfile).unwrap().into_owned();
        let numbers = [first.as_raw_fd(), second.as_raw_fd(), owned.as_raw_fd()];
        assert_eq!(numbers.map(is_open), [true, true, true]);
        let seen = in_child(|| {
            numbers.map(is_open).iter().fold(0, |bits, open| bits * 2 + i32::from(*open))
        });
        assert_eq!(seen, 0b001);
        assert_eq!(numbers.map(is_open), [true, true, true]);
        drop(first);
        let seen = in_child(|| {
            let opened = Fd::open(|| File::open("/dev/null")); // the gate is open in the child
            i32::from(opened.is_ok() && !is_open(numbers[1]))
        });
        assert_eq!(seen, 1);
    }
}
