//! The C ABI of shmarray: `include/shmarray.h` is generated from here.
//!
//! An exported function checks and borrows its arguments, calls core, and writes the result to the
//! caller's outputs. The guard in [`error`] catches panics; functions without a status that only
//! read fields have none, because nothing in them can panic. The Rust type of a pointer says how it
//! is used: `Option<&T>` is borrowed and may be NULL, `Option<Box<T>>` is consumed, and `*mut T` is
//! an output that is written last. An array alone may have several owners: its pointers are those
//! of an `Arc`, and `shma_array_close` takes one of the owners away.
//!
//! SAFETY comments cite these obligations of a C caller, which the header states:
//!
//! - P1: a pointer is NULL or points to a live, aligned object of its type.
//! - P2: a text is NULL or ends in a zero byte, and is not changed during the call.
//! - P3: a list or a buffer is NULL or has as many elements as the count that is passed with it.
//! - P4: an output pointer is NULL or is valid for a write of its type.
//!
//! The symbols are listed in `include/shmarray.map`; a test compares map, header and library.
#![allow(non_camel_case_types)] // the type names follow C's convention
#![allow(unsafe_code)] // every function here takes C pointers; each block states why it is sound

pub mod library;
pub mod error;
mod arguments;
pub mod dtype;
pub mod options;
pub mod array;
pub mod view;
pub mod dlpack;
pub mod waiting;
pub mod message;
pub mod channel;
pub mod loan;
pub mod delivery;
pub mod handed_over;
pub mod segment;
pub mod npy;
pub mod npz;
pub mod column;
pub mod column_builder;
pub mod list;
pub mod dict;
