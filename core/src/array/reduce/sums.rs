//! Sums and means: exact for integers, pairwise and compensated for floats.
//!
//! Integers are added in 128 bits, which the sum of no array overflows.
//!
//! All floats are added as binary64. The numbers of a block are added in pairs of pairs (pairwise
//! summation; Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14, 1993).
//! The rounding error of each addition of a block to the total is kept, and the errors are added to
//! the total last (Sum2 of Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM J. Sci.
//! Comput. 26, 2005, with Knuth's TwoSum). Let u = 2⁻⁵³. A number takes part in at most 16 + 4
//! additions in its leaf and in 7 above it, so the error of a block's sum is at most 27 u times the
//! sum of the magnitudes of its numbers; the totals add 2 u, and (u m)² for m blocks. Together, for
//! fewer than 2²⁶ blocks (10¹¹ numbers side by side), the error is at most [`ERROR_BOUND`] times
//! the sum of the magnitudes.

use super::walk::BLOCK_BYTES;
use crate::value::number::Number;

/// The bound that the module's comment derives. The tests check it.
#[cfg(test)]
pub(super) const ERROR_BOUND: f64 = 32.0 * (f64::EPSILON / 2.0);

/// Folds the numbers of one result.
pub(super) trait Fold<N>: Copy {
    /// The fold of no numbers.
    const START: Self;

    fn take(&mut self, number: N);

    fn take_run(&mut self, run: &[N]);

    /// Returns the result; with `mean_of`, the sum divided by that count.
    fn number(self, mean_of: Option<u64>) -> Number;
}

/// The sum of integers.
#[derive(Clone, Copy)]
pub(super) struct IntegerSum(i128);

/// The sum of floats, and the sum of its rounding errors.
#[derive(Clone, Copy)]
pub(super) struct Compensated {
    sum: f64,
    rest: f64,
}

/// A number that can be summed.
pub(super) trait Summand: Sized + Copy {
    type Sum: Fold<Self>;
}

macro_rules! whole_summands {
    ($($type:ty as $wide:ty),*) => {$(
        impl Summand for $type {
            type Sum = IntegerSum;
        }

        impl Fold<$type> for IntegerSum {
            const START: Self = Self(0);

            #[inline(always)]
            fn take(&mut self, number: $type) {
                self.0 += i128::from(number);
            }

            /// A block has too few numbers for the wider type to overflow ([`BLOCK_BYTES`]).
            #[inline(always)]
            fn take_run(&mut self, run: &[$type]) {
                let sum = run.iter().map(|&number| <$wide>::from(number)).sum::<$wide>();
                self.0 += i128::from(sum);
            }

            fn number(self, mean_of: Option<u64>) -> Number {
                self.into_number(mean_of)
            }
        }
    )*};
}

whole_summands!(u8 as u32, u16 as u32, u32 as u64, i8 as i32, i16 as i32, i32 as i64);

macro_rules! long_summands {
    ($($type:ty),*) => {$(
        impl Summand for $type {
            type Sum = IntegerSum;
        }

        impl Fold<$type> for IntegerSum {
            const START: Self = Self(0);

            #[inline(always)]
            fn take(&mut self, number: $type) {
                self.0 += i128::from(number);
            }

            /// Adds the lower and the upper halves apart, because their sums fit.
            #[inline(always)]
            fn take_run(&mut self, run: &[$type]) {
                let low: u64 = run.iter().map(|&number| number as u64 & u64::from(u32::MAX)).sum();
                let high: $type = run.iter().map(|&number| number >> 32).sum();
                self.0 += i128::from(low) + (i128::from(high) << 32);
            }

            fn number(self, mean_of: Option<u64>) -> Number {
                self.into_number(mean_of)
            }
        }
    )*};
}

long_summands!(u64, i64);

impl IntegerSum {
    fn into_number(self, mean_of: Option<u64>) -> Number {
        match mean_of {
            None => Number::Integer(self.0),
            Some(count) => Number::Float(self.0 as f64 / count as f64),
        }
    }
}

macro_rules! float_summands {
    ($($type:ty),*) => {$(
        impl Summand for $type {
            type Sum = Compensated;
        }

        impl Fold<$type> for Compensated {
            const START: Self = Self { sum: 0.0, rest: 0.0 };

            #[inline(always)]
            fn take(&mut self, number: $type) {
                self.add(f64::from(number));
            }

            #[inline(always)]
            fn take_run(&mut self, run: &[$type]) {
                self.add(pairwise(run));
            }

            fn number(self, mean_of: Option<u64>) -> Number {
                let sum = self.sum();
                Number::Float(mean_of.map_or(sum, |count| sum / count as f64))
            }
        }
    )*};
}

float_summands!(f32, f64);

impl Compensated {
    /// Knuth's TwoSum.
    #[inline(always)]
    fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        let added = sum - self.sum;
        self.rest += (self.sum - (sum - added)) + (number - added);
        self.sum = sum;
    }

    /// Returns the sum. The rounding errors of an infinite sum are NaN, and are left out.
    fn sum(self) -> f64 {
        if self.rest.is_finite() { self.sum + self.rest } else { self.sum }
    }
}

/// The number of partial sums of a leaf.
const LANES: usize = 16;
/// The numbers of a leaf, which are added to the lanes one after the other.
const LEAF: usize = 16 * LANES;

/// At least the number of leaves of a block: a number takes at least a byte.
const MOST_LEAVES: usize = BLOCK_BYTES / LEAF + 1;

#[inline(always)]
fn pairwise<N: Copy + Into<f64>>(run: &[N]) -> f64 {
    let mut sums = [0.0; MOST_LEAVES.next_power_of_two()];
    sums.iter_mut().zip(run.chunks(LEAF)).for_each(|(sum, numbers)| *sum = leaf(numbers));
    in_pairs(&mut sums[..run.len().div_ceil(LEAF).next_power_of_two()])
}

#[inline(always)]
fn leaf<N: Copy + Into<f64>>(run: &[N]) -> f64 {
    let mut lanes = [0.0; LANES];
    let mut rows = run.chunks_exact(LANES);
    for row in &mut rows {
        lanes.iter_mut().zip(row).for_each(|(lane, &number)| *lane += number.into());
    }
    lanes.iter_mut().zip(rows.remainder()).for_each(|(lane, &number)| *lane += number.into());
    in_pairs(&mut lanes)
}

/// Returns the sum of a power of two of numbers.
#[inline(always)]
fn in_pairs(sums: &mut [f64]) -> f64 {
    let mut count = sums.len();
    while count > 1 {
        count /= 2;
        let (left, right) = sums.split_at_mut(count);
        left.iter_mut().zip(right).for_each(|(left, right)| *left += *right);
    }
    sums[0]
}
