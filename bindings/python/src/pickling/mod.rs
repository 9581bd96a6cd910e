//! The parts of pickling that run for each object or each write. They are in Rust because Python's
//! pickler, which is in C, calls them so often.

mod reducer;
mod stream;
mod small;

pub(crate) use reducer::Reducer;
pub(crate) use small::small_payload;
pub(crate) use stream::{Stream, bytes_of};
