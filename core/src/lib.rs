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
//! holders end. FORMAT.md beside this crate specifies the bytes; ARCHITECTURE.md in the repository
//! is the guide to the source.
//!
//! The modules form a line: each uses only those before it.
#![cfg_attr(miri, feature(core_intrinsics), allow(internal_features))] // for `per_byte` alone
#![cfg_attr(
    any(not(target_os = "linux"), shmarray_portable, miri),
    allow(
        dead_code,
        unused_imports,
        reason = "forks, exits and messages are the Linux backend's; there it is denied"
    )
)]

// The message stands alone: on these targets the code still passes the compiler's other checks. So
// sys/linux casts where C's types are narrower on 32 bits.
#[cfg(not(all(
    target_endian = "little",
    target_pointer_width = "64",
    any(target_os = "linux", target_os = "macos", windows)
)))]
compile_error!(
    "shmarray needs Linux, macOS or Windows on a little-endian machine with 64-bit pointers"
);

// The line of modules. ci/tidy checks it.
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod dtype;
pub(crate) mod shape;
pub(crate) mod name;
pub(crate) mod descriptor;
pub(crate) mod format;
pub(crate) mod control;
pub(crate) mod lease;
pub(crate) mod sys;
pub(crate) mod per_byte;
pub(crate) mod copy;
pub(crate) mod mapping;
pub(crate) mod slab;
pub(crate) mod segment;
pub(crate) mod sweep;
pub(crate) mod process;
pub(crate) mod number;
pub(crate) mod element;
pub(crate) mod array;
pub(crate) mod reduce;
pub mod npy;
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub(crate) mod message;
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub(crate) mod queue_slots;
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub(crate) mod channel;
#[cfg(feature = "ndarray")]
mod views;

pub use array::{Array, Options, discard, prepare_pool};
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub use channel::{
    Channel, ChannelOptions, ChannelStats, Delivered, EndStats, Loan, Loaned, MAX_META_BYTES,
    Posted, View,
};
pub use copy::copied_bytes;
pub use descriptor::{Descriptor, MAX_HANDLE_BYTES};
pub use dtype::{DType, DTypeKind, MAX_ITEMSIZE, TypeCode};
pub use element::Element;
pub use error::{Error, ErrorKind, Result};
pub use format::{ChannelMode, WhenFull};
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub use message::{Message, Pipe, Received, Sent, family, in_band_bytes};
pub use name::{ArrayName, SegmentId, SegmentText};
pub use number::Number;
#[cfg(all(target_os = "linux", not(shmarray_portable), not(miri)))]
pub use queue_slots::{QUEUE_SLOT_BYTES, QueueSlot, QueueSlots};
pub use reduce::{Reduced, Reduction};
pub use segment::{
    SegmentInfo, SegmentKind, has_room, is_family_alive, segments, should_copy, try_directory,
    unlink,
};
pub use shape::{Layout, MAX_NDIM, Order, size_bytes};
pub use slab::limit_pool;
pub use sweep::{Swept, empty_pool, sweep, sweep_dead, trim_pool};
pub use sys::Access;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of the segment layout that this library writes: major, minor.
pub const LAYOUT_VERSION: (u32, u32) = (format::LAYOUT_MAJOR, format::LAYOUT_MINOR);

/// Runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Runs the pairs of programs that show which types can grow. The outcomes of messages are among
/// them, so it is the Linux backend's.
#[cfg(all(doctest, target_os = "linux", not(shmarray_portable)))]
#[doc = include_str!("../tests/growable.md")]
struct Growable;
