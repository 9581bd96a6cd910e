//! Minimum and maximum. A NaN makes the result NaN, as in NumPy.

use super::sums::Fold;
use crate::value::number::Number;

/// The minimum so far.
#[derive(Clone, Copy)]
pub(super) struct Least<N>(N);

/// The maximum so far.
#[derive(Clone, Copy)]
pub(super) struct Greatest<N>(N);

macro_rules! whole_extremes {
    ($fold:ident, $start:ident, $pick:ident: $($type:ty),*) => {$(
        impl Fold<$type> for $fold<$type> {
            const START: Self = Self(<$type>::$start);

            #[inline(always)]
            fn take(&mut self, number: $type) {
                self.0 = self.0.$pick(number);
            }

            #[inline(always)]
            fn take_run(&mut self, run: &[$type]) {
                self.0 = run.iter().fold(self.0, |found, &number| found.$pick(number));
            }

            fn number(self, _: Option<u64>) -> Number {
                Number::Integer(self.0.into())
            }
        }
    )*};
}

whole_extremes!(Least, MAX, min: u8, u16, u32, u64, i8, i16, i32, i64);
whole_extremes!(Greatest, MIN, max: u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! float_extremes {
    ($fold:ident, $start:ident, $better:tt: $($type:ty),*) => {$(
        impl Fold<$type> for $fold<$type> {
            const START: Self = Self(<$type>::$start);

            #[inline(always)]
            fn take(&mut self, number: $type) {
                let stays = (self.0 $better number) | (self.0 == number) | self.0.is_nan();
                self.0 = if stays { self.0 } else { number };
            }

            /// Compares in two passes, because no comparison finds a NaN and the block is in the
            /// cache.
            #[inline(always)]
            fn take_run(&mut self, run: &[$type]) {
                let start = <$type>::$start;
                self.take(found_in_lanes(run, start, |number, found| number $better found));
                let nan = found_in_lanes(run, <$type>::$start, |number, _| number.is_nan());
                self.0 = if nan.is_nan() { nan } else { self.0 };
            }

            fn number(self, _: Option<u64>) -> Number {
                Number::Float(self.0.into())
            }
        }
    )*};
}

float_extremes!(Least, INFINITY, <: f32, f64);
float_extremes!(Greatest, NEG_INFINITY, >: f32, f64);

/// The numbers that are compared at once.
const LANES: usize = 32;

/// Returns the number that is better than all others, found lane by lane.
#[inline(always)]
fn found_in_lanes<N: Copy>(run: &[N], start: N, better: impl Fn(N, N) -> bool) -> N {
    let pick = |found, number| if better(number, found) { number } else { found };
    let mut lanes = [start; LANES];
    let mut rows = run.chunks_exact(LANES);
    for row in &mut rows {
        for (lane, &number) in lanes.iter_mut().zip(row) {
            *lane = pick(*lane, number);
        }
    }
    lanes.iter().chain(rows.remainder()).fold(start, |found, &number| pick(found, number))
}
