//! `shma_npy_*`: the C functions on NPY files.

use std::ffi::{c_char, c_void};
use std::path::Path;

use shmarray::npy::{self, Batch, Npy, Source};

use crate::arguments::{file_in_memory, list, needed, path as path_of, produce};
use crate::array::shma_array;
use crate::error::{Failure, guard, shma_error, shma_status};
use crate::options::{Chosen, shma_options};

/// Loads an NPY file into shared memory. The elements are read straight into the array, and what
/// follows them in the file is ignored.
///
/// The file says the dtype, the shape and the order of the elements. options may be NULL; its order
/// must be SHMA_ORDER_C, and its dtype_text and itemsize must be those of the file, unless they are
/// NULL and 0. Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_INVALID_FILE,
/// SHMA_ERROR_DTYPE_MISMATCH if the dtype is not that of options, SHMA_ERROR_INVALID_DTYPE if the
/// file has Python objects, and like shma_array_create.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npy_load(
    path: *const c_char,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees.
        let path = unsafe { path_of("path", path) }?;
        // SAFETY: `Chosen::read` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || load(Source::file(path)?, &chosen)) }
    })
}

/// Loads the bytes of an NPY file into shared memory, as shma_npy_load does.
///
/// data has size_bytes bytes. Another thread or process may write them meanwhile: the call then
/// returns an array with some of the bytes before and some after, or fails.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npy_load_bytes(
    data: *const c_void,
    size_bytes: usize,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `file_in_memory` needs NULL or `size_bytes` bytes: P3 of the crate, which the C
        // caller guarantees.
        let source = unsafe { file_in_memory(data, size_bytes) }?;
        // SAFETY: `Chosen::read` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || load(source, &chosen)) }
    })
}

fn load(source: Source<'_>, chosen: &Chosen<'_>) -> Result<shma_array, Failure> {
    let npy = Npy::open(source)?;
    let options = chosen.of_file(npy.dtype()?)?;
    Ok(shma_array(npy.load(options)?))
}

/// Loads NPY files of one shape and dtype into one array in shared memory, in C order: its first
/// dimension counts the files, and the others are those of each file.
///
/// paths has count elements, at least one. threads is the number of threads that read; 0 stands for
/// one for each core. options is as for shma_npy_load. Fails like that, and with
/// SHMA_ERROR_INVALID_FILE if a file has another shape or dtype than the first one.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npy_load_batch(
    paths: *const *const c_char,
    count: usize,
    threads: u32,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `list` needs NULL or `count` pointers: P3 of the crate, which the C caller
        // guarantees.
        let paths = unsafe { list("paths", paths, count) }?;
        // SAFETY: `Chosen::read` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for each of `paths`.
        let paths = paths.iter().map(|path| unsafe { path_of("paths", *path) });
        let paths = paths.collect::<Result<Vec<_>, Failure>>()?;
        let make = || load_batch(&paths, threads as usize, &chosen);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, make) }
    })
}

fn load_batch(paths: &[&Path], threads: usize, chosen: &Chosen<'_>) -> Result<shma_array, Failure> {
    let batch = Batch::open(paths.len(), |index| Source::file(paths[index]))?;
    let options = chosen.of_file(batch.header().dtype()?)?;
    Ok(shma_array(batch.load(options, threads, &|_| Ok(()))?))
}

/// Saves an array to an NPY file, with the bytes that numpy.save writes. The file appears under its
/// path when it is complete. An older one is replaced and keeps its owner, mode and attributes, or
/// is written in place if it has several names or cannot be replaced: a kill may then leave a part
/// of it, which begins with zeros. A pipe is written as it is. The path is used as it is: no ".npy"
/// is added.
///
/// Fails with SHMA_ERROR_NOT_FOUND if the folder does not exist, SHMA_ERROR_INVALID_DTYPE if an NPY
/// file cannot describe the dtype, SHMA_ERROR_OS.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npy_save(
    path: *const c_char,
    array: Option<&shma_array>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `path`.
        let path = unsafe { path_of("path", path) }?;
        Ok(npy::save(path, &needed("array", array)?.0)?)
    })
}
