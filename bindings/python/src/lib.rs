//! The Python binding of shmarray: converts arguments, calls core, converts results.
//!
//! Users see the package `shmarray` around this module. Its functions validate what only NumPy
//! understands, and their docstrings document the functions here. An array comes out as a plain
//! `numpy.ndarray` whose `.base` is a [`SegmentMemory`].

mod first_use;
mod error;
mod dtypes;
mod handles;
mod memory;
mod segment_memory;
mod files;
mod dlpack;
mod wait;
mod channel;
mod allocator;
mod plain;
mod list;
mod pickling;
#[cfg(unix)]
mod tasks;

use std::ffi::OsString;
#[cfg(unix)]
use std::os::fd::{IntoRawFd, RawFd};

use pyo3::exceptions::{PyImportError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::{Access, Array, DType, Descriptor, ErrorKind, Options, Order};

use error::{to_py, value_error};
use first_use::interned;
use handles::Handle;
use memory::{Facts, LARGE_BYTES, Memory};
use segment_memory::{ReceivedArray, SegmentMemory};

/// Returns a new array of zeros, or with undefined contents.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python's, by position")]
fn create<'py>(
    shape: Vec<Bound<'py, PyAny>>,
    dtype: &Bound<'py, PyAny>,
    order: &str,
    is_zero: bool,
    name: Option<String>,
    persist: bool,
    mode: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let options = named(order, name, persist, mode)?.uninitialized(!is_zero);
    let array = create_in(dtype, &dimensions(&shape)?, &options)?;
    segment_memory::to_ndarray(dtype, array)
}

/// Returns a new array whose dimension `i` is dimension `axes[i]` of `shape`, which is in C order.
#[pyfunction]
fn create_permuted<'py>(
    shape: Vec<Bound<'py, PyAny>>,
    dtype: &Bound<'py, PyAny>,
    axes: Vec<usize>,
    is_zero: bool,
    mode: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::new().mode(parse_mode(mode)?).uninitialized(!is_zero);
    let array = create_in(dtype, &dimensions(&shape)?, &options)?;
    segment_memory::to_ndarray(dtype, array.permute(&axes).map_err(to_py)?)
}

fn named(order: &str, name: Option<String>, persist: bool, mode: i64) -> PyResult<Options> {
    let options = Options::new().order(parse_order(order)?).persist(persist);
    Ok(name.into_iter().fold(options, Options::name).mode(parse_mode(mode)?))
}

fn create_in(dtype: &Bound<'_, PyAny>, shape: &[u64], options: &Options) -> PyResult<Array> {
    let core_dtype = dtypes::from_numpy(dtype)?;
    let bytes =
        shape.iter().fold(core_dtype.itemsize(), |bytes, count| bytes.saturating_mul(*count));
    let create = || Array::create(core_dtype, shape, options);
    match bytes {
        0..LARGE_BYTES => create(),
        _ => dtype.py().detach(create),
    }
    .map_err(to_py)
}

/// Returns an ndarray itself if it is in shared memory, else a copy there. One in Fortran order
/// stays in it, and any other gets C order.
#[pyfunction]
fn share<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let memory = Memory::of(array)?;
    if memory.items_in_segment()?.is_some() {
        return Ok(array.clone());
    }
    let dtype = array.getattr("dtype")?;
    let options = Options::new().order(memory.order());
    segment_memory::to_ndarray(&dtype, memory.share(dtypes::from_numpy(&dtype)?, &options)?)
}

/// Returns a copy of an ndarray in shared memory.
#[pyfunction]
#[pyo3(signature = (source, order, name=None, persist=false, mode=0o600))]
fn share_copy<'py>(
    source: &Bound<'py, PyAny>,
    order: &str,
    name: Option<String>,
    persist: bool,
    mode: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let memory = Memory::of(source)?;
    let options = named(order, name, persist, mode)?;
    let dtype = source.getattr("dtype")?;
    segment_memory::to_ndarray(&dtype, memory.share(dtypes::from_numpy(&dtype)?, &options)?)
}

/// Returns the array of a handle, of its text, or of a name; its elements as of another dtype of
/// their size if one is given.
// Keeps the GIL: it waits for nobody, and takes a microsecond if the segment is mapped already.
// Releasing the GIL would mean waiting for another thread's turn to end.
#[pyfunction]
#[pyo3(signature = (handle_or_name, readonly, dtype=None))]
fn attach<'py>(
    py: Python<'py>,
    handle_or_name: &Bound<'py, PyAny>,
    readonly: bool,
    dtype: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let attached = |access| -> PyResult<_> {
        Ok(match handle_or_name.cast::<Handle>() {
            Ok(handle) => Array::attach_descriptor(handle.get().descriptor(), access),
            Err(_) => Array::attach(text_of(handle_or_name)?, access),
        })
    };
    let array = match attached(access(readonly))? {
        // Whoever may read a list need not say so: nobody writes to one.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && dtype.is_none() => {
            if let Ok(array) = attached(Access::ReadOnly)?
                && let Some(list) = list::of_array(py, &array)?
            {
                return Ok(list);
            }
            return Err(to_py(error));
        }
        array => array.map_err(to_py)?,
    };
    if dtype.is_none()
        && let Some(list) = list::of_array(py, &array)?
    {
        return Ok(list);
    }
    let dtype = match dtype {
        Some(seen) => seen_as(seen, array.dtype())?,
        None => dtypes::to_numpy(py, array.dtype())?,
    };
    segment_memory::to_ndarray(&dtype, array)
}

/// Returns whether two arrays without gaps are the same bytes. Other threads of Python run
/// meanwhile, and may change them.
#[pyfunction]
fn are_same_bytes(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    Facts::of(one)?.are_same_bytes(&Facts::of(other)?, one.py())
}

/// Returns the dtype as which elements of another one are seen: it holds no objects and has their
/// size.
fn seen_as<'py>(seen: Bound<'py, PyAny>, own: &DType) -> PyResult<Bound<'py, PyAny>> {
    let bytes = dtypes::from_numpy(&seen)?.itemsize();
    if bytes == own.itemsize() {
        return Ok(seen);
    }
    let size = own.itemsize();
    Err(value_error(format!(
        "invalid dtype: {seen} has {bytes} bytes, and an element of the array ({own}) has {size}"
    )))
}

fn access(readonly: bool) -> Access {
    if readonly { Access::ReadOnly } else { Access::ReadWrite }
}

/// Returns the access for a mode of `numpy.memmap`, and for "own".
fn parse_access(mode: &str) -> PyResult<Access> {
    match mode {
        "r+" => Ok(Access::ReadWrite),
        "r" => Ok(Access::ReadOnly),
        "c" => Ok(Access::CopyOnWrite),
        "own" => Ok(Access::Owned),
        _ => {
            Err(value_error(format!("invalid mode: {mode:?} is none of 'r+', 'r', 'c' and 'own'")))
        }
    }
}

/// Returns the array of a handle that was sent, and leaves its ticket, as `Message.array`.
#[pyfunction]
fn sent_array<'py>(py: Python<'py>, text: &str, mode: &str) -> PyResult<Bound<'py, PyAny>> {
    ReceivedArray::of(py, &without_ticket(text)?, parse_access(mode)?)?.ndarray(py)
}

/// Returns the memory of a handle that was sent, and leaves its ticket, as `Message.memory`.
#[pyfunction]
fn sent_memory<'py>(py: Python<'py>, text: &str, mode: &str) -> PyResult<Bound<'py, PyAny>> {
    ReceivedArray::of(py, &without_ticket(text)?, parse_access(mode)?)
        .map(ReceivedArray::into_memory)
}

/// Parses a handle that was sent, and removes its ticket.
fn without_ticket(text: &str) -> PyResult<Descriptor> {
    let mut descriptor = Descriptor::parse(text).map_err(to_py)?;
    descriptor.ticket = None;
    Ok(descriptor)
}

/// Subtracts one from the number in the array of a handle that was sent. Returns the rest.
#[pyfunction]
fn count_down(text: &str) -> PyResult<u64> {
    let array =
        Array::attach_descriptor(&without_ticket(text)?, Access::ReadWrite).map_err(to_py)?;
    let first = vec![0; array.shape().len()];
    // SAFETY: the array is one of this package's counts, which its processes only count down.
    #[allow(unsafe_code)]
    unsafe { array.count_down(&first) }.map_err(to_py)
}

/// Returns whether a process of the family lives that sent a handle.
#[pyfunction]
fn is_family_alive(text: &str) -> PyResult<bool> {
    shmarray::is_family_alive(text).map_err(to_py)
}

/// Returns the number of this process's family, and an fd that holds it, which the caller closes.
#[cfg(unix)]
#[pyfunction]
fn family(py: Python<'_>) -> PyResult<(u64, RawFd)> {
    let (number, lock) = py.detach(shmarray::family).map_err(to_py)?;
    Ok((number, lock.into_raw_fd()))
}

/// Returns how many bytes of messages this process sent without shared memory, which had no room.
#[pyfunction]
fn in_band_bytes() -> u64 {
    shmarray::in_band_bytes()
}

/// The position of an ndarray in shared memory: all data of its segment, the address of that
/// data, whether it is writeable, and the offset of the array's first element in bytes.
type Location<'py> = (Bound<'py, SegmentMemory>, usize, bool, u64);

/// Returns the position of an ndarray, or `None` if it is in private memory.
#[pyfunction]
fn locate<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Location<'py>>> {
    let Some(part) = Memory::of(array)?.items_in_segment()? else { return Ok(None) };
    let start = part.segment_data().0;
    let writeable = !part.is_readonly();
    let offset = part.layout().offset;
    let memory = Bound::new(array.py(), SegmentMemory::new(part.whole()))?;
    Ok(Some((memory, start.as_ptr() as usize, writeable, offset)))
}

/// Returns the memory of an ndarray in a segment that its handle describes completely: an array of
/// numbers that is writeable if its segment is. Returns `None` for any other.
#[pyfunction]
fn memory_by_handle(array: &Bound<'_, PyAny>) -> PyResult<Option<SegmentMemory>> {
    let memory = Memory::of(array)?;
    let Some(dtype) = dtypes::number(&array.getattr(interned!(array.py(), "dtype"))?)? else {
        return Ok(None);
    };
    let has_its_access = |array: &Array| array.is_readonly() != memory.is_writeable();
    Ok(memory.in_segment(dtype).filter(has_its_access).map(SegmentMemory::new))
}

fn text_of<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    text.extract().map_err(|_| error::expected("a Handle or str", text))
}

/// Returns the handle of an ndarray in shared memory.
#[pyfunction]
fn handle(array: &Bound<'_, PyAny>) -> PyResult<Handle> {
    if let Some(handle) = list::handle(array)? {
        return Ok(handle);
    }
    Ok(Handle::new(segment_memory::shared(array)?.descriptor()))
}

/// Returns a handle of an ndarray in shared memory to be sent out of band, which holds the array.
#[pyfunction]
fn handle_to_send(array: &Bound<'_, PyAny>) -> PyResult<Handle> {
    segment_memory::shared(array)?.descriptor_to_send().map(Handle::new).map_err(to_py)
}

/// Releases what the message of a handle, or of its text, holds. Returns whether it held anything
/// until now.
#[pyfunction]
fn discard(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    let text = match data.cast::<Handle>() {
        Ok(handle) => handle.get().descriptor().to_handle(),
        Err(_) => text_of(data)?.to_owned(),
    };
    shmarray::take_ticket(&text).map_err(to_py)
}

/// Returns the offset of the first element, and the strides, if the elements of an array lie side
/// by side; dimensions keep their order in memory and their directions. None if elements may
/// overlap.
#[pyfunction]
fn without_gaps(array: &Bound<'_, PyAny>) -> PyResult<Option<(u64, Vec<i64>)>> {
    let facts = Facts::of(array)?;
    let dense = facts.layout().without_gaps(facts.itemsize());
    Ok(dense.map(|dense| (dense.offset, dense.strides)))
}

/// Returns the distances from the first element of an array to the lowest byte of its elements, and
/// to the byte behind the highest.
#[pyfunction]
fn span(array: &Bound<'_, PyAny>) -> PyResult<(i128, i128)> {
    let facts = Facts::of(array)?;
    facts.layout().span(facts.itemsize()).map_err(to_py)
}

/// Returns what two processes have in common if each can attach the other's arrays: the boot id,
/// the device and the inode of the directory of segments, and the user.
#[cfg(target_os = "linux")]
#[pyfunction]
fn memory_identity() -> PyResult<(String, u64, u64, u32)> {
    let identity = shmarray::MemoryIdentity::current().map_err(to_py)?;
    Ok((identity.boot_id, identity.device, identity.inode, identity.user))
}

/// Returns whether this is an ndarray in shared memory.
#[pyfunction]
fn is_shared(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !memory::is_ndarray(array)? {
        return Ok(false);
    }
    Ok(Memory::of(array)?.items_in_segment()?.is_some())
}

/// Removes a name. The array itself is released with its last holder.
#[pyfunction]
fn unlink(py: Python<'_>, name: &str) -> PyResult<()> {
    py.detach(|| shmarray::unlink(name)).map_err(to_py)
}

/// Returns how many segments and bytes were reclaimed.
#[pyfunction]
fn sweep(py: Python<'_>) -> PyResult<(u64, u64)> {
    let swept = py.detach(shmarray::sweep).map_err(to_py)?;
    Ok((swept.segments, swept.bytes))
}

/// Reserves memory in the pool for an array of so many bytes. Returns whether a cell is free for it
/// now.
#[pyfunction]
fn prepare_pool(py: Python<'_>, bytes: u64) -> PyResult<bool> {
    py.detach(|| shmarray::prepare_pool(bytes)).map_err(to_py)
}

/// Releases the memory in the pool that was not used since the last call, or all that is unused.
#[pyfunction]
fn trim_pool(py: Python<'_>, all: bool) {
    py.detach(if all { shmarray::empty_pool } else { shmarray::trim_pool });
}

/// Sets the limit of the pool in bytes.
#[pyfunction]
fn limit_pool(bytes: u64) {
    shmarray::limit_pool(bytes);
}

/// Reclaims what dead processes held, if any has died. Raises nothing: the next use of shared
/// memory reports an error.
#[pyfunction]
fn sweep_dead(py: Python<'_>) {
    let _ = py.detach(shmarray::sweep_dead);
}

/// Returns the facts of each segment, in the order of the fields of `shmarray.SegmentInfo`.
#[pyfunction]
fn segments(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyTuple>>> {
    let infos = py.detach(shmarray::segments).map_err(to_py)?;
    let mut all = Vec::new();
    all.try_reserve_exact(infos.len())
        .map_err(|_| PyMemoryError::new_err("the list of segments"))?;
    for info in infos {
        all.push(facts(py, info)?);
    }
    Ok(all)
}

fn facts(py: Python<'_>, info: shmarray::SegmentInfo) -> PyResult<Bound<'_, PyTuple>> {
    let segment = info.segment.to_string();
    let dtype = info.dtype.text();
    let shape = PyTuple::new(py, info.shape)?;
    let holders = PyTuple::new(py, info.holders)?;
    let which = (segment, info.name, info.kind.as_str(), info.persists).into_pyobject(py)?;
    let what = (info.segment_bytes, dtype, shape).into_pyobject(py)?;
    let who = (holders, info.tickets, info.creator_pid, info.created_ns).into_pyobject(py)?;
    which.as_sequence().concat(what.as_sequence())?.concat(who.as_sequence())?.to_tuple()
}

/// Returns how many bytes of array data this process has copied with this library.
#[pyfunction]
fn copied_bytes() -> u64 {
    shmarray::copied_bytes()
}

/// Runs the command `shmarray` with these arguments, on this process's standard output. Returns its
/// exit code.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| shmarray_cli::run(arguments))
}

fn parse_order(order: &str) -> PyResult<Order> {
    match order {
        "C" => Ok(Order::C),
        "F" => Ok(Order::F),
        _ => Err(value_error(format!("invalid order: {order:?} is neither 'C' nor 'F'"))),
    }
}

fn parse_mode(mode: i64) -> PyResult<u32> {
    u32::try_from(mode)
        .map_err(|_| value_error(format!("invalid mode: {mode} is not a set of permission bits")))
}

/// Converts Python's integers, which may be anything, to core's dimensions.
fn dimensions(shape: &[Bound<'_, PyAny>]) -> PyResult<Vec<u64>> {
    let dimension = |count: &Bound<'_, PyAny>| {
        count
            .extract::<u64>()
            .map_err(|_| value_error(format!("invalid shape: {count} elements along a dimension")))
    };
    shape.iter().map(dimension).collect()
}

#[allow(unsafe_code)] // pyo3 has no safe name for it
fn refuse_sub_interpreters() -> PyResult<()> {
    // SAFETY: `PyInterpreterState_Get` needs an attached thread state. Python imports this module
    // in this thread, which is therefore attached.
    let interpreter = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: `interpreter` is the current one, from the call above, and it lives at least as long
    // as its thread runs this import.
    match unsafe { ffi::PyInterpreterState_GetID(interpreter) } {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "module shmarray._core does not support loading in subinterpreters",
        )),
    }
}

// The GIL: core is thread-safe and every class here is frozen, but no test has run on a
// free-threaded interpreter yet, so one that loads this module takes its GIL back.
// Sub-interpreters: pyo3 does not support them. Python refuses them by itself since 3.12.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    use super::refuse_sub_interpreters;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        refuse_sub_interpreters()?;
        super::first_use::make_pyo3s(&wrap_pyfunction!(super::unlink, module)?)?;
        super::dtypes::load(module.py())?;
        super::memory::ndarray(module.py())?;
        super::plain::function(module.py())?;
        super::channel::add_to(module)
    }

    #[pymodule_export]
    use super::allocator::{Offers, allocator_stats, free_idle, move_in_use, set_allocator};
    #[pymodule_export]
    use super::channel::{
        Arrays, Channel, Deliveries, Delivery, give_methods, has_borrowed, leave_channels,
    };
    #[pymodule_export]
    use super::dlpack::ForeignTensor;
    #[pymodule_export]
    use super::error::{Error, Full, StaleHandleError, error_classes};
    #[cfg(unix)]
    #[pymodule_export]
    use super::family;
    #[pymodule_export]
    use super::files::{
        Archive, BufferMemory, FileMemory, check_dtype, load_batch, load_npy, npy_header,
        npy_header_size, save_bytes, save_npy, save_npz,
    };
    #[pymodule_export]
    use super::handles::Handle;
    #[pymodule_export]
    use super::list::{Dict, List, dict_of_bytes, dict_of_file, list_of_bytes, list_of_file};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::memory_identity;
    #[pymodule_export]
    use super::pickling::{Reducer, Stream, small_payload};
    #[pymodule_export]
    use super::plain::{encode_plain, is_plain};
    #[pymodule_export]
    use super::segment_memory::SegmentMemory;
    #[cfg(unix)]
    #[pymodule_export]
    use super::tasks::{
        Message, Pipe, QueueSlots, QueueTasks, begin_message, end_message, is_in_message,
        outgoing_fds,
    };
    #[pymodule_export]
    use super::{
        are_same_bytes, attach, copied_bytes, count_down, create, create_permuted, discard, handle,
        handle_to_send, in_band_bytes, is_family_alive, is_shared, limit_pool, locate,
        memory_by_handle, prepare_pool, run_command, segments, sent_array, sent_memory, share,
        share_copy, span, sweep, sweep_dead, trim_pool, unlink, without_gaps,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's own spelling")]
    const __version__: &str = shmarray::VERSION;

    #[pymodule_export]
    const QUEUE_SLOT_BYTES: usize = shmarray::QUEUE_SLOT_BYTES;
}
