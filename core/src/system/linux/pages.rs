//! The pages of a file: reserved, written, and decommitted.
#![allow(unsafe_code)] // fallocate, pwrite

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The largest reservation by one call: a signal makes the kernel repeat at most that much.
const STEP_BYTES: u64 = 256 << 20;
/// The smallest reservation, to which interruptions reduce it.
const LEAST_STEP_BYTES: u64 = 64 << 10;

/// Reserves the pages of a part of a file, and extends the file to its end.
///
/// The kernel undoes a reservation that a signal interrupts. Each interruption therefore halves the
/// next reservation, so that this ends even if a timer fires faster than a large reservation takes.
pub(super) fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let mut done = offset;
    let end = offset + bytes;
    let mut most = STEP_BYTES;
    while done < end {
        let step = most.min(end - done);
        match allocate(file, done, step) {
            Ok(()) => done += step,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                most = (most / 2).max(LEAST_STEP_BYTES)
            }
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return write_zeros(file, done, end);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes memory that other threads may change meanwhile: the file gets old or new bytes.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/pwrite.2.html
pub(super) fn write_at(
    file: &File,
    mut offset: u64,
    mut bytes: *const u8,
    mut count: usize,
) -> io::Result<()> {
    while count > 0 {
        // SAFETY: the kernel reads `count` bytes at `bytes`, the caller's memory; where that is not
        // mapped the call fails with EFAULT.
        let written =
            unsafe { libc::pwrite(file.as_raw_fd(), bytes.cast(), count, offset as libc::off_t) };
        match usize::try_from(written) {
            Ok(written) => {
                (offset, bytes, count) =
                    (offset + written as u64, bytes.wrapping_add(written), count - written)
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// Frees the pages of a part of a file, even if processes have them mapped.
pub(super) fn decommit(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
}

/// Reserves the pages of a part of a file by one call.
pub(super) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, 0, offset, bytes)
}

/// Reserves or frees pages.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/fallocate.2.html
fn fallocate(file: &File, mode: libc::c_int, offset: u64, bytes: u64) -> io::Result<()> {
    let offset = offset as libc::off_t;
    let bytes = bytes as libc::off_t;
    // SAFETY: the call takes an open fd and numbers, and no pointer; `file` is borrowed during the
    // call, and the kernel checks the numbers.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reserves pages by writing zeros, on file systems without `fallocate`.
fn write_zeros(file: &File, mut offset: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    while offset < end {
        let step = (end - offset).min(zeros.len() as u64);
        file.write_all_at(&zeros[..step as usize], offset)?;
        offset += step;
    }
    Ok(())
}
