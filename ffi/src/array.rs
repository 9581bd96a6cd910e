//! `shma_array_*`: the C functions on arrays.

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use shmarray::{Access, Array, Layout, Order};

use crate::arguments::{
    Object, check_text_buffer, invalid, list, needed, numbers, produce, put_text,
    shape as shape_of, text as text_of,
};
use crate::dtype::{SHMA_OPAQUE, shma_dtype};
use crate::error::{Failure, guard, shma_error, shma_status};
use crate::options::{order_of, read_options, shma_options, shma_order};

/// An array: typed n-dimensional memory that several processes can have mapped at once.
///
/// It has one owner after its creation, and one more after each shma_array_retain.
pub struct shma_array(pub(crate) Array);

impl Object for shma_array {
    /// The pointer is an [`Arc`]'s, whose count is the number of owners.
    fn into_pointer(self) -> *mut Self {
        Arc::into_raw(Arc::new(self)).cast_mut()
    }
}

/// Returns the arrays of a list, or an error if one is NULL.
///
/// # Safety
/// `first` is NULL or points to the first of `count` pointers, each NULL or to an array that is
/// live for `'a`.
pub(crate) unsafe fn arrays<'a>(
    argument: &'static str,
    first: *const Option<NonNull<shma_array>>,
    count: usize,
) -> Result<Vec<&'a Array>, Failure> {
    // SAFETY: `list` needs NULL or `count` pointers, which the caller of this function guarantees
    // by its own `# Safety` section; they are copied before it returns.
    let pointers = unsafe { list(argument, first, count) }?.iter();
    let arrays = pointers.map(|array| {
        // SAFETY: `as_ref` needs an array that is live for `'a` and that nothing changes, which the
        // caller of this function guarantees for each pointer by the `# Safety` section.
        let array = array.as_ref().map(|array| unsafe { array.as_ref() });
        Ok(&needed(argument, array)?.0)
    });
    arrays.collect()
}

/// The access to an attached array: SHMA_READ_WRITE or SHMA_READ_ONLY.
pub type shma_access = i32;
/// The memory may be read and written.
pub const SHMA_READ_WRITE: shma_access = 0;
/// The memory may be read. It is mapped read-only, so a store faults.
pub const SHMA_READ_ONLY: shma_access = 1;

/// The most dimensions of an array.
pub const SHMA_MAX_NDIM: usize = 64;
/// The longest text of a handle in bytes, without the zero byte behind it. A handle without a
/// structured dtype has a few hundred, and 20 to 40 more for each dimension.
pub const SHMA_MAX_HANDLE_BYTES: usize = 65536;
/// The longest name in bytes, without the zero byte behind it.
pub const SHMA_MAX_NAME_BYTES: usize = 64;
/// The most metadata of a channel's message in bytes.
pub const SHMA_MAX_META_BYTES: usize = 64;

const _: () = assert!(SHMA_MAX_NDIM == shmarray::MAX_NDIM);
const _: () = assert!(SHMA_MAX_HANDLE_BYTES == shmarray::MAX_HANDLE_BYTES);
const _: () = assert!(SHMA_MAX_NAME_BYTES == shmarray::MAX_NAME_BYTES);
const _: () = assert!(SHMA_MAX_META_BYTES == shmarray::MAX_META_BYTES);

/// Returns the given strides, or those of a contiguous array in C order if `strides` is NULL.
///
/// # Safety
/// `strides` is NULL or has as many numbers as `shape`.
pub(crate) unsafe fn strides_of(
    strides: *const i64,
    shape: &[u64],
    dtype: &shmarray::DType,
) -> Result<Vec<i64>, Failure> {
    if strides.is_null() {
        return Ok(Layout::contiguous(shape, dtype.itemsize(), Order::C)?.strides);
    }
    // SAFETY: `numbers` needs NULL or as many numbers as `shape` has, which the caller of this
    // function guarantees by the `# Safety` section; they are copied before it returns.
    Ok(unsafe { numbers("strides", strides, shape.len()) }?.to_vec())
}

pub(crate) fn access_of(access: shma_access) -> Result<Access, Failure> {
    match access {
        SHMA_READ_WRITE => Ok(Access::ReadWrite),
        SHMA_READ_ONLY => Ok(Access::ReadOnly),
        _ => Err(invalid(
            "access",
            format!("{access} is neither SHMA_READ_WRITE nor SHMA_READ_ONLY"),
        )),
    }
}

/// Creates an array. It is filled with zeros unless options->uninitialized is set. All its memory
/// is reserved by this call.
///
/// shape has ndim numbers, and ndim is at most 64; options may be NULL. Fails with
/// SHMA_ERROR_NO_SPACE, SHMA_ERROR_EXISTS, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_INVALID_DTYPE,
/// and, for options that only Linux has, SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_create(
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller guarantees.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `read_options` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let (dtype, options) = unsafe { read_options(dtype, options) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe {
            produce("array_out", array_out, || {
                Ok(shma_array(Array::create(dtype, &shape, &options)?))
            })
        }
    })
}

/// Creates an array and copies private memory into it. data points to the first element.
///
/// strides has ndim numbers of bytes; NULL stands for contiguous elements in C order.
/// Fails like shma_array_create.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `data`, `shape` and `strides` describe
/// elements that can all be read.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_share(
    data: *const c_void,
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    strides: *const i64,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller guarantees.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `read_options` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let (dtype, options) = unsafe { read_options(dtype, options) }?;
        // SAFETY: `strides_of` needs NULL or as many numbers as `shape` has, which is `ndim`: P3 of
        // the crate, which the C caller guarantees.
        let strides = unsafe { strides_of(strides, &shape, &dtype) }?;
        let layout = Layout { shape, strides, offset: 0 };
        if data.is_null() && !layout.is_empty() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: `Array::share` needs readable memory for every element of `layout`, which the C
        // caller guarantees by the `# Safety` section. `data` is NULL only if there is no element
        // (checked above).
        let make =
            || Ok(shma_array(unsafe { Array::share(data.cast(), dtype, &layout, &options) }?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, make) }
    })
}

/// Creates an array of memory that lies in an array of this process, such as a part of one. data
/// points to its first element. The memory is kept as by a view: nothing is copied.
///
/// strides has ndim numbers of bytes; NULL stands for contiguous elements in C order. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if no array of this process has all of these elements in shared
/// memory, and SHMA_ERROR_INVALID_DTYPE.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require. `data` is not read.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_over_memory(
    data: *const c_void,
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    strides: *const i64,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller guarantees.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `read_options` needs NULL, or a struct: P1 and P2 of the crate.
        let (dtype, _) = unsafe { read_options(dtype, std::ptr::null()) }?;
        // SAFETY: `strides_of` needs NULL or as many numbers as `shape` has, which is `ndim`: P3 of
        // the crate, which the C caller guarantees.
        let strides = unsafe { strides_of(strides, &shape, &dtype) }?;
        let make = || {
            let found = Array::over_memory(data as usize, dtype, &shape, &strides);
            let none = || invalid("data", "it is not in an array of this process".to_owned());
            Ok(shma_array(found.ok_or_else(none)?))
        };
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, make) }
    })
}

/// Attaches the array that has this handle or this name.
///
/// Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_STALE_HANDLE, SHMA_ERROR_INVALID_HANDLE,
/// SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_attach(
    handle_or_name: *const c_char,
    access: shma_access,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `handle_or_name`.
        let handle_or_name = unsafe { text_of("handle_or_name", handle_or_name) }?;
        let access = access_of(access)?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe {
            produce("array_out", array_out, || {
                Ok(shma_array(Array::attach(handle_or_name, access)?))
            })
        }
    })
}

/// Writes the array's handle to text: one line of UTF-8 that any process on this machine can
/// attach. The handle does not hold the array: some process must, until another has attached it.
///
/// Fails with SHMA_ERROR_TEXT_TOO_SHORT if text_bytes is too small. In that case, too, the needed
/// size with the terminating zero is written to needed_bytes_out, which may be NULL.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_handle(
    array: Option<&shma_array>,
    text: *mut c_char,
    text_bytes: usize,
    needed_bytes_out: *mut usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let handle = needed("array", array)?.0.handle();
        // SAFETY: `put_text` needs a buffer of `text_bytes` and an output that are NULL or valid
        // for writes: P3 and P4 of the crate, which the C caller guarantees.
        unsafe { put_text(&handle, text, text_bytes, needed_bytes_out) }
    })
}

/// Writes a handle to be sent out of band, such as over a socket or in a file or a database. The
/// handle has a ticket, which holds the array even after this process ends. The ticket is released
/// when the handle is attached or passed to shma_handle_discard, or when the last process of this
/// process's family ends. A family is the first process that uses this library and all processes
/// that are forked from it afterwards, directly or not. A program that is started by exec has a
/// family of its own unless it inherits the environment variable SHMARRAY_FAMILY. Each successful
/// call creates one ticket; a failing call creates none.
///
/// text, text_bytes and needed_bytes_out are as in shma_array_handle. Fails with
/// SHMA_ERROR_TEXT_TOO_SHORT, SHMA_ERROR_UNSUPPORTED, SHMA_ERROR_OS.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_handle_to_send(
    array: Option<&shma_array>,
    text: *mut c_char,
    text_bytes: usize,
    needed_bytes_out: *mut usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let array = &needed("array", array)?.0;
        let mut longest = array.descriptor();
        longest.ticket = Some(LONGEST_TICKET);
        let longest = longest.to_handle();
        // SAFETY: `check_text_buffer` needs an output that is NULL or valid for a write: P4 of the
        // crate, which the C caller guarantees for `needed_bytes_out`.
        unsafe { check_text_buffer(&longest, text, text_bytes, needed_bytes_out) }?;
        // SAFETY: `put_text` needs a buffer of `text_bytes` and an output that are NULL or valid
        // for writes: P3 and P4 of the crate, which the C caller guarantees.
        unsafe { put_text(&array.handle_to_send()?, text, text_bytes, needed_bytes_out) }
    })
}

/// The ticket with the most digits: tickets are below 2^53, as generations are. The buffer is
/// checked for it before a ticket is created.
const LONGEST_TICKET: u64 = (1 << 53) - 1;

/// Writes the dtype's text as in a handle: "<i4", or the JSON of a structured type. text,
/// text_bytes and needed_bytes_out are as in shma_array_handle.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_dtype_text(
    array: Option<&shma_array>,
    text: *mut c_char,
    text_bytes: usize,
    needed_bytes_out: *mut usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let dtype = needed("array", array)?.0.dtype();
        // SAFETY: `put_text` needs a buffer of `text_bytes` and an output that are NULL or valid
        // for writes: P3 and P4 of the crate, which the C caller guarantees.
        unsafe { put_text(dtype.text(), text, text_bytes, needed_bytes_out) }
    })
}

/// Returns a pointer to the first element. It is valid until the array is closed. The elements of a
/// read-only array must not be written. Elements of a view, or of an array that another process
/// made, may be unaligned: if the pointer or a stride is no multiple of the element's alignment,
/// read and write them with memcpy.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_data(array: Option<&shma_array>) -> *mut c_void {
    array.map_or(std::ptr::null_mut(), |array| array.0.as_ptr().cast())
}

/// Returns the number of dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_ndim(array: Option<&shma_array>) -> usize {
    array.map_or(0, |array| array.0.shape().len())
}

/// Returns the number of elements along each dimension. The pointer is valid until the array is
/// closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_shape(array: Option<&shma_array>) -> *const i64 {
    // Core has checked that each is at most INT64_MAX, so u64 and i64 have the same bits.
    array.map_or(std::ptr::null(), |array| array.0.shape().as_ptr().cast())
}

/// Returns the stride in bytes along each dimension. The pointer is valid until the array is
/// closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_strides(array: Option<&shma_array>) -> *const i64 {
    array.map_or(std::ptr::null(), |array| array.0.strides().as_ptr())
}

/// Returns the number of elements.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_size(array: Option<&shma_array>) -> usize {
    array.map_or(0, |array| array.0.layout().len() as usize)
}

/// Returns the dtype; SHMA_OPAQUE if C has no type for it.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_dtype(array: Option<&shma_array>) -> shma_dtype {
    array.map_or(SHMA_OPAQUE, |array| array.0.dtype().code() as i32)
}

/// Returns the size of one element in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_itemsize(array: Option<&shma_array>) -> usize {
    array.map_or(0, |array| array.0.dtype().itemsize() as usize)
}

/// Returns 1 if the array was attached read-only or is a view of one that was, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_is_readonly(array: Option<&shma_array>) -> i32 {
    array.map_or(0, |array| array.0.is_readonly().into())
}

/// Returns 1 if the elements are contiguous in that order, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_is_contiguous(array: Option<&shma_array>, order: shma_order) -> i32 {
    let order = order_of(order).ok();
    array.zip(order).map_or(0, |(array, order)| array.0.is_contiguous(order).into())
}

/// Returns 1 if the address of every element is a multiple of that many bytes, else 0. A new array
/// begins at a multiple of 64; a view may not.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_is_aligned(array: Option<&shma_array>, alignment: usize) -> i32 {
    let alignment = alignment as u64;
    array.filter(|_| alignment > 0).map_or(0, |array| array.0.is_aligned(alignment).into())
}

/// Adds an owner and returns the array itself, which stays open until each owner has closed it.
/// Returns NULL for NULL. The call makes no view and allocates nothing. An owner may call it while
/// other owners close the array.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_retain(array: *const shma_array) -> *mut shma_array {
    if !array.is_null() {
        // SAFETY: the count of an `Arc` is increased by a pointer that `Arc::into_raw` returned and
        // that has an owner: `into_pointer` made it, and it is live by P1 of the crate.
        unsafe { Arc::increment_strong_count(array) };
    }
    array.cast_mut()
}

/// Removes an owner. The last one closes the array, and its memory is given back when no process
/// holds it any more. Other owners may use the array during the call.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; the caller is an owner of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_close(array: *mut shma_array) {
    guard(None, || {
        if !array.is_null() {
            // SAFETY: the count of an `Arc` is decreased by a pointer that `Arc::into_raw` returned
            // and by one of its owners: `into_pointer` made it, and the C caller is an owner by the
            // `# Safety` section.
            unsafe { Arc::decrement_strong_count(array) };
        }
        Ok(())
    });
}
