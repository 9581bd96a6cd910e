//! Arrays on their way from one process to another.

#[cfg(linux_backend)]
pub(crate) mod pipe;
#[cfg(linux_backend)]
pub(crate) mod queue_slots;
#[cfg(linux_backend)]
pub(crate) mod channel;
