//! Going through elements: `[]` and `[]=` with Integers, `each`, `map!`, `to_a`.
//!
//! Blocks are left by jumps, which run no Rust destructors: so what runs between Ruby and a block
//! of its own here is functions and closures without any, and what keeps the memory is a Ruby
//! object on the stack.
#![allow(unsafe_code)] // elements at addresses, and calls of Ruby's that jump

use std::ffi::{CStr, c_int};
use std::hint::black_box;
use std::{ptr, slice};

use magnus::rb_sys::{AsRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Module, RClass, Ruby, TypedData, Value, method};
use rb_sys::{
    FIX2LONG, FIXNUM_P, Qfalse, Qnil, RTYPEDDATA_GET_DATA, RTYPEDDATA_P, RTYPEDDATA_TYPE, VALUE,
    rb_ary_cat, rb_ary_new_capa, rb_ary_push, rb_data_type_t, rb_enumeratorize_with_size,
    rb_id2sym, rb_intern, rb_obj_frozen_p, rb_ull2inum, rb_yield,
};
use shmarray::{Array, DType, Layout, TypeCode};

use super::{ArrayObject, Self_};
use crate::element::{self, Scalar};
use crate::error::{OrRaise, argument_error};

/// Defines the methods.
pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("[]", read as unsafe extern "C" fn(c_int, *const Value, Value) -> Value)?;
    class.define_method("each", method!(each, 0))?;
    class.define_method("map!", method!(map, 0))?;
    class.define_method("to_a", method!(to_a, 0))?;
    class.define_private_method("elements", method!(some, 2))
}

/// An array's elements, as loops need them: nothing to be dropped.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a> {
    start: *mut u8,
    layout: &'a Layout,
    code: TypeCode,
    itemsize: u64,
}

impl<'a> Elements<'a> {
    #[inline]
    pub(crate) fn of(array: &'a Array) -> Self {
        let dtype = array.dtype();
        Self {
            start: array.as_ptr(),
            layout: array.layout(),
            code: dtype.code(),
            itemsize: dtype.item_bytes(),
        }
    }

    /// The element whose indices are all zero: the only one of an array without dimensions.
    pub(crate) fn first(&self) -> Value {
        // SAFETY: `value` gives an object.
        unsafe { element::to_value(self.value(self.start)) }
    }

    /// The Ruby object of one of the elements; jumps only where there is no memory.
    #[inline(always)]
    fn value(&self, address: *mut u8) -> VALUE {
        // SAFETY: the callers pass addresses of elements, and have Ruby's lock.
        unsafe { element::read(self.code, self.itemsize, address) }
    }

    /// Calls a closure with the addresses of the elements in C order, until it returns false.
    pub(crate) fn walk<F: FnMut(*mut u8) -> bool>(&self, act: &mut F) -> bool {
        self.layout.is_empty() || self.walk_from(0, self.start, act)
    }

    fn walk_from<F: FnMut(*mut u8) -> bool>(
        &self,
        dim: usize,
        mut address: *mut u8,
        act: &mut F,
    ) -> bool {
        let Some((count, stride)) = self.dimension(dim) else { return act(address) };
        let is_last = dim + 1 == self.layout.shape.len();
        for _ in 0..count {
            let goes_on =
                if is_last { act(address) } else { self.walk_from(dim + 1, address, act) };
            if !goes_on {
                return false;
            }
            address = address.wrapping_offset(stride);
        }
        true
    }

    /// The same for the elements of two arrays of one shape.
    pub(crate) fn walk_with<F: FnMut(*mut u8, *mut u8) -> bool>(
        &self,
        other: &Self,
        act: &mut F,
    ) -> bool {
        self.layout.is_empty() || self.walk_both(other, 0, (self.start, other.start), act)
    }

    fn walk_both<F>(
        &self,
        other: &Self,
        dim: usize,
        mut at: (*mut u8, *mut u8),
        act: &mut F,
    ) -> bool
    where
        F: FnMut(*mut u8, *mut u8) -> bool,
    {
        let (Some((count, stride)), Some((_, others))) =
            (self.dimension(dim), other.dimension(dim))
        else {
            return act(at.0, at.1);
        };
        for _ in 0..count {
            if !self.walk_both(other, dim + 1, at, act) {
                return false;
            }
            at = (at.0.wrapping_offset(stride), at.1.wrapping_offset(others));
        }
        true
    }

    fn dimension(&self, dim: usize) -> Option<(u64, isize)> {
        Some((*self.layout.shape.get(dim)?, *self.layout.strides.get(dim)? as isize))
    }

    /// The element of an index that is there, if Integers say it.
    #[inline(always)]
    fn address(&self, index: &[VALUE]) -> Option<*mut u8> {
        if index.len() != self.layout.shape.len() {
            return None;
        }
        let mut address = self.start;
        for ((&at, &count), &stride) in
            index.iter().zip(&self.layout.shape).zip(&self.layout.strides)
        {
            if !FIXNUM_P(at) {
                return None;
            }
            // SAFETY: it is one.
            let at = unsafe { FIX2LONG(at) };
            let at = if at < 0 { at.wrapping_add(count as i64) } else { at };
            if at as u64 >= count {
                return None;
            }
            address = address.wrapping_offset(at.wrapping_mul(stride) as isize);
        }
        Some(address)
    }

    /// The element at a position in C order.
    fn nth(&self, mut position: u64) -> *mut u8 {
        let mut address = self.start;
        for (&count, &stride) in self.layout.shape.iter().zip(&self.layout.strides).rev() {
            address = address.wrapping_offset((position % count) as isize * stride as isize);
            position /= count;
        }
        address
    }

    /// The elements from an address on, in Ruby's Arrays by dimension. It jumps only where there is no
    /// memory.
    fn nested(&self, dim: usize, mut address: *mut u8) -> VALUE {
        let Some((count, stride)) = self.dimension(dim) else { return self.value(address) };
        // SAFETY: jumps where there is no memory; nothing is to be dropped here.
        let rows = unsafe { rb_ary_new_capa(count as i64) };
        if dim + 1 == self.layout.shape.len() {
            self.push_all(rows, count, stride, address);
            return rows;
        }
        for _ in 0..count {
            // SAFETY: an Array, and an object.
            unsafe { rb_ary_push(rows, self.nested(dim + 1, address)) };
            address = address.wrapping_offset(stride);
        }
        rows
    }

    /// A few at a time: the collector looks for objects on the stack.
    fn push_all(&self, rows: VALUE, count: u64, stride: isize, mut address: *mut u8) {
        const FEW: usize = 32;
        let mut few = [Qnil as VALUE; FEW];
        let mut left = count as usize;
        while left > 0 {
            let now = left.min(FEW);
            for entry in &mut few[..now] {
                *entry = self.value(address);
                address = address.wrapping_offset(stride);
            }
            // SAFETY: an Array, and so many objects.
            unsafe { rb_ary_cat(rows, few.as_ptr(), now as i64) };
            left -= now;
        }
    }
}

/// The object that a method was called on, if it is one of ours.
#[inline(always)]
fn object<'a>(this: Value) -> Option<&'a ArrayObject> {
    let (this, ours) =
        (this.as_raw(), ptr::from_ref(ArrayObject::data_type()).cast::<rb_data_type_t>());
    // SAFETY: an object.
    if !unsafe { RTYPEDDATA_P(this) } {
        return None;
    }
    // SAFETY: typed data.
    let data = unsafe { RTYPEDDATA_GET_DATA(this) }.cast::<ArrayObject>();
    // SAFETY: typed data.
    let is_ours = ptr::eq(unsafe { RTYPEDDATA_TYPE(this) }, ours);
    // SAFETY: magnus keeps a box of an `ArrayObject` under that type; Ruby's caller has the object
    // on its stack.
    is_ours.then(|| unsafe { &*data })
}

/// `array[…]`. Integers for an element that is there are read at once; the rest is
/// [`ArrayObject::get`]'s.
unsafe extern "C" fn read(count: c_int, index: *const Value, this: Value) -> Value {
    let given = match count {
        0 => &[],
        // SAFETY: Ruby passes so many; magnus's `Value` is one of Ruby's.
        _ => unsafe { slice::from_raw_parts(index.cast::<VALUE>(), count as usize) },
    };
    let Some(scalar) = object(this).and_then(|object| read_scalar(object, given)) else {
        // SAFETY: what Ruby passed.
        return unsafe { method!(ArrayObject::get, -1)(count, index, this) };
    };
    // SAFETY: Ruby called this.
    let found = unsafe { scalar.to_raw() };
    // SAFETY: an object that Ruby made.
    unsafe { element::to_value(found) }
}

#[inline(always)]
fn read_scalar(object: &ArrayObject, index: &[VALUE]) -> Option<Scalar> {
    object.0.look(|open| {
        let elements = Elements::of(&open?.array);
        // SAFETY: the address of an element of that dtype.
        unsafe { element::load(elements.code, elements.address(index)?) }
    })
}

/// Writes an element, if that takes no more than its own bits from the index and the value.
#[inline(always)]
pub(crate) fn write_scalar(this: Value, index: &[Value], value: Value) -> bool {
    // SAFETY: magnus's `Value` is one of Ruby's.
    let index = unsafe { slice::from_raw_parts(index.as_ptr().cast::<VALUE>(), index.len()) };
    // SAFETY: an object.
    let is_frozen = unsafe { rb_obj_frozen_p(this.as_raw()) } != Qfalse as VALUE;
    let Some(object) = object(this).filter(|_| !is_frozen) else { return false };
    let written = object.0.look(|open| {
        let array = &open?.array;
        let elements = Elements::of(array);
        let scalar =
            Scalar::immediate(elements.code, value.as_raw()).filter(|_| !array.is_readonly())?;
        let address = elements.address(index)?;
        // SAFETY: the address of an element of that dtype, in memory that can be written.
        unsafe { element::store(elements.code, address, scalar) };
        Some(())
    });
    written.is_some()
}

/// Every element, in C order.
fn each(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    if !ruby.block_given() {
        return enumerator(this, c"each");
    }
    let kept = ArrayObject::kept(ruby, &array);
    let elements = Elements::of(lent(array));
    let run = protect(|| {
        elements.walk(&mut |address| {
            // SAFETY: there is a block; where it jumps, nothing is to be dropped.
            unsafe { rb_yield(elements.value(address)) };
            true
        });
        Qnil.into()
    });
    black_box(kept);
    run.map(|_| this.as_value())
}

/// A reference to an array that an object of Ruby's on the caller's stack keeps.
fn lent<'a>(array: std::sync::Arc<Array>) -> &'a Array {
    // SAFETY: the callers have a `kept` of it, which is there until they return.
    unsafe { &*std::sync::Arc::as_ptr(&array) }
}

/// Every element becomes what the block makes of it.
fn map(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    if !ruby.block_given() {
        return enumerator(this, c"map!");
    }
    check_writable(ruby, this, &array)?;
    let kept = ArrayObject::kept(ruby, &array);
    let array = lent(array);
    let (elements, mut failed) = (Elements::of(array), None);
    let run = protect(|| {
        elements.walk(&mut |address| {
            // SAFETY: there is a block; where it jumps, `failed` is still empty, and nothing else
            // is to be dropped.
            let made = unsafe { rb_yield(elements.value(address)) };
            // SAFETY: an object, and an element in memory that can be written.
            failed = unsafe { write_raw(ruby, array.dtype(), address, made) }.err();
            failed.is_none()
        });
        Qnil.into()
    });
    black_box(kept);
    run.and_then(|_| failed.map_or(Ok(this.as_value()), Err))
}

/// # Safety
/// As [`element::write`], and an object of Ruby's.
unsafe fn write_raw(
    ruby: &Ruby,
    dtype: &DType,
    address: *mut u8,
    made: VALUE,
) -> Result<(), Error> {
    // SAFETY: the caller's.
    let made = unsafe { element::to_value(made) };
    // SAFETY: the caller's.
    unsafe { element::write(ruby, dtype, address, made) }
}

/// Refuses writes to what is frozen or read-only.
pub(crate) fn check_writable(ruby: &Ruby, this: Self_, array: &Array) -> Result<(), Error> {
    this.check_frozen()?;
    match array.is_readonly() {
        true => Err(shmarray::Error::ReadOnly).or_raise(ruby),
        false => Ok(()),
    }
}

/// All elements, nested by dimension; the element itself without dimensions.
fn to_a(ruby: &Ruby, this: &ArrayObject) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    let elements = Elements::of(&array);
    let made = protect(|| elements.nested(0, elements.start))?;
    // SAFETY: an object that Ruby made.
    Ok(unsafe { element::to_value(made) })
}

/// So many elements from a position in C order on.
fn some(ruby: &Ruby, this: &ArrayObject, first: u64, count: u64) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    let elements = Elements::of(&array);
    let end = first.checked_add(count).filter(|&end| end <= array.layout().len());
    let end = end.ok_or_else(|| {
        argument_error(ruby, format!("there are no {count} elements from {first} on"))
    })?;
    let made = protect(|| {
        // SAFETY: jumps where there is no memory; what is dropped then is the caller's.
        let row = unsafe { rb_ary_new_capa(count as i64) };
        for position in first..end {
            // SAFETY: an Array, and an object.
            unsafe { rb_ary_push(row, elements.value(elements.nth(position))) };
        }
        row
    })?;
    // SAFETY: an object that Ruby made.
    Ok(unsafe { element::to_value(made) })
}

/// An Enumerator that knows how many elements there are.
fn enumerator(this: Self_, name: &CStr) -> Result<Value, Error> {
    let made = protect(|| {
        // SAFETY: a C string.
        let id = unsafe { rb_intern(name.as_ptr()) };
        // SAFETY: the id of a name.
        let name = unsafe { rb_id2sym(id) };
        // SAFETY: an object, a Symbol, no arguments, and a function of that type.
        unsafe {
            rb_enumeratorize_with_size(this.as_raw(), name, 0, ptr::null(), Some(enumerator_size))
        }
    })?;
    // SAFETY: an object that Ruby made.
    Ok(unsafe { element::to_value(made) })
}

unsafe extern "C" fn enumerator_size(this: VALUE, _arguments: VALUE, _enumerator: VALUE) -> VALUE {
    // SAFETY: Ruby passes the object that the Enumerator is of.
    let object = object(unsafe { element::to_value(this) });
    match object.and_then(|object| object.0.look(|open| Some(open?.array.layout().len()))) {
        // SAFETY: Ruby called this.
        Some(count) => unsafe { rb_ull2inum(count) },
        None => Qnil.into(),
    }
}
