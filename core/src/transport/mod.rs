//! Arrays on their way from one process to another.

#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub(crate) mod message;
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub(crate) mod queue_slots;
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub(crate) mod channel;
