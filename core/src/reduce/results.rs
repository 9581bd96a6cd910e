//! What comes out: a number, or an array of the dtype that NumPy gives it.
#![allow(unsafe_code)] // stores to a new array

use std::fmt;

use half::f16;

use super::Reduction;
use crate::array::{Array, Options};
use crate::dtype::{DType, TypeCode};
use crate::error::{Error, Result};

/// One number that a reduction gives, not rounded to the array's dtype.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// The least or the greatest of a `bool` array.
    Bool(bool),
    /// A whole number. The sum of whole numbers is exact.
    Integer(i128),
    /// A float, and the mean of real numbers.
    Float(f64),
    /// The real and the imaginary part of a complex number.
    Complex(f64, f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(truth) => truth.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Complex(re, im) => write!(f, "{re}{im:+}i"),
        }
    }
}

/// The dtype of results along axes, which is NumPy's but for the means of `float16` and `float32`.
///
/// # Errors
/// [`Error::DTypeMismatch`] where the reduction has no meaning.
pub(super) fn dtype_of(reduction: Reduction, dtype: &DType) -> Result<DType> {
    use TypeCode::{Complex64, Complex128, Float16, Float32, Float64, Int64, Opaque, UInt8, UInt16, UInt32, UInt64};
    let code = match (reduction, dtype.code()) {
        (_, Opaque) => return Err(refused(reduction, dtype, "numbers")),
        (Reduction::Min | Reduction::Max, Complex64 | Complex128) => {
            return Err(refused(reduction, dtype, "numbers that have an order"));
        }
        (Reduction::Bincount { .. }, Float16 | Float32 | Float64 | Complex64 | Complex128) => {
            return Err(refused(reduction, dtype, "whole numbers"));
        }
        (Reduction::Bincount { .. }, _) => UInt64,
        (Reduction::Mean, Complex64 | Complex128) => Complex128,
        (Reduction::Mean, _) => Float64,
        (Reduction::Sum, UInt8 | UInt16 | UInt32 | UInt64) => UInt64,
        (Reduction::Sum, floats @ (Float16 | Float32 | Float64 | Complex64 | Complex128)) => floats,
        (Reduction::Sum, _) => Int64,
        (Reduction::Min | Reduction::Max, same) => same,
    };
    DType::from_code(code).ok_or_else(|| refused(reduction, dtype, "numbers"))
}

fn refused(reduction: Reduction, dtype: &DType, needed: &str) -> Error {
    Error::DTypeMismatch { expected: format!("one of {needed}, which {reduction} needs"), found: dtype.to_string() }
}

/// A new array of results, still without values.
pub(super) fn room(dtype: DType, shape: &[u64]) -> Result<Array> {
    Array::create(dtype, shape, &Options { uninitialized: true, ..Options::default() })
}

/// Writes all elements of a new array, in C order.
pub(super) fn fill(results: &Array, numbers: impl Iterator<Item = Number>) -> Result<()> {
    let (code, item_bytes) = (results.dtype().code(), results.dtype().item_bytes() as usize);
    let places = (0..results.layout().len() as usize).map(|index| results.as_ptr().wrapping_add(index * item_bytes));
    places.zip(numbers).try_for_each(|(place, number)| {
        let item = item_of(code, number)?;
        // SAFETY: the elements of a new array lie side by side, and this is one of them; an item of its dtype has
        // that many bytes, at most the sixteen that there are.
        unsafe { std::ptr::copy_nonoverlapping(item.as_ptr(), place, item_bytes) };
        Ok(())
    })
}

/// The bytes of a number as an element of a dtype, and zeros.
fn item_of(code: TypeCode, number: Number) -> Result<[u8; 16]> {
    Ok(match (code, number) {
        (TypeCode::Int64, Number::Integer(whole)) => {
            bytes(&i64::try_from(whole).map_err(|_| no_room(code, whole))?.to_le_bytes())
        }
        (TypeCode::UInt64, Number::Integer(whole)) => {
            bytes(&u64::try_from(whole).map_err(|_| no_room(code, whole))?.to_le_bytes())
        }
        (TypeCode::Float16, Number::Float(number)) => bytes(&f16::from_f64(number).to_le_bytes()),
        (TypeCode::Float32, Number::Float(number)) => bytes(&(number as f32).to_le_bytes()),
        (TypeCode::Complex64, Number::Complex(re, im)) => {
            bytes([re as f32, im as f32].map(f32::to_le_bytes).as_flattened())
        }
        (_, Number::Complex(re, im)) => bytes([re, im].map(f64::to_le_bytes).as_flattened()),
        (_, Number::Float(number)) => bytes(&number.to_le_bytes()),
        (_, Number::Integer(whole)) => whole.to_le_bytes(), // an element's own: its lower bytes
        (_, Number::Bool(truth)) => bytes(&[truth.into()]),
    })
}

fn bytes(some: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..some.len()].copy_from_slice(some);
    all
}

fn no_room(code: TypeCode, sum: i128) -> Error {
    let dtype = DType::from_code(code).map_or_else(String::new, |dtype| dtype.to_string());
    Error::argument("elements", format!("their sum {sum} does not fit {dtype}; without an axis it is exact"))
}
