//! The Ruby binding of shmarray: converts arguments, calls core, converts results.
//!
//! | module | what it hides |
//! |---|---|
//! | `error` | the one table from core's errors to Ruby's exception classes |
//! | `suggest` | the dtype that a word of another language means |
//! | `arguments` | shapes, dtypes and options in Ruby's forms |
//! | `gvl` | running without Ruby's global lock |
//! | `postponed` | how Ruby is asked to call a function later |
//! | `collector` | telling the collector how much its objects hold; the pool after collections |
//! | `slot_use` | how long an array in a slot of a channel may be used |
//! | `element` | one element as a Ruby object |
//! | `index` | the index between the brackets of `array[…]` |
//! | `array` | the class `Shmarray::Array` |
//! | `array::closable` | the array that an object has until it is closed |
//! | `array::elements`, `array::compare` | the loops over its elements, and its equality |
//! | `reductions` | its sums, means, extremes and counts |
//! | `memory_view` | that class for Ruby's MemoryView protocol |
//! | `io_buffer` | `IO::Buffer`s over that class's memory, and the memory of others |
//! | `dlpack` | that class as a tensor of other frameworks, and theirs |
//! | `segments` | `Shmarray.sweep`, `.segments`, `.unlink`, `.discard`, `.copied_bytes` |
//! | `numo` | Numo's structs, and the probe that checks them |
//! | `numo_array` | Numo arrays over shared memory, made and read |
//! | `sources` | private arrays that are being copied while other threads run |
//! | `numo_shared` | the module `Numo::Shared` |
//! | `npy` | NPY and NPZ files: `Shmarray.load_npy` and its relatives, `Shmarray::NpzFile` |
//! | `list` | the classes `Shmarray::List` and `Shmarray::Dict`, and their private builders |
//! | `assign` | `Shmarray::Array#[]=` and `#fill` |
//! | `wrap` | Numo's arrays, buffers and exported MemoryViews, as arrays |
//! | `message` | the classes `Shmarray::Pipe` and `Shmarray::Message` |
//! | `channel` | the class `Shmarray::Channel` |
//! | `parallel` | what only `Numo::Parallel` uses: whether an object contains arrays, the counter of jobs, system calls that Ruby lacks |
//!
//! The modules form a line: each uses only those before it. The extension loads without Numo; the
//! modules with Numo's name wait until `lib/numo/shared.rb` calls `Shmarray.bind_numo`.
#![allow(missing_docs)] // exports nothing to Rust, except the `Init_shmarray_ruby` of a macro

use magnus::{Error, Ruby};

mod postponed;
mod collector;
mod error;
mod slot_use;
mod element;
mod gvl;
mod index;
mod numo;
mod numo_array;
mod sources;
mod suggest;
mod arguments;
mod array;
mod dlpack;
mod io_buffer;
mod memory_view;
mod reductions;
mod segments;
mod numo_shared;
mod npy;
mod list;
mod assign;
#[cfg(unix)]
mod message;
mod channel;
mod parallel;
mod wrap;

/// Defines everything. Ruby calls it when it loads the extension.
#[magnus::init(name = "shmarray_ruby")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    gvl::allow_ractors();
    collector::follow()?;
    let shmarray = ruby.define_module("Shmarray")?;
    error::define(ruby, shmarray)?;
    segments::define(shmarray)?;
    array::define(ruby, shmarray)?;
    npy::define(ruby, shmarray)?;
    list::define(ruby, shmarray)?;
    assign::define(ruby)?;
    reductions::define(ruby)?;
    memory_view::register(ruby);
    io_buffer::define(ruby)?;
    dlpack::define(ruby)?;
    wrap::define(ruby)?;
    #[cfg(unix)]
    message::define(ruby, shmarray)?;
    channel::define(ruby, shmarray)?;
    parallel::define(ruby, shmarray)?;
    numo_shared::define_binder(shmarray)
}
