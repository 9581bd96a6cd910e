//! The pages of a file: reserved, written, given back to the system.
#![allow(unsafe_code)] // fallocate, pwrite

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// One reservation at the most, so that a signal costs no more than one of them again; and at the
/// least.
const STEP_BYTES: u64 = 256 << 20;
const LEAST_STEP_BYTES: u64 = 64 << 10;

/// Reserves the pages of a part of a file, which is as long then.
///
/// The kernel undoes a reservation that a signal interrupts. So each one that is interrupted makes
/// the next smaller: with a timer that is faster than a large one, too, this comes to its end.
pub(super) fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (mut done, end, mut most) = (offset, offset + bytes, STEP_BYTES);
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

/// Writes memory that others may change meanwhile: then some of its bytes.
pub(super) fn write_at(
    file: &File,
    mut offset: u64,
    mut bytes: *const u8,
    mut count: usize,
) -> io::Result<()> {
    while count > 0 {
        // SAFETY: the kernel reads the caller's memory, and fails where there is none.
        let written = unsafe { libc::pwrite(file.as_raw_fd(), bytes.cast(), count, offset as i64) };
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

/// Frees the pages of a part of a file, also where others have them mapped.
pub(super) fn decommit(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
}

fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, 0, offset, bytes)
}

fn fallocate(file: &File, mode: libc::c_int, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: numbers and an open fd; the kernel checks them.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, bytes as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// For file systems without `fallocate`.
fn write_zeros(file: &File, mut offset: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    while offset < end {
        let step = (end - offset).min(zeros.len() as u64);
        file.write_all_at(&zeros[..step as usize], offset)?;
        offset += step;
    }
    Ok(())
}
