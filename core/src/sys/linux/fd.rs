//! fds that this library has open for a moment: no forked child keeps them.
//!
//! A thread that gives a segment back has it locked exclusively. A child that another thread forks
//! in that moment has the same open file, and with it the lock, for all its life: it would wait for
//! itself, and everybody else for its end. So each fd is entered here while it is open, and
//! a child closes what it finds.
//!
//! Invariant: while nobody holds `GATE` alone, an fd is in `OPEN` or its thread is in
//! `open` or `drop`. A fork holds it alone (`before_fork`), so the child's `OPEN` is exact.
#![allow(unsafe_code)] // close in a child

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::mutex::{Gate, Mutex};

static GATE: Gate = Gate::new();
static OPEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());
/// More than all threads of most programs have open at once.
const AT_ONCE: usize = 64;

/// An open file whose fd no forked child keeps.
pub(super) struct Fd(ManuallyDrop<File>);

impl Fd {
    /// Opens by `open`, which must not open a second one in this way.
    pub(super) fn open(open: impl FnOnce() -> io::Result<File>) -> io::Result<Self> {
        let _no_fork = GATE.enter();
        let file = open()?;
        let mut numbers = OPEN.lock();
        if numbers.capacity() == 0 {
            numbers.reserve(AT_ONCE); // a fork opens one, and may not allocate
        }
        numbers.push(file.as_raw_fd());
        drop(numbers);
        Ok(Self(ManuallyDrop::new(file)))
    }

    /// One that children do keep, as they keep a socket.
    pub(super) fn into_owned(mut self) -> OwnedFd {
        let _no_fork = GATE.enter();
        // SAFETY: `self` is forgotten at once.
        let file = unsafe { ManuallyDrop::take(&mut self.0) };
        std::mem::forget(self);
        forget(&file);
        file.into()
    }
}

/// Between the two a fork would leave the child an fd of another file by that number.
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
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// What opens an fd and closes it again, when no fork may come between.
pub(super) fn without_fork<T>(read: impl FnOnce() -> T) -> T {
    let _no_fork = GATE.enter();
    read()
}

/// The last that a fork waits for: nobody who is in the gate waits for anything of this library.
pub(crate) fn before_fork() {
    GATE.close();
}

pub(super) fn after_in_parent() {
    GATE.open();
}

/// Closes what other threads of the parent had open. Allocates nothing.
pub(super) fn after_in_child() {
    // SAFETY: nobody had it locked, since that is done in the gate only; there is no other thread.
    let open = unsafe { &mut *OPEN.data_ptr() };
    for fd in open.drain(..) {
        // SAFETY: this child's copy of an fd whose thread is not here.
        unsafe { libc::close(fd) };
    }
    GATE.open();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: asks only.
        unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
    }

    /// The exit code of a child, forked as the C library's handlers would have it.
    fn in_child(answer: impl FnOnce() -> i32) -> i32 {
        before_fork();
        // SAFETY: a fork without handlers; the child calls what may be called in one, and ends.
        match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            0 => {
                after_in_child();
                // SAFETY: never returns.
                unsafe { libc::_exit(answer()) }
            }
            child => {
                after_in_parent();
                let mut status = -1;
                // SAFETY: a child of ours, and room for its status.
                assert_eq!(unsafe { libc::waitpid(child as i32, &mut status, 0) }, child as i32);
                libc::WEXITSTATUS(status)
            }
        }
    }

    #[test]
    fn a_child_has_none_and_its_parent_still_has_them() {
        let [first, second] = [(); 2].map(|()| Fd::open(tempfile::tempfile).unwrap());
        let kept = Fd::open(tempfile::tempfile).unwrap().into_owned();
        let numbers = [first.as_raw_fd(), second.as_raw_fd(), kept.as_raw_fd()];
        assert_eq!(numbers.map(is_open), [true, true, true]);
        let seen = in_child(|| {
            numbers.map(is_open).iter().fold(0, |bits, open| bits * 2 + i32::from(*open))
        });
        assert_eq!(seen, 0b001);
        assert_eq!(numbers.map(is_open), [true, true, true]);
        drop(first);
        let seen = in_child(|| {
            let opened = Fd::open(|| File::open("/dev/null")); // the gate is open there
            i32::from(opened.is_ok() && !is_open(numbers[1]))
        });
        assert_eq!(seen, 1);
    }
}
