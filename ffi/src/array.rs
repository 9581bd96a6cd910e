//! `shma_array_*`: arrays for C.

use std::ffi::{c_char, c_void};

use shmarray::{Access, Array, Descriptor, Layout, Options, Order};

use crate::arguments::{
    invalid, needed, numbers, optional_text, produce, put_text, room_for_text, shape as shape_of,
    text as text_of,
};
use crate::dtype::{SHMA_OPAQUE, resolve, shma_dtype};
use crate::error::{Failure, guard, shma_error};

/// An array: typed n-dimensional memory that several processes see at once.
pub struct shma_array(pub(crate) Array);

/// What an attached array may be used for: SHMA_READ_WRITE or SHMA_READ_ONLY.
pub type shma_access = i32;
/// Loads and stores.
pub const SHMA_READ_WRITE: shma_access = 0;
/// Loads; the memory is protected, a store is a fault.
pub const SHMA_READ_ONLY: shma_access = 1;

/// The order of elements in memory: SHMA_ORDER_C or SHMA_ORDER_F.
pub type shma_order = i32;
/// The last dimension varies fastest.
pub const SHMA_ORDER_C: shma_order = 0;
/// The first dimension varies fastest.
pub const SHMA_ORDER_F: shma_order = 1;

/// A bound of a slice that is not given: the far end in the step's direction.
pub const SHMA_END: i64 = i64::MIN;

/// How a new array is made. Start from SHMA_OPTIONS_INIT; all zeros is the ordinary array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct shma_options {
    /// sizeof(shma_options), which tells the library which fields there are; 0 for all of this
    /// version.
    pub struct_bytes: usize,
    /// A name to find the array by, 1 to 64 of A-Z a-z 0-9 . _ -, or NULL.
    pub name: *const c_char,
    /// Not 0: the array outlives every process until its name is unlinked.
    pub persist: i32,
    /// Permission bits of the segment; 0 for 0600.
    pub mode: u32,
    /// SHMA_ORDER_C or SHMA_ORDER_F.
    pub order: shma_order,
    /// Not 0: the memory may hold what this user's earlier arrays left there, instead of zeros.
    pub uninitialized: u32,
    /// For SHMA_OPAQUE: the size of one item.
    pub itemsize: u64,
    /// For SHMA_OPAQUE: the dtype's text as a handle has it, or NULL for items without a meaning.
    pub dtype_text: *const c_char,
}

/// The options as core has them, and the dtype.
///
/// # Safety
/// The texts in `options` are NULL or end in a zero.
unsafe fn read_options(
    dtype: shma_dtype,
    options: Option<&shma_options>,
) -> Result<(shmarray::DType, Options), Failure> {
    let Some(options) = options else { return Ok((resolve(dtype, None, 0)?, Options::default())) };
    if options.struct_bytes != 0 && options.struct_bytes < size_of::<shma_options>() {
        return Err(invalid(
            "options",
            format!("struct_bytes {} is of no version", options.struct_bytes),
        ));
    }
    // SAFETY: the caller's promise.
    let name = unsafe { optional_text("name", options.name) }?;
    // SAFETY: the caller's promise.
    let dtype_text = unsafe { optional_text("dtype_text", options.dtype_text) }?;
    let read = Options {
        order: order_of(options.order)?,
        name: name.map(str::to_owned),
        persist: options.persist != 0,
        mode: if options.mode == 0 { 0o600 } else { options.mode },
        uninitialized: options.uninitialized != 0,
    };
    Ok((resolve(dtype, dtype_text, options.itemsize)?, read))
}

fn order_of(order: shma_order) -> Result<Order, Failure> {
    match order {
        SHMA_ORDER_C => Ok(Order::C),
        SHMA_ORDER_F => Ok(Order::F),
        _ => Err(invalid("order", format!("{order} is neither SHMA_ORDER_C nor SHMA_ORDER_F"))),
    }
}

/// Strides as given; those of elements side by side in C order when NULL.
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
    // SAFETY: the caller's promise.
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

/// A new array, of zeros unless they are not asked for; its memory is reserved now.
///
/// shape has ndim numbers of elements; options may be NULL. Fails with SHMA_ERROR_NO_SPACE,
/// SHMA_ERROR_EXISTS, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_INVALID_DTYPE.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        // SAFETY: C's caller promises what the header says.
        let (shape, (dtype, options)) =
            (unsafe { shape_of(shape, ndim) }?, unsafe { read_options(dtype, options) }?);
        // SAFETY: as above.
        unsafe {
            produce("array_out", array_out, || {
                Ok(shma_array(Array::create(dtype, &shape, &options)?))
            })
        }
    })
}

/// A new array with a copy of private memory, whose first element is at data.
///
/// strides has ndim numbers of bytes; NULL for elements side by side in C order.
/// Fails as shma_array_create.
///
/// # Safety
/// Pointers are NULL or to what their types say; every element can be read.
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
        // SAFETY: C's caller promises what the header says.
        let (shape, (dtype, options)) =
            (unsafe { shape_of(shape, ndim) }?, unsafe { read_options(dtype, options) }?);
        // SAFETY: as above.
        let strides = unsafe { strides_of(strides, &shape, &dtype) }?;
        let layout = Layout { shape, strides, offset: 0 };
        if data.is_null() && !layout.is_empty() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: as above; the elements can be read.
        let make =
            || Ok(shma_array(unsafe { Array::share(data.cast(), dtype, &layout, &options) }?));
        // SAFETY: as above.
        unsafe { produce("array_out", array_out, make) }
    })
}

/// The array of a handle, or of a name.
///
/// Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_STALE_HANDLE, SHMA_ERROR_INVALID_HANDLE,
/// SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_attach(
    handle_or_name: *const c_char,
    access: shma_access,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: C's caller promises what the header says.
        let handle_or_name = unsafe { text_of("handle_or_name", handle_or_name) }?;
        let access = access_of(access)?;
        // SAFETY: as above.
        unsafe {
            produce("array_out", array_out, || {
                Ok(shma_array(Array::attach(handle_or_name, access)?))
            })
        }
    })
}

/// The same memory with another shape, strides and offset; the offset counts bytes from the
/// first element of the array. Stays inside what the array spans, else SHMA_ERROR_OUT_OF_BOUNDS.
///
/// strides has ndim numbers of bytes; NULL for elements side by side in C order.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        // SAFETY: C's caller promises what the header says.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: as above.
        let strides = unsafe { strides_of(strides, &shape, array.0.dtype()) }?;
        // SAFETY: as above.
        unsafe {
            produce("view_out", view_out, || {
                Ok(shma_array(array.0.view(&shape, &strides, offset)?))
            })
        }
    })
}

/// The elements start, start + step, … before stop along one dimension. Negative bounds count
/// from the end; SHMA_END is the far end in the step's direction.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        // SAFETY: C's caller promises what the header says.
        unsafe { produce("view_out", view_out, slice) }
    })
}

/// The elements at one index of a dimension, which goes away. Negative counts from the end.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        // SAFETY: C's caller promises what the header says.
        unsafe {
            produce("view_out", view_out, || Ok(shma_array(array.0.select(dimension, index)?)))
        }
    })
}

/// The same elements with the dimensions in another order: dimension i of the view is dimension
/// number `axes[i]` of the array. NULL reverses them.
///
/// # Safety
/// Pointers are NULL or to what their types say; axes has as many numbers as the array dimensions.
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
            // SAFETY: C's caller promises what the header says.
            return unsafe { produce("view_out", view_out, || Ok(shma_array(array.transpose()))) };
        }
        // SAFETY: as above.
        let axes = unsafe { numbers("axes", axes, array.shape().len()) }?;
        // SAFETY: as above.
        unsafe { produce("view_out", view_out, || Ok(shma_array(array.permute(axes)?))) }
    })
}

/// The array's handle: one line of text for any process on this machine.
///
/// When text_bytes is too few: SHMA_ERROR_TEXT_TOO_SHORT. needed_bytes_out, which may be NULL,
/// is told how many are needed, the final zero included, in every case.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        // SAFETY: C's caller promises what the header says.
        unsafe { put_text(&handle, text, text_bytes, needed_bytes_out) }
    })
}

/// The array's handle for a way of your own: a socket, a file, a database. From now on a ticket
/// holds the array, also when this process ends: until the handle is attached or given to
/// shma_handle_discard, or until all processes that descend from this one's oldest ancestor with this
/// library are gone. Each successful call makes one ticket; a failure makes none.
///
/// Room as in shma_array_handle. Fails with SHMA_ERROR_UNSUPPORTED, SHMA_ERROR_OS.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        let longest = Descriptor { ticket: Some(LONGEST_TICKET), ..array.descriptor() }.to_handle();
        // SAFETY: C's caller promises what the header says.
        unsafe { room_for_text(&longest, text, text_bytes, needed_bytes_out) }?;
        // SAFETY: as above.
        unsafe { put_text(&array.handle_to_send()?, text, text_bytes, needed_bytes_out) }
    })
}

/// A ticket of as many digits as any: they stay below 2^53, as generations do.
const LONGEST_TICKET: u64 = (1 << 53) - 1;

/// The dtype's text as a handle has it: "<i4", or a structured type's JSON. Room as in
/// shma_array_handle.
///
/// # Safety
/// Pointers are NULL or to what their types say.
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
        // SAFETY: C's caller promises what the header says.
        unsafe { put_text(dtype.text(), text, text_bytes, needed_bytes_out) }
    })
}

/// The first element. Valid until the array is closed; in a read-only array only for loads.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_data(array: Option<&shma_array>) -> *mut c_void {
    array.map_or(std::ptr::null_mut(), |array| array.0.as_ptr().cast())
}

/// The number of dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_ndim(array: Option<&shma_array>) -> usize {
    array.map_or(0, |array| array.0.shape().len())
}

/// Elements along each dimension. Lives as long as the array.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_shape(array: Option<&shma_array>) -> *const i64 {
    // Core checked that each is at most INT64_MAX, so the unsigned numbers read as signed ones.
    array.map_or(std::ptr::null(), |array| array.0.shape().as_ptr().cast())
}

/// Bytes between elements along each dimension. Lives as long as the array.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_strides(array: Option<&shma_array>) -> *const i64 {
    array.map_or(std::ptr::null(), |array| array.0.strides().as_ptr())
}

/// The number of elements.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_size(array: Option<&shma_array>) -> usize {
    array.map_or(0, |array| array.0.layout().len() as usize)
}

/// The element type; SHMA_OPAQUE for one that C has no type for.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_dtype(array: Option<&shma_array>) -> shma_dtype {
    array.map_or(SHMA_OPAQUE, |array| array.0.dtype().code() as i32)
}

/// Size of one element in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_itemsize(array: Option<&shma_array>) -> usize {
    array.map_or(0, |array| array.0.dtype().itemsize() as usize)
}

/// 1 when the array was attached read-only, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_is_readonly(array: Option<&shma_array>) -> i32 {
    array.map_or(0, |array| array.0.is_readonly().into())
}

/// 1 when the elements lie side by side in that order, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_is_contiguous(array: Option<&shma_array>, order: shma_order) -> i32 {
    let order = order_of(order).ok();
    array.zip(order).map_or(0, |(array, order)| array.0.is_contiguous(order).into())
}

/// Lets the array go. The memory is given back when nobody holds it any more, in any process.
#[unsafe(no_mangle)]
pub extern "C" fn shma_array_close(array: Option<Box<shma_array>>) {
    guard(None, || {
        drop(array);
        Ok(())
    });
}
