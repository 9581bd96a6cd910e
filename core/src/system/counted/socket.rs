//! Sockets for messages, of which there are none.

use std::io::{self, IoSlice};
use std::time::Instant;

use crate::system::{BorrowedFd, OwnedFd};
use crate::value::error::{Error, Result};

pub(crate) const MAGIC: &[u8; 4] = b"shmm";
pub(crate) const FRONT_BYTES: usize = 16;
pub(crate) const MAX_FDS: usize = 0;

pub(crate) struct Expected {
    pub(crate) fds: usize,
    pub(crate) first_bytes: usize,
}

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn is_one(_: BorrowedFd<'_>) -> bool {
    false
}

pub(crate) fn send(_: BorrowedFd<'_>, _: &[IoSlice<'_>], _: &[BorrowedFd<'_>]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn receive<T>(
    _: BorrowedFd<'_>,
    _most_bytes: usize,
    _expect: impl Fn(&[u8]) -> Expected,
    _read: impl FnOnce(&[u8], Vec<u8>, Vec<OwnedFd>) -> T,
) -> Result<T> {
    Err(Error::os("recv", "", io::ErrorKind::Unsupported.into()))
}

pub(crate) fn take_back(_payload: Vec<u8>, _most_bytes: usize) {}

pub(crate) fn has_ended(_: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(true)
}

pub(crate) fn wait(_: BorrowedFd<'_>, _to_send: bool, _until: Option<Instant>) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn is_too_many_fds(_: &io::Error) -> bool {
    false
}

pub(crate) fn is_too_long(_: &io::Error) -> bool {
    false
}

pub(crate) fn is_closed(_: &io::Error) -> bool {
    false
}
