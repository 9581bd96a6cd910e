//! `shma_array_to_dlpack`, `shma_array_from_dlpack`: tensors of other frameworks.

use shmarray::Array;
use shmarray::dlpack::{self, DLManagedTensorVersioned};

use crate::arguments::{needed, produce};
use crate::array::{access_of, shma_access, shma_array};
use crate::dtype::SHMA_UINT8;
use crate::error::{Failure, guard, shma_error, shma_status};
use crate::options::{read_options, shma_options};

/// Makes a tensor of DLPack 1.1 that is the array: the same memory. It stays until the tensor's
/// deleter is called, once, in any thread. dlpack.h has the struct.
///
/// Its strides are never NULL. It has the flag DLPACK_FLAG_BITMASK_READ_ONLY if access is
/// SHMA_READ_ONLY or the array is read-only, and if its elements have fewer than eight bits, as
/// those of SHMA_INT4 have, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED. Fails with
/// SHMA_ERROR_INVALID_DTYPE if DLPack has no such type, and with SHMA_ERROR_INVALID_ARGUMENT if
/// a stride is no multiple of the item size.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_to_dlpack(
    array: Option<&shma_array>,
    access: shma_access,
    tensor_out: *mut *mut DLManagedTensorVersioned,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let array = &needed("array", array)?.0;
        if tensor_out.is_null() {
            return Err(Failure::Null("tensor_out"));
        }
        let tensor = array.to_dlpack(access_of(access)?)?;
        // SAFETY: `write` needs a pointer that is valid for a write. It is not NULL (checked
        // above): P4 of the crate, which the C caller guarantees.
        unsafe { tensor_out.write(tensor.as_ptr()) };
        Ok(())
    })
}

/// Creates an array and copies the elements of a tensor into it, which is on the CPU. The tensor
/// stays the caller's, who calls its deleter afterwards.
///
/// options may be NULL, and has no dtype. Fails like shma_array_create, and with
/// SHMA_ERROR_INVALID_ARGUMENT if the tensor is on another device, of another major version, or
/// has packed elements of fewer than eight bits.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require, and the tensor is as dlpack.h says.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_array_from_dlpack(
    tensor: Option<&DLManagedTensorVersioned>,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let tensor = needed("tensor", tensor)?;
        // SAFETY: `read_options` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let (_, options) = unsafe { read_options(SHMA_UINT8, options) }?;
        // SAFETY: `read` needs a tensor as DLPack says, which the C caller guarantees by the
        // `# Safety` section.
        let found = unsafe { dlpack::read(tensor) }?;
        let make = || {
            // SAFETY: `Array::share` needs readable memory for every element, which the tensor has
            // until its deleter is called: the C caller guarantees it by the `# Safety` section.
            let made = unsafe { Array::share(found.data, found.dtype, &found.layout, &options) };
            Ok(shma_array(made?))
        };
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, make) }
    })
}
