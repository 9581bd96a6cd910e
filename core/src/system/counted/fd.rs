//! The types of fds, on systems that have none.
#![cfg(not(unix))]

use std::convert::Infallible;
use std::marker::PhantomData;

/// An fd that is closed when it is dropped: none exists here.
#[derive(Debug)]
#[non_exhaustive]
pub enum OwnedFd {}

/// An fd that is used for a while: none exists here.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct BorrowedFd<'fd>(Infallible, PhantomData<&'fd OwnedFd>);

/// A trait for values that have an fd.
pub trait AsFd {
    /// Returns the fd.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl AsFd for OwnedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}

impl AsFd for BorrowedFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        *self
    }
}
