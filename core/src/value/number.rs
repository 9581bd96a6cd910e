//! Numbers: the values of elements, whatever their dtype.

use std::fmt;

/// The value of an element, or the result of a reduction. It represents every element of a dtype in
/// the table exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "these kinds are all that there can be")]
pub enum Number {
    /// An element of `bool`.
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
