//! The C functions on the library itself: its version, its ABI, and the bytes that it copied.

use std::ffi::{CStr, c_char};

/// The number of the ABI that this header declares, and of libshmarray.so.0.
pub const SHMA_ABI: i32 = 0;

/// Returns the number of the library's ABI. If it is not SHMA_ABI, the program runs with a library
/// that it was not compiled for.
#[unsafe(no_mangle)]
pub extern "C" fn shma_abi() -> i32 {
    SHMA_ABI
}

/// Returns the version of the library, such as "0.1.0". The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn shma_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Returns the number of bytes of array data that this library has copied in this process. Passing
/// a handle copies none.
#[unsafe(no_mangle)]
pub extern "C" fn shma_copied_bytes() -> u64 {
    shmarray::copied_bytes()
}
