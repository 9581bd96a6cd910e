//! Reshaping an array without a copy.

use crate::arguments::{needed, produce, shape as shape_of};
use crate::array::shma_array;
use crate::error::{guard, shma_error};

/// Creates a view of the same elements in the same C order in another shape. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if shape has another number of elements, or if only a copy could
/// have it, as of a transposed array.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_reshape(
    array: Option<&shma_array>,
    ndim: usize,
    shape: *const i64,
    view_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> i32 {
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
