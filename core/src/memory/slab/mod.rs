//! Slabs: segments that hold several arrays, each in a cell, and that a process keeps for reuse.
//!
//! A thousand small arrays are not a thousand mappings, and a new array reuses the memory of one
//! that is gone. Only the process that made a slab gives its cells out (`free_lists`). The head of
//! a cell has a state, a generation and leases of its own, so a cell is held, ticketed, closed and
//! swept as a segment is. A slab ends when none of its cells is in use and its maker has no pool
//! lease on it. PROTOCOL.md has the details.
//!
//! Cells are whole pages, so the memory of one can go back to the system while its neighbours stay.
//! A slab that is not pooled keeps the memory of a few free cells for the next arrays. An array is
//! at least a byte smaller than its cell, so no data starts where another's ends, and any address,
//! even that of an array without elements, belongs to one array.

mod size_class;
mod pool_limit;
mod reclaim;
mod cell;
mod owned;
mod free_lists;
mod release;
mod request;

pub(crate) use free_lists::{FREE_LISTS, before_fork};
pub(crate) use owned::Slab;
pub use pool_limit::limit_pool;
pub(crate) use reclaim::SweepMode;
pub(crate) use release::{forget, freed, leave_at_exit, release_idle, release_unused, sweep};
pub(crate) use request::{CellArray, CellRequest, MakeRoom};
pub(crate) use size_class::bytes_alone;
