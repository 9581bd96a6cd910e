//! Loops over elements: `[]` and `[]=` with Integers, `each`, `map!`, `to_a`.
//!
//! Ruby leaves a block by jumps, which run no Rust destructors. So between Ruby and a block there
//! are only functions and closures of this file that have nothing to drop, and a Ruby object on the
//! stack holds the memory.
#![allow(unsafe_code)] // reads elements at addresses, and calls Ruby functions that jump

use std::ffi::{CStr, c_int};
use std::{ptr, slice};

use magnus::rb_sys::{AsRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Module, RClass, Ruby, TypedData, Value, method};
use rb_sys::{
    FIX2LONG, FIXNUM_P, Qfalse, Qnil, RTYPEDDATA_GET_DATA, RTYPEDDATA_P, RTYPEDDATA_TYPE, VALUE,
    rb_ary_cat, rb_ary_new_capa, rb_ary_push, rb_data_type_t, rb_enumeratorize_with_size,
    rb_id2sym, rb_intern, rb_obj_frozen_p, rb_ull2inum, rb_yield,
};
use shmarray::{Array, DType, Layout, Number, TypeCode};

use super::object::{ArrayObject, Self_};
use crate::element;
use crate::error::{OrRaise, argument_error};
use crate::slot_use::Held;

/// Defines the methods.
pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("[]", read as unsafe extern "C" fn(c_int, *const Value, Value) -> Value)?;
    class.define_method("each", method!(each, 0))?;
    class.define_method("map!", method!(map, 0))?;
    class.define_method("to_a", method!(to_a, 0))?;
    class.define_private_method("elements", method!(some, 2))
}

/// An array's elements in the form that loops need. It has nothing to drop.
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
            itemsize: dtype.itemsize(),
        }
    }

    /// Returns the element whose indices are all zero: the only one of an array without dimensions.
    pub(crate) fn first(&self) -> Value {
        // SAFETY: `value` returns a Ruby object, which is all that `to_value` needs.
        unsafe { element::to_value(self.value(self.start)) }
    }

    /// Returns the Ruby object of one of the elements. It jumps only when memory is exhausted.
    #[inline(always)]
    fn value(&self, address: *mut u8) -> VALUE {
        // SAFETY: the callers pass addresses of this array's elements, and run in methods that Ruby
        // called with its lock.
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

    /// Does the same for the elements of two arrays of one shape.
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

    /// Returns the address of the element at an index, if the index has only Fixnums and is in
    /// bounds.
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
            // SAFETY: `FIXNUM_P` has just checked that this value is a Fixnum.
            let at = unsafe { FIX2LONG(at) };
            let at = if at < 0 { at.wrapping_add(count as i64) } else { at };
            if at as u64 >= count {
                return None;
            }
            address = address.wrapping_offset(at.wrapping_mul(stride) as isize);
        }
        Some(address)
    }

    /// Returns the address of the element at a position in C order.
    fn nth(&self, mut position: u64) -> *mut u8 {
        let mut address = self.start;
        for (&count, &stride) in self.layout.shape.iter().zip(&self.layout.strides).rev() {
            address = address.wrapping_offset((position % count) as isize * stride as isize);
            position /= count;
        }
        address
    }

    /// Returns the elements from an address on in Ruby Arrays, nested by dimension. It jumps only
    /// when memory is exhausted.
    fn nested(&self, dim: usize, mut address: *mut u8) -> VALUE {
        let Some((count, stride)) = self.dimension(dim) else { return self.value(address) };
        // SAFETY: Ruby called the method, with its lock. If there is no memory it jumps, and
        // nothing here is to be dropped.
        let rows = unsafe { rb_ary_new_capa(count as i64) };
        if dim + 1 == self.layout.shape.len() {
            self.push_all(rows, count, stride, address);
            return rows;
        }
        for _ in 0..count {
            // SAFETY: `rb_ary_new_capa` made `rows` just now, and `nested` returns a Ruby object.
            unsafe { rb_ary_push(rows, self.nested(dim + 1, address)) };
            address = address.wrapping_offset(stride);
        }
        rows
    }

    /// Pushes a few elements at a time: the collector looks for objects on the stack.
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
            // SAFETY: `rows` is an Array, and the first `now` entries of `few` are Ruby objects.
            unsafe { rb_ary_cat(rows, few.as_ptr(), now as i64) };
            left -= now;
        }
    }
}

/// Returns the object that a method was called on, if it is of this library's type.
#[inline(always)]
fn object<'a>(this: Value) -> Option<&'a ArrayObject> {
    let this = this.as_raw();
    let ours = ptr::from_ref(ArrayObject::data_type()).cast::<rb_data_type_t>();
    // SAFETY: `this` is the receiver of a method, so it is a valid Ruby object.
    if !unsafe { RTYPEDDATA_P(this) } {
        return None;
    }
    // SAFETY: `RTYPEDDATA_P` has just checked that the object is typed data.
    let data = unsafe { RTYPEDDATA_GET_DATA(this) }.cast::<ArrayObject>();
    // SAFETY: `RTYPEDDATA_P` has just checked that the object is typed data.
    let is_ours = ptr::eq(unsafe { RTYPEDDATA_TYPE(this) }, ours);
    // SAFETY: magnus keeps a box of an `ArrayObject` under that data type, and the receiver on the
    // stack of Ruby's caller keeps it alive.
    is_ours.then(|| unsafe { &*data })
}

/// Runs `array[…]`. If Integers select an element that exists, it is read at once;
/// [`ArrayObject::get`] does the rest.
unsafe extern "C" fn read(count: c_int, index: *const Value, this: Value) -> Value {
    let arguments = match count {
        0 => &[],
        // SAFETY: Ruby passes `count` arguments; a `Value` has the representation of a `VALUE`.
        _ => unsafe { slice::from_raw_parts(index.cast::<VALUE>(), count as usize) },
    };
    let Some(number) = object(this).and_then(|object| read_number(object, arguments)) else {
        // SAFETY: the arguments are passed on as Ruby gave them to this function of the same type.
        return unsafe { method!(ArrayObject::get, -1)(count, index, this) };
    };
    // SAFETY: Ruby called this function, so this is a Ruby thread that holds the lock.
    let found = unsafe { element::to_raw(number) };
    // SAFETY: `to_raw` returned an object that Ruby made, which is all that `to_value` needs.
    unsafe { element::to_value(found) }
}

#[inline(always)]
fn read_number(object: &ArrayObject, index: &[VALUE]) -> Option<Number> {
    object.0.with(|open| {
        let elements = Elements::of(&open?.array);
        // SAFETY: `address` returns only addresses of elements of this array, whose code this is.
        unsafe { Number::read(elements.code, elements.address(index)?) }
    })
}

/// Writes an element, if index and value have all that is needed in their own bits. Returns whether
/// it did.
#[inline(always)]
pub(crate) fn write_number(this: Value, index: &[Value], value: Value) -> bool {
    // SAFETY: a `Value` has the representation of a `VALUE`, so the slice has as many of them.
    let index = unsafe { slice::from_raw_parts(index.as_ptr().cast::<VALUE>(), index.len()) };
    // SAFETY: `this` is the receiver of a method, so it is a valid Ruby object.
    let is_frozen = unsafe { rb_obj_frozen_p(this.as_raw()) } != Qfalse as VALUE;
    let Some(object) = object(this).filter(|_| !is_frozen) else { return false };
    let written = object.0.with(|open| {
        let array = &open?.array;
        let elements = Elements::of(array);
        let number =
            element::immediate(elements.code, value.as_raw()).filter(|_| !array.is_readonly())?;
        let address = elements.address(index)?;
        // SAFETY: `address` returns only addresses of elements of this dtype, and the array was
        // checked not to be read-only.
        unsafe { element::store(elements.code, address, number) };
        Some(())
    });
    written.is_some()
}

/// Yields every element, in C order.
fn each(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    if !ruby.block_given() {
        return enumerator(this, c"each");
    }
    let holder = ArrayObject::frozen(ruby, &array);
    let elements = Elements::of(lent(array));
    let run = protect(|| {
        elements.walk(&mut |address| {
            // SAFETY: `block_given` was true above; if the block jumps, nothing here is to be
            // dropped.
            unsafe { rb_yield(elements.value(address)) };
            true
        });
        Qnil.into()
    });
    holder.let_go();
    run.map(|_| this.as_value())
}

/// Returns a reference to an array that a Ruby object on the caller's stack holds.
fn lent<'a>(array: Held) -> &'a Array {
    // SAFETY: the callers made an object with `ArrayObject::frozen`, which stays on their stack
    // and has the array until they call `let_go`.
    unsafe { &*ptr::from_ref::<Array>(&*array) }
}

/// Replaces every element by what the block returns for it.
fn map(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    if !ruby.block_given() {
        return enumerator(this, c"map!");
    }
    check_writable(ruby, this, &array)?;
    let holder = ArrayObject::frozen(ruby, &array);
    let array = lent(array);
    let elements = Elements::of(array);
    let mut failed = None;
    let run = protect(|| {
        elements.walk(&mut |address| {
            // SAFETY: `block_given` was true above; if the block jumps, `failed` is still empty,
            // and nothing else here is to be dropped.
            let made = unsafe { rb_yield(elements.value(address)) };
            // SAFETY: `rb_yield` returned a Ruby object; `walk` passes an element's address, and
            // `check_writable` allowed writing.
            failed = unsafe { write_raw(ruby, array.dtype(), address, made) }.err();
            failed.is_none()
        });
        Qnil.into()
    });
    holder.let_go();
    run.and_then(|_| failed.map_or(Ok(this.as_value()), Err))
}

/// # Safety
/// As for [`element::write`]; and `made` must be a Ruby object.
unsafe fn write_raw(
    ruby: &Ruby,
    dtype: &DType,
    address: *mut u8,
    made: VALUE,
) -> Result<(), Error> {
    // SAFETY: the caller guarantees that `made` is a Ruby object.
    let made = unsafe { element::to_value(made) };
    // SAFETY: the caller guarantees that an element of this dtype can be written at the address.
    unsafe { element::write(ruby, dtype, address, made) }
}

/// Refuses to write to a frozen or read-only array.
pub(crate) fn check_writable(ruby: &Ruby, this: Self_, array: &Array) -> Result<(), Error> {
    this.check_frozen()?;
    if array.is_readonly() { Err(shmarray::Error::ReadOnly).or_raise(ruby) } else { Ok(()) }
}

/// Returns all elements, nested by dimension; without dimensions the element itself.
fn to_a(ruby: &Ruby, this: &ArrayObject) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    let elements = Elements::of(&array);
    let made = protect(|| elements.nested(0, elements.start))?;
    // SAFETY: `protect` returned the object that Ruby made, which is all that `to_value` needs.
    Ok(unsafe { element::to_value(made) })
}

/// Returns `count` elements from a position in C order on.
fn some(ruby: &Ruby, this: &ArrayObject, first: u64, count: u64) -> Result<Value, Error> {
    let array = this.array(ruby)?;
    let elements = Elements::of(&array);
    let end = first.checked_add(count).filter(|&end| end <= array.layout().len());
    let end = end.ok_or_else(|| {
        argument_error(ruby, format!("there are no {count} elements from {first} on"))
    })?;
    let made = protect(|| {
        // SAFETY: Ruby called the method, with its lock. If there is no memory it jumps to
        // `protect`, and the caller drops its own values.
        let row = unsafe { rb_ary_new_capa(count as i64) };
        for position in first..end {
            // SAFETY: `rb_ary_new_capa` made `row` just now; `end` was checked against the array's
            // length, so `nth` gives an element.
            unsafe { rb_ary_push(row, elements.value(elements.nth(position))) };
        }
        row
    })?;
    // SAFETY: `protect` returned the object that Ruby made, which is all that `to_value` needs.
    Ok(unsafe { element::to_value(made) })
}

/// Returns an Enumerator that knows its size.
fn enumerator(this: Self_, name: &CStr) -> Result<Value, Error> {
    let made = protect(|| {
        // SAFETY: a `CStr` ends with a zero byte, and Ruby copies the text.
        let id = unsafe { rb_intern(name.as_ptr()) };
        // SAFETY: `rb_intern` returned this id just now, so it names a symbol.
        let name = unsafe { rb_id2sym(id) };
        // SAFETY: it gets the receiver, a Symbol, no arguments (so a null pointer is allowed), and
        // a function of the type that Ruby calls.
        unsafe {
            rb_enumeratorize_with_size(this.as_raw(), name, 0, ptr::null(), Some(enumerator_size))
        }
    })?;
    // SAFETY: `protect` returned the object that Ruby made, which is all that `to_value` needs.
    Ok(unsafe { element::to_value(made) })
}

unsafe extern "C" fn enumerator_size(this: VALUE, _arguments: VALUE, _enumerator: VALUE) -> VALUE {
    // SAFETY: Ruby passes the receiver of the Enumerator, which is a valid Ruby object.
    let object = object(unsafe { element::to_value(this) });
    match object.and_then(|object| object.0.with(|open| Some(open?.array.layout().len()))) {
        // SAFETY: Ruby called this function, so this thread holds the lock that making an Integer
        // needs.
        Some(count) => unsafe { rb_ull2inum(count) },
        None => Qnil.into(),
    }
}
