//! Converts one element to a Ruby object, and back.
//!
//! Elements are read and written through raw pointers, with one volatile access each, as in core:
//! other processes may write at the same time.
#![allow(unsafe_code)] // reads elements at addresses, and Ruby's objects without a wrapper

use half::f16;
use magnus::rb_sys::{AsRawValue, FromRawValue};
use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, RComplex, RString, Ruby, TryConvert, Value};
use num_complex::Complex;
use rb_sys::{
    FIX2LONG, FIXABLE, FIXNUM_P, FLONUM_P, LONG2FIX, Qfalse, Qtrue, VALUE, rb_dbl_complex_new,
    rb_float_new, rb_float_value, rb_ll2inum, rb_str_new, rb_ull2inum,
};
use shmarray::{DType, Element, TypeCode};

use crate::error::{argument_error, type_error};

/// The value of an element. It represents every element of a dtype in the table exactly.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scalar {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Complex(f64, f64),
}

/// The bytes of the largest element in the table.
pub(crate) const LARGEST_BYTES: usize = 16;

/// Reads the element at an address. Returns `None` for a dtype outside the table.
///
/// # Safety
/// The address must be readable for one element of that dtype.
#[inline(always)]
pub(crate) unsafe fn load(code: TypeCode, address: *const u8) -> Option<Scalar> {
    macro_rules! get {
        ($type:ty) => {
            // SAFETY: the caller guarantees that an element of this type can be read at the
            // address.
            unsafe { <$type>::read(address) }
        };
    }
    Some(match code {
        TypeCode::Bool => Scalar::Bool(get!(bool)),
        TypeCode::Int8 => Scalar::Integer(get!(i8).into()),
        TypeCode::Int16 => Scalar::Integer(get!(i16).into()),
        TypeCode::Int32 => Scalar::Integer(get!(i32).into()),
        TypeCode::Int64 => Scalar::Integer(get!(i64).into()),
        TypeCode::UInt8 => Scalar::Integer(get!(u8).into()),
        TypeCode::UInt16 => Scalar::Integer(get!(u16).into()),
        TypeCode::UInt32 => Scalar::Integer(get!(u32).into()),
        TypeCode::UInt64 => Scalar::Integer(get!(u64).into()),
        TypeCode::Float16 => Scalar::Float(get!(f16).to_f64()),
        TypeCode::Float32 => Scalar::Float(get!(f32).into()),
        TypeCode::Float64 => Scalar::Float(get!(f64)),
        TypeCode::Complex64 => complex(get!(Complex<f32>)),
        TypeCode::Complex128 => complex(get!(Complex<f64>)),
        TypeCode::Opaque => return None,
    })
}

fn complex<T: Into<f64>>(number: Complex<T>) -> Scalar {
    Scalar::Complex(number.re.into(), number.im.into())
}

/// Writes an element: a scalar that [`convert`] made for that dtype.
///
/// # Safety
/// The address must be writable for one element of that dtype.
#[inline]
pub(crate) unsafe fn store(code: TypeCode, address: *mut u8, scalar: Scalar) {
    macro_rules! put {
        ($type:ty, $value:expr) => {
            // SAFETY: the caller guarantees that an element of this type can be written at the
            // address.
            unsafe { <$type>::write(address, $value) }
        };
    }
    match (code, scalar) {
        (TypeCode::Bool, Scalar::Bool(truth)) => put!(bool, truth),
        (TypeCode::Int8, Scalar::Integer(whole)) => put!(i8, whole as i8),
        (TypeCode::Int16, Scalar::Integer(whole)) => put!(i16, whole as i16),
        (TypeCode::Int32, Scalar::Integer(whole)) => put!(i32, whole as i32),
        (TypeCode::Int64, Scalar::Integer(whole)) => put!(i64, whole as i64),
        (TypeCode::UInt8, Scalar::Integer(whole)) => put!(u8, whole as u8),
        (TypeCode::UInt16, Scalar::Integer(whole)) => put!(u16, whole as u16),
        (TypeCode::UInt32, Scalar::Integer(whole)) => put!(u32, whole as u32),
        (TypeCode::UInt64, Scalar::Integer(whole)) => put!(u64, whole as u64),
        (TypeCode::Float16, Scalar::Float(number)) => put!(f16, f16::from_f64(number)),
        (TypeCode::Float32, Scalar::Float(number)) => put!(f32, number as f32),
        (TypeCode::Float64, Scalar::Float(number)) => put!(f64, number),
        (TypeCode::Complex64, Scalar::Complex(re, im)) => {
            put!(Complex<f32>, Complex::new(re as f32, im as f32))
        }
        (TypeCode::Complex128, Scalar::Complex(re, im)) => put!(Complex<f64>, Complex::new(re, im)),
        _ => {} // `convert` makes no other pair
    }
}

impl Scalar {
    /// Returns the Ruby object. It raises only when memory is exhausted, and then there is nothing
    /// to drop here.
    ///
    /// # Safety
    /// This thread must be a Ruby thread that holds Ruby's lock.
    #[inline(always)]
    pub(crate) unsafe fn to_raw(self) -> VALUE {
        match self {
            Self::Bool(truth) => (if truth { Qtrue } else { Qfalse }) as VALUE,
            // SAFETY: the caller guarantees that this thread holds Ruby's lock, which is all that
            // `integer` needs.
            Self::Integer(whole) => unsafe { integer(whole) },
            // SAFETY: the caller guarantees that this thread holds Ruby's lock; any float can be
            // converted.
            Self::Float(number) => unsafe { rb_float_new(number) },
            // SAFETY: the caller guarantees that this thread holds Ruby's lock; any two floats can
            // be converted.
            Self::Complex(re, im) => unsafe { rb_dbl_complex_new(re, im) },
        }
    }

    /// Returns the scalar of an object that has its value in its own bits, for an element of that
    /// dtype. It calls and raises nothing. `None` means that [`convert`] must look.
    #[inline]
    pub(crate) fn immediate(code: TypeCode, value: VALUE) -> Option<Self> {
        if FIXNUM_P(value) {
            // SAFETY: `FIXNUM_P` checked in the line above that the value is a Fixnum.
            let whole = unsafe { FIX2LONG(value) };
            return match integer_range(code) {
                Some((least, most)) => Some(Self::Integer(whole.into()))
                    .filter(|_| (least..=most).contains(&whole.into())),
                None => float(code, whole as f64),
            };
        }
        if FLONUM_P(value) {
            // SAFETY: `FLONUM_P` checked in the line above that the value is a Flonum.
            return float(code, unsafe { rb_float_value(value) });
        }
        let truth = [Qtrue, Qfalse].iter().position(|&truth| value == truth as VALUE)?;
        Some(Self::Bool(truth == 0)).filter(|_| code == TypeCode::Bool)
    }
}

fn float(code: TypeCode, number: f64) -> Option<Scalar> {
    match code {
        TypeCode::Float16 | TypeCode::Float32 | TypeCode::Float64 => Some(Scalar::Float(number)),
        TypeCode::Complex64 | TypeCode::Complex128 => Some(Scalar::Complex(number, 0.0)),
        _ => None,
    }
}

/// # Safety
/// This thread must be a Ruby thread that holds Ruby's lock.
#[inline(always)]
unsafe fn integer(whole: i128) -> VALUE {
    match i64::try_from(whole) {
        // SAFETY: `FIXABLE` has just checked that the number fits a Fixnum.
        Ok(narrow) if FIXABLE(narrow) => unsafe { LONG2FIX(narrow) },
        // SAFETY: the caller guarantees that this thread holds Ruby's lock; any `i64` can be
        // converted.
        Ok(narrow) => unsafe { rb_ll2inum(narrow) },
        // SAFETY: the caller guarantees that this thread holds Ruby's lock; a number beyond `i64`
        // is a `u64`, the only other type that [`load`] reads.
        Err(_) => unsafe { rb_ull2inum(whole as u64) },
    }
}

/// Returns the Ruby object of the element at an address. For a dtype outside the table this is a
/// binary String of its bytes. It raises only when memory is exhausted.
///
/// # Safety
/// The address must be readable for one element of that dtype, and this thread must be a Ruby
/// thread that holds Ruby's lock.
#[inline(always)]
pub(crate) unsafe fn read(code: TypeCode, itemsize: u64, address: *const u8) -> VALUE {
    // SAFETY: the caller guarantees that an element of this dtype can be read at the address.
    match unsafe { load(code, address) } {
        // SAFETY: the caller guarantees that this thread is Ruby's and holds Ruby's lock.
        Some(scalar) => unsafe { scalar.to_raw() },
        // SAFETY: the caller guarantees `itemsize` readable bytes and Ruby's lock; Ruby copies the
        // bytes.
        None => unsafe { rb_str_new(address.cast(), itemsize as i64) },
    }
}

/// Returns the least and the greatest value of an integer dtype.
#[inline]
fn integer_range(code: TypeCode) -> Option<(i128, i128)> {
    macro_rules! range {
        ($type:ty) => {
            Some((i128::from(<$type>::MIN), i128::from(<$type>::MAX)))
        };
    }
    match code {
        TypeCode::Int8 => range!(i8),
        TypeCode::Int16 => range!(i16),
        TypeCode::Int32 => range!(i32),
        TypeCode::Int64 => range!(i64),
        TypeCode::UInt8 => range!(u8),
        TypeCode::UInt16 => range!(u16),
        TypeCode::UInt32 => range!(u32),
        TypeCode::UInt64 => range!(u64),
        _ => None,
    }
}

/// Writes the value of a Ruby object. It may call the object's methods.
///
/// # Safety
/// The address must be writable for one element of that dtype.
pub(crate) unsafe fn write(
    ruby: &Ruby,
    dtype: &DType,
    address: *mut u8,
    value: Value,
) -> Result<(), Error> {
    if dtype.code() != TypeCode::Opaque {
        let scalar = match Scalar::immediate(dtype.code(), value.as_raw()) {
            Some(scalar) => scalar,
            None => convert(ruby, dtype, value)?,
        };
        // SAFETY: the caller guarantees a writable element of this dtype, for which the scalar was
        // made.
        unsafe { store(dtype.code(), address, scalar) };
        return Ok(());
    }
    for (at, byte) in opaque_bytes(ruby, dtype, value)?.into_iter().enumerate() {
        // SAFETY: the caller guarantees a writable element, and `opaque_bytes` checked that there
        // are exactly its bytes.
        unsafe { u8::write(address.wrapping_add(at), byte) };
    }
    Ok(())
}

/// Returns the bytes of an element with the value of a Ruby object.
pub(crate) fn to_bytes(ruby: &Ruby, dtype: &DType, value: Value) -> Result<Vec<u8>, Error> {
    if dtype.code() == TypeCode::Opaque {
        return opaque_bytes(ruby, dtype, value);
    }
    let scalar = convert(ruby, dtype, value)?;
    let mut bytes = vec![0; LARGEST_BYTES];
    // SAFETY: `bytes` has room for the largest element of the table, and this dtype is in the
    // table.
    unsafe { store(dtype.code(), bytes.as_mut_ptr(), scalar) };
    bytes.truncate(dtype.itemsize() as usize);
    Ok(bytes)
}

fn opaque_bytes(ruby: &Ruby, dtype: &DType, value: Value) -> Result<Vec<u8>, Error> {
    let itemsize = dtype.itemsize();
    let wrong = || {
        argument_error(ruby, format!("dtype {dtype}: an element is a String of {itemsize} bytes"))
    };
    let text = RString::from_value(value).ok_or_else(wrong)?;
    // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
    let bytes = unsafe { text.as_slice() };
    if bytes.len() as u64 == itemsize { Ok(bytes.to_vec()) } else { Err(wrong()) }
}

/// Returns the value of a Ruby object as an element of a dtype in the table. It may call the
/// object's methods.
pub(crate) fn convert(ruby: &Ruby, dtype: &DType, value: Value) -> Result<Scalar, Error> {
    match dtype.code() {
        TypeCode::Bool => truth(ruby, value).map(Scalar::Bool),
        TypeCode::Float16 | TypeCode::Float32 | TypeCode::Float64 => {
            Ok(Scalar::Float(Float::try_convert(value)?.to_f64()))
        }
        TypeCode::Complex64 | TypeCode::Complex128 => match RComplex::from_value(value) {
            Some(complex) => Ok(Scalar::Complex(complex.real::<f64>()?, complex.imag::<f64>()?)),
            None => Ok(Scalar::Complex(Float::try_convert(value)?.to_f64(), 0.0)),
        },
        _ => whole(ruby, dtype, value).map(Scalar::Integer),
    }
}

fn whole(ruby: &Ruby, dtype: &DType, value: Value) -> Result<i128, Error> {
    let (least, most) = integer_range(dtype.code()).unwrap_or_default();
    let wide = Integer::try_convert(value)?;
    let whole = wide.to_i64().map(i128::from).or_else(|_| wide.to_u64().map(i128::from));
    let outside = || {
        let text = format!("{value} does not fit {dtype}, which goes from {least} to {most}");
        Error::new(ruby.exception_range_error(), text)
    };
    whole.ok().filter(|whole| (least..=most).contains(whole)).ok_or_else(outside)
}

/// Converts `true`, `false`, and the numbers 1 and 0.
fn truth(ruby: &Ruby, value: Value) -> Result<bool, Error> {
    let number = Integer::from_value(value).and_then(|number| number.to_i64().ok());
    match (
        value.is_kind_of(ruby.class_true_class()),
        value.is_kind_of(ruby.class_false_class()),
        number,
    ) {
        (true, ..) | (.., Some(1)) => Ok(true),
        (_, true, _) | (.., Some(0)) => Ok(false),
        _ => Err(type_error(ruby, format!("{} is neither true nor false", value.inspect()))),
    }
}

/// Wraps an object as a magnus `Value`.
///
/// # Safety
/// It must be a Ruby object.
pub(crate) unsafe fn to_value(object: VALUE) -> Value {
    // SAFETY: the caller guarantees that this is a Ruby object, which is all that a `Value` needs.
    unsafe { Value::from_raw(object) }
}
