//! The names of the files in the directory, other users' among them.
//!
//! Nobody limits how many there are. So they are visited in a buffer of a fixed size, and a list of
//! them that cannot be allocated is an error.

use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::RawDir;

use super::directory::{Directory, NEW_PREFIX, SEGMENT_PREFIX};
use super::fd::Fd;
use crate::error::{Error, Result};
use crate::name::SegmentId;
use crate::sys::shortage::{reserve, reserve_for};

/// The buffer for names: some 200 of them.
const PART_BYTES: usize = 8 << 10;

impl Directory {
    /// Returns the ids of all segments in the directory, finished or not, of any user.
    pub(crate) fn segment_ids(&self) -> Result<Vec<SegmentId>> {
        let mut ids = Vec::new();
        let mut add = |id| {
            reserve_for("the list of segments", &mut ids, 1)?;
            ids.push(id);
            Ok(())
        };
        let visited = self.visit_names(|name| match id_in(name).map_or(Ok(()), &mut add) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        let full = visited.map_err(|error| Error::os("opendir", self.path(), error))?;
        full.map_or(Ok(ids), Err)
    }

    /// Returns what `of_use` makes of the directory's file names.
    pub(super) fn names<T>(&self, of_use: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
        let mut all = Vec::new();
        let full = self.visit_names(|name| match of_use(name) {
            None => ControlFlow::Continue(()),
            Some(one) => match reserve(&mut all, 1) {
                Ok(()) => {
                    all.push(one);
                    ControlFlow::Continue(())
                }
                Err(full) => ControlFlow::Break(full),
            },
        })?;
        full.map_or(Ok(all), Err)
    }

    /// Calls `visit` with each file name in the directory until it breaks, and returns the value
    /// with which it did. It may remove the file. A forked child has the directory open no longer
    /// than this process.
    pub(super) fn visit_names<T>(
        &self,
        mut visit: impl FnMut(&str) -> ControlFlow<T>,
    ) -> io::Result<Option<T>> {
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
        let opened =
            Fd::open(|| OpenOptions::new().read(true).custom_flags(flags).open(self.path()))?;
        let mut part = [MaybeUninit::uninit(); PART_BYTES];
        let mut entries = RawDir::new(&*opened, &mut part);
        while let Some(entry) = entries.next() {
            let name = match &entry {
                Ok(entry) => entry.file_name().to_str(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err((*error).into()),
            };
            // No file of this library has a name that is not UTF-8.
            if let ControlFlow::Break(value) = name.map_or(ControlFlow::Continue(()), &mut visit) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

fn id_in(file_name: &str) -> Option<SegmentId> {
    let id =
        file_name.strip_prefix(NEW_PREFIX).or_else(|| file_name.strip_prefix(SEGMENT_PREFIX))?;
    SegmentId::from_bytes(id.as_bytes())
}
