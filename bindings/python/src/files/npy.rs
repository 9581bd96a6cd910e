//! One NPY file.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::npy::{Header, Npy};
use shmarray::{Layout, Options, Order};

use super::input::Input;
use super::room::{Room, make_readonly};
use crate::error::to_py;
use crate::lease::ndarray_over;
use crate::memory::LARGE_BYTES;
use crate::{dtypes, lease};

/// Returns the array of an NPY file and the number of bytes up to its end. The array is None if it
/// has Python objects. Returns None for what is neither a path nor has a buffer.
#[pyfunction]
pub(crate) fn load_npy<'py>(
    source: &Bound<'py, PyAny>,
    shared: bool,
    offset: usize,
) -> PyResult<Option<(Option<Bound<'py, PyAny>>, u64)>> {
    let Some(mut input) = Input::of(source, offset)? else {
        return Ok(None);
    };
    // It keeps the export until this function returns, and a view keeps it longer.
    let memory = input.memory_of(source)?;
    let py = source.py();
    let npy = py.detach(|| Npy::open(input.source)).map_err(to_py)?;
    let header = npy.header();
    let end = header.data_offset() + header.data_bytes();
    if header.has_objects() {
        return Ok(Some((None, end)));
    }
    let array = if shared { load_shared(py, &npy) } else { private(py, &npy, memory, offset) };
    array.map(|array| Some((Some(array), end)))
}

fn load_shared<'py>(py: Python<'py>, npy: &Npy<'_>) -> PyResult<Bound<'py, PyAny>> {
    let load = || npy.load(&Options::new());
    // To copy few bytes takes less than to get the GIL back; to read a file may take long.
    let is_short = npy.source().is_memory() && npy.header().data_bytes() < LARGE_BYTES;
    let array = if is_short { load() } else { py.detach(load) };
    let array = array.map_err(to_py)?;
    lease::to_ndarray(&dtypes::to_numpy(py, array.dtype())?, array)
}

/// Returns a read-only view of the memory. Of a file it returns a private array.
fn private<'py>(
    py: Python<'py>,
    npy: &Npy<'_>,
    memory: Option<Bound<'py, PyAny>>,
    offset: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let header = npy.header();
    let item = header.dtype().map_err(to_py)?;
    let (dtype, itemsize) = (dtypes::to_numpy(py, item)?, item.itemsize());
    if let Some(memory) = memory {
        let view = ndarray_over(&dtype, itemsize, &memory, &placed(header, offset as u64))?;
        make_readonly(&view)?;
        return Ok(view);
    }
    let mut room = Room::new(&dtype, header.layout(), header.order(), header.data_bytes())?;
    let to = room.slice();
    py.detach(|| npy.read_into(to)).map_err(to_py)?;
    Ok(room.filled())
}

/// Returns the layout of the elements in a memory in which the file begins at a byte.
pub(super) fn placed(header: &Header, file_offset: u64) -> Layout {
    Layout { offset: file_offset + header.data_offset(), ..header.layout().clone() }
}

/// Returns the size of the header that begins with these bytes, of which there are at least 12
/// unless the file is shorter.
#[pyfunction]
pub(crate) fn npy_header_size(start: &[u8]) -> PyResult<u64> {
    Header::size_bytes(start).map_err(to_py)
}

/// The dtype of a header, None for Python objects; its shape and its order.
type Told<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyTuple>, &'static str);

/// Returns the dtype, the shape and the order of a header. The dtype is None for Python objects.
#[pyfunction]
pub(crate) fn npy_header<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Told<'py>> {
    let header = Header::parse(bytes).map_err(to_py)?;
    let dtype = match header.has_objects() {
        true => None,
        false => Some(dtypes::to_numpy(py, header.dtype().map_err(to_py)?)?),
    };
    let order = if header.order() == Order::F { "F" } else { "C" };
    Ok((dtype, PyTuple::new(py, header.shape())?, order))
}
