//! Elements as they are stored, and the numbers that are reduced.

use half::f16;
use half::slice::HalfFloatSliceExt;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// An element of a dtype with arithmetic, or a part of a complex one.
pub(super) trait Item: FromBytes + Immutable + KnownLayout + Copy {
    /// The number that is reduced.
    type Number: Copy;

    /// Returns the numbers of elements: the elements themselves, or numbers stored in `space`.
    fn numbers<'a>(items: &'a [Self], space: &'a mut Vec<Self::Number>) -> &'a [Self::Number];
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Item for $type {
            type Number = Self;

            fn numbers<'a>(items: &'a [Self], _: &'a mut Vec<Self>) -> &'a [Self] {
                items
            }
        }
    )*};
}

numbers!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// A byte of a `bool` array. Every byte but 0 is true.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(super) struct Truth(u8);

impl Item for Truth {
    /// 0 or 1.
    type Number = u8;

    fn numbers<'a>(items: &'a [Self], space: &'a mut Vec<u8>) -> &'a [u8] {
        space.clear();
        space.extend(items.iter().map(|truth| u8::from(truth.0 != 0)));
        space
    }
}

impl Item for f16 {
    /// `f32` represents every `f16` exactly.
    type Number = f32;

    fn numbers<'a>(items: &'a [Self], space: &'a mut Vec<f32>) -> &'a [f32] {
        space.resize(items.len(), 0.0);
        items.convert_to_f32_slice(space);
        space
    }
}

/// Evaluates `$body` with `$item` as the type of a dtype's elements if they are integers or `bool`.
macro_rules! with_integers {
    ($code:expr, $item:ident => $body:expr, else $other:expr) => {
        match $code {
            TypeCode::Bool => with_type!(Truth, $item => $body),
            TypeCode::Int8 => with_type!(i8, $item => $body),
            TypeCode::Int16 => with_type!(i16, $item => $body),
            TypeCode::Int32 => with_type!(i32, $item => $body),
            TypeCode::Int64 => with_type!(i64, $item => $body),
            TypeCode::UInt8 => with_type!(u8, $item => $body),
            TypeCode::UInt16 => with_type!(u16, $item => $body),
            TypeCode::UInt32 => with_type!(u32, $item => $body),
            TypeCode::UInt64 => with_type!(u64, $item => $body),
            TypeCode::Float16 | TypeCode::Float32 | TypeCode::Float64 => $other,
            TypeCode::Complex64 | TypeCode::Complex128 | TypeCode::Opaque => $other,
        }
    };
}

/// Does the same also for floats and, with the type of their parts, for complex numbers.
macro_rules! with_numbers {
    ($code:expr, $item:ident => $body:expr, else $other:expr) => {
        match $code {
            TypeCode::Bool => with_type!(Truth, $item => $body),
            TypeCode::Int8 => with_type!(i8, $item => $body),
            TypeCode::Int16 => with_type!(i16, $item => $body),
            TypeCode::Int32 => with_type!(i32, $item => $body),
            TypeCode::Int64 => with_type!(i64, $item => $body),
            TypeCode::UInt8 => with_type!(u8, $item => $body),
            TypeCode::UInt16 => with_type!(u16, $item => $body),
            TypeCode::UInt32 => with_type!(u32, $item => $body),
            TypeCode::UInt64 => with_type!(u64, $item => $body),
            TypeCode::Float16 => with_type!(f16, $item => $body),
            TypeCode::Float32 | TypeCode::Complex64 => with_type!(f32, $item => $body),
            TypeCode::Float64 | TypeCode::Complex128 => with_type!(f64, $item => $body),
            TypeCode::Opaque => $other,
        }
    };
}

macro_rules! with_type {
    ($type:ty, $item:ident => $body:expr) => {{
        type $item = $type;
        $body
    }};
}

pub(super) use {with_integers, with_numbers, with_type};
