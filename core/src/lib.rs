//! Typed n-dimensional arrays in shared memory, the same in every language.
//!
//! A process creates an [`Array`] and passes on its handle, a line of text. Any other process on
//! the machine attaches the same memory as its own array:
//!
//! ```
//! use shmarray::{Access, Array, DType, Options};
//!
//! let a = Array::create(DType::parse("<f8")?, &[2, 3], &Options::default())?;
//! a.set(&[1, 2], 0.5)?;
//! let text = a.handle(); // through a pipe, an argument, an environment variable …
//!
//! let b = Array::attach(&text, Access::ReadOnly)?; // … in another process
//! assert_eq!(b.get::<f64>(&[1, 2])?, 0.5);
//! # Ok::<(), shmarray::Error>(())
//! ```
//!
//! Nothing is copied, and the memory is given back when no process holds it any more, however the
//! holders end.
//!
//! # What there is
//! | to | use |
//! |---|---|
//! | make, name and attach arrays, and take parts of them without a copy | [`Array`], [`Options`], [`DType`], [`Element`] |
//! | see an array as `ndarray`'s | `Array::raw_view`, with the feature `ndarray` |
//! | stream arrays between processes: queues, broadcasts, the latest value | [`Channel`], [`ChannelOptions`], [`Loan`], [`Delivery`] |
//! | wait for a channel in `epoll` or tokio | [`Channel::event`] |
//! | pass arrays through a socket that other bytes go through, too | [`Pipe`] |
//! | share a data set: numbers, arrays of any lengths, strings, records | [`List`], [`Dict`], [`ColumnBuilder`] |
//! | read and write NPY files | [`npy`] |
//! | pass arrays to libraries that take DLPack | [`dlpack`] |
//! | keep the arrays of another library in shared memory | [`allocator`] |
//! | see and clear what there is | [`segments`], [`unlink`], [`sweep`] |
//! | know what went wrong | [`Error`], [`ErrorKind`] |
//!
//! A thread may use any of these beside others. Whoever reads an array while another process writes
//! to it sees old and new elements mixed, so `Array::raw_view` gives raw views: the program knows
//! when nobody writes. A forked child has its parent's arrays and channels, too.
//!
//! FORMAT.md beside this crate specifies the bytes, PROTOCOL.md and CHANNELS.md who holds what;
//! ARCHITECTURE.md in the repository is the guide to the source.
// A later version adds variants and fields without breaking a program.
#![deny(clippy::exhaustive_enums, clippy::exhaustive_structs)]
#![cfg_attr(miri, feature(core_intrinsics), allow(internal_features))] // for `per_byte` alone
#![cfg_attr(
    not(linux_backend),
    allow(
        dead_code,
        unused_imports,
        reason = "forks, exits and sweeps are the Linux backend's; there it is denied"
    )
)]

// The message stands alone: on these targets the code still passes the compiler's other checks. So
// system/linux casts where C's types are narrower on 32 bits.
#[cfg(not(all(
    target_endian = "little",
    target_pointer_width = "64",
    any(target_os = "linux", target_os = "macos", windows)
)))]
compile_error!(
    "shmarray needs Linux, macOS or Windows on a little-endian machine with 64-bit pointers"
);

// The floors: each uses only those above it here, and so do the files of each floor in its
// `mod.rs`. ci/tidy checks it.
pub(crate) mod value;
pub(crate) mod element;
pub(crate) mod header;
pub(crate) mod system;
pub(crate) mod memory;
pub(crate) mod array;
pub mod allocator;
pub(crate) mod file;
pub(crate) mod list;
pub(crate) mod transport;

pub use file::npy;

pub use array::dlpack;
pub use array::reduce::{Reduced, Reduction};
pub use array::{Array, Options, discard, gather, prepare_pool, take_ticket};
pub use element::Element;
pub use element::compare::are_same_bytes;
pub use element::copy::copied_bytes;
pub use header::format::{ChannelMode, WhenFull};
pub use list::{AllItems, Column, ColumnBuilder, ColumnKind, Dict, ItemType, Key, List, Written};
#[cfg(linux_backend)]
pub use memory::segment::leave_channels;
pub use memory::segment::{
    SegmentInfo, SegmentKind, has_room, is_family_alive, segments, should_copy, try_directory,
    unlink,
};
pub use memory::slab::limit_pool;
pub use memory::sweep::{Swept, empty_pool, sweep, sweep_dead, trim_pool};
pub use system::Access;
#[doc(hidden)]
pub use system::SharedWords;
#[cfg(linux_backend)]
pub use system::{MemoryIdentity, directory};
pub use transport::channel::{
    Channel, ChannelEvent, ChannelOptions, ChannelStats, Delivered, Delivery, EndStats, HandedOver,
    Loan, Loaned, MAX_META_BYTES, Posted, Receives, WaitOutcome,
};
pub use transport::pipe::{Message, Pipe, Received, Sent, family, in_band_bytes};
pub use transport::queue_slots::{QUEUE_SLOT_BYTES, QueueSlot, QueueSlots};
#[doc(hidden)]
pub use transport::queue_tasks::{QUEUE_TASK_ENTRIES, QueueTasks};
pub use value::descriptor::{Descriptor, MAX_HANDLE_BYTES};
pub use value::dtype::{DType, DTypeKind, MAX_ITEMSIZE, TypeCode};
pub use value::error::{Error, ErrorKind, Result};
pub use value::name::{ArrayName, MAX_NAME_BYTES, SegmentId, SegmentText};
pub use value::number::Number;
pub use value::shape::{Layout, MAX_NDIM, Order, size_bytes};
pub use value::small;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of the segment layout that this library writes: major, minor.
pub const LAYOUT_VERSION: (u32, u32) = (header::format::LAYOUT_MAJOR, header::format::LAYOUT_MINOR);

/// Runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
