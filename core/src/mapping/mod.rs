//! Files of segments that this process has mapped, and mappings that it keeps for later.
//!
//! A file is mapped once for each [`Access`](crate::sys::Access), however many arrays lie in it.

mod usage;
mod mapped;
mod fill;
mod cache;
mod table;

pub(crate) use fill::Fill;
pub(crate) use mapped::{Mapped, read_header};
pub(crate) use table::{
    MAPPINGS, cache_private, empty_cache, find, forget_cached, insert, keep_if_reusable,
};
pub(crate) use usage::{PrivateBytes, mappings};
