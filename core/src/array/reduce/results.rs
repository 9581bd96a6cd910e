//! Results along axes: a new array of the dtype that NumPy would give it.
#![allow(unsafe_code)] // stores to a new array

use super::item::{arms, element_arm, with_elements};
use super::reduction::Reduction;
use crate::array::{Array, Options};
use crate::element::RowElement;
use crate::value::dtype::{DType, DTypeKind, TypeCode, with_dtypes};
use crate::value::error::{Error, Result};
use crate::value::number::Number;

/// Returns the dtype of results along axes: NumPy's, except that means of `float16` and `float32`
/// are `float64`.
///
/// # Errors
/// [`Error::DTypeMismatch`] where the reduction is not defined.
pub(super) fn dtype_of(reduction: Reduction, dtype: &DType) -> Result<DType> {
    let refused = |needed| Err(refused(reduction, dtype, needed));
    let Some(kind) = dtype.kind() else {
        return refused("numbers");
    };
    // As in NumPy, `bool` counts as a signed integer.
    let code = match (reduction, kind) {
        (Reduction::Min | Reduction::Max, DTypeKind::Complex) => {
            return refused("numbers that have an order");
        }
        (Reduction::Bincount { .. }, DTypeKind::Float | DTypeKind::Complex) => {
            return refused("integers");
        }
        (Reduction::Bincount { .. }, _) => TypeCode::UInt64,
        (Reduction::Mean, DTypeKind::Complex) => TypeCode::Complex128,
        (Reduction::Mean, _) => TypeCode::Float64,
        (Reduction::Sum, DTypeKind::Bool | DTypeKind::Signed) => TypeCode::Int64,
        (Reduction::Sum, DTypeKind::Unsigned) => TypeCode::UInt64,
        (Reduction::Sum, DTypeKind::Float | DTypeKind::Complex) => dtype.code(),
        (Reduction::Min | Reduction::Max, _) => dtype.code(),
    };
    DType::from_code(code).map_or_else(|| refused("numbers"), Ok)
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
        let array = Array::create(dtype, shape, &Options::new().uninitialized(true))?;
        let next = array.as_ptr();
        let missing = array.layout().len() as usize;
        Ok(Self { array, next, missing })
    }

    /// Returns the array, after all elements were pushed.
    pub(super) fn into_array(self) -> Array {
        debug_assert_eq!(self.missing, 0);
        self.array
    }

    /// Writes the next elements.
    pub(super) fn push(&mut self, numbers: &[Number]) -> Result<()> {
        with_elements!(
            self.array.dtype().code(),
            T => self.store::<T>(numbers),
            else unreachable!("no result has such a dtype")
        )
    }

    /// Writes the next elements, which are of type `T`.
    fn store<T: RowElement>(&mut self, numbers: &[Number]) -> Result<()> {
        debug_assert_eq!(T::CODE, self.array.dtype().code());
        for &number in &numbers[..numbers.len().min(self.missing)] {
            let element = T::from_number(number).ok_or_else(|| no_room(T::CODE, number))?;
            // SAFETY: an element can be written at `next`: the elements of a new array lie side by
            // side, `missing` of them begin there, and the loop writes no more than these.
            unsafe { T::write(self.next, element) };
            self.next = self.next.wrapping_add(size_of::<T>());
            self.missing -= 1;
        }
        Ok(())
    }
}

fn no_room(code: TypeCode, sum: Number) -> Error {
    let dtype = DType::from_code(code).map_or_else(String::new, |dtype| dtype.to_string());
    Error::argument(
        "elements",
        format!("their sum {sum} does not fit {dtype}; without an axis it is exact"),
    )
}
