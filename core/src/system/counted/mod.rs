//! The backends that count the holders of a segment: `portable` counts them in the segment, and
//! `memory` in this process.
//!
//! In both, nothing says that a holder has died. Each backend imports all of `absent`, which stands
//! for what only the Linux backend has. An item of its own takes the place of the one there.

pub(crate) mod fd;
pub(crate) mod socket;
mod absent;
#[cfg(memory_backend)]
pub(super) mod memory;
#[cfg(portable_backend)]
pub(super) mod portable;

pub use absent::SharedWords;
