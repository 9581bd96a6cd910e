//! The functions by which NumPy allocates the memory of arrays (NEP 49), replaced by ours.
//!
//! NumPy has a handler in a context variable, which new threads do not have, and a default handler,
//! which everybody has who set none. So the functions in the default handler's struct are replaced,
//! for the whole process and for good: an array remembers its handler and frees its memory by it.
//! What is off is only the limit from which on we allocate.
//!
//! # References
//! - [NEP 49](https://numpy.org/neps/nep-0049.html)
#![allow(unsafe_code)] // NumPy's C API, and memory by its address

use std::ffi::{c_char, c_void};
use std::panic::catch_unwind;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI8, AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use shmarray::allocator;

/// `PyDataMemAllocator` of NumPy's `ndarraytypes.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Functions {
    context: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// `PyDataMem_Handler`, version 1.
#[repr(C)]
struct Handler {
    name: [c_char; 127],
    version: u8,
    functions: Functions,
}

/// The place of `PyDataMem_DefaultHandler` in NumPy's table of its C API, since NumPy 1.22.
const DEFAULT_HANDLER: usize = 306;

/// NumPy's own functions, once they are replaced. It is never freed.
static NUMPYS: AtomicPtr<Functions> = AtomicPtr::new(ptr::null_mut());
/// From this size on an allocation is ours.
static LEAST_BYTES: AtomicUsize = AtomicUsize::new(OFF);
const OFF: usize = usize::MAX;

/// From this size on zeros are NumPy's until an array of their size was sent. The kernel gives it
/// pages of zeros when they are touched, and shared memory is reserved at once.
const MANY_ZEROS_BYTES: usize = 8 << 20;
/// How many allocations of zeros may be ours after one of their size was sent.
const AFTER_SENT: i8 = 4;
/// How many more allocations of zeros are ours, by the logarithm of their size.
static ZEROS: [AtomicI8; usize::BITS as usize] = [const { AtomicI8::new(0) }; usize::BITS as usize];

fn zeros_of(bytes: usize) -> &'static AtomicI8 {
    &ZEROS[bytes.max(1).ilog2() as usize]
}

/// Tells that an array of so many bytes was sent.
pub(super) fn was_sent(bytes: usize) {
    zeros_of(bytes).store(AFTER_SENT, Ordering::Relaxed);
}

fn takes_zeros(bytes: usize) -> bool {
    let decrement = |left: i8| (left > 0).then(|| left - 1);
    bytes < MANY_ZEROS_BYTES
        || zeros_of(bytes).fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok()
}

/// Returns NumPy's functions. They are there before ours are called.
fn numpys() -> Functions {
    // SAFETY: the pointer must be valid and its value unchanged; it was leaked and stored before
    // NumPy's struct had any function of ours.
    unsafe { *NUMPYS.load(Ordering::Acquire) }
}

fn is_ours(bytes: usize) -> bool {
    bytes >= LEAST_BYTES.load(Ordering::Relaxed)
}

/// Calls core. A panic, which would be an error of ours, leaves the memory to NumPy.
fn by_core<T>(call: impl FnOnce() -> Option<T> + std::panic::UnwindSafe) -> Option<T> {
    catch_unwind(call).ok().flatten()
}

unsafe extern "C" fn malloc(_context: *mut c_void, bytes: usize) -> *mut c_void {
    if is_ours(bytes)
        && let Some(start) = by_core(|| allocator::allocate(bytes, false))
    {
        return start.as_ptr().cast();
    }
    let numpys = numpys();
    // SAFETY: NumPy's function gets what it would get from NumPy.
    unsafe { (numpys.malloc)(numpys.context, bytes) }
}

unsafe extern "C" fn calloc(_context: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    if let Some(all) = count.checked_mul(bytes)
        && is_ours(all)
        && takes_zeros(all)
        && let Some(start) = by_core(|| allocator::allocate(all, true))
    {
        return start.as_ptr().cast();
    }
    let numpys = numpys();
    // SAFETY: NumPy's function gets what it would get from NumPy.
    unsafe { (numpys.calloc)(numpys.context, count, bytes) }
}

unsafe extern "C" fn realloc(
    context: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    let Some(before) = by_core(|| allocator::size(memory as usize)) else {
        let numpys = numpys();
        // SAFETY: NumPy's function gets what it would get from NumPy, and memory of its own.
        return unsafe { (numpys.realloc)(numpys.context, memory, bytes) };
    };
    if bytes <= before && bytes > before / 2 {
        return memory;
    }
    // SAFETY: our function may be called by anybody.
    let new = unsafe { malloc(context, bytes) };
    if !new.is_null() {
        // SAFETY: both have so many bytes, and are different allocations.
        unsafe { ptr::copy_nonoverlapping::<u8>(memory.cast(), new.cast(), bytes.min(before)) };
        // SAFETY: NumPy gave the memory up by this call.
        unsafe { free(context, memory, before) };
    }
    new
}

unsafe extern "C" fn free(_context: *mut c_void, memory: *mut c_void, bytes: usize) {
    // SAFETY: NumPy frees what nothing refers to any more, once.
    let free = |start| Some(unsafe { allocator::free(start) });
    let was_ours = NonNull::new(memory.cast()).and_then(|start| by_core(move || free(start)));
    if was_ours != Some(true) {
        let numpys = numpys();
        // SAFETY: NumPy's function gets what it would get from NumPy, and memory of its own.
        unsafe { (numpys.free)(numpys.context, memory, bytes) };
    }
}

/// Replaces NumPy's functions, unless they are replaced.
fn replace(py: Python<'_>) -> PyResult<()> {
    if !NUMPYS.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let handler = default_handler(py)?;
    // SAFETY: it is NumPy's struct of this version, which lives as long as the process. The GIL is
    // held, and whoever is in one of NumPy's functions meanwhile has read its address already.
    let functions = unsafe { &raw mut (*handler.as_ptr()).functions };
    // SAFETY: as above.
    let numpys = Box::new(unsafe { *functions });
    NUMPYS.store(Box::into_raw(numpys), Ordering::Release);
    let ours = Functions { context: ptr::null_mut(), malloc, calloc, realloc, free };
    // SAFETY: as above. A thread that allocates without the GIL meanwhile reads old functions or
    // new ones, word by word, and each of ours leaves to NumPy's what is not ours; NumPy's do not
    // use their context.
    unsafe { functions.write(ours) };
    Ok(())
}

/// Returns NumPy's module of the C API, whose name NumPy 2 has changed.
pub(super) fn multiarray(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("numpy._core.multiarray").or_else(|_| py.import("numpy.core.multiarray"))
}

/// Returns NumPy's default handler.
fn default_handler(py: Python<'_>) -> PyResult<NonNull<Handler>> {
    let unknown = || PyRuntimeError::new_err("this NumPy has no allocator that can be replaced");
    let table = multiarray(py)?.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
    let table = table.pointer_checked(None)?.cast::<*mut *mut pyo3::ffi::PyObject>();
    // SAFETY: the table of NumPy 1.22 and later, which the package requires, has this entry.
    let entry = unsafe { table.as_ptr().add(DEFAULT_HANDLER) };
    // SAFETY: the entry is the address of a variable that is a reference to a capsule, for as long
    // as the process lives.
    let variable = unsafe { entry.read() };
    // SAFETY: as above.
    let capsule = unsafe { variable.read() };
    // SAFETY: as above; the GIL is held.
    let capsule = unsafe { Bound::from_borrowed_ptr_or_opt(py, capsule) }.ok_or_else(unknown)?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let handler = capsule.pointer_checked(Some(c"mem_handler"))?.cast::<Handler>();
    // SAFETY: a capsule of this name has such a struct, whose version says the rest.
    match unsafe { (*handler.as_ptr()).version } {
        1 => Ok(handler),
        _ => Err(unknown()),
    }
}

/// Lets NumPy allocate from so many bytes on in shared memory, in the whole process, or nowhere if
/// there is no limit.
#[pyfunction]
#[pyo3(signature = (least_bytes, /))]
pub(crate) fn set_allocator(py: Python<'_>, least_bytes: Option<usize>) -> PyResult<()> {
    if least_bytes.is_some() {
        replace(py)?;
    }
    LEAST_BYTES.store(least_bytes.unwrap_or(OFF), Ordering::Relaxed);
    Ok(())
}

/// Gives the memory back that NumPy has freed and that is kept for its next arrays.
#[pyfunction]
pub(crate) fn free_idle(py: Python<'_>) {
    py.detach(allocator::free_idle);
}

/// Returns what this process has allocated in shared memory.
#[pyfunction]
pub(crate) fn allocator_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let stats = allocator::stats();
    let said = PyDict::new(py);
    said.set_item("live", stats.live)?;
    said.set_item("live_bytes", stats.live_bytes)?;
    said.set_item("peak_bytes", stats.peak_bytes)?;
    said.set_item("idle_bytes", stats.idle_bytes)?;
    said.set_item("allocations", stats.allocations)?;
    said.set_item("reused", stats.reused)?;
    said.set_item("fell_back", stats.fell_back)?;
    said.set_item("moved", stats.moved)?;
    said.set_item("moved_bytes", stats.moved_bytes)?;
    said.set_item("copied", super::offers::copied(py)?)?;
    Ok(said)
}
