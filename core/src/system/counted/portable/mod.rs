//! The portable backend: the crate `shared_memory`, for macOS and Windows.
//!
//! The crate cannot reserve pages, lock, or choose a directory, and a crash leaves the count of
//! holders too high. The guide's page on platforms says which promises that costs. The rest holds:
//! the last holder that closes a segment gives it back, read-only pages are protected, a name finds
//! its segment, and an unfinished segment cannot be attached (its count of holders is zero).

mod directory;
mod segment_file;

pub(crate) use super::absent::*;
pub(crate) use directory::Directory;
pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use segment_file::{Mapping, SegmentFile, unlink_name};
