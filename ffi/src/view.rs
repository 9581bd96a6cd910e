//! `shma_array_*`: the C functions that create views.

use crate::arguments::{needed, numbers, produce, shape as shape_of};
use crate::array::{shma_array, strides_of};
use crate::error::{guard, shma_error, shma_status};

/// An open bound of a slice: as start, the first element in the direction of step; as stop, the
/// position after the last one.
pub const SHMA_END: i64 = i64::MIN;

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
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_view(
    array: Option<&shma_array>,
    ndim: usize,
    shape: *const i64,
    strides: *const i64,
    offset: i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
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

/// Creates a view of the elements start, start + step and so on before stop along one dimension, as
/// Python's slices do: negative bounds count from the end, and bounds outside the dimension are
/// clamped to it. SHMA_END leaves a bound open. Fails with SHMA_ERROR_INVALID_ARGUMENT if there is
/// no such dimension or step is 0.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_slice(
    array: Option<&shma_array>,
    dimension: usize,
    start: i64,
    stop: i64,
    step: i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
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
/// dimension has no such index, SHMA_ERROR_INVALID_ARGUMENT if there is no such dimension.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_select(
    array: Option<&shma_array>,
    dimension: usize,
    index: i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
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
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_transpose(
    array: Option<&shma_array>,
    axes: *const usize,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
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

/// Creates a view of the same elements in the same C order in another shape. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if shape has another number of elements, or if only a copy could
/// have it, as of a transposed array.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_reshape(
    array: Option<&shma_array>,
    ndim: usize,
    shape: *const i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let array = needed("array", array)?;
        // SAFETY: `shape_of` needs NULL or `ndim` numbers: P3 of the crate, which the C caller
        // guarantees for `shape`.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `view_out`.
        unsafe { produce("view_out", view_out, || Ok(shma_array(array.0.reshape(&shape)?))) }
    })
}
