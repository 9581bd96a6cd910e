//! The segments and cells of this process, from their mapping to their end.

pub(crate) mod operation;
pub(crate) mod mapping;
pub(crate) mod slab;
pub(crate) mod segment;
pub(crate) mod sweep;
pub(crate) mod process;
