//! All shared memory of the library at one moment, for the commands that list, watch and measure.

#[cfg(target_os = "linux")]
mod others;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use shmarray::{SegmentInfo, SegmentKind};

use crate::process::command;

/// What this user may see, and how much more there is.
pub(crate) struct Memory {
    pub(crate) segments: Vec<SegmentInfo>,
    pub(crate) others: Vec<OtherUser>,
    pub(crate) directory: Option<Directory>,
}

/// The directory of segments.
#[derive(Serialize)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// 0 if the file system has no limit of its own.
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
}

/// The files of another user that this one may not read.
#[derive(Serialize)]
pub(crate) struct OtherUser {
    pub(crate) uid: u32,
    /// `None` if the system knows no such user, as in a container.
    pub(crate) user: Option<String>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// What there is of each kind.
#[derive(Serialize)]
pub(crate) struct Totals {
    pub(crate) array: Total,
    pub(crate) channel: Total,
    pub(crate) pool: Total,
    pub(crate) remains: Total,
}

#[derive(Serialize, Clone, Copy)]
pub(crate) struct Total {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
}

impl Memory {
    pub(crate) fn read() -> Result<Self> {
        let mut segments = shmarray::segments()?;
        // A slab's free memory, which has no cell number, is before its cells.
        segments.sort_by_key(|segment| (segment.created_ns, segment.segment.cell));
        #[cfg(target_os = "linux")]
        {
            let (path, room) = crate::doctor::room();
            let others = others::read(&path);
            let (total_bytes, free_bytes) = (room.total_bytes, room.free_bytes);
            Ok(Self {
                segments,
                others,
                directory: Some(Directory { path, total_bytes, free_bytes }),
            })
        }
        #[cfg(not(target_os = "linux"))]
        Ok(Self { segments, others: Vec::new(), directory: None })
    }

    pub(crate) fn totals(&self) -> Totals {
        let [array, channel, pool, remains] =
            [SegmentKind::Array, SegmentKind::Channel, SegmentKind::Pool, SegmentKind::Remains]
                .map(|kind| self.total(kind));
        Totals { array, channel, pool, remains }
    }

    fn total(&self, kind: SegmentKind) -> Total {
        let of_kind = || self.segments.iter().filter(|segment| segment.kind == kind);
        let bytes = of_kind().map(|segment| segment.segment_bytes).sum();
        Total { segments: of_kind().count() as u64, bytes }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use others::user_name;

#[cfg(not(target_os = "linux"))]
pub(crate) fn user_name(_uid: u32) -> Option<String> {
    None
}

impl Totals {
    pub(crate) fn each(&self) -> [(&'static str, Total); 4] {
        let Self { array, channel, pool, remains } = *self;
        [("array", array), ("channel", channel), ("pool", pool), ("remains", remains)]
    }
}

impl OtherUser {
    /// The user as `sudo -u` takes one.
    pub(crate) fn for_sudo(&self) -> String {
        self.user.clone().unwrap_or_else(|| format!("'#{}'", self.uid))
    }
}

/// The facts of a segment, in the order of `shma_segment_info`.
#[derive(Serialize)]
pub(crate) struct Listed<'a> {
    segment: String,
    name: Option<&'a str>,
    kind: &'a str,
    persists: bool,
    segment_bytes: u64,
    dtype: &'a str,
    shape: &'a [u64],
    holders: Vec<Holder>,
    tickets: u64,
    creator_pid: u32,
    created_ns: u64,
}

#[derive(Serialize)]
struct Holder {
    pid: u32,
    command: String,
}

impl<'a> Listed<'a> {
    pub(crate) fn of(info: &'a SegmentInfo) -> Self {
        let holder = |&pid: &u32| Holder { pid, command: command(pid) };
        Self {
            segment: info.segment.to_string(),
            name: info.name.as_deref(),
            kind: info.kind.as_str(),
            persists: info.persists,
            segment_bytes: info.segment_bytes,
            dtype: info.dtype.text(),
            shape: &info.shape,
            holders: info.holders.iter().map(holder).collect(),
            tickets: info.tickets,
            creator_pid: info.creator_pid,
            created_ns: info.created_ns,
        }
    }
}
