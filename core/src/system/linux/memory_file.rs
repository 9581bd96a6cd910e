//! A memory file of the kernel, for a message that finds no room in shared memory.
//!
//! The file has no name, no mount limits its size, and it goes away with its last fd.
#![allow(unsafe_code)] // memfd_create

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::fcntl_get_seals;

use super::limits::file_limit;
use crate::system::shortage::zeros;

/// Returns a new memory file that contains `pieces`, one after another.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/memfd_create.2.html
pub(crate) fn memory_file(pieces: &[&[u8]]) -> io::Result<OwnedFd> {
    if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() > file_limit() {
        // A larger write would raise SIGXFSZ.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: the name must be a NUL-terminated string; it is a C string literal, and the kernel
    // checks the flags.
    let fd = unsafe { libc::memfd_create(c"shmarray-message".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` must be open and owned by nobody else; `memfd_create` returned it just now, and
    // the error case was handled above.
    let mut file = unsafe { File::from_raw_fd(fd) };
    for piece in pieces {
        file.write_all(piece)?;
    }
    Ok(file.into())
}

/// Returns everything that another process wrote to a memory file. The file is read and not mapped,
/// because any process that has it may truncate it.
///
/// The other process may be no friend. So a file of another kind is refused, whose reads could wait
/// for ever, and a file with holes, which could cost this process memory that it has not cost its
/// sender.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/F_GET_SEALS.2const.html
pub(crate) fn read_memory_file(file: OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(file);
    fcntl_get_seals(&file)?; // an error for all other files
    let facts = file.metadata()?;
    if facts.blocks().saturating_mul(512) < facts.size() {
        let holes = "a memory file with holes, which no message has";
        return Err(io::Error::new(io::ErrorKind::InvalidData, holes));
    }
    let mut bytes = zeros(usize::try_from(facts.size()).map_err(io::Error::other)?)?;
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
