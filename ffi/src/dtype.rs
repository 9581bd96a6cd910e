//! The dtypes as C constants, with the numbers of core's dtype table.

use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

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
/// bfloat16, 2 bytes: the upper half of a float. C has no type for this dtype and those below,
/// which are named as in the Python package ml_dtypes. Those after SHMA_BCOMPLEX32 are one byte.
pub const SHMA_BFLOAT16: shma_dtype = 15;
/// Two of binary16: real part, imaginary part.
pub const SHMA_COMPLEX32: shma_dtype = 16;
/// Two of bfloat16: real part, imaginary part.
pub const SHMA_BCOMPLEX32: shma_dtype = 17;
/// Sign, 3 bits of exponent, 4 of mantissa.
pub const SHMA_FLOAT8_E3M4: shma_dtype = 18;
/// Sign, 4 bits of exponent, 3 of mantissa.
pub const SHMA_FLOAT8_E4M3: shma_dtype = 19;
/// The same without infinity.
pub const SHMA_FLOAT8_E4M3FN: shma_dtype = 20;
/// The same with a bias of 8, one NaN, and one zero.
pub const SHMA_FLOAT8_E4M3FNUZ: shma_dtype = 21;
/// The same with a bias of 11.
pub const SHMA_FLOAT8_E4M3B11FNUZ: shma_dtype = 22;
/// Sign, 5 bits of exponent, 2 of mantissa: the upper half of binary16.
pub const SHMA_FLOAT8_E5M2: shma_dtype = 23;
/// The same with a bias of 16, one NaN, and one zero.
pub const SHMA_FLOAT8_E5M2FNUZ: shma_dtype = 24;
/// A power of two: the exponent, with a bias of 127.
pub const SHMA_FLOAT8_E8M0FNU: shma_dtype = 25;
/// Finite numbers in the lowest 6 bits: sign, 2 bits of exponent, 3 of mantissa.
pub const SHMA_FLOAT6_E2M3FN: shma_dtype = 26;
/// Finite numbers in the lowest 6 bits: sign, 3 bits of exponent, 2 of mantissa.
pub const SHMA_FLOAT6_E3M2FN: shma_dtype = 27;
/// Finite numbers in the lowest 4 bits: sign, 2 bits of exponent, 1 of mantissa.
pub const SHMA_FLOAT4_E2M1FN: shma_dtype = 28;
/// Two's complement in the lowest bit.
pub const SHMA_INT1: shma_dtype = 29;
/// Two's complement in the lowest 2 bits.
pub const SHMA_INT2: shma_dtype = 30;
/// Two's complement in the lowest 4 bits.
pub const SHMA_INT4: shma_dtype = 31;
/// The lowest bit.
pub const SHMA_UINT1: shma_dtype = 32;
/// The lowest 2 bits.
pub const SHMA_UINT2: shma_dtype = 33;
/// The lowest 4 bits.
pub const SHMA_UINT4: shma_dtype = 34;
/// No sign, 5 bits of exponent, 3 of mantissa; one NaN, no infinity.
pub const SHMA_FLOAT8_E5M3FNU: shma_dtype = 35;

/// The number of dtypes besides SHMA_OPAQUE: they are 1 to SHMA_DTYPE_COUNT. Later versions may
/// have more.
pub const SHMA_DTYPE_COUNT: shma_dtype = 35;

// A dtype of core's table without a constant above does not compile.
const _: () = assert!(DType::ALL.len() == SHMA_DTYPE_COUNT as usize);
const _: () = assert!(TypeCode::Opaque as i32 == SHMA_OPAQUE);

/// Returns the row of core's table that has this number.
pub(crate) fn row(dtype: shma_dtype) -> Option<&'static DType> {
    DType::ALL.iter().find(|row| row.code() as i32 == dtype)
}

/// Returns the dtype of a number; that of a text or of an itemsize for SHMA_OPAQUE. A text or an
/// itemsize that contradicts the number is an error.
pub(crate) fn resolve(
    dtype: shma_dtype,
    text: Option<&str>,
    itemsize: u64,
) -> Result<DType, Failure> {
    let resolved = match row(dtype) {
        Some(row) => row.clone(),
        None if dtype == SHMA_OPAQUE => {
            text.map_or_else(|| DType::opaque(itemsize), DType::parse)?
        }
        None => {
            let reason = format!("the numbers of dtypes are 0 to {SHMA_DTYPE_COUNT}");
            return Err(Error::InvalidDType { dtype: dtype.to_string(), reason }.into());
        }
    };
    agrees(&resolved, text.filter(|_| dtype != SHMA_OPAQUE), itemsize)?;
    Ok(resolved)
}

/// Returns an error if a text or an itemsize, where it is given, is not that of the dtype.
pub(crate) fn agrees(dtype: &DType, text: Option<&str>, itemsize: u64) -> Result<(), Error> {
    let invalid = |argument, reason| Err(Error::InvalidArgument { argument, reason });
    if let Some(text) = text.filter(|text| *text != dtype.text()) {
        return invalid("dtype_text", format!("{text:?}, but the dtype is {}", dtype.name()));
    }
    if itemsize != 0 && itemsize != dtype.itemsize() {
        let reason = format!("{itemsize}, but an element of {dtype} has {}", dtype.itemsize());
        return invalid("itemsize", reason);
    }
    Ok(())
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
    let index = DType::ALL.iter().position(|row| row.code() as i32 == dtype);
    index.map_or(std::ptr::null(), name_at)
}

/// Returns the name of a row of core's table, made on first use. There is no lock, which a fork
/// beside another thread's first use would leave locked in the child.
fn name_at(index: usize) -> *const c_char {
    static NAMES: [AtomicPtr<c_char>; SHMA_DTYPE_COUNT as usize] =
        [const { AtomicPtr::new(std::ptr::null_mut()) }; SHMA_DTYPE_COUNT as usize];
    let found = NAMES[index].load(Ordering::Acquire); // its partner is the exchange
    if !found.is_null() {
        return found;
    }
    let made = CString::new(DType::ALL[index].name()).unwrap_or_default().into_raw();
    let null = std::ptr::null_mut();
    match NAMES[index].compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(first) => {
            // SAFETY: `from_raw` needs a pointer of `into_raw` that nobody uses: `made` is from
            // above, and the failed exchange has shown it to no other thread.
            drop(unsafe { CString::from_raw(made) });
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_a_constant_for_each_row() {
        let header = include_str!("../../include/shmarray.h");
        for row in DType::ALL {
            let line =
                format!("\n#define SHMA_{} {}\n", row.name().to_uppercase(), row.code() as i32);
            assert!(header.contains(&line), "the header lacks{line}");
            assert_eq!(shma_dtype_itemsize(row.code() as i32) as u64, row.itemsize());
        }
        assert!(shma_dtype_name(SHMA_OPAQUE).is_null());
        assert!(shma_dtype_name(SHMA_DTYPE_COUNT + 1).is_null());
    }
}
