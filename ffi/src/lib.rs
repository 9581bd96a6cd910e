//! The C ABI of shmarray: `include/shmarray.h` is generated from here.
//!
//! Every exported function is a few lines: arguments are checked and borrowed, core is
//! called, the result is put where the caller said. Panics are caught in one place,
//! [`error`]'s guard. What pointers mean is told by their Rust types: `Option<&T>` is
//! borrowed and may be NULL, `Option<Box<T>>` is consumed, `*mut T` is written last.
//!
//! The symbols are listed in `include/shmarray.map`; a test compares map, header and library.
#![allow(non_camel_case_types)] // the names are C's
#![allow(unsafe_code)] // the whole crate is a boundary; each block says why it holds

mod arguments;
pub mod array;
pub mod dtype;
pub mod error;
#[cfg(target_os = "linux")]
pub mod message;
pub mod segment;
