//! NumPy's allocations in shared memory, and the offers by which a message takes them.

mod numpy;
mod offers;

pub(crate) use numpy::{allocator_stats, free_idle, set_allocator};
pub(crate) use offers::{Offers, has_finalizer, move_in_use};
