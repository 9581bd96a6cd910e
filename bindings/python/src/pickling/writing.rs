//! Writing an object that fits into its message, as almost all do: at once, and without Python.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::{Reducer, Stream};

/// What a pickler remembers of more than that, beside bytes of arrays, takes time to clear, each time from then on.
const SMALL_STREAM_BYTES: usize = 8 << 10;

/// Has a pickler write an object. Where there are no places then, and small arrays have no memory in common, the payload
/// of the message; and whether the pickler, which has let go of the object, may be used again.
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
