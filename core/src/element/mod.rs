//! Rust types that are elements of an array, copies and comparisons of elements.
#![allow(unsafe_code)] // elements are bytes at an address

pub(crate) mod per_byte;
pub(crate) mod copy;
pub(crate) mod compare;

use std::mem::transmute_copy;
use std::sync::atomic::{AtomicU64, Ordering};

use num_complex::Complex;
use num_traits::FromPrimitive;

use crate::value::dtype::{DType, TypeCode, with_dtypes};
use crate::value::number::Number;

/// A Rust type whose values are the bytes of one dtype's items.
///
/// # Safety
/// [`Element::CODE`] names a row of the dtype table whose items take `size_of::<Self>()` bytes and
/// have this type's meaning, and [`Element::read`] makes a valid value of any bytes.
pub unsafe trait Element: Copy + 'static {
    /// The dtype's row in the table.
    const CODE: TypeCode;

    /// Returns the dtype.
    #[must_use]
    fn dtype() -> DType {
        DType::ALL[Self::CODE as usize - 1].clone()
    }

    /// Reads one element, which another process may be writing. It need not be aligned.
    ///
    /// # Safety
    /// One element can be read at `address`.
    #[must_use]
    unsafe fn read(address: *const u8) -> Self;

    /// Writes one element. It need not be aligned.
    ///
    /// # Safety
    /// One element can be written at `address`.
    unsafe fn write(address: *mut u8, value: Self);
}

/// The Rust type of a row's elements, and its values as numbers.
pub(crate) trait RowElement: Element {
    fn to_number(self) -> Number;

    /// Returns the element nearest to a number. `None` for a number of another kind, and for an
    /// integer that does not fit.
    fn from_number(number: Number) -> Option<Self>;
}

macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $code:ident = $number:literal, $name:literal, $text:literal, $type:ty: $kind:ident
        $(as $wider:ident)?;
    )*) => {
        $(
            // SAFETY: `Element` needs a row whose items have this size and meaning, and the table
            // gives the row this type; `access!` reads a valid value of any bytes.
            unsafe impl Element for $type {
                const CODE: TypeCode = TypeCode::$code;

                access!($kind);
            }

            impl RowElement for $type {
                number!($kind);
            }
        )*

        impl Number {
            /// Reads an element. Returns `None` for [`TypeCode::Opaque`].
            ///
            /// # Safety
            /// An element of that dtype can be read at `address`, which need not be aligned.
            #[inline(always)]
            #[must_use]
            pub unsafe fn read(code: TypeCode, address: *const u8) -> Option<Self> {
                match code {
                    // SAFETY: the caller promises that an element of the dtype can be read, and the
                    // row of its code gives the element this type.
                    $(TypeCode::$code => Some(unsafe { <$type>::read(address) }.to_number()),)*
                    TypeCode::Opaque => None,
                }
            }

            /// Writes the element nearest to the number. Returns `false`, and writes nothing, if
            /// the dtype has elements of another kind or an integer does not fit.
            ///
            /// # Safety
            /// An element of that dtype can be written at `address`, which need not be aligned.
            #[inline]
            #[must_use]
            pub unsafe fn write(self, code: TypeCode, address: *mut u8) -> bool {
                match code {
                    $(TypeCode::$code => match <$type>::from_number(self) {
                        // SAFETY: the caller promises that an element of the dtype can be written,
                        // and the row of its code gives the element this type.
                        Some(element) => unsafe { <$type>::write(address, element) },
                        None => return false,
                    },)*
                    TypeCode::Opaque => return false,
                }
                true
            }
        }
    };
}

/// The methods that read and write an element of a kind.
macro_rules! access {
    (Bool) => {
        unsafe fn read(address: *const u8) -> Self {
            // SAFETY: the caller promises that one byte can be read at the address.
            let [byte] = unsafe { per_byte::load(address) };
            byte != 0 // every byte but 0 is true
        }

        unsafe fn write(address: *mut u8, value: Self) {
            // SAFETY: the caller promises that one byte can be written at the address.
            unsafe { per_byte::store(address, [value.into()]) }
        }
    };
    ($number:ident) => {
        unsafe fn read(address: *const u8) -> Self {
            // SAFETY: the caller promises that one element can be read at the address, which may be
            // any.
            let bytes = unsafe { per_byte::load::<{ size_of::<Self>() }>(address) };
            // SAFETY: the array has as many bytes as the number, of which any bytes are a value.
            unsafe { transmute_copy(&bytes) }
        }

        unsafe fn write(address: *mut u8, value: Self) {
            // SAFETY: a number has no padding, so each of its bytes is one of the array.
            let bytes: [u8; size_of::<Self>()] = unsafe { transmute_copy(&value) };
            // SAFETY: the caller promises that one element can be written at the address, which may
            // be any.
            unsafe { per_byte::store(address, bytes) }
        }
    };
}

/// The methods that convert an element of a kind to a number and back.
macro_rules! number {
    (Bool) => {
        #[inline(always)]
        fn to_number(self) -> Number {
            Number::Bool(self)
        }

        #[inline(always)]
        fn from_number(number: Number) -> Option<Self> {
            if let Number::Bool(truth) = number { Some(truth) } else { None }
        }
    };
    (Float) => {
        #[inline(always)]
        fn to_number(self) -> Number {
            Number::Float(self.into())
        }

        #[inline(always)]
        fn from_number(number: Number) -> Option<Self> {
            if let Number::Float(float) = number { FromPrimitive::from_f64(float) } else { None }
        }
    };
    (Complex) => {
        #[inline(always)]
        fn to_number(self) -> Number {
            Number::Complex(self.re.into(), self.im.into())
        }

        #[inline(always)]
        fn from_number(number: Number) -> Option<Self> {
            let Number::Complex(re, im) = number else { return None };
            Some(Complex::new(FromPrimitive::from_f64(re)?, FromPrimitive::from_f64(im)?))
        }
    };
    ($integer:ident) => {
        #[inline(always)]
        fn to_number(self) -> Number {
            Number::Integer(self.into())
        }

        #[inline(always)]
        fn from_number(number: Number) -> Option<Self> {
            if let Number::Integer(whole) = number { whole.try_into().ok() } else { None }
        }
    };
}

with_dtypes!(rows);

/// Subtracts one from a number that is not zero, atomically for all threads and processes, and
/// returns the result. `None` where the address is not aligned for that.
///
/// # Safety
/// 8 bytes can be read and written at `address`, and no thread of this process accesses them in
/// another way meanwhile.
pub(crate) unsafe fn count_down(address: *mut u8) -> Option<u64> {
    let address = address.cast::<u64>();
    if !address.is_aligned() {
        return None;
    }
    // SAFETY: the caller promises that 8 bytes can be read and written, and the address was just
    // found to be aligned. Ordering other languages' stores there is up to them.
    let number = unsafe { AtomicU64::from_ptr(address) };
    // AcqRel: the process that gets zero comes after all that the others did before they counted.
    // The operation is its own partner.
    let counted =
        number.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
    Some(counted.map_or(0, |left| left - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::dtype::DTypeKind;

    /// Returns elements of a kind: the extremes of integers, and numbers that every float has.
    fn elements(dtype: &DType) -> Vec<Number> {
        match (dtype.kind(), dtype.code().integer_range()) {
            (_, Some((least, most))) => [least, 0, most].map(Number::Integer).to_vec(),
            (Some(DTypeKind::Bool), _) => [true, false].map(Number::Bool).to_vec(),
            (Some(DTypeKind::Complex), _) => vec![Number::Complex(0.5, -2.0)],
            _ if dtype.itemsize() == 1 => [0.5, 1.0, 2.0].map(Number::Float).to_vec(),
            _ => [-0.5, 96.0, f64::NEG_INFINITY].map(Number::Float).to_vec(),
        }
    }

    #[test]
    fn the_elements_of_every_row_read_back_as_they_were_written() {
        for dtype in DType::ALL {
            let mut bytes = [0xAAu8; 33];
            let end = dtype.itemsize() as usize + 1;
            for element in elements(dtype) {
                // SAFETY: the array has bytes for the largest element of the table after its first
                // byte, where the address lies.
                assert!(unsafe { element.write(dtype.code(), bytes[1..end].as_mut_ptr()) });
                // SAFETY: the element was written at this address in the line above.
                let read = unsafe { Number::read(dtype.code(), bytes[1..end].as_ptr()) };
                assert_eq!(read, Some(element), "{dtype}");
                assert_eq!((bytes[0], bytes[end]), (0xAA, 0xAA), "{dtype}");
            }
        }
    }

    #[test]
    fn numbers_that_are_no_elements_are_not_written() {
        for dtype in DType::ALL {
            let refused = match dtype.code().integer_range() {
                Some((least, most)) => [Number::Integer(least - 1), Number::Integer(most + 1)],
                None => [Number::Integer(0), Number::Integer(1)],
            };
            for number in refused {
                // SAFETY: a refused number is not written, so the address is not used.
                assert!(!unsafe { number.write(dtype.code(), std::ptr::null_mut()) }, "{dtype}");
            }
        }
    }

    #[test]
    fn every_byte_but_zero_is_true() {
        // SAFETY: a bool takes one byte, which the address of a `u8` has.
        let read = |byte: u8| unsafe { bool::read(&raw const byte) };
        assert_eq!([0, 1, 2, 255].map(read), [false, true, true, true]);
    }
}
