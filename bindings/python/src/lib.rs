//! The Python binding of shmarray: converts arguments, calls core, converts results.
//!
//! What users see is the package `shmarray` around this; its functions validate what only
//! NumPy understands, and say in their docstrings what these do. An array comes out as a
//! plain `numpy.ndarray` whose `.base` is a [`hold::Hold`].

mod dtypes;
mod errors;
mod handles;
mod hold;
mod memory;
#[cfg(target_os = "linux")]
mod messages;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::{Access, Array, DType, Descriptor, Options, Order};

use errors::{to_py, value_error};
use handles::Handle;
use memory::Memory;

/// A new array of zeros.
#[pyfunction]
fn create<'py>(
    shape: Vec<Bound<'py, PyAny>>,
    dtype: &Bound<'py, PyAny>,
    order: &str,
    name: Option<String>,
    persist: bool,
    mode: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options { order: parse_order(order)?, name, persist, mode: parse_mode(mode)? };
    let array = create_in(dtype, &dimensions(&shape)?, &options)?;
    hold::to_ndarray(dtype, array)
}

/// A new array of zeros whose dimension `i` is dimension `axes[i]` of `shape`, which is in C order.
#[pyfunction]
fn create_permuted<'py>(
    shape: Vec<Bound<'py, PyAny>>,
    dtype: &Bound<'py, PyAny>,
    axes: Vec<usize>,
    mode: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options { mode: parse_mode(mode)?, ..Options::default() };
    let array = create_in(dtype, &dimensions(&shape)?, &options)?;
    hold::to_ndarray(dtype, array.permute(&axes).map_err(to_py)?)
}

fn create_in(dtype: &Bound<'_, PyAny>, shape: &[u64], options: &Options) -> PyResult<Array> {
    let core_dtype = dtypes::from_numpy(dtype)?;
    dtype.py().detach(|| Array::create(core_dtype, shape, options)).map_err(to_py)
}

/// A copy of an ndarray in shared memory.
#[pyfunction]
fn share<'py>(
    source: &Bound<'py, PyAny>,
    order: &str,
    name: Option<String>,
    persist: bool,
    mode: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let memory = Memory::of(source)?;
    let options = Options { order: parse_order(order)?, name, persist, mode: parse_mode(mode)? };
    let dtype = source.getattr("dtype")?;
    hold::to_ndarray(&dtype, memory.share(dtypes::from_numpy(&dtype)?, &options)?)
}

/// The array of a handle, of its text, or of a name.
// Keeps the GIL: it waits for nobody and takes a microsecond when the segment is mapped
// already; to let another thread run would be to wait for its turn to end.
#[pyfunction]
fn attach<'py>(py: Python<'py>, handle_or_name: &Bound<'py, PyAny>, readonly: bool) -> PyResult<Bound<'py, PyAny>> {
    let access = access(readonly);
    let array = match handle_or_name.cast::<Handle>() {
        Ok(handle) => Array::attach_handle(handle.get().descriptor(), access),
        Err(_) => Array::attach(text_of(handle_or_name)?, access),
    };
    let array = array.map_err(to_py)?;
    hold::to_ndarray(&dtypes::to_numpy(py, array.dtype())?, array)
}

fn access(readonly: bool) -> Access {
    if readonly { Access::ReadOnly } else { Access::ReadWrite }
}

/// What `numpy.memmap` calls the modes of a mapping.
fn parse_access(mode: &str) -> PyResult<Access> {
    match mode {
        "r+" => Ok(Access::ReadWrite),
        "r" => Ok(Access::ReadOnly),
        "c" => Ok(Access::CopyOnWrite),
        _ => Err(value_error(format!("invalid mode: {mode:?} is none of 'r+', 'r' and 'c'"))),
    }
}

/// The array of a handle that was sent, whose message goes on holding it.
#[pyfunction]
fn attach_sent<'py>(py: Python<'py>, text: &str, mode: &str) -> PyResult<Bound<'py, PyAny>> {
    let handle = Descriptor { ticket: None, ..Descriptor::parse(text).map_err(to_py)? };
    let array = Array::attach_handle(&handle, parse_access(mode)?).map_err(to_py)?;
    hold::to_ndarray(&dtypes::to_numpy(py, array.dtype())?, array)
}

/// All data of the segment that an ndarray lies in, as bytes; `None` when it is in private memory.
#[pyfunction]
fn whole<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let items = DType::opaque(array.getattr("itemsize")?.extract()?).map_err(to_py)?;
    let Some(part) = Memory::of(array)?.in_segment(items) else { return Ok(None) };
    let part = part.whole();
    hold::to_ndarray(&dtypes::to_numpy(array.py(), part.dtype())?, part).map(Some)
}

fn text_of<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    text.extract().map_err(|_| errors::expected("a Handle or str", text))
}

/// The handle of an ndarray in shared memory.
#[pyfunction]
fn handle(array: &Bound<'_, PyAny>) -> PyResult<Handle> {
    Ok(Handle::new(memory::shared(array)?.handle()))
}

/// The handle of an ndarray in shared memory for a way that core does not know; it holds the array.
#[pyfunction]
fn handle_to_send(array: &Bound<'_, PyAny>) -> PyResult<Handle> {
    memory::shared(array)?.handle_to_send().map(Handle::new).map_err(to_py)
}

/// Gives back what the message of a handle, or of its text, holds.
#[pyfunction]
fn discard(data: &Bound<'_, PyAny>) -> PyResult<()> {
    let text = match data.cast::<Handle>() {
        Ok(handle) => handle.get().descriptor().to_text(),
        Err(_) => text_of(data)?.to_owned(),
    };
    shmarray::discard(&text).map_err(to_py)
}

/// Whether this is an ndarray in shared memory.
#[pyfunction]
fn is_shared(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !memory::is_ndarray(array)? {
        return Ok(false);
    }
    let item_bytes = array.getattr("itemsize")?.extract()?;
    let items = DType::opaque(item_bytes).map_err(to_py)?;
    Ok(Memory::of(array)?.in_segment(items).is_some())
}

/// Takes a name away; the array itself goes with its last holder.
#[pyfunction]
fn unlink(py: Python<'_>, name: &str) -> PyResult<()> {
    py.detach(|| shmarray::unlink(name)).map_err(to_py)
}

/// Segments and bytes that were given back.
#[pyfunction]
fn sweep(py: Python<'_>) -> PyResult<(u64, u64)> {
    let swept = py.detach(shmarray::sweep).map_err(to_py)?;
    Ok((swept.segments, swept.bytes))
}

/// Id, name, size in bytes, dtype text, shape, holders' pids, tickets, whether it persists, creator's
/// pid, nanoseconds since 1970.
type Facts<'py> = (String, Option<String>, u64, String, Bound<'py, PyTuple>, Bound<'py, PyTuple>, u64, bool, u32, u64);

/// The facts of each segment, in the order of the fields of `shmarray.SegmentInfo`.
#[pyfunction]
fn segments(py: Python<'_>) -> PyResult<Vec<Facts<'_>>> {
    let infos = py.detach(shmarray::segments).map_err(to_py)?;
    infos.into_iter().map(|info| facts(py, info)).collect()
}

fn facts(py: Python<'_>, info: shmarray::SegmentInfo) -> PyResult<Facts<'_>> {
    let (id, dtype) = (info.segment.to_string(), info.dtype.text().to_owned());
    let (shape, holders) = (PyTuple::new(py, info.shape)?, PyTuple::new(py, info.holders)?);
    let (name, bytes, maker) = (info.name, info.segment_bytes, info.creator_pid);
    Ok((id, name, bytes, dtype, shape, holders, info.tickets, info.persists, maker, info.created_ns))
}

/// Bytes of array data that this process has copied with this library so far.
#[pyfunction]
fn copied_bytes() -> u64 {
    shmarray::copied_bytes()
}

fn parse_order(order: &str) -> PyResult<Order> {
    match order {
        "C" => Ok(Order::C),
        "F" => Ok(Order::F),
        _ => Err(value_error(format!("invalid order: {order:?} is neither 'C' nor 'F'"))),
    }
}

fn parse_mode(mode: i64) -> PyResult<u32> {
    u32::try_from(mode).map_err(|_| value_error(format!("invalid mode: {mode} are no permission bits")))
}

/// Core's dimensions out of Python's integers, which may be anything.
fn dimensions(shape: &[Bound<'_, PyAny>]) -> PyResult<Vec<u64>> {
    let dimension = |count: &Bound<'_, PyAny>| {
        count.extract::<u64>().map_err(|_| value_error(format!("invalid shape: {count} elements along a dimension")))
    };
    shape.iter().map(dimension).collect()
}

// The GIL: core is thread-safe and every class here is frozen, but no test has run on a
// free-threaded interpreter yet, so one that loads this takes its GIL back.
// Sub-interpreters: pyo3 and NumPy refuse to be imported into a second one.
#[pymodule(gil_used = true)]
mod _core {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::dtypes::load(module.py())?;
        super::memory::ndarray(module.py())?;
        Ok(())
    }

    #[pymodule_export]
    use super::errors::{Error, StaleHandleError, error_classes};
    #[pymodule_export]
    use super::handles::Handle;
    #[pymodule_export]
    use super::hold::Hold;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::messages::{Message, Pipe};
    #[pymodule_export]
    use super::{
        attach, attach_sent, copied_bytes, create, create_permuted, discard, handle, handle_to_send, is_shared,
        segments, share, sweep, unlink, whole,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's own spelling")]
    const __version__: &str = shmarray::VERSION;
}
