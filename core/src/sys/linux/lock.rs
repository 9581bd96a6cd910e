//! Open-file-description locks: kept by a mapping, dropped by the kernel at death.
//!
//! Ordinary POSIX record locks are useless here: a process loses them when any fd
//! of the file is closed anywhere in it.
//!
//! Nothing here waits for ever: whoever may open a file may lock it, and a process that is stopped
//! in a debugger keeps its locks.
//!
//! <https://man7.org/linux/man-pages/man2/F_OFD_SETLK.2const.html>
#![allow(unsafe_code)] // fcntl

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The byte of a segment's file that holders lock.
const HOLD_OFFSET: i64 = 0;

/// Holds a file, or fails with `WouldBlock` when a program that is not ours has it exclusively.
pub(super) fn try_shared(file: &File) -> io::Result<()> {
    try_shared_at(file, HOLD_OFFSET)
}

/// Whether nobody holds the file now.
pub(super) fn is_unheld(file: &File) -> bool {
    is_free_at(file, HOLD_OFFSET)
}

/// Whether nobody else holds the file; then nobody can hold it until it is closed.
pub(super) fn try_exclusive(file: &File) -> bool {
    try_exclusive_at(file, HOLD_OFFSET).is_ok()
}

/// How often a byte is asked for that another process has for a few system calls.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// For what can be left to a later sweep.
    Little,
    /// Up to a second, for what somebody wants now.
    Much,
}

/// Tries without sleeping, then tries a millisecond apart. Where steps are counted few tell as
/// much.
const TRIES: usize = if cfg!(feature = "steps") { 2 } else { 64 };

impl Patience {
    fn sleeps(self) -> usize {
        match self {
            Self::Little if cfg!(feature = "steps") => 1,
            Self::Little => 20,
            Self::Much if cfg!(feature = "steps") => 2,
            Self::Much => 1000,
        }
    }
}

/// Takes a byte for us alone, or fails with `WouldBlock` when another process keeps it.
pub(super) fn exclusive_at(file: &File, offset: i64, patience: Patience) -> io::Result<()> {
    for attempt in 0..TRIES + patience.sleeps() {
        match try_exclusive_at(file, offset) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(()) => return Ok(()),
            Err(_) if attempt < TRIES => std::thread::yield_now(),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

/// Takes a byte for us alone, or fails with `WouldBlock`.
pub(super) fn try_exclusive_at(file: &File, offset: i64) -> io::Result<()> {
    set(file, libc::F_WRLCK, offset)
}

/// Takes a byte together with others, or fails with `WouldBlock`.
pub(super) fn try_shared_at(file: &File, offset: i64) -> io::Result<()> {
    set(file, libc::F_RDLCK, offset)
}

/// Gives a byte back before the file is closed.
pub(super) fn unlock_at(file: &File, offset: i64) {
    let _ = set(file, libc::F_UNLCK, offset); // what stays locked goes with the file
}

/// Whether nobody has locked a byte. When the kernel cannot be asked, somebody has.
pub(super) fn is_free_at(file: &File, offset: i64) -> bool {
    let mut lock = flock(libc::F_WRLCK, offset);
    // SAFETY: the fd is open while `file` is borrowed; the command fills a `flock`.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    asked == 0 && lock.l_type == libc::F_UNLCK as libc::c_short
}

fn set(file: &File, kind: libc::c_int, offset: i64) -> io::Result<()> {
    let lock = flock(kind, offset);
    // SAFETY: the fd is open while `file` is borrowed; the command takes a `flock`.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// One byte.
fn flock(kind: libc::c_int, offset: i64) -> libc::flock {
    // SAFETY: `flock` is plain numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset;
    lock.l_len = 1;
    lock
}
