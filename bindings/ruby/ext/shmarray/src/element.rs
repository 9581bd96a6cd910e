//! One element as a Ruby object, and back.

use half::f16;
use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, IntoValue, RComplex, RString, Ruby, TryConvert, Value};
use num_complex::Complex;
use shmarray::{Array, Element, Layout, Order, TypeCode};

use crate::errors::{OrRaise, argument_error, type_error};

/// Reads one element; of a dtype outside the table, its bytes as a binary String.
pub(crate) fn read(ruby: &Ruby, array: &Array, index: &[u64]) -> Result<Value, Error> {
    macro_rules! get {
        ($type:ty) => {
            Ok(array.get::<$type>(index).or_raise_index(ruby)?.to_ruby(ruby))
        };
    }
    match array.dtype().code() {
        TypeCode::Bool => get!(bool),
        TypeCode::Int8 => get!(i8),
        TypeCode::Int16 => get!(i16),
        TypeCode::Int32 => get!(i32),
        TypeCode::Int64 => get!(i64),
        TypeCode::UInt8 => get!(u8),
        TypeCode::UInt16 => get!(u16),
        TypeCode::UInt32 => get!(u32),
        TypeCode::UInt64 => get!(u64),
        TypeCode::Float16 => get!(f16),
        TypeCode::Float32 => get!(f32),
        TypeCode::Float64 => get!(f64),
        TypeCode::Complex64 => get!(Complex<f32>),
        TypeCode::Complex128 => get!(Complex<f64>),
        TypeCode::Opaque => Ok(ruby.str_from_slice(&item(ruby, array, index)?.to_bytes()).as_value()),
    }
}

/// Writes one element.
pub(crate) fn write(ruby: &Ruby, array: &Array, index: &[u64], value: Value) -> Result<(), Error> {
    macro_rules! set {
        ($type:ty) => {
            array.set::<$type>(index, RubyElement::from_ruby(ruby, value)?).or_raise_index(ruby)
        };
    }
    match array.dtype().code() {
        TypeCode::Bool => set!(bool),
        TypeCode::Int8 => set!(i8),
        TypeCode::Int16 => set!(i16),
        TypeCode::Int32 => set!(i32),
        TypeCode::Int64 => set!(i64),
        TypeCode::UInt8 => set!(u8),
        TypeCode::UInt16 => set!(u16),
        TypeCode::UInt32 => set!(u32),
        TypeCode::UInt64 => set!(u64),
        TypeCode::Float16 => set!(f16),
        TypeCode::Float32 => set!(f32),
        TypeCode::Float64 => set!(f64),
        TypeCode::Complex64 => set!(Complex<f32>),
        TypeCode::Complex128 => set!(Complex<f64>),
        TypeCode::Opaque => write_bytes(ruby, &item(ruby, array, index)?, value),
    }
}

/// The array of one element, without dimensions.
fn item(ruby: &Ruby, array: &Array, index: &[u64]) -> Result<Array, Error> {
    index.iter().try_fold(array.clone(), |array, &at| array.select(0, at as i64).or_raise_index(ruby))
}

fn write_bytes(ruby: &Ruby, item: &Array, value: Value) -> Result<(), Error> {
    let item_bytes = item.dtype().item_bytes();
    let wrong =
        || argument_error(ruby, format!("dtype {}: an element is a String of {item_bytes} bytes", item.dtype()));
    let text = RString::from_value(value).ok_or_else(wrong)?;
    if text.len() as u64 != item_bytes {
        return Err(wrong());
    }
    let layout = Layout::contiguous(&[], item_bytes, Order::C).or_raise(ruby)?;
    fill_item(item, text, &layout).or_raise(ruby)
}

#[allow(unsafe_code)]
fn fill_item(item: &Array, text: RString, layout: &Layout) -> shmarray::Result<()> {
    // SAFETY: no Ruby code runs while the slice is borrowed.
    let source = unsafe { text.as_slice() }.as_ptr();
    // SAFETY: the caller checked that the String has the bytes of one item; a String's
    // bytes are Ruby's own memory, so no element of the array is among them.
    unsafe { item.fill_from(source, layout) }
}

/// Element types between Rust and Ruby.
trait RubyElement: Element {
    fn to_ruby(self, ruby: &Ruby) -> Value;
    fn from_ruby(ruby: &Ruby, value: Value) -> Result<Self, Error>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl RubyElement for $type {
            fn to_ruby(self, ruby: &Ruby) -> Value {
                self.into_value_with(ruby)
            }

            fn from_ruby(ruby: &Ruby, value: Value) -> Result<Self, Error> {
                let wrong = |_| Error::new(
                    ruby.exception_range_error(),
                    format!("{value} is no {} from {} to {}", stringify!($type), <$type>::MIN, <$type>::MAX),
                );
                let wide = Integer::try_convert(value)?;
                match wide.to_i64() {
                    Ok(narrow) => Self::try_from(narrow).map_err(|_| wrong(())),
                    Err(_) => wide.to_u64().map_err(|_| wrong(()))?.try_into().map_err(|_| wrong(())),
                }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty, $from:expr, $to:expr);*) => {$(
        impl RubyElement for $type {
            fn to_ruby(self, ruby: &Ruby) -> Value {
                $to(self).into_value_with(ruby)
            }

            fn from_ruby(_ruby: &Ruby, value: Value) -> Result<Self, Error> {
                Ok($from(Float::try_convert(value)?.to_f64()))
            }
        }
    )*};
}

floats!(f16, f16::from_f64, f16::to_f64; f32, |wide| wide as f32, f64::from; f64, f64::from, f64::from);

macro_rules! complexes {
    ($($part:ty),*) => {$(
        impl RubyElement for Complex<$part> {
            fn to_ruby(self, ruby: &Ruby) -> Value {
                let (re, im) = (f64::from(self.re), f64::from(self.im));
                RComplex::new(ruby.float_from_f64(re), ruby.float_from_f64(im)).as_value()
            }

            fn from_ruby(_ruby: &Ruby, value: Value) -> Result<Self, Error> {
                let (re, im) = match RComplex::from_value(value) {
                    Some(complex) => (complex.real::<f64>()?, complex.imag::<f64>()?),
                    None => (Float::try_convert(value)?.to_f64(), 0.0),
                };
                Ok(Self::new(re as $part, im as $part))
            }
        }
    )*};
}

complexes!(f32, f64);

impl RubyElement for bool {
    fn to_ruby(self, ruby: &Ruby) -> Value {
        self.into_value_with(ruby)
    }

    /// `true`, `false`, and the numbers that stand for them.
    fn from_ruby(ruby: &Ruby, value: Value) -> Result<Self, Error> {
        let number = Integer::from_value(value).and_then(|number| number.to_i64().ok());
        match (value.is_kind_of(ruby.class_true_class()), value.is_kind_of(ruby.class_false_class()), number) {
            (true, ..) | (.., Some(1)) => Ok(true),
            (_, true, _) | (.., Some(0)) => Ok(false),
            _ => Err(type_error(ruby, format!("{} is neither true nor false", value.inspect()))),
        }
    }
}
