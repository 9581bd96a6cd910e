//! What Python's pickler, in C, calls for each object that it does not know: so it is not in Python.

mod extents;
mod gather;
mod reducer;
mod stream;
mod writing;

pub(crate) use reducer::Reducer;
pub(crate) use stream::Stream;
pub(crate) use writing::write_small;
