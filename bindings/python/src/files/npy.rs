//! One NPY file.

use pyo3::exceptions::PyEOFError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::npy::{Npy, NpyHeader, Source};
use shmarray::{Error, Layout, Options, Order};

use super::input::Input;
use super::room::{Room, make_readonly};
use crate::error::to_py;
use crate::memory::LARGE_BYTES;
use crate::segment_memory::ndarray_over;
use crate::{dtypes, segment_memory};

/// Returns the array of an NPY file and the number of bytes up to its end. The array is None if it
/// has Python objects. Returns None for what is neither a path nor has a buffer. A header that is
/// longer than `most` bytes is a ValueError.
#[pyfunction]
pub(crate) fn load_npy<'py>(
    source: &Bound<'py, PyAny>,
    shared: bool,
    offset: usize,
    most: Option<u64>,
) -> PyResult<Option<(Option<Bound<'py, PyAny>>, u64)>> {
    let Some(mut input) = Input::of(source, offset)? else {
        return Ok(None);
    };
    check_not_empty(&input)?;
    // It keeps the export until this function returns, and a view keeps it longer.
    let memory = input.memory_of(source)?;
    let py = source.py();
    let npy = py.detach(|| Npy::open(input.source)).map_err(to_py)?;
    let header = npy.header();
    check_length(header, most, npy.source(), None).map_err(to_py)?;
    let end = header.data_offset() + header.data_bytes();
    if header.has_objects() {
        return Ok(Some((None, end)));
    }
    let array = if shared { load_shared(py, &npy) } else { private(py, &npy, memory, offset) };
    array.map(|array| Some((Some(array), end)))
}

/// Raises EOFError for a file without a byte, as `numpy.load` does.
pub(super) fn check_not_empty(input: &Input) -> PyResult<()> {
    match input.source.size_bytes() {
        0 => Err(PyEOFError::new_err("No data left in file")),
        _ => Ok(()),
    }
}

/// Refuses a header whose text is longer than the program allows.
pub(super) fn check_length(
    header: &NpyHeader,
    most: Option<u64>,
    source: &Source<'_>,
    member: Option<&str>,
) -> shmarray::Result<()> {
    let Some(most) = most else { return Ok(()) };
    let bytes = text_bytes(header);
    if bytes <= most {
        return Ok(());
    }
    let reason = format!(
        "Header info length ({bytes}) is larger than max_header_size, {most}: give a larger one, \
         or allow_pickle=True if the file is trusted"
    );
    let file = source.name();
    let member = member.map(str::to_owned);
    Err(Error::InvalidFile { file, member, field: "header", reason })
}

/// Returns the length of a header's text, which is what NumPy limits.
fn text_bytes(header: &NpyHeader) -> u64 {
    // The bytes before the text depend on the version, which follows from the dtype and the shape.
    let is_1_0 = header.to_bytes().map_or(true, |bytes| bytes[6] == 1);
    header.data_offset() - if is_1_0 { 10 } else { 12 }
}

fn load_shared<'py>(py: Python<'py>, npy: &Npy<'_>) -> PyResult<Bound<'py, PyAny>> {
    let load = || npy.load(&Options::new());
    // To copy few bytes takes less than to get the GIL back; to read a file may take long.
    let is_short = npy.source().is_memory() && npy.header().data_bytes() < LARGE_BYTES;
    let array = if is_short { load() } else { py.detach(load) };
    let array = array.map_err(to_py)?;
    segment_memory::to_ndarray(&dtypes::to_numpy(py, array.dtype())?, array)
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
    let dtype = dtypes::to_numpy(py, item)?;
    let itemsize = item.itemsize();
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
pub(super) fn placed(header: &NpyHeader, file_offset: u64) -> Layout {
    Layout { offset: file_offset + header.data_offset(), ..header.layout().clone() }
}

/// Returns the size of the header that begins with these bytes, of which there are at least 12
/// unless the file is shorter. Errors have the name of the file.
#[pyfunction]
pub(crate) fn npy_header_size(start: &[u8], name: Option<String>) -> PyResult<u64> {
    NpyHeader::size_bytes(start).map_err(|error| to_py(of_file(error, name)))
}

/// Returns an error about memory as one about the file that the memory was read from.
fn of_file(error: Error, name: Option<String>) -> Error {
    match (error, name) {
        (Error::InvalidFile { member, field, reason, .. }, Some(file)) => {
            Error::InvalidFile { file, member, field, reason }
        }
        (error, _) => error,
    }
}

/// The dtype of a header, None for Python objects; its shape and its order.
type Told<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyTuple>, &'static str);

/// Returns the dtype, the shape and the order of a header. The dtype is None for Python objects. A
/// header that is longer than `most` bytes is a ValueError.
#[pyfunction]
pub(crate) fn npy_header<'py>(
    py: Python<'py>,
    bytes: &[u8],
    most: Option<u64>,
    name: Option<String>,
) -> PyResult<Told<'py>> {
    let header = NpyHeader::parse(bytes)
        .and_then(|header| {
            check_length(&header, most, &Source::bytes(bytes), None)?;
            Ok(header)
        })
        .map_err(|error| to_py(of_file(error, name)))?;
    let dtype = if header.has_objects() {
        None
    } else {
        Some(dtypes::to_numpy(py, header.dtype().map_err(to_py)?)?)
    };
    let order = if header.order() == Order::F { "F" } else { "C" };
    Ok((dtype, PyTuple::new(py, header.shape())?, order))
}
