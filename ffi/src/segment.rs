//! Names, giving back, and facts about the library.

use std::ffi::{CStr, c_char};

use crate::arguments::text as text_of;
use crate::error::{door, shma_error};

/// Takes a name away. The array goes with its last holder.
///
/// Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_segment_unlink(
    name: *const c_char,
    error: Option<&mut shma_error>,
) -> i32 {
    door(error, || {
        // SAFETY: C's caller promises what the header says.
        let name = unsafe { text_of("name", name) }?;
        Ok(shmarray::unlink(name)?)
    })
}

/// Gives back what an unwanted message holds: a handle that shma_array_handle_to_send made and
/// that nobody will attach. Twice is as good as once, and of an array that is gone or of a plain
/// handle there is nothing to give back.
///
/// Fails with SHMA_ERROR_INVALID_HANDLE, SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_discard(
    handle: *const c_char,
    error: Option<&mut shma_error>,
) -> i32 {
    door(error, || {
        // SAFETY: C's caller promises what the header says.
        let handle = unsafe { text_of("handle", handle) }?;
        Ok(shmarray::discard(handle)?)
    })
}

/// Gives back what dead processes held, and says how much. Nobody needs to call it: the first
/// use of the library in each process does. Both outputs may be NULL.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_sweep(
    segments_out: Option<&mut u64>,
    bytes_out: Option<&mut u64>,
    error: Option<&mut shma_error>,
) -> i32 {
    door(error, || {
        let swept = shmarray::sweep()?;
        let outputs = [(segments_out, swept.segments), (bytes_out, swept.bytes)];
        for (output, count) in outputs {
            output.map(|output| *output = count).unwrap_or_default();
        }
        Ok(())
    })
}

/// Bytes of array data that this process has copied with this library. A handle copies none.
#[unsafe(no_mangle)]
pub extern "C" fn shma_copied_bytes() -> u64 {
    shmarray::copied_bytes()
}

/// The library's version, such as "0.1.0". Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn shma_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
