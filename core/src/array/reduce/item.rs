//! Elements as they are stored, and the numbers that are reduced.

use half::slice::HalfFloatSliceExt;
use num_complex::Complex;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::value::dtype::{DTypeKind, TypeCode, with_dtypes};
use crate::value::number::Number;

/// An element of a dtype with arithmetic, or a part of a complex one.
pub(super) trait Item: FromBytes + Immutable + KnownLayout + Copy {
    /// The number that is reduced.
    type Value: Copy;

    /// Returns the numbers of elements: the elements themselves, or numbers stored in `space`.
    fn numbers<'a>(items: &'a [Self], space: &'a mut Vec<Self::Value>) -> &'a [Self::Value];
}

/// A byte of a `bool` array. Every byte but 0 is true.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(super) struct Truth(u8);

impl Item for Truth {
    /// 0 or 1.
    type Value = u8;

    fn numbers<'a>(items: &'a [Self], space: &'a mut Vec<u8>) -> &'a [u8] {
        space.clear();
        space.extend(items.iter().map(|truth| u8::from(truth.0 != 0)));
        space
    }
}

/// The type of the parts of a complex number.
pub(super) trait Parts {
    type Part;
}

impl<T> Parts for Complex<T> {
    type Part = T;
}

/// The numbers that the bytes of a dtype `as byte` stand for. One loop over bytes serves all of
/// these dtypes.
pub(super) enum NumbersOfBytes {
    Floats(Box<[f32; 256]>),
    Integers(Box<[i8; 256]>),
}

impl NumbersOfBytes {
    /// Returns those of a dtype. `None` for any other.
    #[allow(unsafe_code)]
    pub(super) fn of(code: TypeCode) -> Option<Self> {
        if !code.is_in_byte() {
            return None;
        }
        // SAFETY: an element of the dtype can be read at the address, since it takes one byte.
        let number = |byte: u8| unsafe { Number::read(code, &raw const byte) };
        let all = std::array::from_fn::<_, 256, _>(|byte| number(byte as u8));
        Some(match code.kind()? {
            DTypeKind::Float => Self::Floats(Box::new(all.map(|number| match number {
                Some(Number::Float(float)) => float as f32, // exact
                _ => unreachable!("an element of a float dtype is a float"),
            }))),
            _ => Self::Integers(Box::new(all.map(|number| match number {
                Some(Number::Integer(whole)) => whole as i8, // of at most four bits
                _ => unreachable!("an element of an integer dtype is an integer"),
            }))),
        })
    }
}

macro_rules! items {
    ($(
        $(#[$doc:meta])*
        $code:ident = $number:literal, $name:literal, $text:literal, $type:ty: $kind:ident
        $(as $wider:ident)?;
    )*) => {
        $(item!($kind $type $(as $wider)?);)*
    };
}

/// Implements [`Item`] for the elements of a row, unless its items are of another type
/// ([`item_of`]).
macro_rules! item {
    (Bool $type:ty) => {};
    (Complex $type:ty) => {};
    ($kind:ident $type:ty as byte) => {};
    (Float $type:ty as $wider:ident) => {
        impl Item for $type {
            type Value = $wider;

            fn numbers<'a>(items: &'a [Self], space: &'a mut Vec<$wider>) -> &'a [$wider] {
                space.resize(items.len(), Default::default());
                items.convert_to_f32_slice(space);
                space
            }
        }
    };
    ($kind:ident $type:ty) => {
        impl Item for $type {
            type Value = Self;

            fn numbers<'a>(items: &'a [Self], _: &'a mut Vec<Self>) -> &'a [Self] {
                items
            }
        }
    };
}

with_dtypes!(items);

/// The items of a row: the elements; for complex numbers, their parts.
macro_rules! item_of {
    (Bool $type:ty) => {
        Truth
    };
    (Complex $type:ty) => {
        <$type as Parts>::Part
    };
    ($kind:ident $type:ty) => {
        $type
    };
}

/// Evaluates `$body` with `$item` as the type of a dtype's items. `Opaque` has none, and neither
/// have the rows whose elements are numbers of a byte ([`NumbersOfBytes`]).
macro_rules! with_items {
    ($code:expr, $item:ident => $body:expr, else $other:expr) => {
        with_dtypes!(arms, ($code), item_arm, ($item), ($body), ($other))
    };
}

/// Evaluates `$body` with `$item` as the type of a dtype's items if they are integers or `bool`.
macro_rules! with_integers {
    ($code:expr, $item:ident => $body:expr, else $other:expr) => {
        with_dtypes!(arms, ($code), integer_arm, ($item), ($body), ($other))
    };
}

/// Evaluates `$body` with `$element` as the type of a dtype's elements. `Opaque` has none.
macro_rules! with_elements {
    ($code:expr, $element:ident => $body:expr, else $other:expr) => {
        with_dtypes!(arms, ($code), element_arm, ($element), ($body), ($other))
    };
}

/// Matches the code of a dtype: `$arm` makes the arm of each row.
macro_rules! arms {
    (
        ($code:expr) $arm:ident ($alias:ident) ($body:expr) ($other:expr)
        $(
            $(#[$doc:meta])*
            $row:ident = $number:literal, $name:literal, $text:literal, $type:ty: $kind:ident
            $(as $wider:ident)?;
        )*
    ) => {
        match $code {
            $(TypeCode::$row => $arm!($kind $type $(as $wider)?, $alias, $body, $other),)*
            TypeCode::Opaque => $other,
        }
    };
}

macro_rules! item_arm {
    ($kind:ident $type:ty as byte, $item:ident, $body:expr, $other:expr) => {
        $other
    };
    ($kind:ident $type:ty $(as $wider:ident)?, $item:ident, $body:expr, $other:expr) => {{
    type $item = item_of!($kind $type);
        $body
    }};
}

macro_rules! integer_arm {
    (Float $type:ty $(as $wider:ident)?, $item:ident, $body:expr, $other:expr) => {
        $other
    };
    (Complex $type:ty, $item:ident, $body:expr, $other:expr) => {
        $other
    };
    ($kind:ident $type:ty as byte, $item:ident, $body:expr, $other:expr) => {
        $other
    };
    ($kind:ident $type:ty, $item:ident, $body:expr, $other:expr) => {
        item_arm!($kind $type, $item, $body, $other)
    };
}

macro_rules! element_arm {
    ($kind:ident $type:ty $(as $wider:ident)?, $element:ident, $body:expr, $other:expr) => {{
        type $element = $type;
        $body
    }};
}

pub(super) use {
    arms, element_arm, integer_arm, item_arm, item_of, with_elements, with_integers, with_items,
};
