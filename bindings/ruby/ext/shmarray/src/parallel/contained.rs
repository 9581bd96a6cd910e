//! Finds whether an object contains arrays that a message would carry by handle. `Numo::Parallel`
//! asks this about each job's result.
//!
//! Most results contain none, and then Marshal's bytes are the whole message. The search takes some
//! nanoseconds for each element, calls no Ruby method and allocates no Ruby object.
#![allow(unsafe_code)] // reads Ruby's Arrays, Hashes and Structs directly

use std::ffi::{c_int, c_long};

use magnus::rb_sys::{AsRawValue, FromRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Object, RModule, Ruby, TypedData, Value, function};
use rb_sys::{
    Qnil, RARRAY_CONST_PTR, RARRAY_LEN, RB_BUILTIN_TYPE, RBasic, SPECIAL_CONST_P, VALUE,
    rb_hash_foreach, rb_int2inum, rb_num2long, rb_obj_class, rb_struct_aref, rb_struct_size,
    ruby_value_type, st_retval,
};

use rustc_hash::FxHashSet;

use crate::array::ArrayObject;
use crate::numo_shared;

/// Defines the private `Shmarray.arrays_in?` and `Shmarray.extended?`.
pub(super) fn define(shmarray: RModule) -> Result<(), Error> {
    shmarray.define_singleton_method("extended?", function!(is_extended, 1))?;
    shmarray.define_singleton_method("arrays_in?", function!(has_arrays, 1))
}

/// Returns whether the object is a `Shmarray::Array` or a Numo array, or contains one within
/// Arrays, Hashes and Structs.
fn has_arrays(ruby: &Ruby, object: Value) -> Result<bool, Error> {
    let mut walk = Walk { waiting: Vec::new(), seen: FxHashSet::default(), found: false, ruby };
    walk.visit(object.as_raw());
    while let Some(container) = walk.waiting.pop().filter(|_| !walk.found) {
        if walk.seen.insert(container) {
            protect(|| {
                walk.visit_members(container);
                Qnil.into()
            })?;
        }
    }
    Ok(walk.found)
}

struct Walk<'a> {
    /// Containers that were not searched yet. Their own containers keep them alive: no code runs
    /// that could change these.
    waiting: Vec<VALUE>,
    seen: FxHashSet<VALUE>,
    found: bool,
    ruby: &'a Ruby,
}

impl Walk<'_> {
    fn visit(&mut self, object: VALUE) {
        if SPECIAL_CONST_P(object) {
            return;
        }
        // SAFETY: `SPECIAL_CONST_P` was false above, so `object` is a heap object, which has a
        // built-in type.
        match unsafe { RB_BUILTIN_TYPE(object) } {
            ruby_value_type::RUBY_T_ARRAY
            | ruby_value_type::RUBY_T_HASH
            | ruby_value_type::RUBY_T_STRUCT => {
                self.waiting.push(object);
            }
            ruby_value_type::RUBY_T_DATA => {
                // SAFETY: `object` is a heap object, and the container in which it was found, or
                // the caller's stack, keeps it alive.
                let value = unsafe { Value::from_raw(object) };
                self.found |= is_array(self.ruby, value);
            }
            _ => {}
        }
    }

    fn visit_members(&mut self, container: VALUE) {
        // SAFETY: `visit` puts only Arrays, Hashes and Structs into `waiting`, which are heap
        // objects.
        match unsafe { RB_BUILTIN_TYPE(container) } {
            ruby_value_type::RUBY_T_ARRAY => {
                // SAFETY: its type is `RUBY_T_ARRAY`, and no Ruby code runs that could change the
                // Array.
                let count = unsafe { RARRAY_LEN(container) } as usize;
                // SAFETY: its type is `RUBY_T_ARRAY`, and no Ruby code runs that could move its
                // elements.
                let start = unsafe { RARRAY_CONST_PTR(container) };
                // SAFETY: `start` and `count` describe one Array, which nothing changes while the
                // slice is borrowed.
                let elements = unsafe { slice_of(start, count) };
                elements.iter().for_each(|&element| self.visit(element));
            }
            ruby_value_type::RUBY_T_HASH => {
                // SAFETY: the type is `RUBY_T_HASH`; the function takes a `Walk`, and `self` is
                // borrowed by nobody else during the call.
                unsafe {
                    rb_hash_foreach(container, Some(visit_pair), std::ptr::from_mut(self) as VALUE)
                };
            }
            _ => {
                // SAFETY: `visit` lets only three types wait, so this container is a Struct.
                let size = unsafe { rb_struct_size(container) };
                // SAFETY: `rb_struct_size` returns an Integer, and a Struct's size fits a C long.
                let count = unsafe { rb_num2long(size) };
                (0..count).for_each(|at| self.visit(member(container, at)));
            }
        }
    }
}

/// # Safety
/// As for `slice::from_raw_parts`, except that `start` may be anything if `count` is 0.
unsafe fn slice_of<'a>(start: *const VALUE, count: usize) -> &'a [VALUE] {
    match count {
        0 => &[],
        // SAFETY: the caller guarantees `count` values at `start`, which live as long as the slice.
        _ => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// Returns a member of a Struct.
fn member(of: VALUE, at: c_long) -> VALUE {
    // SAFETY: any C integer can be converted; the thread holds Ruby's lock, since Ruby called this.
    let number = unsafe { rb_int2inum(at as _) };
    // SAFETY: the caller passes a Struct, and an index below the size that it read from it.
    unsafe { rb_struct_aref(of, number) }
}

unsafe extern "C" fn visit_pair(key: VALUE, value: VALUE, walk: VALUE) -> c_int {
    // SAFETY: `visit_members` passes its exclusive `Walk`, and waits while Ruby calls this
    // function.
    let walk = unsafe { &mut *(walk as *mut Walk<'_>) };
    walk.visit(key);
    walk.visit(value);
    st_retval::ST_CONTINUE as c_int
}

fn is_array(ruby: &Ruby, value: Value) -> bool {
    value.is_kind_of(ArrayObject::class(ruby)) || numo_shared::is_numo(ruby, value)
}

/// Returns whether the object has a singleton class: methods or modules that only it has.
fn is_extended(object: Value) -> bool {
    if SPECIAL_CONST_P(object.as_raw()) {
        return false;
    }
    // SAFETY: `SPECIAL_CONST_P` was false above, so this is a heap object, which begins with an
    // `RBasic`.
    let class = unsafe { (*(object.as_raw() as *const RBasic)).klass };
    // SAFETY: `object` is an argument of a method, so Ruby keeps it alive during the call.
    class != unsafe { rb_obj_class(object.as_raw()) }
}
