//! The types that every backend takes and returns.

use std::sync::atomic::AtomicU64;

use crate::name::{ArrayName, SegmentId};

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
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup<'a> {
    Id(&'a SegmentId),
    OwnId(&'a SegmentId),
    Name(&'a ArrayName),
}

impl std::fmt::Display for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) | Self::OwnId(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}
