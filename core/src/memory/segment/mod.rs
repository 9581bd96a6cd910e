//! A segment, or a cell of a slab, that this process holds.
//!
//! The table finds a segment by id when a handle arrives, and by address when a binding asks for
//! the handle of memory that it has. The table owns nothing: an array's `Arc<Segment>` does.
//!
//! Invariants:
//! * I1 a `Segment` was LIVE with its generation while this process already held it.
//! * I2 its data is mapped from `data_start()` for `data_bytes` until it is dropped.
//! * I3 its header was copied out, the copy was validated, and the original is not read again. The
//!   same holds for a cell's number and its `data_bytes`.

mod hold;
mod held;
mod create;
mod attach;
#[cfg(linux_backend)]
pub(crate) mod fork;
#[cfg(linux_backend)]
pub(crate) mod exit;
mod list;
mod unlink;

pub(crate) use attach::discard;
pub use attach::{has_room, should_copy, try_directory};
pub(crate) use create::{CreationOptions, reserve};
#[cfg(linux_backend)]
pub use exit::leave_channels;
pub(crate) use held::{Segment, holds_all_of};
pub(crate) use hold::clear_dead_and_close;
pub use list::{SegmentInfo, SegmentKind, is_family_alive, segments};
pub use unlink::unlink;
