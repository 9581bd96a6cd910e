//! Ruby's `IO::Buffer`, in both directions: `Shmarray::Array#to_io_buffer`, and the buffers that
//! `wrap` takes.
//!
//! `lib/shmarray/io_buffer.rb` keeps the array alive as long as the buffer exists.
#![allow(unsafe_code)] // a C protocol

use std::ffi::{c_int, c_void};
use std::ptr;

use magnus::rb_sys::{AsRawValue, FromRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Module, RClass, Ruby, TypedData, Value, method};
use rb_sys::{VALUE, rb_io_buffer_get_bytes_for_reading};
use shmarray::Order;

use crate::array::{ArrayObject, Self_, bytes_of};
use crate::error::argument_error;

// Declared here because `rb_sys` takes an enum, which cannot hold a set of flags.
unsafe extern "C" {
    fn rb_io_buffer_new(base: *mut c_void, bytes: usize, flags: c_int) -> VALUE;
}

const EXTERNAL: c_int = 1;
const READONLY: c_int = 128;

/// Defines the private `Shmarray::Array#io_buffer`.
pub(crate) fn define(ruby: &Ruby) -> Result<(), Error> {
    ArrayObject::class(ruby).define_private_method("io_buffer", method!(io_buffer, 0))
}

/// Returns a buffer over the array's memory, which holds nothing, and an object that holds the
/// array.
fn io_buffer(ruby: &Ruby, this: Self_) -> Result<(Value, Value), Error> {
    let array = this.array(ruby)?;
    if !(array.is_contiguous(Order::C) || array.is_contiguous(Order::F)) {
        return Err(argument_error(
            ruby,
            "the array's elements do not lie side by side: to_bytes makes a copy where they do",
        ));
    }
    let flags =
        if array.is_readonly() || this.is_frozen() { EXTERNAL | READONLY } else { EXTERNAL };
    let bytes = bytes_of(&array) as usize; // fits, since it is mapped
    // SAFETY: the array maps `bytes` bytes there; the caller gives the buffer an object that holds
    // the array.
    let buffer = protect(|| unsafe { rb_io_buffer_new(array.as_ptr().cast(), bytes, flags) })?;
    // SAFETY: `protect` returned the object that Ruby made, so it is a valid Ruby object.
    Ok((unsafe { Value::from_raw(buffer) }, ArrayObject::frozen(ruby, &array).as_value()))
}

/// Returns the address and the length of a buffer's bytes; `None` for any other object.
pub(crate) fn bytes(ruby: &Ruby, object: Value) -> Result<Option<(*const u8, usize)>, Error> {
    let class = ruby.class_io().const_get::<_, RClass>("Buffer")?;
    if !object.is_kind_of(class) {
        return Ok(None);
    }
    let mut base = ptr::null();
    let mut bytes = 0;
    protect(|| {
        // SAFETY: `is_kind_of` checked above that this is a buffer, and both output addresses are
        // valid locals.
        unsafe {
            rb_io_buffer_get_bytes_for_reading(object.as_raw(), &raw mut base, &raw mut bytes)
        };
        object.as_raw()
    })?;
    Ok(Some((base.cast(), bytes as usize)))
}
