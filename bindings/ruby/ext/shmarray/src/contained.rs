//! Whether an object has arrays in it, which would go by handle in a message: asked of each job's
//! result.
//!
//! Most have none, and then Marshal's bytes are the whole message. The question costs some
//! nanoseconds for each element, calls no method of Ruby's and allocates nothing there.
#![allow(unsafe_code)] // the inside of Ruby's Arrays, Hashes and Structs

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
pub(crate) fn define(shmarray: RModule) -> Result<(), Error> {
    shmarray.define_singleton_method("extended?", function!(is_extended, 1))?;
    shmarray.define_singleton_method("arrays_in?", function!(has_arrays, 1))
}

/// Whether there is a `Shmarray::Array` or one of Numo's within Arrays, Hashes and Structs, or the
/// object is one.
fn has_arrays(ruby: &Ruby, object: Value) -> Result<bool, Error> {
    let mut walk = Walk { waiting: Vec::new(), seen: FxHashSet::default(), found: false, ruby };
    walk.look_at(object.as_raw());
    while let Some(container) = walk.waiting.pop().filter(|_| !walk.found) {
        if walk.seen.insert(container) {
            protect(|| {
                walk.look_into(container);
                Qnil.into()
            })?;
        }
    }
    Ok(walk.found)
}

struct Walk<'a> {
    /// Containers that were not looked into. What they are in keeps them alive: nothing runs that
    /// could change it.
    waiting: Vec<VALUE>,
    seen: FxHashSet<VALUE>,
    found: bool,
    ruby: &'a Ruby,
}

impl Walk<'_> {
    fn look_at(&mut self, object: VALUE) {
        if SPECIAL_CONST_P(object) {
            return;
        }
        // SAFETY: no special constant, so it is an object.
        match unsafe { RB_BUILTIN_TYPE(object) } {
            ruby_value_type::RUBY_T_ARRAY
            | ruby_value_type::RUBY_T_HASH
            | ruby_value_type::RUBY_T_STRUCT => {
                self.waiting.push(object);
            }
            // SAFETY: an object that is alive.
            ruby_value_type::RUBY_T_DATA => {
                self.found |= is_array(self.ruby, unsafe { Value::from_raw(object) })
            }
            _ => {}
        }
    }

    fn look_into(&mut self, container: VALUE) {
        // SAFETY: only containers wait.
        match unsafe { RB_BUILTIN_TYPE(container) } {
            ruby_value_type::RUBY_T_ARRAY => {
                // SAFETY: an Array, which nothing changes meanwhile.
                let count = unsafe { RARRAY_LEN(container) } as usize;
                // SAFETY: as above.
                let start = unsafe { RARRAY_CONST_PTR(container) };
                // SAFETY: it has so many elements from there on.
                let elements = unsafe { slice_of(start, count) };
                elements.iter().for_each(|&element| self.look_at(element));
            }
            ruby_value_type::RUBY_T_HASH => {
                // SAFETY: `look_at_pair` takes a `Walk`, which nobody else touches meanwhile.
                unsafe {
                    rb_hash_foreach(
                        container,
                        Some(look_at_pair),
                        std::ptr::from_mut(self) as VALUE,
                    )
                };
            }
            _ => {
                // SAFETY: a Struct.
                let size = unsafe { rb_struct_size(container) };
                // SAFETY: an Integer.
                let count = unsafe { rb_num2long(size) };
                (0..count).for_each(|at| self.look_at(member(container, at)));
            }
        }
    }
}

/// # Safety
/// As for `slice::from_raw_parts`, but no elements may be nowhere.
unsafe fn slice_of<'a>(start: *const VALUE, count: usize) -> &'a [VALUE] {
    match count {
        0 => &[],
        // SAFETY: the caller's.
        _ => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// One of those that a Struct has.
fn member(of: VALUE, at: c_long) -> VALUE {
    // SAFETY: a number.
    let number = unsafe { rb_int2inum(at as _) };
    // SAFETY: the caller counted them.
    unsafe { rb_struct_aref(of, number) }
}

unsafe extern "C" fn look_at_pair(key: VALUE, value: VALUE, walk: VALUE) -> c_int {
    // SAFETY: `look_into` passes itself.
    let walk = unsafe { &mut *(walk as *mut Walk<'_>) };
    walk.look_at(key);
    walk.look_at(value);
    st_retval::ST_CONTINUE as c_int
}

fn is_array(ruby: &Ruby, value: Value) -> bool {
    value.is_kind_of(ArrayObject::class(ruby)) || numo_shared::is_numo(ruby, value)
}

/// Whether the object has a class of its own: methods or modules that only it has.
fn is_extended(object: Value) -> bool {
    if SPECIAL_CONST_P(object.as_raw()) {
        return false;
    }
    // SAFETY: no special constant, so it is an object, which begins so.
    let class = unsafe { (*(object.as_raw() as *const RBasic)).klass };
    // SAFETY: an object that is alive.
    class != unsafe { rb_obj_class(object.as_raw()) }
}
