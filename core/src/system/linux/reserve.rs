//! Memory of a segment's file: reserved at creation, decommitted and recommitted later.

use std::fs;
use std::io;
use std::path::Path;

use super::clock::thread_ns;
use super::directory::Directory;
use super::open::open_existing;
use super::{huge, limits, pages};
use crate::system::interface::Access;
use crate::value::error::{Error, Result};
use crate::value::name::SegmentId;

/// Makes a file so long, and reserves the pages of its first `reserved` bytes now, so that touching
/// one can never raise SIGBUS.
pub(super) fn reserve(
    directory: &Directory,
    file: &fs::File,
    path: &Path,
    bytes: u64,
    reserved: u64,
) -> Result<()> {
    let limit_bytes = limits::file_limit();
    if bytes > limit_bytes {
        // The kernel would send SIGXFSZ.
        return Err(Error::FileTooLarge { asked_bytes: bytes, limit_bytes });
    }
    if reserved > directory.free_bytes()? {
        return Err(no_space_or_os(
            directory,
            bytes,
            "fallocate",
            path,
            io::Error::from_raw_os_error(libc::ENOSPC),
        ));
    }
    let failed = |call, error| no_space_or_os(directory, bytes, call, path, error);
    if reserved < bytes {
        file.set_len(bytes).map_err(|error| failed("ftruncate", error))?;
        return pages::reserve_part(file, 0, reserved).map_err(|error| failed("fallocate", error));
    }
    let done =
        if directory.offers_huge_pages(bytes) { huge::populate(file, bytes, thread_ns) } else { 0 };
    pages::reserve_part(file, done, bytes - done).map_err(|error| failed("fallocate", error))
}

/// Turns ENOSPC into [`Error::NoSpace`]: a file system that cannot hold more files is full, too.
pub(super) fn no_space_if_full(error: Error, directory: &Directory, asked_bytes: u64) -> Error {
    match error {
        Error::Os { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
            no_space(directory, asked_bytes, directory.lacks_inodes())
        }
        error => error,
    }
}

/// Turns the errors of a full file system into [`Error::NoSpace`].
pub(super) fn no_space_or_os(
    directory: &Directory,
    asked_bytes: u64,
    call: &'static str,
    path: &Path,
    error: io::Error,
) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EFBIG | libc::EDQUOT) => {
            no_space(directory, asked_bytes, false) // the file has its inode
        }
        _ => Error::os(call, path, error),
    }
}

fn no_space(directory: &Directory, asked_bytes: u64, lacks_inode: bool) -> Error {
    let free_bytes = directory.free_bytes().unwrap_or(0);
    Error::NoSpace { asked_bytes, free_bytes, lacks_inode, directory: directory.path().to_owned() }
}

/// Releases the memory of parts of a segment, which read as zero from then on.
pub(crate) fn decommit(directory: &Directory, id: &SegmentId, parts: &[(u64, u64)]) -> Result<()> {
    for_each_part(directory, id, parts, pages::decommit)
}

/// Reserves the memory of a part that was decommitted.
pub(crate) fn recommit(directory: &Directory, id: &SegmentId, part: (u64, u64)) -> Result<()> {
    for_each_part(directory, id, &[part], pages::reserve_part)
}

/// Opens a segment's file and applies `change` to each part.
fn for_each_part(
    directory: &Directory,
    id: &SegmentId,
    parts: &[(u64, u64)],
    change: impl Fn(&fs::File, u64, u64) -> io::Result<()>,
) -> Result<()> {
    let path = directory.segment_path(id);
    let file =
        open_existing(&path, Access::ReadWrite).map_err(|error| Error::os("open", &path, error))?;
    for (offset, bytes) in parts {
        change(&file, *offset, *bytes)
            .map_err(|error| no_space_or_os(directory, *bytes, "fallocate", &path, error))?;
    }
    Ok(())
}
