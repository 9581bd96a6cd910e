//! Slabs: segments that hold several arrays, each in a cell, and that a process keeps for reuse.
//!
//! A thousand small arrays are not a thousand mappings, and the memory of an array that is gone is
//! there for the next one. Only the process that made a slab gives its cells out (`free_lists`). A
//! cell has a state, a generation and leases of its own in its head, so it is held, ticketed,
//! closed and swept as a segment is. A slab ends when none of its cells is in use and its maker
//! has no pool lease on it. PROTOCOL.md has the rest.
//!
//! Cells are whole pages, so that the memory of one can go back to the system while its neighbours
//! stay. A slab that is not pooled keeps the memory of a few free cells for the next arrays. An
//! array is at least a byte smaller than its cell, so no data starts where another's ends, and an
//! address, even of no elements, tells which array it belongs to.

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
pub(crate) use reclaim::SweepMode;
pub(crate) use release::{freed, leave_at_exit, let_go, let_go_of, let_go_of_idle, sweep};
pub(crate) use request::{CellArray, Request, Reuse};
