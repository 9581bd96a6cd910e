//! NPY and NPZ files: loaded by core, without the GIL, into arrays of NumPy's.
//!
//! * `input`: where a file comes from: a path, an open file, or an object's memory.
//! * `room`: private memory of NumPy's that core fills.
//! * `npy`, `npz`, `batch`: what is loaded. `save`: what is saved.

mod input;
mod room;
mod npy;
mod npz;
mod batch;
mod save;

pub(crate) use batch::load_batch;
pub(crate) use input::{BufferMemory, FileMemory};
pub(crate) use npy::{load_npy, npy_header, npy_header_size};
pub(crate) use npz::Archive;
pub(crate) use save::{check_dtype, save_bytes, save_npy, save_npz};
