//! Writes an object whose pickle fits into its message, as almost all do, in one call from Python.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::{Reducer, Stream};

/// A pickler that has written a longer stream, beside bytes of arrays, is not used again: its memo has grown, and
/// clearing it takes time each time.
const SMALL_STREAM_BYTES: usize = 8 << 10;

/// Has a pickler write an object. The payload, and whether the pickler, which has let go of the object, may be used
/// again; `None` if there are places, if some of the stream is in shared memory, or if small arrays have memory in
/// common.
#[pyfunction]
#[pyo3(signature = (pickler, stream, reducer, places, object, /))]
pub(crate) fn write_small<'py>(
    pickler: &Bound<'py, PyAny>,
    stream: &Bound<'py, Stream>,
    reducer: &Bound<'py, Reducer>,
    places: &Bound<'py, PyList>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyTuple>, bool)>> {
    let py = pickler.py();
    look(py)?;
    pickler.call_method1(intern!(py, "dump"), (object,))?;
    let (mut stream, mut reducer) = (stream.borrow_mut(), reducer.borrow_mut());
    if !places.is_empty() || !stream.is_in_memory() || reducer.have_common(Vec::new())? {
        return Ok(None);
    }
    let payload = stream.payload(py, &[])?;
    let is_small = stream.tell().saturating_sub(reducer.taken()) <= SMALL_STREAM_BYTES;
    stream.clear();
    let small_bytes = reducer.small_bytes();
    reducer.begin(small_bytes);
    drop((stream, reducer)); // what the pickler lets go of may run anything
    pickler.call_method0(intern!(py, "clear_memo"))?;
    Ok(Some((payload, is_small)))
}

/// Lets `_arrow` look for the classes of what was imported meanwhile.
fn look(py: Python<'_>) -> PyResult<()> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let count = MODULES.import(py, "sys", "modules")?.len();
    if SEEN.swap(count, Ordering::Relaxed) != count {
        py.import(intern!(py, "shmarray._arrow"))?.call_method0(intern!(py, "look"))?;
    }
    Ok(())
}
