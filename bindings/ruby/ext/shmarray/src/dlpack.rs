//! DLPack: `Shmarray::Array#to_dlpack`, and `Shmarray::Array.from_dlpack`.
#![allow(unsafe_code)] // structs of C

use std::ptr::NonNull;

use magnus::value::ReprValue;
use magnus::{Error, Module, Object, Ruby, TypedData, Value, function, method};
use shmarray::dlpack::{self, DLManagedTensorVersioned};
use shmarray::{Access, Array, Options};

use crate::array::{ArrayObject, Self_};
use crate::error::{OrRaise, argument_error, with_room};

/// Defines `from_dlpack`, and the private method behind `to_dlpack`.
pub(crate) fn define(ruby: &Ruby) -> Result<(), Error> {
    let class = ArrayObject::class(ruby);
    class.define_private_method("dlpack", method!(dlpack, 0))?;
    class.define_singleton_method("from_dlpack", function!(from_dlpack, 1))
}

/// Returns the address of a new tensor, its bytes, and the address of its deleter.
fn dlpack(ruby: &Ruby, this: Self_) -> Result<(usize, usize, usize), Error> {
    let array = this.array(ruby)?;
    let access = if this.is_frozen() { Access::ReadOnly } else { Access::ReadWrite };
    let tensor = array.to_dlpack_keeping(access, array.clone()).or_raise(ruby)?;
    // SAFETY: it was made just now, and nobody has given it back.
    let deleter = unsafe { tensor.as_ref() }.deleter.map_or(0, |deleter| deleter as usize);
    Ok((tensor.as_ptr() as usize, size_of::<DLManagedTensorVersioned>(), deleter))
}

/// Returns a shared copy of the tensor at an address, which `to_i` tells.
fn from_dlpack(ruby: &Ruby, pointer: Value) -> Result<Value, Error> {
    let address: usize = pointer.funcall_public("to_i", ())?;
    let tensor = NonNull::new(address as *mut DLManagedTensorVersioned)
        .ok_or_else(|| argument_error(ruby, "the pointer to the tensor is null"))?;
    // SAFETY: the caller's pointer is one to a tensor, as the documentation demands.
    let tensor = unsafe { tensor.as_ref() };
    // SAFETY: by DLPack's contract it has as many numbers as dimensions.
    let found = unsafe { dlpack::read(tensor) }.or_raise(ruby)?;
    let array = with_room(ruby, || {
        // SAFETY: by DLPack's contract the tensor has these elements until it is given back, and
        // its owner, the caller, waits for this call.
        unsafe { Array::share(found.data, found.dtype.clone(), &found.layout, &Options::default()) }
    })?;
    Ok(ArrayObject::holding(ruby, array))
}
