//! The segment files that this process has mapped, and the mappings that it caches.
//!
//! A file is mapped once for each [`Access`](crate::system::Access), however many arrays lie in it.

mod usage;
mod mapped;
mod fill;
mod cache;
mod table;

pub(crate) use fill::{Fill, FillFn, PiecesFn, TakePiece};
pub(crate) use mapped::{Mapped, read_header};
pub(crate) use table::{
    MAPPINGS, cache_if_reusable, cache_private, empty_cache, evict_cached, evict_ended,
    evict_lock_only, find, insert,
};
pub(crate) use usage::{PrivateBytes, mappings};
