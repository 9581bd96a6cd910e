//! Open-file-description locks: kept by a mapping, released by the kernel at death.
//!
//! Ordinary POSIX record locks do not serve: a process loses them when it closes any fd of the
//! file.
//!
//! No function here waits for ever. Any process that may open a file may lock it, and a process
//! that is stopped in a debugger keeps its locks.
//!
//! The calls are F_OFD_SETLK and F_OFD_GETLK of fcntl(2):
//! <https://man7.org/linux/man-pages/man2/F_OFD_SETLK.2const.html>.
#![allow(unsafe_code)] // fcntl

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The byte of a segment's file that its holders lock.
const HOLD_OFFSET: i64 = 0;

/// Holds a file; fails with `WouldBlock` if a foreign program has it locked exclusively.
pub(super) fn try_shared(file: &File) -> io::Result<()> {
    try_shared_at(file, HOLD_OFFSET)
}

/// Whether no process holds the file now.
pub(super) fn is_unheld(file: &File) -> bool {
    is_free_at(file, HOLD_OFFSET)
}

/// Locks the file if no other process holds it; then none can hold it until it is closed.
pub(super) fn try_exclusive(file: &File) -> bool {
    try_exclusive_at(file, HOLD_OFFSET).is_ok()
}

/// How long to retry a byte that another process locks for a few system calls.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// For work that a later sweep can do.
    Little,
    /// Up to a second, for work that a caller waits for.
    Much,
}

/// Tries without sleep; those that follow are a millisecond apart. A few tries are enough for tests
/// that count steps.
const TRIES: usize = if cfg!(shmarray_steps) { 2 } else { 64 };

impl Patience {
    fn sleeps(self) -> usize {
        match self {
            Self::Little if cfg!(shmarray_steps) => 1,
            Self::Little => 20,
            Self::Much if cfg!(shmarray_steps) => 2,
            Self::Much => 1000,
        }
    }
}

/// Locks a byte exclusively; fails with `WouldBlock` if another process keeps it.
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

/// Locks a byte exclusively, or fails with `WouldBlock`.
pub(super) fn try_exclusive_at(file: &File, offset: i64) -> io::Result<()> {
    set(file, libc::F_WRLCK, offset)
}

/// Locks a byte together with other processes, or fails with `WouldBlock`.
pub(super) fn try_shared_at(file: &File, offset: i64) -> io::Result<()> {
    set(file, libc::F_RDLCK, offset)
}

/// Unlocks a byte before the file is closed.
pub(super) fn unlock_at(file: &File, offset: i64) {
    let _ = set(file, libc::F_UNLCK, offset); // a failure leaves it locked until the close
}

/// Whether no process has locked a byte; `false` if the kernel cannot be asked. A process that may
/// not ask is told so before (`trial`).
pub(super) fn is_free_at(file: &File, offset: i64) -> bool {
    ask_at(file, offset).unwrap_or(false)
}

/// Asks the kernel whether a hold on a file is visible through this open of it.
pub(super) fn sees_hold(file: &File) -> io::Result<bool> {
    ask_at(file, HOLD_OFFSET).map(|is_free| !is_free)
}

/// Asks the kernel whether no other open file description has locked a byte.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/fcntl.2.html
fn ask_at(file: &File, offset: i64) -> io::Result<bool> {
    let mut lock = flock(libc::F_WRLCK, offset);
    // SAFETY: the fd must be open and the pointer valid for a `flock`; `file` is borrowed during
    // the call, and `lock` is a local variable that the command fills.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } {
        0 => Ok(lock.l_type == libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets or removes a lock on one byte, without waiting.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/fcntl.2.html
fn set(file: &File, kind: libc::c_int, offset: i64) -> io::Result<()> {
    let lock = flock(kind, offset);
    // SAFETY: the fd must be open and the pointer valid for a `flock`; `file` is borrowed during
    // the call, and the command only reads `lock`, a local variable.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns a lock request for one byte.
fn flock(kind: libc::c_int, offset: i64) -> libc::flock {
    // SAFETY: zeros must be a valid value; `flock` is a C struct of integers only, for which any
    // bits are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset as libc::off_t;
    lock.l_len = 1;
    lock
}
