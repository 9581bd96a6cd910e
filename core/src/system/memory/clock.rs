//! Clocks and limits, which the stand-in does not have.

/// Returns 0: the stand-in has no clock.
pub(crate) fn monotonic_ns() -> u64 {
    0
}

/// No limit is known here.
pub(crate) fn most_mappings() -> usize {
    usize::MAX
}

/// It is not known here.
pub(crate) fn available_memory() -> u64 {
    0
}

/// No limit is known here.
pub(crate) fn most_cached_bytes() -> u64 {
    u64::MAX
}

/// Whether a file does not exist or is not this user's.
pub(crate) fn is_absent_or_foreign(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// Returns 0: the stand-in has no clock.
pub(crate) fn thread_ns() -> u64 {
    0
}
