//! Tests whose program replaces functions of the C library, or counts what its allocator is asked
//! for. The others must not run in such a program.
#![cfg(linux_backend)] // they need the kernel
#![allow(missing_docs)]

#[path = "../behaviour/support/mod.rs"]
mod support;
#[path = "../behaviour/support/watched.rs"]
mod watched;

mod exits;
mod fork_allocations;
mod nonsense;
