//! Open-file-description locks: kept by a mapping, dropped by the kernel at death.
//!
//! Ordinary POSIX record locks are useless here: a process loses them when any descriptor
//! of the file is closed anywhere in it.
#![allow(unsafe_code)] // fcntl

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The byte of a segment's file that holders lock.
const HOLD_OFFSET: i64 = 0;

/// Holds a file that nobody else can see.
pub(super) fn try_shared(file: &File) -> io::Result<()> {
    set(file, libc::F_OFD_SETLK, libc::F_RDLCK, HOLD_OFFSET)
}

/// Holds the file when who looks whether it can be given back has let it go, or is dead.
pub(super) fn wait_shared(file: &File) -> io::Result<()> {
    wait(file, libc::F_RDLCK, HOLD_OFFSET)
}

/// Whether nobody holds the file now.
pub(super) fn is_unheld(file: &File) -> bool {
    is_free_at(file, HOLD_OFFSET)
}

/// Whether nobody else holds the file; then nobody can hold it until it is closed.
pub(super) fn try_exclusive(file: &File) -> bool {
    set(file, libc::F_OFD_SETLK, libc::F_WRLCK, HOLD_OFFSET).is_ok()
}

/// Waits for a byte of a file to be ours alone. The kernel frees it when a holder dies.
pub(super) fn wait_exclusive(file: &File, offset: i64) -> io::Result<()> {
    wait(file, libc::F_WRLCK, offset)
}

/// Who is in the way is there for a few system calls: so one asks a few times before one sleeps. Valgrind
/// does not know that this call can sleep, and lets no other thread of the process run meanwhile.
const TRIES: usize = if cfg!(feature = "steps") { 1 } else { 64 };

fn wait(file: &File, kind: libc::c_int, offset: i64) -> io::Result<()> {
    for _ in 0..TRIES {
        match set(file, libc::F_OFD_SETLK, kind, offset) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            done => return done,
        }
    }
    loop {
        match set(file, libc::F_OFD_SETLKW, kind, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Takes a byte for us alone, or fails with `WouldBlock`.
pub(super) fn try_exclusive_at(file: &File, offset: i64) -> io::Result<()> {
    set(file, libc::F_OFD_SETLK, libc::F_WRLCK, offset)
}

/// Takes a byte together with others, or fails with `WouldBlock`.
pub(super) fn try_shared_at(file: &File, offset: i64) -> io::Result<()> {
    set(file, libc::F_OFD_SETLK, libc::F_RDLCK, offset)
}

/// Whether nobody has locked a byte. When the kernel cannot be asked, somebody has.
pub(super) fn is_free_at(file: &File, offset: i64) -> bool {
    let mut lock = flock(libc::F_WRLCK, offset);
    // SAFETY: the descriptor is open while `file` is borrowed; the command fills a `flock`.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    asked == 0 && lock.l_type == libc::F_UNLCK as libc::c_short
}

fn set(file: &File, command: libc::c_int, kind: libc::c_int, offset: i64) -> io::Result<()> {
    let lock = flock(kind, offset);
    // SAFETY: the descriptor is open while `file` is borrowed; the command takes a `flock`.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &lock) } {
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
