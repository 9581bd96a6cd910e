//! Numbers of at most eight bits, one in each byte, as the Python package `ml_dtypes` stores them.
//!
//! A number lies in the lowest bits of its byte. The bits above are zero.
//!
//! The name of a float says its format: `e` and the bits of the exponent, `m` and those of the
//! mantissa, `b` and the exponent's bias where it is not the usual one, and what it lacks: `f`,
//! it has no infinity; `n`, its NaN is one pattern, which differs from format to format; `uz`,
//! its only zero has no sign; `u`, it has no sign at all, and a negative number becomes NaN.
//!
//! Source: the OCP 8-bit Floating Point Specification (e4m3fn, e5m2) and Microscaling Formats (MX)
//! Specification (e8m0fnu and what is shorter); IEEE P3109 (e4m3, e3m4); the documentation of
//! `ml_dtypes` for the rest, e5m3fnu since its version 0.7. The tests of the Python package compare
//! every pattern with it.

use num_traits::FromPrimitive;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// What a float has besides finite numbers, by [`SmallFloat`]'s last parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// The greatest exponent is that of infinity and of NaN, as in IEEE 754.
    Ieee,
    /// `fn`: the pattern with all bits set, besides the sign, is NaN.
    AllOnes,
    /// `fnuz`: the pattern with the sign alone is NaN.
    NegativeZero,
    /// Only numbers: what is too large is the greatest one, and a NaN is zero.
    Nothing,
    /// `fnu`: no sign; the pattern with all bits set is NaN. Without a mantissa there is no zero.
    Unsigned,
}

const ALL_SPECIALS: [Specials; 5] = [
    Specials::Ieee,
    Specials::AllOnes,
    Specials::NegativeZero,
    Specials::Nothing,
    Specials::Unsigned,
];

const IEEE: usize = Specials::Ieee as usize;
const FN: usize = Specials::AllOnes as usize;
const FNUZ: usize = Specials::NegativeZero as usize;
const FINITE: usize = Specials::Nothing as usize;
const FNU: usize = Specials::Unsigned as usize;

/// A float of at most eight bits: the widths of its exponent and its mantissa, its bias, and its
/// special values. The type aliases of this module are all that are elements of a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct SmallFloat<const E: u32, const M: u32, const BIAS: i32, const SPECIALS: usize>(u8);

/// An element of dtype `float8_e3m4`.
pub type Float8E3M4 = SmallFloat<3, 4, 3, IEEE>;
/// An element of dtype `float8_e4m3`.
pub type Float8E4M3 = SmallFloat<4, 3, 7, IEEE>;
/// An element of dtype `float8_e4m3fn`.
pub type Float8E4M3FN = SmallFloat<4, 3, 7, FN>;
/// An element of dtype `float8_e4m3fnuz`.
pub type Float8E4M3FNUZ = SmallFloat<4, 3, 8, FNUZ>;
/// An element of dtype `float8_e4m3b11fnuz`.
pub type Float8E4M3B11FNUZ = SmallFloat<4, 3, 11, FNUZ>;
/// An element of dtype `float8_e5m2`.
pub type Float8E5M2 = SmallFloat<5, 2, 15, IEEE>;
/// An element of dtype `float8_e5m2fnuz`.
pub type Float8E5M2FNUZ = SmallFloat<5, 2, 16, FNUZ>;
/// An element of dtype `float8_e8m0fnu`: a power of two.
pub type Float8E8M0FNU = SmallFloat<8, 0, 127, FNU>;
/// An element of dtype `float8_e5m3fnu`.
pub type Float8E5M3FNU = SmallFloat<5, 3, 15, FNU>;
/// An element of dtype `float6_e2m3fn`.
pub type Float6E2M3FN = SmallFloat<2, 3, 1, FINITE>;
/// An element of dtype `float6_e3m2fn`.
pub type Float6E3M2FN = SmallFloat<3, 2, 3, FINITE>;
/// An element of dtype `float4_e2m1fn`.
pub type Float4E2M1FN = SmallFloat<2, 1, 1, FINITE>;

impl<const E: u32, const M: u32, const BIAS: i32, const SPECIALS: usize>
    SmallFloat<E, M, BIAS, SPECIALS>
{
    const SPECIALS: Specials = ALL_SPECIALS[SPECIALS];
    /// The bits of a pattern without its sign.
    const MAGNITUDE: u32 = (1 << (E + M)) - 1;
    const SIGN: u32 = if matches!(Self::SPECIALS, Specials::Unsigned) { 0 } else { 1 << (E + M) };
    /// The pattern of the greatest number.
    const GREATEST: u32 = match Self::SPECIALS {
        Specials::Ieee => (((1 << E) - 1) << M) - 1,
        Specials::AllOnes | Specials::Unsigned => Self::MAGNITUDE - 1,
        Specials::NegativeZero | Specials::Nothing => Self::MAGNITUDE,
    };

    /// Returns the element with these bits.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the byte.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// Returns the value, which `f32` has exactly.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let magnitude = bits & Self::MAGNITUDE;
        // Bits above the sign's count as the sign, as for `ml_dtypes`.
        let is_negative = Self::SIGN != 0 && bits > Self::MAGNITUDE;
        let is_nan_of_zero = Self::SPECIALS == Specials::NegativeZero && magnitude == 0;
        let absolute = if magnitude > Self::GREATEST {
            let is_infinite = Self::SPECIALS == Specials::Ieee && magnitude == Self::GREATEST + 1;
            if is_infinite { f32::INFINITY } else { f32::NAN }
        } else if is_nan_of_zero && is_negative {
            f32::NAN
        } else {
            Self::absolute(magnitude) as f32
        };
        if is_negative { -absolute } else { absolute }
    }

    /// Returns the element nearest to a number. Of two that are equally near it is the one whose
    /// last bit is 0, and of two powers of two without a mantissa the larger.
    #[must_use]
    pub fn from_f64(number: f64) -> Self {
        let is_negative = number.is_sign_negative();
        let is_out = Self::SPECIALS == Specials::Unsigned
            && if number == 0.0 { M == 0 } else { is_negative };
        let magnitude = if number.is_nan() || is_out {
            Self::nan()
        } else {
            Self::nearest(number.abs()).unwrap_or_else(Self::too_large)
        };
        let is_unsigned = Self::SPECIALS == Specials::NegativeZero && magnitude == 0;
        let sign = if is_negative && !is_unsigned { Self::SIGN } else { 0 };
        Self((sign | magnitude) as u8)
    }

    /// Returns the number of a pattern without its sign, or that which would come after the
    /// greatest one.
    fn absolute(magnitude: u32) -> f64 {
        let exponent = (magnitude >> M) as i32;
        let mantissa = magnitude & ((1 << M) - 1);
        match Self::SPECIALS {
            Specials::Unsigned if M == 0 => power_of_two(exponent - BIAS),
            _ if exponent == 0 => f64::from(mantissa) * power_of_two(1 - BIAS - M as i32),
            _ => f64::from(mantissa | 1 << M) * power_of_two(exponent - BIAS - M as i32),
        }
    }

    /// Returns the pattern nearest to a number that has no sign. `None` if it is too large.
    ///
    /// The patterns are in the order of their numbers, and the differences are exact: the numbers
    /// have few bits.
    fn nearest(number: f64) -> Option<u32> {
        let (mut low, mut high) = (0, Self::GREATEST + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if Self::absolute(middle) <= number { low = middle } else { high = middle }
        }
        let (below, above) = (number - Self::absolute(low), Self::absolute(high) - number);
        let is_up = above < below || above == below && (low & 1 == 1 || M == 0);
        let found = if is_up { high } else { low };
        (found <= Self::GREATEST).then_some(found)
    }

    fn too_large() -> u32 {
        match Self::SPECIALS {
            Specials::Ieee => Self::GREATEST + 1,
            Specials::Nothing => Self::GREATEST,
            _ => Self::nan(),
        }
    }

    fn nan() -> u32 {
        match Self::SPECIALS {
            Specials::Ieee => Self::GREATEST + 1 + (1 << (M - 1)),
            Specials::AllOnes | Specials::Unsigned => Self::MAGNITUDE,
            Specials::NegativeZero => Self::SIGN,
            Specials::Nothing => 0,
        }
    }
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

impl<const E: u32, const M: u32, const BIAS: i32, const SPECIALS: usize>
    From<SmallFloat<E, M, BIAS, SPECIALS>> for f32
{
    #[inline]
    fn from(float: SmallFloat<E, M, BIAS, SPECIALS>) -> Self {
        float.to_f32()
    }
}

impl<const E: u32, const M: u32, const BIAS: i32, const SPECIALS: usize>
    From<SmallFloat<E, M, BIAS, SPECIALS>> for f64
{
    #[inline]
    fn from(float: SmallFloat<E, M, BIAS, SPECIALS>) -> Self {
        float.to_f32().into()
    }
}

impl<const E: u32, const M: u32, const BIAS: i32, const SPECIALS: usize> FromPrimitive
    for SmallFloat<E, M, BIAS, SPECIALS>
{
    fn from_i64(number: i64) -> Option<Self> {
        Some(Self::from_f64(number as f64))
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(Self::from_f64(number as f64))
    }

    fn from_f64(number: f64) -> Option<Self> {
        Some(Self::from_f64(number))
    }
}

/// A signed integer of 1, 2 or 4 bits: an element of dtype `int1`, `int2` or `int4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct SmallInt<const BITS: u32>(u8);

/// An element of dtype `int1`.
pub type Int1 = SmallInt<1>;
/// An element of dtype `int2`.
pub type Int2 = SmallInt<2>;
/// An element of dtype `int4`.
pub type Int4 = SmallInt<4>;

/// An unsigned integer of 1, 2 or 4 bits: an element of dtype `uint1`, `uint2` or `uint4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct SmallUInt<const BITS: u32>(u8);

/// An element of dtype `uint1`.
pub type UInt1 = SmallUInt<1>;
/// An element of dtype `uint2`.
pub type UInt2 = SmallUInt<2>;
/// An element of dtype `uint4`.
pub type UInt4 = SmallUInt<4>;

macro_rules! small_integers {
    ($name:ident as $wider:ty: $least:expr, $most:expr) => {
        impl<const BITS: u32> $name<BITS> {
            /// The least value.
            pub const MIN: $wider = $least;
            /// The greatest value.
            pub const MAX: $wider = $most;

            /// Returns the element with the lowest of these bits.
            #[must_use]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits & ((1 << BITS) - 1))
            }

            /// Returns the byte.
            #[must_use]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Returns the value.
            #[must_use]
            pub const fn get(self) -> $wider {
                // The shift to the right keeps the sign.
                ((self.0 << (8 - BITS)) as $wider) >> (8 - BITS)
            }
        }

        impl<const BITS: u32> From<$name<BITS>> for $wider {
            #[inline]
            fn from(integer: $name<BITS>) -> Self {
                integer.get()
            }
        }

        impl<const BITS: u32> From<$name<BITS>> for i128 {
            #[inline]
            fn from(integer: $name<BITS>) -> Self {
                integer.get().into()
            }
        }

        impl<const BITS: u32> TryFrom<i128> for $name<BITS> {
            type Error = std::num::TryFromIntError;

            fn try_from(number: i128) -> Result<Self, Self::Error> {
                // Shifted to the top of a byte, the number fits that if it fits its bits.
                let shifted = <$wider>::try_from(number.saturating_mul(1 << (8 - BITS)))?;
                Ok(Self(shifted as u8 >> (8 - BITS)))
            }
        }
    };
}

small_integers!(SmallInt as i8: -1 << (BITS - 1), !(-1 << (BITS - 1)));
small_integers!(SmallUInt as u8: 0, (1 << BITS) - 1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a macro with each type of float.
    macro_rules! for_each_float {
        ($check:ident) => {
            $check!(
                Float8E3M4,
                Float8E4M3,
                Float8E4M3FN,
                Float8E4M3FNUZ,
                Float8E4M3B11FNUZ,
                Float8E5M2,
                Float8E5M2FNUZ,
                Float8E8M0FNU,
                Float8E5M3FNU,
                Float6E2M3FN,
                Float6E3M2FN,
                Float4E2M1FN
            )
        };
    }

    /// Returns the value of every pattern.
    fn values(value: impl Fn(u8) -> f32) -> Vec<f64> {
        (0..=u8::MAX).map(|bits| value(bits).into()).collect()
    }

    /// Returns numbers: every value, the middle of every two neighbours, and those beside it.
    fn numbers(values: &[f64]) -> Vec<f64> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let middles = sorted.windows(2).map(|pair| pair[0].midpoint(pair[1]));
        let beside = |middle: f64| [middle.next_down(), middle, middle.next_up()];
        middles.flat_map(beside).chain(sorted.iter().copied()).collect()
    }

    #[test]
    fn every_value_is_the_nearest_element_to_itself() {
        macro_rules! check {
            ($($float:ident),*) => {$(
                for bits in 0..=u8::MAX {
                    let value = $float::from_bits(bits).to_f32();
                    let back = $float::from_f64(value.into()).to_f32();
                    let is_same = back.to_bits() == value.to_bits();
                    let has_no_nan = !$float::from_f64(f64::NAN).to_f32().is_nan();
                    assert!(
                        is_same || value.is_nan() && (back.is_nan() || has_no_nan),
                        "{}: {bits:#x} is {value} and became {back}", stringify!($float)
                    );
                }
            )*};
        }
        for_each_float!(check);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it compares millions of numbers, which is safe")]
    fn numbers_between_two_elements_go_to_the_nearer() {
        macro_rules! check {
            ($($float:ident),*) => {$(
                let all = values(|bits| $float::from_bits(bits).to_f32());
                for number in numbers(&all) {
                    let found = f64::from($float::from_f64(number));
                    let distances = all.iter().map(|value| (value - number).abs());
                    let least = distances.fold(f64::INFINITY, f64::min);
                    let is_zero_without_one = number == 0.0 && found.is_nan();
                    assert!(
                        (found - number).abs() == least || is_zero_without_one,
                        "{}: {number} became {found}", stringify!($float)
                    );
                }
            )*};
        }
        for_each_float!(check);
    }

    #[test]
    fn a_tie_goes_to_the_element_with_an_even_pattern() {
        let of = Float8E4M3FN::from_f64;
        assert_eq!([17.0, 19.0, 464.0].map(|number| of(number).to_f32()), [16.0, 20.0, 448.0]);
        assert_eq!(of(464.1).to_bits(), 0x7F); // NaN: there is no infinity
        assert_eq!(of(1.0 / 1024.0).to_bits(), 0);
        let powers = [1.49, 1.5, 3.0, 6.0].map(|number| Float8E8M0FNU::from_f64(number).to_f32());
        assert_eq!(powers, [1.0, 2.0, 4.0, 8.0]);
    }

    #[test]
    fn what_is_too_large_becomes_what_the_format_has_for_it() {
        assert_eq!(Float8E5M2::from_f64(-1e9).to_f32(), f32::NEG_INFINITY);
        assert_eq!(Float8E5M2::from_f64(61_439.9).to_f32(), 57_344.0);
        assert_eq!(Float8E5M2::from_f64(61_440.0).to_f32(), f32::INFINITY);
        assert_eq!(Float4E2M1FN::from_f64(f64::NEG_INFINITY).to_f32(), -6.0);
        assert_eq!(Float8E4M3FNUZ::from_f64(f64::INFINITY).to_bits(), 0x80);
        assert_eq!(Float8E8M0FNU::from_f64(1e39).to_bits(), 0xFF);
        assert_eq!(Float8E5M3FNU::from_f64(118_783.0).to_f32(), 114_688.0);
        assert_eq!(Float8E5M3FNU::from_f64(120_000.0).to_bits(), 0xFF);
    }

    #[test]
    fn zeros_have_a_sign_only_where_the_format_has_one() {
        assert_eq!(Float8E4M3FN::from_f64(-0.0).to_bits(), 0x80);
        assert_eq!(Float8E4M3FNUZ::from_f64(-0.0).to_bits(), 0);
        assert_eq!(Float8E5M2FNUZ::from_f64(-1e-30).to_bits(), 0);
        assert_eq!(Float8E8M0FNU::from_f64(0.0).to_bits(), 0xFF);
        assert_eq!(Float8E5M3FNU::from_f64(-0.0).to_bits(), 0);
        assert_eq!(Float8E5M3FNU::from_f64(-1e-30).to_bits(), 0xFF);
        assert_eq!(Float8E8M0FNU::from_f64(1e-300).to_f32(), f32::MIN_POSITIVE / 2.0); // 2^-127
    }

    #[test]
    fn integers_have_the_lowest_bits_of_their_byte() {
        let signed: Vec<i8> = (0..18).map(|bits| Int4::from_bits(bits).get()).collect();
        assert_eq!(signed, [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1]);
        assert_eq!((Int1::MIN, Int1::MAX), (-1, 0));
        assert_eq!((Int4::MIN, Int4::MAX), (-8, 7));
        assert_eq!((UInt2::MIN, UInt2::MAX), (0, 3));
        assert_eq!(Int2::try_from(-1).unwrap().to_bits(), 3);
        assert!(Int2::try_from(2).is_err());
        assert!(UInt4::try_from(16).is_err() && UInt4::try_from(-1).is_err());
    }
}
