//! The payload of an object that fits into its message, as almost all do.
//!
//! Nothing here calls Python. If the interpreter ends while a daemon thread is in Python code
//! called from Rust, that thread is unwound through Rust, and the process aborts.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::{Reducer, Stream};

/// A pickler that has written a longer stream, not counting bytes of arrays, is not used again: its
/// memo has grown, and clearing it takes time each time.
const SMALL_STREAM_BYTES: usize = 8 << 10;

/// Takes what a pickler has written. Returns the payload, and whether the pickler, which still has
/// its memo, may be used again. Returns `None`, and takes nothing, if there are out-of-band
/// buffers, or if some of the stream is in shared memory.
#[pyfunction]
#[pyo3(signature = (stream, reducer, buffers, /))]
pub(crate) fn small_payload<'py>(
    stream: &Bound<'py, Stream>,
    reducer: &Bound<'py, Reducer>,
    buffers: &Bound<'py, PyList>,
) -> PyResult<Option<(Bound<'py, PyTuple>, bool)>> {
    let mut stream = stream.borrow_mut();
    let mut reducer = reducer.borrow_mut();
    if !buffers.is_empty() || !stream.is_in_memory() {
        return Ok(None);
    }
    let payload = stream.payload(buffers.py(), &[])?;
    let is_small = stream.tell().saturating_sub(reducer.inline_bytes()) <= SMALL_STREAM_BYTES;
    stream.clear();
    let small_bytes = reducer.small_bytes();
    reducer.begin(small_bytes); // the pickler's memo keeps all of its objects, too
    Ok(Some((payload, is_small)))
}
