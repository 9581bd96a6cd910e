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

/// A new array, which is filled in C order.
pub(super) struct Results {
    array: Array,
    next: *mut u8,
    missing: usize,
}

impl Results {
    pub(super) fn new(dtype: DType, shape: &[u64]) -> Result<Self> {
        let array = Array::create(dtype, shape, &Options { uninitialized: true, ..Options::default() })?;
        let (next, missing) = (array.as_ptr(), array.layout().len() as usize);
        Ok(Self { array, next, missing })
    }

    /// The array, when all are there.
    pub(super) fn into_array(self) -> Array {
        debug_assert_eq!(self.missing, 0);
        self.array
    }

    /// Writes the next elements.
    pub(super) fn push(&mut self, numbers: &[Number]) -> Result<()> {
        let code = self.array.dtype().code();
        let no_room = |number: Number| no_room(code, number);
        let half = |number| f16::from_f64(float(number)).to_le_bytes();
        let single = |part: f64| (part as f32).to_le_bytes();
        match code {
            TypeCode::Bool | TypeCode::Int8 | TypeCode::UInt8 => self.store(numbers, |number| Ok(element::<1>(number))),
            TypeCode::Int16 | TypeCode::UInt16 => self.store(numbers, |number| Ok(element::<2>(number))),
            TypeCode::Int32 | TypeCode::UInt32 => self.store(numbers, |number| Ok(element::<4>(number))),
            TypeCode::Int64 => self.store(numbers, |number| {
                i64::try_from(whole(number)).map(i64::to_le_bytes).map_err(|_| no_room(number))
            }),
            TypeCode::UInt64 => self.store(numbers, |number| {
                u64::try_from(whole(number)).map(u64::to_le_bytes).map_err(|_| no_room(number))
            }),
            TypeCode::Float16 => self.store(numbers, |number| Ok(half(number))),
            TypeCode::Float32 => self.store(numbers, |number| Ok(single(float(number)))),
            TypeCode::Float64 => self.store(numbers, |number| Ok(float(number).to_le_bytes())),
            TypeCode::Complex64 => self.store(numbers, |number| Ok(parts(number).map(single))),
            TypeCode::Complex128 => self.store(numbers, |number| Ok(parts(number).map(f64::to_le_bytes))),
            TypeCode::Opaque => unreachable!("no result has such a dtype"),
        }
    }

    /// `Item` is the bytes of one element.
    fn store<Item>(&mut self, numbers: &[Number], item: impl Fn(Number) -> Result<Item>) -> Result<()> {
        debug_assert_eq!(size_of::<Item>() as u64, self.array.dtype().item_bytes());
        for &number in &numbers[..numbers.len().min(self.missing)] {
            // SAFETY: the elements of a new array lie side by side; this one is missing, so it is among them.
            unsafe { self.next.cast::<Item>().write_unaligned(item(number)?) };
            self.next = self.next.wrapping_add(size_of::<Item>());
            self.missing -= 1;
        }
        Ok(())
    }
}

fn whole(number: Number) -> i128 {
    match number {
        Number::Bool(truth) => truth.into(),
        Number::Integer(whole) => whole,
        Number::Float(_) | Number::Complex(..) => unreachable!("whole numbers give whole numbers"),
    }
}

fn float(number: Number) -> f64 {
    parts(number)[0]
}

fn parts(number: Number) -> [f64; 2] {
    match number {
        Number::Float(number) => [number, 0.0],
        Number::Complex(re, im) => [re, im],
        Number::Bool(_) | Number::Integer(_) => unreachable!("floats give floats"),
    }
}

/// The bytes of a number that is an element: the lower ones.
fn element<const BYTES: usize>(number: Number) -> [u8; BYTES] {
    let bytes = whole(number).to_le_bytes();
    std::array::from_fn(|at| bytes[at])
}

fn no_room(code: TypeCode, sum: Number) -> Error {
    let dtype = DType::from_code(code).map_or_else(String::new, |dtype| dtype.to_string());
    Error::argument("elements", format!("their sum {sum} does not fit {dtype}; without an axis it is exact"))
}
