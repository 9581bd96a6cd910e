//! Sums, means, extremes and counts of an array's elements, wherever its strides put them.
//!
//! | | sum | mean | min, max | bincount |
//! |---|---|---|---|---|
//! | bool | int64 | float64 | bool | uint64 |
//! | int8 to int64 | int64 | float64 | same | uint64 |
//! | uint8 to uint64 | uint64 | float64 | same | uint64 |
//! | float16, float32, float64 | same | float64 | same | refused |
//! | complex64, complex128 | same | complex128 | refused: they have no order | refused |
//! | any other | refused | refused | refused | refused |
//!
//! Over all elements the result is a [`Number`] that is not rounded to the dtype of that table; along
//! axes it is a new array of it. Then a sum of whole numbers that does not fit is an error.
//!
//! Of no elements the sum is 0, and no number counts; a least, a greatest and a mean do not exist, which is
//! an error. What is no number (NaN) makes sums, means and extremes that it takes part in none.
//!
//! | file | |
//! |---|---|
//! | `request` | which dimensions stay, and who does what along the others |
//! | `item` | elements as numbers |
//! | `walk` | the order in which elements are read, and how: another process may write to them |
//! | `sums`, `extremes`, `counts` | the loops, with their sources and bounds |
//! | `vectors` | the processors that they are compiled for |
//! | `results` | numbers, and arrays of them |

mod counts;
mod extremes;
mod item;
mod request;
mod results;
mod sums;
#[cfg(test)]
mod tests;
mod vectors;
mod walk;

use std::fmt;

pub use results::Number;

use crate::array::Array;
use crate::dtype::DType;
use crate::error::{Error, Result};
use request::Request;
use results::{Results, dtype_of};

/// What becomes of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// What they add up to.
    Sum,
    /// Their sum by their number.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// How often 0, 1, 2 … stand among them, up to the greatest.
    Bincount {
        /// Counts at least.
        min_length: u64,
    },
}

/// What a reduction gives.
#[derive(Debug, Clone)]
pub enum Reduced {
    /// Of all elements.
    Number(Number),
    /// Along axes, and counts.
    Array(Array),
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Bincount { .. } => "bincount",
        })
    }
}

/// Reductions. The module's table in the source says which dtypes they take and give.
impl Array {
    /// The sum of all elements: exact for whole numbers, else off by at most 2⁻⁴⁸ of the sum of the
    /// magnitudes, however many they are.
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

    /// The mean of all elements.
    ///
    /// # Errors
    /// As [`Array::sum`], and [`Error::InvalidArgument`] if there are none.
    pub fn mean(&self) -> Result<Number> {
        self.over_all(Reduction::Mean)
    }

    /// The least element.
    ///
    /// # Errors
    /// As [`Array::mean`], and [`Error::DTypeMismatch`] for complex numbers, which have no order.
    pub fn min(&self) -> Result<Number> {
        self.over_all(Reduction::Min)
    }

    /// The greatest element.
    ///
    /// # Errors
    /// As [`Array::min`].
    pub fn max(&self) -> Result<Number> {
        self.over_all(Reduction::Max)
    }

    /// How often 0, 1, 2 … stand among all elements: up to the greatest, and at least so many counts.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] unless they are whole numbers; [`Error::InvalidArgument`] for a negative one, or
    /// one too great to have counts up to it; [`Error::NoSpace`].
    pub fn bincount(&self, min_length: u64) -> Result<Self> {
        self.along(Reduction::Bincount { min_length }, None)
    }

    /// The sums along some axes: a new array of the others.
    ///
    /// # Errors
    /// As [`Array::sum`]; [`Error::InvalidArgument`] for an axis that is not there or stands twice, and for a sum
    /// that its dtype cannot hold; [`Error::NoSpace`].
    pub fn sum_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Sum, Some(axes))
    }

    /// The means along some axes.
    ///
    /// # Errors
    /// As [`Array::mean`] and [`Array::sum_along`].
    pub fn mean_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Mean, Some(axes))
    }

    /// The least elements along some axes.
    ///
    /// # Errors
    /// As [`Array::min`] and [`Array::sum_along`].
    pub fn min_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Min, Some(axes))
    }

    /// The greatest elements along some axes.
    ///
    /// # Errors
    /// As [`Array::min`] and [`Array::sum_along`].
    pub fn max_along(&self, axes: &[usize]) -> Result<Self> {
        self.along(Reduction::Max, Some(axes))
    }

    /// Counts along some axes. The last dimension of the result is that of the numbers counted.
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
    /// As [`Array::bincount`] and [`Array::sum_along`].
    pub fn bincount_along(&self, axes: &[usize], min_length: u64) -> Result<Self> {
        self.along(Reduction::Bincount { min_length }, Some(axes))
    }

    fn over_all(&self, reduction: Reduction) -> Result<Number> {
        match self.reduce(reduction, None, &mut || true)? {
            Some(Reduced::Number(number)) => Ok(number),
            _ => unreachable!("it gives a number of all elements, and went on to its end"),
        }
    }

    fn along(&self, reduction: Reduction, axes: Option<&[usize]>) -> Result<Self> {
        match self.reduce(reduction, axes, &mut || true)? {
            Some(Reduced::Array(array)) => Ok(array),
            _ => unreachable!("it gives an array of results, and went on to its end"),
        }
    }

    /// Any reduction, of all elements or along some axes, that can be stopped: before each block of elements, some
    /// microseconds' work, it asks `go_on`. `None` if it was stopped.
    ///
    /// # Errors
    /// As the method of the reduction's name.
    #[allow(unsafe_code)]
    pub fn reduce(
        &self,
        reduction: Reduction,
        axes: Option<&[usize]>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Reduced>> {
        let dtype = dtype_of(reduction, self.dtype())?;
        // SAFETY: the layout was checked against the segment, which this array keeps.
        let request = unsafe { Request::new(self.end(), self.dtype().code(), reduction, axes)? };
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

fn counted(request: &Request<'_>, dtype: DType, min_length: u64, go_on: &mut dyn FnMut() -> bool) -> Ended<Reduced> {
    let counts = request.count(min_length, go_on)?;
    let mut results = Results::new(dtype, &[&request.kept_shape()[..], &[counts.columns() as u64]].concat())?;
    counts.numbers().try_for_each(|numbers| results.push(&numbers))?;
    Ok(Reduced::Array(results.into_array()))
}

/// The room is asked for first: that says how much there is.
fn folded(request: &Request<'_>, dtype: DType, go_on: &mut dyn FnMut() -> bool) -> Ended<Reduced> {
    let mut results = Results::new(dtype, &request.kept_shape())?;
    request.fold(go_on, &mut |numbers| results.push(numbers))?;
    Ok(Reduced::Array(results.into_array()))
}

/// Why a reduction ended early.
#[derive(Debug)]
enum Stop {
    Asked,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

type Ended<T = ()> = std::result::Result<T, Stop>;

/// How many results are given at once.
const AT_ONCE: usize = 256;
