//! Sums and means: exact for whole numbers, pairwise and compensated for floats.
//!
//! Whole numbers are added up in 128 bits, which no array's sum overflows.
//!
//! Floats are added up as binary64, whatever they are. The numbers of a block are added in pairs of
//! pairs (pairwise summation; Higham, "The accuracy of floating point summation", SIAM J. Sci.
//! Comput. 14, 1993), and what each addition to the total rounds away is kept and added in the end
//! (Sum2 of Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26, 2005,
//! with Knuth's TwoSum). With u = 2⁻⁵³ a number goes through at most 16 + 4 additions in its leaf and
//! 6 above it, so a block's sum is off by at most 26 u times the sum of the numbers' magnitudes; the
//! totals add 2 u, and (2⁻⁵³ m)² for m blocks. Together, for fewer than 2²⁶ blocks (some 10¹¹ numbers
//! that lie side by side): at most [`ERROR_BOUND`] times the sum of the magnitudes.

use half::f16;

use super::results::Number;
use super::walk::BLOCK_BYTES;

/// See the module. The tests hold it to this.
#[cfg(test)]
pub(super) const ERROR_BOUND: f64 = 32.0 * (f64::EPSILON / 2.0);

/// How numbers of one result become one.
pub(super) trait Fold<N>: Copy {
    /// Of no numbers.
    const START: Self;

    fn take(&mut self, number: N);

    fn take_run(&mut self, run: &[N]);

    /// The sum, the least …; the mean of so many if that is asked.
    fn number(self, mean_of: Option<u64>) -> Number;
}

/// The sum of whole numbers.
#[derive(Clone, Copy)]
pub(super) struct Whole(i128);

/// The sum of floats, and what its additions have rounded away.
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
            type Sum = Whole;
        }

        impl Fold<$type> for Whole {
            const START: Self = Self(0);

            #[inline(always)]
            fn take(&mut self, number: $type) {
                self.0 += i128::from(number);
            }

            /// A block has too few numbers for the wider type to overflow.
            #[inline(always)]
            fn take_run(&mut self, run: &[$type]) {
                self.0 += i128::from(run.iter().map(|&number| <$wide>::from(number)).sum::<$wide>());
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
            type Sum = Whole;
        }

        impl Fold<$type> for Whole {
            const START: Self = Self(0);

            #[inline(always)]
            fn take(&mut self, number: $type) {
                self.0 += i128::from(number);
            }

            /// The lower and the upper halves, whose sums fit.
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

impl Whole {
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

    /// What was rounded away from an infinity is no number.
    fn sum(self) -> f64 {
        if self.rest.is_finite() { self.sum + self.rest } else { self.sum }
    }
}

/// Sums at once, in as many lanes.
const LANES: usize = 16;
/// Numbers that are added lane by lane.
const LEAF: usize = 16 * LANES;

/// More than a block has.
const MOST_LEAVES: usize = BLOCK_BYTES / size_of::<f16>() / LEAF + 1;

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

/// Their number is a power of two.
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
