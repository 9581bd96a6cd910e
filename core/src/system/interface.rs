//! The types that every backend takes and returns.

use std::sync::atomic::AtomicU64;

use crate::value::name::{ArrayName, SegmentId};

/// How a mapping may be used. The memory protection of its pages enforces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Access {
    /// Loads and stores.
    #[default]
    ReadWrite,
    /// Loads only; a store is a fault.
    ReadOnly,
    /// Loads and private stores: the kernel copies each page at its first store, and no other
    /// process sees the copy. Such a mapping is private memory although a lease holds it, and has
    /// no handle.
    CopyOnWrite,
    /// Loads and stores of memory that nobody else has or attaches: what was sent to this process
    /// alone. It is private memory although a lease holds it, and has no handle. A fork *freezes*
    /// it: parent and child see what it contained, and each its own later stores.
    Owned,
}

impl Access {
    /// Whether the memory is private to this process: no other one sees its stores.
    #[must_use]
    pub fn is_private(self) -> bool {
        matches!(self, Self::CopyOnWrite | Self::Owned)
    }

    /// Whether stores go to the file.
    pub(crate) fn stores_to_file(self) -> bool {
        matches!(self, Self::ReadWrite | Self::Owned)
    }
}

/// This process's last search for dead processes (`sweep::check`).
#[derive(Debug, Default)]
pub(crate) struct LastCheck {
    /// When the check ended, by the system's monotonic clock.
    pub(crate) ended_ns: AtomicU64,
    /// The CPU time that the check took.
    pub(crate) took_ns: AtomicU64,
    /// When to check again that this process's files are still found.
    pub(crate) checked_ns: AtomicU64,
}

/// The name by which a segment is looked up: its id, or the name that a person gave. A name and an
/// `OwnId` find only segments of this user. An `Id` finds what other users share with it, too.
/// `Listed` finds whatever the kernel lets this process read, which is not mapped then.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup<'a> {
    Id(&'a SegmentId),
    OwnId(&'a SegmentId),
    Listed(&'a SegmentId),
    Name(&'a ArrayName),
}

/// A link that holds a segment for a message, as its name says.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(linux_backend), allow(dead_code, reason = "only the Linux backend has such links"))]
pub(crate) struct TicketLink {
    pub(crate) segment: SegmentId,
    /// The cell whose array the message has. Absent in the name that an older version gave.
    pub(crate) cell: Option<u32>,
    pub(crate) ticket: u64,
    /// The owner info of the ticket, of which the name has only the cookie.
    pub(crate) info: u64,
    /// The inode that the link leads to: any user can give a file of its own such a name.
    pub(crate) inode: u64,
}

/// The files of this user in a directory, as their names say.
#[derive(Debug, Default)]
#[cfg_attr(
    not(linux_backend),
    allow(dead_code, reason = "only the Linux backend has names and links to sweep")
)]
pub(crate) struct OwnFiles {
    /// Segments, finished or not. One that is being made may be here twice.
    pub(crate) ids: Vec<SegmentId>,
    /// The names that people gave, each with a slash behind it: one list, which may not fit into
    /// memory.
    pub(crate) name_bytes: Vec<u8>,
    pub(crate) tickets: Vec<TicketLink>,
    /// The number of names that were read, other users' and other programs' among them.
    pub(crate) names_read: usize,
}

#[cfg(linux_backend)]
impl OwnFiles {
    /// Returns the names that people gave.
    pub(crate) fn names(&self) -> impl Iterator<Item = ArrayName> {
        let names = self.name_bytes.split(|byte| *byte == b'/');
        names.filter_map(|name| std::str::from_utf8(name).ok()?.parse().ok())
    }
}

impl std::fmt::Display for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) | Self::OwnId(id) | Self::Listed(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}
