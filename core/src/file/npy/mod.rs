//! NPY and NPZ files, straight into shared memory.
//!
//! * `fault`: what is wrong with a file, and where; `threads`: how many there are, and their work.
//! * `literal`, `spelling`, `descr`, `header`: the header of an NPY file, pure.
//! * `source`: the bytes of a file, from the file or from memory.
//! * `load`: one NPY file.
//! * `batch`: many NPY files in one array.
//! * `methods`, `stream`, `whole`, `directory`, `npz`: the members of an NPZ file.
//! * `elements`, `zip`, `save`: what is written, and how.
//! * `hidden`, `older`, `target`: the file that is written, and what becomes of an older one.

mod fault;
mod threads;
mod literal;
mod spelling;
mod descr;
mod header;
mod source;
mod load;
mod batch;
mod methods;
mod stream;
#[cfg(inflates_whole)]
mod whole;
mod directory;
mod npz;
mod elements;
mod hidden;
mod older;
mod target;
mod zip;
mod save;

pub use batch::{Batch, Progress};
pub use elements::Elements;
pub use header::NpyHeader;
pub use load::Npy;
pub use npz::{Member, Npz};
pub(crate) use save::save_pieces;
pub use save::{
    Contents, NpzOptions, save, save_bytes, save_elements, save_elements_while, save_npz,
    save_npz_while, write_npy, write_npz, write_npz_stream,
};
pub use source::{FileMap, Source};
