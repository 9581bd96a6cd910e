//! NPY and NPZ files: the module `Shmarray::Files`, and the class `Shmarray::NpzFile`.
//!
//! `lib/shmarray/files.rb` defines what users call. It reads and writes IOs by these methods.
//!
//! * `input`: the file that a method is given, by its path or as its bytes.
//! * `maker`: the objects of arrays that were loaded.
//! * `load`: one NPY file, or many in one array.
//! * `archive`: the members of an NPZ file.
//! * `save`: arrays to a file or an IO.

use magnus::{Error, Module, RModule, Ruby};

mod input;
mod maker;
mod load;
mod archive;
mod save;

pub(crate) use maker::Maker;

/// Defines the module and the class.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let files = shmarray.define_module("Files")?;
    load::define(ruby, files)?;
    save::define(files)?;
    archive::define(ruby, shmarray)
}
