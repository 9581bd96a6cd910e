//! Rust types that are elements of an array.
#![allow(unsafe_code)] // volatile access to memory that another process may write

use std::sync::atomic::{AtomicU64, Ordering};

use crate::dtype::{DType, TypeCode};

/// A Rust type whose values are the bytes of one dtype's items.
///
/// # Safety
/// [`Element::CODE`] is a row whose items take `size_of::<Self>()` bytes and have this type's
/// meaning, and [`Element::read`] makes a valid value of any bytes.
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

macro_rules! element {
    ($($type:ty => $code:ident),* $(,)?) => {$(
        // SAFETY: `Element` needs a row of this size and meaning, which the table in `dtype` gives
        // (a test compares the sizes), and every bit pattern is a value of a number.
        unsafe impl Element for $type {
            const CODE: TypeCode = TypeCode::$code;

            unsafe fn read(address: *const u8) -> Self {
                // SAFETY: the caller promises that one element can be read at the address, and
                // `Unaligned` has an alignment of 1, so any address is aligned.
                unsafe { address.cast::<Unaligned<Self>>().read_volatile() }.0
            }

            unsafe fn write(address: *mut u8, value: Self) {
                // SAFETY: the caller promises that one element can be written at the address, and
                // `Unaligned` has an alignment of 1, so any address is aligned.
                unsafe { address.cast::<Unaligned<Self>>().write_volatile(Unaligned(value)) }
            }
        }
    )*};
}

/// Subtracts one from a number that is not zero, atomically for all threads and processes, and
/// returns the result. `None` where the address is not aligned for that.
///
/// # Safety
/// 8 bytes can be read and written at `address`.
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

/// An element at any byte: views may start there.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

element! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    f32 => Float32, f64 => Float64,
}

#[cfg(feature = "half")]
element! { half::f16 => Float16 }

#[cfg(feature = "num-complex")]
element! { num_complex::Complex<f32> => Complex64, num_complex::Complex<f64> => Complex128 }

// SAFETY: `Element` needs a row of this size, which is `bool`'s with one byte, and a valid value of
// any bytes: `read` takes every byte but 0 as true.
unsafe impl Element for bool {
    const CODE: TypeCode = TypeCode::Bool;

    unsafe fn read(address: *const u8) -> Self {
        // SAFETY: the caller promises that one byte can be read at the address, and a byte needs no
        // alignment.
        let byte = unsafe { address.read_volatile() };
        byte != 0
    }

    unsafe fn write(address: *mut u8, value: Self) {
        // SAFETY: the caller promises that one byte can be written at the address, and a byte needs
        // no alignment.
        unsafe { address.write_volatile(value.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes_agree<T: Element>() {
        assert_eq!(T::dtype().code(), T::CODE);
        assert_eq!(T::dtype().itemsize(), size_of::<T>() as u64);
    }

    #[test]
    fn every_element_has_the_size_of_its_row() {
        sizes_agree::<bool>();
        sizes_agree::<i8>();
        sizes_agree::<i64>();
        sizes_agree::<u8>();
        sizes_agree::<f32>();
        sizes_agree::<f64>();
        #[cfg(feature = "half")]
        sizes_agree::<half::f16>();
        #[cfg(feature = "num-complex")]
        sizes_agree::<num_complex::Complex<f64>>();
    }
}
