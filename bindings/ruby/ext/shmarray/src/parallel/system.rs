//! System calls that Ruby lacks, for `Numo::Parallel`.
#![allow(unsafe_code)] // system calls

use std::io;

use magnus::{Class, Error, Object, RModule, RString, Ruby, function};

use crate::error::{argument_error, named_class};

/// Defines `Shmarray.process_fd` and `Shmarray.write_some`.
pub(super) fn define(shmarray: RModule) -> Result<(), Error> {
    shmarray.define_singleton_method("process_fd", function!(process_fd, 1))?;
    shmarray.define_singleton_method("write_some", function!(write_some, 3))
}

/// Returns an fd that is readable after the child has ended; nil if the kernel has none (before
/// Linux 5.3, and in some sandboxes). See pidfd_open(2).
fn process_fd(pid: i32) -> Option<i32> {
    // SAFETY: the call takes numbers only and touches no memory. The new fd is the caller's, and
    // closes on exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0)
}

/// Writes the bytes of a text from `from` on, as many as a non-blocking fd takes; returns nil if it
/// takes none. Ruby's own methods would copy the rest of the text, or keep it until a collection.
fn write_some(ruby: &Ruby, fd: i32, text: RString, from: usize) -> Result<Option<usize>, Error> {
    // SAFETY: no Ruby code runs that could change the String before its bytes are written.
    let bytes = unsafe { text.as_slice() };
    let rest = bytes.get(from..).ok_or_else(|| argument_error(ruby, "the text is not so long"))?;
    // SAFETY: `rest` is a slice of a live String, and its own length is passed with it.
    let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
    match usize::try_from(written) {
        Ok(written) => Ok(Some(written)),
        Err(_) => refused(ruby, &io::Error::last_os_error()),
    }
}

fn refused(ruby: &Ruby, error: &io::Error) -> Result<Option<usize>, Error> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        // With its errno, so that Ruby makes an Errno class of it.
        _ => Err(named_class(ruby, "SystemCallError")?
            .new_instance((error.to_string(), error.raw_os_error()))?
            .into()),
    }
}
