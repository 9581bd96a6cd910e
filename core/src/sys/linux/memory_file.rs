//! A file without a name in a file system of the kernel's own: for a message that finds no room in
//! shared memory. No mount limits it, and it goes with its last fd.
#![allow(unsafe_code)] // memfd_create

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use super::limits::file_limit;

pub(crate) fn memory_file(pieces: &[&[u8]]) -> io::Result<OwnedFd> {
    if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() > file_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG)); // a write would be answered with SIGXFSZ
    }
    // SAFETY: takes a C string and a number.
    let fd = unsafe { libc::memfd_create(c"shmarray-message".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new fd.
    let mut file = unsafe { File::from_raw_fd(fd) };
    for piece in pieces {
        file.write_all(piece)?;
    }
    Ok(file.into())
}

/// All of what another process wrote there. It is read, and not mapped: whoever has the file may
/// cut it.
pub(crate) fn read_memory_file(file: OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(file);
    let size = usize::try_from(file.metadata()?.size()).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(io::Error::other)?;
    bytes.resize(size, 0);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
