//! The begin and the end of this process's use of shared memory.

#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(crate) use super::fork::begin;

/// Where nothing follows a fork or an exit there is nothing to begin.
#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn begin() -> crate::error::Result<()> {
    Ok(())
}

/// An operation that makes, opens or drops an array, as long as it lives: the exit waits for it.
#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(super) use crate::sys::operations::Operation;

/// Where nothing follows an exit nothing waits.
#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
#[must_use]
pub(super) struct Operation(());

#[cfg(not(all(target_os = "linux", not(feature = "portable"), not(miri))))]
impl Operation {
    pub(super) fn begin() -> Self {
        Self(())
    }
}

/// At exit leases are given back while the memory stays mapped, for whoever still runs.
#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(super) extern "C" fn exit() {
    use super::table::{TABLE, Table};
    use super::{cells, sweep};
    if crate::sys::is_orphaned() || crate::sys::fork::is_inside() {
        return; // nothing is whole, or a signal handler that ends the process would wait for itself
    }
    crate::sys::operations::wait_for_others();
    let table = TABLE.lock();
    let mut is_clean = true;
    Table::for_each(&table, |segment| {
        is_clean &= !segment.is_by_lock();
        std::mem::forget(segment.leave_at_exit());
    });
    drop(table);
    cells::leave_at_exit();
    sweep::at_exit(is_clean);
}
