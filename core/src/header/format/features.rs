//! Feature bits: what a segment needs of whoever reads it.

use std::fmt;

/// The features of a segment.
pub(super) struct Features {
    /// A reader that does not know one of these refuses the segment.
    pub(super) required: u64,
    /// A reader ignores those that it does not know.
    pub(super) optional: u64,
    pub(super) needed: NeededVersion,
}

/// The first version of the library that can read a segment: bits 0–15 are the patch, 16–31 the
/// minor, 32–47 the major version. 0 where every version can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeededVersion(pub(super) u64);

impl fmt::Display for NeededVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = [32, 16, 0].map(|shift| self.0 >> shift & 0xffff);
        match self.0 {
            0 => Ok(()),
            _ => write!(f, " of shmarray {major}.{minor}.{patch}"),
        }
    }
}

/// The required features that this version knows.
pub(super) const KNOWN: u64 = if cfg!(shmarray_next) { 1 << 40 } else { 0 };

/// The features of the segments that this version makes.
#[cfg(not(shmarray_next))]
pub(super) fn of_new_segments() -> Features {
    Features { required: 0, optional: 0, needed: NeededVersion(0) }
}

/// The features of an invented next version, 9.8.7, which `tests/next.rs` is. The environment says
/// which of them a new segment has.
#[cfg(shmarray_next)]
pub(super) fn of_new_segments() -> Features {
    const OPTIONAL: u64 = 1 << 41;
    let version = NeededVersion(9 << 32 | 8 << 16 | 7);
    match std::env::var("SHMARRAY_NEXT").as_deref() {
        Ok("required") => Features { required: KNOWN, optional: 0, needed: version },
        Ok("optional") => Features { required: 0, optional: OPTIONAL, needed: NeededVersion(0) },
        _ => Features { required: 0, optional: 0, needed: NeededVersion(0) },
    }
}
