//! The Ruby binding of shmarray: converts arguments, calls core, converts results.
//!
//! | module | what it hides |
//! |---|---|
//! | `errors` | the one table from core's errors to Ruby's exception classes |
//! | `arguments` | shapes, dtypes and options as Ruby people write them |
//! | `gvl` | running without Ruby's global lock; telling the collector how much we hold |
//! | `element` | one element as a Ruby object |
//! | `index` | what stands between the brackets of `array[…]` |
//! | `array` | the class `Shmarray::Array` |
//! | `reductions` | its sums, means, extremes and counts |
//! | `memory_view` | that class for Ruby's MemoryView protocol |
//! | `io_buffer` | `IO::Buffer`s of that class's memory, and what others are of |
//! | `segments` | `Shmarray.sweep`, `.segments`, `.unlink`, `.discard`, `.copied_bytes` |
//! | `numo` | Numo's structs, and the probe that they are what we think |
//! | `numo_array` | Numo arrays over shared memory, made and read |
//! | `sources` | private arrays that are being copied while other threads run |
//! | `numo_shared` | the module `Numo::Shared` |
//! | `wrap` | Numo's arrays, buffers and what others export, as arrays |
//! | `messages` | the classes `Shmarray::Pipe` and `Shmarray::Message` |
//!
//! They form a line: each uses only those before it. Nothing here needs Numo; those of that
//! name wait for `lib/numo/shared.rb` to call `Shmarray.bind_numo`.
#![allow(missing_docs)] // exports nothing to Rust, but for the `Init_shmarray_ruby` of a macro

use magnus::{Error, Ruby};

mod arguments;
mod array;
mod element;
mod errors;
mod gvl;
mod index;
mod io_buffer;
mod memory_view;
#[cfg(target_os = "linux")]
mod messages;
mod numo;
mod numo_array;
mod numo_shared;
mod reductions;
mod segments;
mod sources;
mod wrap;

/// What Ruby calls when it loads the extension.
#[magnus::init(name = "shmarray_ruby")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    gvl::allow_ractors();
    let shmarray = ruby.define_module("Shmarray")?;
    errors::define(ruby, shmarray)?;
    segments::define(shmarray)?;
    array::define(ruby, shmarray)?;
    reductions::define(ruby)?;
    memory_view::register(ruby);
    io_buffer::define(ruby)?;
    wrap::define(ruby)?;
    #[cfg(target_os = "linux")]
    messages::define(ruby, shmarray)?;
    numo_shared::define_binder(shmarray)
}
