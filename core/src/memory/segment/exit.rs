//! The exit of a process: it gives its leases back while the memory stays mapped.

use super::held::{TABLE, Table};
use crate::memory::slab;
use crate::system;

/// Closes all channels of this process and gives them back, as its exit does. For a process that is
/// about to end without running exit handlers, and has not died.
pub fn leave_channels() {
    let table = TABLE.lock();
    Table::for_each(&table, |segment| {
        if segment.is_channel() {
            std::mem::forget(segment.leave_at_exit()); // it is no slab's
        }
    });
}

/// Gives back all that this process holds, after other threads have ended their operations. Returns
/// whether nothing is left for a sweep.
pub(crate) fn leave_all() -> bool {
    system::operations::wait_for_others();
    let table = TABLE.lock();
    let mut is_clean = true;
    Table::for_each(&table, |segment| {
        is_clean &= !segment.is_lock_only();
        std::mem::forget(segment.leave_at_exit());
    });
    drop(table);
    slab::leave_at_exit();
    is_clean
}
