//! Sums, means, extremes and counts of an array's elements, for any strides.
//!
//! | | sum | mean | min, max | bincount |
//! |---|---|---|---|---|
//! | bool | int64 | float64 | bool | uint64 |
//! | int1 to int64 | int64 | float64 | same | uint64 |
//! | uint1 to uint64 | uint64 | float64 | same | uint64 |
//! | float4 to float64, bfloat16 | same | float64 | same | refused |
//! | complex | same | complex128 | refused: they have no order | refused |
//! | any other | refused | refused | refused | refused |
//!
//! The table gives the dtype of results along axes, which are a new array. An integer sum that does
//! not fit its dtype is an error. Over all elements the result is a [`Number`], which is not
//! rounded to a dtype.
//!
//! The sum of no elements is 0 and all their counts are 0; their mean, minimum and maximum are
//! errors. A NaN among the elements makes their sum, mean, minimum and maximum NaN.
//!
//! * `reduction`: the reductions, and how one ends early.
//! * `request`: the dimensions that are kept, and the loop that reduces the others.
//! * `item`: elements as numbers.
//! * `walk`: the order in which elements are read, and how, since other processes may write to
//!   them.
//! * `sums`, `extremes`, `counts`: the loops, with their sources and bounds.
//! * `vectors`: those loops compiled for wider vector instructions.
//! * `results`: a new array of the numbers.

mod reduction;
mod vectors;
mod item;
mod results;
mod walk;
mod sums;
mod extremes;
mod counts;
mod request;
#[cfg(test)]
mod tests;

pub use reduction::Reduction;

use crate::array::Array;
use crate::value::dtype::DType;
#[cfg(doc)]
use crate::value::error::Error;
use crate::value::error::Result;
use crate::value::number::Number;
use reduction::{Ended, Stop};
use request::ReductionRequest;
use results::{Results, dtype_of};

/// The result of a reduction.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "a number or an array is all that there can be")]
pub enum Reduced {
    /// Over all elements.
    Number(Number),
    /// Along axes, and of [`Reduction::Bincount`].
    Array(Array),
}

/// Reductions. The table in the source of this module gives the dtype of each result.
impl Array {
    /// Returns the sum of all elements. It is exact for integers; for floats its error is at most
    /// 2⁻⁴⁸ times the sum of their magnitudes, for up to 10¹¹ of them.
    ///
    /// ```
    /// use shmarray::{Array, DType, Number, Options};
    /// let a = Array::create(DType::parse("|u1")?, &[2, 3], &Options::default())?;
    /// a.set(&[0, 0], 250u8)?;
    /// a.set(&[1, 2], 100u8)?;
    /// assert_eq!(a.sum()?, Number::Integer(350));
    /// assert_eq!(a.max_along(&[0])?.get::<u8>(&[2])?, 100);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for a dtype without arithmetic.
    pub fn sum(&self) -> Result<Number> {
        self.over_all(Reduction::Sum)
    }

    /// Returns the mean of all elements.
    ///
    /// # Errors
    /// As for [`Array::sum`], and [`Error::InvalidArgument`] if there are none.
    pub fn mean(&self) -> Result<Number> {
        self.over_all(Reduction::Mean)
    }

    /// Returns the minimum of all elements.
    ///
    /// # Errors
    /// As for [`Array::mean`], and [`Error::DTypeMismatch`] for complex numbers, which have no
    /// order.
    pub fn min(&self) -> Result<Number> {
        self.over_all(Reduction::Min)
    }

    /// Returns the maximum of all elements.
    ///
    /// # Errors
    /// As for [`Array::min`].
    pub fn max(&self) -> Result<Number> {
        self.over_all(Reduction::Max)
    }

    /// Returns how many of all elements are 0, 1, 2 …, up to their maximum; at least `min_length`
    /// counts.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] unless they are integers or `bool`; [`Error::InvalidArgument`] for
    /// a negative element, or one so large that there is no memory for the counts;
    /// [`Error::NoSpace`].
    pub fn bincount(&self, min_length: u64) -> Result<Self> {
        self.along(Reduction::Bincount { min_length }, None)
    }

    /// Returns the sums along these axes: a new array with the other dimensions.
    ///
    /// # Errors
    /// As for [`Array::sum`]; [`Error::InvalidArgument`] for an axis that does not exist or is
    /// named twice, and for a sum that does not fit its dtype; [`Error::NoSpace`].
    pub fn sum_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Sum, Some(axes))
    }

    /// Returns the means along these axes.
    ///
    /// # Errors
    /// As for [`Array::mean`] and [`Array::sum_along`].
    pub fn mean_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Mean, Some(axes))
    }

    /// Returns the minima along these axes.
    ///
    /// # Errors
    /// As for [`Array::min`] and [`Array::sum_along`].
    pub fn min_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Min, Some(axes))
    }

    /// Returns the maxima along these axes.
    ///
    /// # Errors
    /// As for [`Array::min`] and [`Array::sum_along`].
    pub fn max_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Max, Some(axes))
    }

    /// Returns the counts along these axes. They are the last dimension of the result.
    ///
    /// ```
    /// use shmarray::{Array, DType, Options};
    /// let photo = Array::create(DType::parse("|u1")?, &[480, 640, 3], &Options::default())?;
    /// photo.set(&[0, 0, 2], 255u8)?;
    /// let counts = photo.bincount_along(&[0, 1], 256)?; // of each colour
    /// assert_eq!(counts.shape(), [3, 256]);
    /// assert_eq!(counts.get::<u64>(&[2, 0])?, 480 * 640 - 1);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Array::bincount`] and [`Array::sum_along`].
    pub fn bincount_along(&self, axes: &[usize], min_length: u64) -> Result<Self> {
        self.along(Reduction::Bincount { min_length }, Some(axes))
    }

    fn over_all(&self, reduction: Reduction) -> Result<Number> {
        match self.reduce(reduction, None, &mut || true)? {
            Some(Reduced::Number(number)) => Ok(number),
            _ => unreachable!("a reduction over all elements that is never stopped gives a number"),
        }
    }

    fn along(&self, reduction: Reduction, axes: Option<&[usize]>) -> Result<Self> {
        match self.reduce(reduction, axes, &mut || true)? {
            Some(Reduced::Array(array)) => Ok(array),
            _ => unreachable!("a reduction along axes that is never stopped gives an array"),
        }
    }

    /// Reduces all elements, or those along `axes`. The caller can stop it: it calls `go_on` before
    /// each block of elements, which takes microseconds, and returns `None` if `go_on` returned
    /// `false`.
    ///
    /// # Errors
    /// As for the method of the reduction's name.
    #[allow(unsafe_code)]
    pub fn reduce(
        &self,
        reduction: Reduction,
        axes: Option<&[usize]>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Reduced>> {
        let dtype = dtype_of(reduction, self.dtype())?;
        // SAFETY: the elements can be read while the request lives: the layout was checked against
        // the segment when this array was made, and this array keeps the segment mapped.
        let request =
            unsafe { ReductionRequest::new(self.strided(), self.dtype().code(), reduction, axes)? };
        let reduced = match (reduction, axes) {
            (Reduction::Bincount { min_length }, _) => counted(&request, dtype, min_length, go_on),
            (_, None) => request.one(go_on).map(Reduced::Number),
            (_, Some(_)) => folded(&request, dtype, go_on),
        };
        match reduced {
            Ok(reduced) => Ok(Some(reduced)),
            Err(Stop::Asked) => Ok(None),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

fn counted(
    request: &ReductionRequest<'_>,
    dtype: DType,
    min_length: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Ended<Reduced> {
    let counts = request.count(min_length, go_on)?;
    let mut results =
        Results::new(dtype, &[&request.kept_shape()[..], &[counts.columns() as u64]].concat())?;
    counts.numbers().try_for_each(|numbers| results.push(&numbers))?;
    Ok(Reduced::Array(results.into_array()))
}

/// Folds into a new array. It is allocated first, which fails with a clear error when there is no
/// room.
fn folded(
    request: &ReductionRequest<'_>,
    dtype: DType,
    go_on: &mut dyn FnMut() -> bool,
) -> Ended<Reduced> {
    let mut results = Results::new(dtype, &request.kept_shape())?;
    request.fold(go_on, &mut |numbers| results.push(numbers))?;
    Ok(Reduced::Array(results.into_array()))
}
