//! Converts one element to a Ruby object, and back.
//!
//! Elements are read and written through raw pointers, with one volatile access each, as in core:
//! other processes may write at the same time.
#![allow(unsafe_code)] // reads elements at addresses, and Ruby's objects without a wrapper

use magnus::rb_sys::{AsRawValue, FromRawValue};
use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, RComplex, RString, Ruby, TryConvert, Value};
use rb_sys::{
    FIX2LONG, FIXABLE, FIXNUM_P, FLONUM_P, LONG2FIX, Qfalse, Qtrue, VALUE, rb_dbl_complex_new,
    rb_float_new, rb_float_value, rb_ll2inum, rb_str_new, rb_ull2inum,
};
use shmarray::{DType, DTypeKind, Element, Number, TypeCode};

use crate::error::{argument_error, type_error};

/// The bytes of the largest element in the table.
pub(crate) const LARGEST_BYTES: usize = {
    let mut row = 0;
    let mut largest = 0;
    while row < DType::ALL.len() {
        let itemsize = DType::ALL[row].itemsize() as usize;
        largest = if itemsize > largest { itemsize } else { largest };
        row += 1;
    }
    largest
};

/// Returns the Ruby object of a number. It raises only when memory is exhausted, and then there is
/// nothing to drop here.
///
/// # Safety
/// This thread must be a Ruby thread that holds Ruby's lock.
#[inline(always)]
pub(crate) unsafe fn to_raw(number: Number) -> VALUE {
    match number {
        Number::Bool(truth) => (if truth { Qtrue } else { Qfalse }) as VALUE,
        // SAFETY: the caller guarantees that this thread holds Ruby's lock, which is all that
        // `integer` needs.
        Number::Integer(whole) => unsafe { integer(whole) },
        // SAFETY: the caller guarantees that this thread holds Ruby's lock; any float can be
        // converted.
        Number::Float(float) => unsafe { rb_float_new(float) },
        // SAFETY: the caller guarantees that this thread holds Ruby's lock; any two floats can be
        // converted.
        Number::Complex(re, im) => unsafe { rb_dbl_complex_new(re, im) },
    }
}

/// Returns the number of an object that has its value in its own bits, for an element of that
/// dtype. It calls and raises nothing. `None` means that [`convert`] must look.
#[inline]
pub(crate) fn immediate(code: TypeCode, value: VALUE) -> Option<Number> {
    if FIXNUM_P(value) {
        // SAFETY: `FIXNUM_P` checked in the line above that the value is a Fixnum.
        let whole = unsafe { FIX2LONG(value) };
        return match code.integer_range() {
            Some((least, most)) => Some(Number::Integer(whole.into()))
                .filter(|_| (least..=most).contains(&whole.into())),
            None => float(code, whole as f64),
        };
    }
    if FLONUM_P(value) {
        // SAFETY: `FLONUM_P` checked in the line above that the value is a Flonum.
        return float(code, unsafe { rb_float_value(value) });
    }
    let truth = [Qtrue, Qfalse].iter().position(|&truth| value == truth as VALUE)?;
    Some(Number::Bool(truth == 0)).filter(|_| code.kind() == Some(DTypeKind::Bool))
}

fn float(code: TypeCode, number: f64) -> Option<Number> {
    match code.kind()? {
        DTypeKind::Float => Some(Number::Float(number)),
        DTypeKind::Complex => Some(Number::Complex(number, 0.0)),
        _ => None,
    }
}

/// Writes an element: a number that [`convert`] or [`immediate`] made for that dtype.
///
/// # Safety
/// The address must be writable for one element of that dtype.
#[inline]
pub(crate) unsafe fn store(code: TypeCode, address: *mut u8, number: Number) {
    // SAFETY: the caller guarantees that an element of this dtype can be written at the address.
    let written = unsafe { number.write(code, address) };
    debug_assert!(written, "{number:?} was converted for {code:?}");
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
        // is a `u64`, the only other type in the table.
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
    match unsafe { Number::read(code, address) } {
        // SAFETY: the caller guarantees that this thread is Ruby's and holds Ruby's lock.
        Some(number) => unsafe { to_raw(number) },
        // SAFETY: the caller guarantees `itemsize` readable bytes and Ruby's lock; Ruby copies the
        // bytes.
        None => unsafe { rb_str_new(address.cast(), itemsize as i64) },
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
        let number = match immediate(dtype.code(), value.as_raw()) {
            Some(number) => number,
            None => convert(ruby, dtype, value)?,
        };
        // SAFETY: the caller guarantees a writable element of this dtype, for which the number was
        // made.
        unsafe { store(dtype.code(), address, number) };
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
    let number = convert(ruby, dtype, value)?;
    let mut bytes = vec![0; LARGEST_BYTES];
    // SAFETY: `bytes` has room for the largest element of the table, and this dtype is in the
    // table.
    unsafe { store(dtype.code(), bytes.as_mut_ptr(), number) };
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
pub(crate) fn convert(ruby: &Ruby, dtype: &DType, value: Value) -> Result<Number, Error> {
    match dtype.kind() {
        Some(DTypeKind::Bool) => truth(ruby, value).map(Number::Bool),
        Some(DTypeKind::Float) => Ok(Number::Float(Float::try_convert(value)?.to_f64())),
        Some(DTypeKind::Complex) => match RComplex::from_value(value) {
            Some(complex) => Ok(Number::Complex(complex.real::<f64>()?, complex.imag::<f64>()?)),
            None => Ok(Number::Complex(Float::try_convert(value)?.to_f64(), 0.0)),
        },
        _ => whole(ruby, dtype, value).map(Number::Integer),
    }
}

fn whole(ruby: &Ruby, dtype: &DType, value: Value) -> Result<i128, Error> {
    let (least, most) = dtype.code().integer_range().unwrap_or_default();
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
