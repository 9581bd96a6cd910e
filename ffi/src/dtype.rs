//! The dtypes as C constants, with the numbers of core's dtype table.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

use shmarray::{DType, Error, TypeCode};

use crate::error::Failure;

/// A dtype: one of the numbers below.
pub type shma_dtype = i32;

/// A dtype that C has no type for: see shma_options.itemsize and shma_array_dtype_text.
pub const SHMA_OPAQUE: shma_dtype = 0;
/// One byte, 0 or 1.
pub const SHMA_BOOL: shma_dtype = 1;
/// int8_t.
pub const SHMA_INT8: shma_dtype = 2;
/// int16_t.
pub const SHMA_INT16: shma_dtype = 3;
/// int32_t.
pub const SHMA_INT32: shma_dtype = 4;
/// int64_t.
pub const SHMA_INT64: shma_dtype = 5;
/// uint8_t.
pub const SHMA_UINT8: shma_dtype = 6;
/// uint16_t.
pub const SHMA_UINT16: shma_dtype = 7;
/// uint32_t.
pub const SHMA_UINT32: shma_dtype = 8;
/// uint64_t.
pub const SHMA_UINT64: shma_dtype = 9;
/// IEEE 754 binary16, 2 bytes.
pub const SHMA_FLOAT16: shma_dtype = 10;
/// float.
pub const SHMA_FLOAT32: shma_dtype = 11;
/// double.
pub const SHMA_FLOAT64: shma_dtype = 12;
/// Two of float: real part, imaginary part.
pub const SHMA_COMPLEX64: shma_dtype = 13;
/// Two of double: real part, imaginary part.
pub const SHMA_COMPLEX128: shma_dtype = 14;

/// Returns the row of core's table that has this number.
pub(crate) fn row(dtype: shma_dtype) -> Option<&'static DType> {
    DType::ALL.iter().find(|row| row.code() as i32 == dtype)
}

/// Returns the dtype of a number; that of a text or of an itemsize for SHMA_OPAQUE.
pub(crate) fn resolve(
    dtype: shma_dtype,
    text: Option<&str>,
    itemsize: u64,
) -> Result<DType, Failure> {
    if let Some(row) = row(dtype) {
        return Ok(row.clone());
    }
    if dtype != TypeCode::Opaque as i32 {
        let reason = "its number is none of SHMA_BOOL to SHMA_COMPLEX128".to_owned();
        return Err(Error::InvalidDType { dtype: dtype.to_string(), reason }.into());
    }
    let opaque = text.map_or_else(|| DType::opaque(itemsize), DType::parse)?;
    Ok(opaque)
}

/// Returns the size of one element in bytes; 0 for SHMA_OPAQUE and for numbers that are no dtype.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dtype_itemsize(dtype: shma_dtype) -> usize {
    row(dtype).map_or(0, |row| row.itemsize() as usize)
}

/// Returns the name of the dtype, such as "int32"; NULL for SHMA_OPAQUE and for numbers that are no
/// dtype. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dtype_name(dtype: shma_dtype) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names =
        || DType::ALL.iter().map(|row| CString::new(row.name()).unwrap_or_default()).collect();
    let index = DType::ALL.iter().position(|row| row.code() as i32 == dtype);
    index.map_or(std::ptr::null(), |index| NAMES.get_or_init(names)[index].as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_table() {
        let numbers = [
            SHMA_BOOL,
            SHMA_INT8,
            SHMA_INT16,
            SHMA_INT32,
            SHMA_INT64,
            SHMA_UINT8,
            SHMA_UINT16,
            SHMA_UINT32,
            SHMA_UINT64,
            SHMA_FLOAT16,
            SHMA_FLOAT32,
            SHMA_FLOAT64,
            SHMA_COMPLEX64,
            SHMA_COMPLEX128,
        ];
        let rows: Vec<_> = DType::ALL.iter().map(|row| row.code() as i32).collect();
        assert_eq!(rows, numbers);
        assert_eq!(shma_dtype_itemsize(SHMA_COMPLEX128), 16);
        assert!(shma_dtype_name(SHMA_OPAQUE).is_null() && shma_dtype_name(99).is_null());
    }
}
