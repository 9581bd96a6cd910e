//! Waiting until a file appears in the directory of segments.
#![allow(unsafe_code)] // inotify, poll

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::clock::timespec;
use super::directory::{Directory, c_path};
use super::fd::Fd;
use crate::value::error::{Error, Result};

/// The longest wait of a process that gets no reports. A user has 128 instances of inotify by
/// default, and a kernel may be built without it.
const LOOK: Duration = Duration::from_millis(10);

/// The kernel's reports of new names in a directory, if it gives any.
pub(crate) struct Appearances(Option<Fd>);

impl Appearances {
    /// Watches a directory from now on.
    pub(crate) fn watch(directory: &Directory) -> Result<Self> {
        let refusals = [libc::EMFILE, libc::ENFILE, libc::ENOSPC, libc::ENOSYS];
        match Self::reports(directory) {
            Ok(reports) => Ok(Self(Some(reports))),
            Err(error) if error.os_errno().is_some_and(|code| refusals.contains(&code)) => {
                Ok(Self(None))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens an instance of inotify that reports of one directory.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man7/inotify.7.html
    fn reports(directory: &Directory) -> Result<Fd> {
        let failed = |call| move |error| Error::os(call, directory.path(), error);
        let path = c_path(directory.path());
        let reports = Fd::open(|| {
            // SAFETY: the call cannot touch memory, because it takes a plain number.
            let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `fd` must be open and owned by nobody else; `inotify_init1` returned it just
            // now, and the error case was handled above.
            Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
        })
        .map_err(failed("inotify_init1"))?;
        let new_names = libc::IN_CREATE | libc::IN_MOVED_TO;
        // SAFETY: the path must be a NUL-terminated string; `path` is one and outlives the call.
        match unsafe { libc::inotify_add_watch(reports.as_raw_fd(), path.as_ptr(), new_names) } {
            -1 => Err(failed("inotify_add_watch")(io::Error::last_os_error())),
            _ => Ok(reports),
        }
    }

    /// Waits until a name appears, for `most` at the longest; without reports, for [`LOOK`] at the
    /// longest. Fails when a signal ended the wait.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/poll.2.html
    pub(crate) fn wait(&self, most: Duration) -> Result<()> {
        let reports = self.0.as_ref();
        // Poll passes over an fd below zero.
        let fd = reports.map_or(-1, |reports| reports.as_raw_fd());
        let mut fd = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let most = timespec(if reports.is_some() { most } else { most.min(LOOK) });
        // SAFETY: the pointers must be valid for one structure and a time, which are local
        // variables; a null set of signals changes none.
        if unsafe { libc::ppoll(&mut fd, 1, &raw const most, std::ptr::null()) } < 0 {
            return Err(Error::os("ppoll", "", io::Error::last_os_error()));
        }
        if let Some(mut reports) = reports.map(|fd| &**fd) {
            let _ = reports.read(&mut [0; 4096]); // what is left is reported at the next wait
        }
        Ok(())
    }
}
