//! `==`, and the digest for `eql?` and `hash`: compares elements by value in core's memory, without
//! Ruby objects for them.
#![allow(unsafe_code)] // reads elements at addresses

use magnus::{Error, Module, RClass, Ruby, Value, method};
use shmarray::{Array, DType, DTypeKind, Element, Number, Order};

use super::elements::Elements;
use super::object::{ArrayObject, array_of, bytes_of};
use crate::gvl::copying;

/// Defines the methods.
pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("==", method!(is_equal, 1))?;
    class.define_private_method("digest", method!(digest, 0))
}

fn is_equal(ruby: &Ruby, this: &ArrayObject, other: Value) -> Result<bool, Error> {
    let array = this.array(ruby)?;
    match array_of(ruby, other) {
        Some(other) => {
            let other = other?;
            Ok(copying(bytes_of(&array) as usize, || are_equal(&array, &other)))
        }
        None => Ok(false),
    }
}

/// Returns whether they have the same shape, and equal elements at the same positions.
fn are_equal(one: &Array, other: &Array) -> bool {
    let is_dense = |array: &Array| array.is_contiguous(Order::C);
    let elements = Elements::of(one);
    let others = Elements::of(other);
    if one.shape() != other.shape() {
        return false;
    }
    if one.dtype() == other.dtype() && is_equal_by_bytes(one.dtype()) {
        if is_dense(one) && is_dense(other) {
            // SAFETY: both arrays are contiguous in C order and of one shape and dtype, so both
            // have `bytes_of(one)` bytes.
            unsafe { are_bytes_equal(one.as_ptr(), other.as_ptr(), bytes_of(one)) }
        } else {
            let itemsize = one.dtype().itemsize();
            // SAFETY: `walk_with` passes addresses of elements, and both arrays have the same dtype
            // and itemsize.
            elements.walk_with(&others, &mut |left, right| unsafe {
                are_bytes_equal(left, right, itemsize)
            })
        }
    } else {
        let code = one.dtype().code();
        let other_code = other.dtype().code();
        elements.walk_with(&others, &mut |left, right| {
            // SAFETY: `walk_with` passes an address of an element of `one`, whose code this is.
            let left = unsafe { Number::read(code, left) };
            // SAFETY: `walk_with` passes an address of an element of `other`, whose code this is.
            let right = unsafe { Number::read(other_code, right) };
            left.zip(right).is_some_and(|(left, right)| are_numbers_equal(left, right))
        })
    }
}

/// Returns whether equal values have equal bytes. Floats have two zeros and many NaNs, and every
/// byte but 0 is true.
fn is_equal_by_bytes(dtype: &DType) -> bool {
    matches!(dtype.kind(), Some(DTypeKind::Signed | DTypeKind::Unsigned) | None)
}

/// # Safety
/// `count` bytes must be readable at both addresses.
unsafe fn are_bytes_equal(one: *const u8, other: *const u8, count: u64) -> bool {
    let count = count as usize;
    let word_bytes = size_of::<u64>();
    let words = count / word_bytes;
    let is_same = |at: usize| {
        // SAFETY: the caller guarantees `count` readable bytes, and this word ends within them.
        let left = unsafe { u64::read(one.wrapping_add(at * word_bytes)) };
        // SAFETY: the caller guarantees `count` readable bytes at the other address, too.
        left == unsafe { u64::read(other.wrapping_add(at * word_bytes)) }
    };
    let is_byte_same = |at: usize| {
        // SAFETY: the caller guarantees `count` readable bytes, and `at` is below `count`.
        let left = unsafe { u8::read(one.wrapping_add(at)) };
        // SAFETY: the caller guarantees `count` readable bytes at the other address, too.
        left == unsafe { u8::read(other.wrapping_add(at)) }
    };
    (0..words).all(is_same) && (words * word_bytes..count).all(is_byte_same)
}

/// Compares as Ruby's `==` compares the objects of these numbers.
fn are_numbers_equal(one: Number, other: Number) -> bool {
    use Number::{Bool, Complex, Float, Integer};
    match (one, other) {
        (Bool(one), Bool(other)) => one == other,
        (Integer(one), Integer(other)) => one == other,
        (Float(one), Float(other)) => one == other,
        (Complex(re, im), Complex(re_2, im_2)) => re == re_2 && im == im_2,
        (Integer(whole), Float(number)) | (Float(number), Integer(whole)) => {
            is_whole(number, whole)
        }
        (Complex(re, im), Float(number)) | (Float(number), Complex(re, im)) => {
            im == 0.0 && re == number
        }
        (Complex(re, im), Integer(whole)) | (Integer(whole), Complex(re, im)) => {
            im == 0.0 && is_whole(re, whole)
        }
        (Bool(_), _) | (_, Bool(_)) => false,
    }
}

/// Compares exactly, as Ruby does: no Integer is rounded for it.
fn is_whole(number: f64, whole: i128) -> bool {
    number.fract() == 0.0 && number.abs() < 1e30 && number as i128 == whole
}

/// Returns a hash of the elements, which is the same for arrays that are `eql?`.
fn digest(ruby: &Ruby, this: &ArrayObject) -> Result<u64, Error> {
    let array = this.array(ruby)?;
    Ok(copying(bytes_of(&array) as usize, || digest_of(&array)))
}

fn digest_of(array: &Array) -> u64 {
    let code = array.dtype().code();
    let itemsize = array.dtype().itemsize() as usize;
    let mut state = 0;
    Elements::of(array).walk(&mut |address| {
        // SAFETY: `walk` passes an address of an element of this array, whose code this is.
        state = match unsafe { Number::read(code, address) } {
            Some(number) => words(number).into_iter().fold(state, mix),
            None => (0..itemsize).fold(state, |state, at| {
                // SAFETY: `walk` passes an address of an element, which has `itemsize` bytes.
                let byte = unsafe { u8::read(address.wrapping_add(at)) };
                mix(state, byte.into())
            }),
        };
        true
    });
    state
}

/// Returns the words of a number to hash. Both zeros of a float have the same.
fn words(number: Number) -> [u64; 2] {
    match number {
        Number::Bool(truth) => [truth.into(), 0],
        Number::Integer(whole) => [whole as u64, 0],
        Number::Float(float) => [(float + 0.0).to_bits(), 0],
        Number::Complex(re, im) => [(re + 0.0).to_bits(), (im + 0.0).to_bits()],
    }
}

/// One step of FxHash. Ruby's own hash, with its secret seed, is applied to the result.
fn mix(state: u64, word: u64) -> u64 {
    (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}
