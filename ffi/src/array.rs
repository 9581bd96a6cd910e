//! `shma_array_*`: the C functions on arrays.

use std::ffi::{c_char, c_void};

use shmarray::{Access, Array, Layout, Options, Order};

use crate::arguments::{
    check_text_buffer, invalid, needed, numbers, optional_text, produce, put_text,
    shape as shape_of, text as text_of,
};
use crate::dtype::{SHMA_OPAQUE, resolve, shma_dtype};
use crate::error::{Failure, guard, shma_error};

/// An array: typed n-dimensional memory that several processes can have mapped at once.
pub struct shma_array(pub(crate) Array);

/// The access to an attached array: SHMA_READ_WRITE or SHMA_READ_ONLY.
pub type shma_access = i32;
/// The memory may be read and written.
pub const SHMA_READ_WRITE: shma_access = 0;
/// The memory may be read. It is mapped read-only, so a store faults.
pub const SHMA_READ_ONLY: shma_access = 1;

/// The order of elements in memory: SHMA_ORDER_C or SHMA_ORDER_F.
pub type shma_order = i32;
/// The last dimension varies fastest.
pub const SHMA_ORDER_C: shma_order = 0;
/// The first dimension varies fastest.
pub const SHMA_ORDER_F: shma_order = 1;

/// An open bound of a slice. As start it stands for the first element in the direction of the step,
/// as stop for the end behind the last one.
pub const SHMA_END: i64 = i64::MIN;

/// Creation options. Initialize them with SHMA_OPTIONS_INIT. All zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct shma_options {
    /// sizeof(shma_options), by which the library knows which fields the caller has; 0 stands for
    /// those of the library's version.
    pub struct_bytes: usize,
    /// A name for the array, 1 to 64 characters of A-Z a-z 0-9 . _ -, or NULL.
    pub name: *const c_char,
    /// If not 0, the array lives until its name is unlinked, even without a holder.
    pub persist: i32,
    /// The permission bits of the segment; 0 stands for 0600.
    pub mode: u32,
    /// SHMA_ORDER_C or SHMA_ORDER_F.
    pub order: shma_order,
    /// If not 0, the memory is not zeroed and may have bytes of this user's earlier arrays.
    pub uninitialized: u32,
    /// The size of one element in bytes, for SHMA_OPAQUE.
    pub itemsize: u64,
    /// The dtype's text as in a handle, for SHMA_OPAQUE; NULL for plain bytes of that itemsize.
    pub dtype_text: *const c_char,
}

/// Converts a dtype and options to those of core.
///
/// # Safety
/// The texts in `options` are as P2 of the crate requires.
unsafe fn read_options(
    dtype: shma_dtype,
    options: Option<&shma_options>,
) -> Result<(shmarray::DType, Options), Failure> {
    let Some(options) = options else { return Ok((resolve(dtype, None, 0)?, Options::default())) };
    if options.struct_bytes != 0 && options.struct_bytes < size_of::<shma_options>() {
        return Err(invalid(
            "options",
            format!("struct_bytes {}: no version of shma_options has it", options.struct_bytes),
        ));
    }
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of this
    // function guarantees for `options.name` by the `# Safety` section.
    let name = unsafe { optional_text("name", options.name) }?;
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of this
    // function guarantees for `options.dtype_text` by the `# Safety` section.
    let dtype_text = unsafe { optional_text("dtype_text", options.dtype_text) }?;
    let read = Options::new()
        .order(order_of(options.order)?)
        .persist(options.persist != 0)
        .mode(if options.mode == 0 { 0o600 } else { options.mode })
        .uninitialized(options.uninitialized != 0);
    let read = name.into_iter().fold(read, Options::name);
    Ok((resolve(dtype, dtype_text, options.itemsize)?, read))
}

fn order_of(order: shma_order) -> Result<Order, Failure> {
    match order {
        SHMA_ORDER_C => Ok(Order::C),
        SHMA_ORDER_F => Ok(Order::F),
        _ => Err(invalid("order", format!("{order} is neither SHMA_ORDER_C nor SHMA_ORDER_F"))),
    }
}

/// Returns the given strides, or those of a contiguous array in C order if `strides` is NULL.
///
/// # Safety
/// `strides` is NULL or has as many numbers as `shape`.
unsafe fn strides_of(
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
/// shape has ndim numbers; options may be NULL. Fails with SHMA_ERROR_NO_SPACE, SHMA_ERROR_EXISTS,
/// SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_INVALID_DTYPE.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_create(
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    options: Option<&shma_options>,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: `shape_of` needs `ndim` numbers and `read_options` zero-terminated texts: P3 and
        // P2 of the crate, which the C caller guarantees.
        let (shape, (dtype, options)) =
            (unsafe { shape_of(shape, ndim) }?, unsafe { read_options(dtype, options) }?);
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_share(
    data: *const c_void,
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    strides: *const i64,
    options: Option<&shma_options>,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: `shape_of` needs `ndim` numbers and `read_options` zero-terminated texts: P3 and
        // P2 of the crate, which the C caller guarantees.
        let (shape, (dtype, options)) =
            (unsafe { shape_of(shape, ndim) }?, unsafe { read_options(dtype, options) }?);
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

/// Attaches the array that has this handle or this name.
///
/// Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_STALE_HANDLE, SHMA_ERROR_INVALID_HANDLE,
/// SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_attach(
    handle_or_name: *const c_char,
    access: shma_access,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
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

/// Creates a view: the same memory with another shape, strides and offset. The offset is in bytes
/// from the first element of the array. Fails with SHMA_ERROR_OUT_OF_BOUNDS if an element of the
/// view is outside the memory that the array spans.
///
/// strides has ndim numbers of bytes; NULL stands for contiguous elements in C order. A view holds
/// the memory itself: it stays valid after the array is closed, and is closed with
/// shma_array_close.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_view(
    array: Option<&shma_array>,
    ndim: usize,
    shape: *const i64,
    strides: *const i64,
    offset: i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        let array = needed("array", array)?;
        // SAFETY: `shape_of` needs NULL or `ndim` numbers: P3 of the crate, which the C caller
        // guarantees for `shape`.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `strides_of` needs NULL or as many numbers as `shape` has, which is `ndim`: P3 of
        // the crate, which the C caller guarantees.
        let strides = unsafe { strides_of(strides, &shape, array.0.dtype()) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `view_out`.
        unsafe {
            produce("view_out", view_out, || {
                Ok(shma_array(array.0.view(&shape, &strides, offset)?))
            })
        }
    })
}

/// Creates a view of the elements start, start + step, … before stop along one dimension. Negative
/// bounds count from the end of the dimension. SHMA_END leaves a bound open: as start it is the
/// first element in the direction of step, as stop the end behind the last one. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if there is no such dimension or step is 0.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_slice(
    array: Option<&shma_array>,
    dimension: usize,
    start: i64,
    stop: i64,
    step: i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    let bound = |at: i64| (at != SHMA_END).then_some(at);
    guard(error, || {
        let array = needed("array", array)?;
        let slice = || Ok(shma_array(array.0.slice(dimension, bound(start), bound(stop), step)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `view_out`.
        unsafe { produce("view_out", view_out, slice) }
    })
}

/// Creates a view of the elements at one index of a dimension. The view does not have that
/// dimension. A negative index counts from the end. Fails with SHMA_ERROR_OUT_OF_BOUNDS if the
/// dimension has no such index.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_select(
    array: Option<&shma_array>,
    dimension: usize,
    index: i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        let array = needed("array", array)?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `view_out`.
        unsafe {
            produce("view_out", view_out, || Ok(shma_array(array.0.select(dimension, index)?)))
        }
    })
}

/// Creates a view with the dimensions in another order: dimension i of the view is dimension
/// `axes[i]` of the array. If axes is NULL, the order is reversed. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT unless axes names each dimension once.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `axes` is NULL or has a number for each
/// dimension of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_transpose(
    array: Option<&shma_array>,
    axes: *const usize,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        let array = &needed("array", array)?.0;
        if axes.is_null() {
            // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
            // which the C caller guarantees for `view_out`.
            return unsafe { produce("view_out", view_out, || Ok(shma_array(array.transpose()))) };
        }
        // SAFETY: `numbers` needs a number for each dimension of the array, which the C caller
        // guarantees for `axes` by the `# Safety` section; it is not NULL (checked above).
        let axes = unsafe { numbers("axes", axes, array.shape().len()) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `view_out`.
        unsafe { produce("view_out", view_out, || Ok(shma_array(array.permute(axes)?))) }
    })
}

/// Writes the array's handle to text: one line of UTF-8 that any process on this machine can
/// attach.
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
) -> i32 {
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
/// family of its own. Each successful call creates one ticket; a failing call creates none.
///
/// text, text_bytes and needed_bytes_out are as in shma_array_handle. Fails with
/// SHMA_ERROR_TEXT_TOO_SHORT, SHMA_ERROR_UNSUPPORTED, SHMA_ERROR_OS.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_handle_to_send(
    array: Option<&shma_array>,
    text: *mut c_char,
    text_bytes: usize,
    needed_bytes_out: *mut usize,
    error: Option<&mut shma_error>,
) -> i32 {
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
) -> i32 {
    guard(error, || {
        let dtype = needed("array", array)?.0.dtype();
        // SAFETY: `put_text` needs a buffer of `text_bytes` and an output that are NULL or valid
        // for writes: P3 and P4 of the crate, which the C caller guarantees.
        unsafe { put_text(dtype.text(), text, text_bytes, needed_bytes_out) }
    })
}

/// Returns a pointer to the first element. It is valid until the array is closed. The elements of a
/// read-only array must not be written. If the offset of a view, or of an array that another
/// process made, is no multiple of the element's alignment, read and write elements with memcpy.
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

/// Returns 1 if the array was attached read-only, else 0.
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

/// Closes the array. Its memory is given back when no process holds it any more.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_close(array: Option<Box<shma_array>>) {
    guard(None, || {
        drop(array);
        Ok(())
    });
}
