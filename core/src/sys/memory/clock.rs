//! Clocks and limits that a model does not have.

pub(crate) fn monotonic_ns() -> u64 {
    0
}

/// Not known here.
pub(crate) fn most_mappings() -> usize {
    usize::MAX
}

/// Whether a file is not there, or not this user's.
pub(crate) fn is_none_of_ours(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

pub(crate) fn thread_ns() -> u64 {
    0
}
