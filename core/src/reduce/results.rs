//! Results: a number, or a new array of the dtype that NumPy would give it.
#![allow(unsafe_code)] // stores to a new array

use std::fmt;

use half::f16;

use super::reduction::Reduction;
use crate::array::{Array, Options};
use crate::dtype::{DType, TypeCode};
use crate::error::{Error, Result};

/// The result of a reduction over all elements. It is not rounded to the array's dtype.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// The minimum or maximum of a `bool` array.
    Bool(bool),
    /// An integer. Sums of integers are exact.
    Integer(i128),
    /// A float, or a mean of real numbers.
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

/// Returns the dtype of results along axes: NumPy's, except that means of `float16` and `float32`
/// are `float64`.
///
/// # Errors
/// [`Error::DTypeMismatch`] where the reduction is not defined.
pub(super) fn dtype_of(reduction: Reduction, dtype: &DType) -> Result<DType> {
    let refused = |needed| Err(refused(reduction, dtype, needed));
    let code = match (reduction, kind_of(dtype.code())) {
        (_, Kind::None) => return refused("numbers"),
        (Reduction::Min | Reduction::Max, Kind::Complex) => {
            return refused("numbers that have an order");
        }
        (Reduction::Bincount { .. }, Kind::Float | Kind::Complex) => return refused("integers"),
        (Reduction::Bincount { .. }, Kind::Signed | Kind::Unsigned) => TypeCode::UInt64,
        (Reduction::Mean, Kind::Complex) => TypeCode::Complex128,
        (Reduction::Mean, Kind::Signed | Kind::Unsigned | Kind::Float) => TypeCode::Float64,
        (Reduction::Sum, Kind::Signed) => TypeCode::Int64,
        (Reduction::Sum, Kind::Unsigned) => TypeCode::UInt64,
        (Reduction::Sum, Kind::Float | Kind::Complex) => dtype.code(),
        (Reduction::Min | Reduction::Max, Kind::Signed | Kind::Unsigned | Kind::Float) => {
            dtype.code()
        }
    };
    DType::from_code(code).map_or_else(|| refused("numbers"), Ok)
}

/// The kinds of numbers that are reduced alike.
enum Kind {
    None,
    /// `bool` counts as signed, as in NumPy.
    Signed,
    Unsigned,
    Float,
    Complex,
}

fn kind_of(code: TypeCode) -> Kind {
    match code {
        TypeCode::Opaque => Kind::None,
        TypeCode::Bool | TypeCode::Int8 | TypeCode::Int16 | TypeCode::Int32 | TypeCode::Int64 => {
            Kind::Signed
        }
        TypeCode::UInt8 | TypeCode::UInt16 | TypeCode::UInt32 | TypeCode::UInt64 => Kind::Unsigned,
        TypeCode::Float16 | TypeCode::Float32 | TypeCode::Float64 => Kind::Float,
        TypeCode::Complex64 | TypeCode::Complex128 => Kind::Complex,
    }
}

fn refused(reduction: Reduction, dtype: &DType, needed: &str) -> Error {
    Error::DTypeMismatch {
        expected: format!("one of {needed}, which {reduction} needs"),
        found: dtype.to_string(),
    }
}

/// A new array that is filled in C order.
pub(super) struct Results {
    array: Array,
    next: *mut u8,
    missing: usize,
}

impl Results {
    pub(super) fn new(dtype: DType, shape: &[u64]) -> Result<Self> {
        let array =
            Array::create(dtype, shape, &Options { uninitialized: true, ..Options::default() })?;
        let (next, missing) = (array.as_ptr(), array.layout().len() as usize);
        Ok(Self { array, next, missing })
    }

    /// Returns the array, after all elements were pushed.
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
            TypeCode::Bool | TypeCode::Int8 | TypeCode::UInt8 => {
                self.store(numbers, |number| Ok(element::<1>(number)))
            }
            TypeCode::Int16 | TypeCode::UInt16 => {
                self.store(numbers, |number| Ok(element::<2>(number)))
            }
            TypeCode::Int32 | TypeCode::UInt32 => {
                self.store(numbers, |number| Ok(element::<4>(number)))
            }
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
            TypeCode::Complex128 => {
                self.store(numbers, |number| Ok(parts(number).map(f64::to_le_bytes)))
            }
            TypeCode::Opaque => unreachable!("no result has such a dtype"),
        }
    }

    /// Writes the next elements. `Item` is the bytes of one element.
    fn store<Item>(
        &mut self,
        numbers: &[Number],
        item: impl Fn(Number) -> Result<Item>,
    ) -> Result<()> {
        debug_assert_eq!(size_of::<Item>() as u64, self.array.dtype().itemsize());
        for &number in &numbers[..numbers.len().min(self.missing)] {
            // SAFETY: an element can be written at `next`: the elements of a new array lie side by
            // side, `missing` of them begin there, and the loop writes no more than these.
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
        Number::Float(_) | Number::Complex(..) => {
            unreachable!("reductions of integers give integers")
        }
    }
}

fn float(number: Number) -> f64 {
    parts(number)[0]
}

fn parts(number: Number) -> [f64; 2] {
    match number {
        Number::Float(number) => [number, 0.0],
        Number::Complex(re, im) => [re, im],
        Number::Bool(_) | Number::Integer(_) => unreachable!("reductions of floats give floats"),
    }
}

/// Returns the lower bytes of an integer that fits them.
fn element<const BYTES: usize>(number: Number) -> [u8; BYTES] {
    let bytes = whole(number).to_le_bytes();
    std::array::from_fn(|at| bytes[at])
}

fn no_room(code: TypeCode, sum: Number) -> Error {
    let dtype = DType::from_code(code).map_or_else(String::new, |dtype| dtype.to_string());
    Error::argument(
        "elements",
        format!("their sum {sum} does not fit {dtype}; without an axis it is exact"),
    )
}
