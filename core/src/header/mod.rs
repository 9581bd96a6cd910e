//! The header of a segment: its bytes, its control words, and its leases.

pub(crate) mod format;
pub(crate) mod control;
pub(crate) mod lease;
