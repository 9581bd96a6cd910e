//! Exports `Shmarray::Array` by Ruby's MemoryView protocol: shape, strides, format, read-only or
//! not.
//!
//! A view keeps its array alive until it is released: Ruby marks the object, and the view has a
//! hold of its own in case the object is closed.
#![allow(unsafe_code)] // a C protocol of structs and callbacks

use std::ffi::{CString, c_int};

use magnus::rb_sys::{AsRawValue, FromRawValue};
use magnus::{Ruby, TryConvert, TypedData, Value};
use rb_sys::{
    VALUE, rb_memory_view_entry_t, rb_memory_view_register, rb_memory_view_t,
    ruby_memory_view_flags, ssize_t,
};
use shmarray::{Array, DType, Order, TypeCode};

use crate::array::{ArrayObject, bytes_of};
use crate::slot_use::Held;

/// The entry of the class. Ruby keeps its address.
static ENTRY: rb_memory_view_entry_t = rb_memory_view_entry_t {
    get_func: Some(get),
    release_func: Some(release),
    available_p_func: Some(is_available),
};

/// Tells Ruby that arrays export memory views.
pub(crate) fn register(ruby: &Ruby) {
    let class = ArrayObject::class(ruby).as_raw();
    // SAFETY: `class` is the registered class, and `ENTRY` is static, so Ruby may keep its address.
    unsafe { rb_memory_view_register(class, &raw const ENTRY) };
}

/// The memory behind a view's pointers, until the view is released.
struct ExportedLayout {
    /// Holds the memory, and the slot that it lies in, even if the array's object is closed.
    _array: Held,
    format: CString,
    shape: Vec<ssize_t>,
    strides: Vec<ssize_t>,
}

impl ExportedLayout {
    fn of(array: &Held) -> Option<Box<Self>> {
        let signed = |number: &u64| ssize_t::try_from(*number).ok();
        let shape = array.shape().iter().map(signed).collect::<Option<_>>()?;
        let strides = array.strides().iter().map(|&stride| stride as ssize_t).collect();
        let format = CString::new(format_of(array.dtype())).ok()?;
        Some(Box::new(Self { _array: array.clone(), format, shape, strides }))
    }
}

/// Returns the format in the letters of `Array#pack`. A dtype without a letter is unsigned bytes.
fn format_of(dtype: &DType) -> String {
    let letters = match dtype.code() {
        TypeCode::Bool | TypeCode::UInt8 => "C",
        TypeCode::UInt16 => "S<",
        TypeCode::UInt32 => "L<",
        TypeCode::UInt64 => "Q<",
        TypeCode::Int8 => "c",
        TypeCode::Int16 => "s<",
        TypeCode::Int32 => "l<",
        TypeCode::Int64 => "q<",
        TypeCode::Float32 => "e",
        TypeCode::Float64 => "E",
        TypeCode::Complex64 => "ee",
        TypeCode::Complex128 => "EE",
        _ => return format!("C{}", dtype.itemsize()),
    };
    letters.to_owned()
}

/// Returns whether a view can be had. Elements of no bytes have no format.
unsafe extern "C" fn is_available(object: VALUE) -> bool {
    array_of(object).is_some_and(|array| array.dtype().itemsize() > 0)
}

unsafe extern "C" fn get(object: VALUE, view: *mut rb_memory_view_t, flags: c_int) -> bool {
    let exported = array_of(object).filter(|array| satisfies(array, flags as u32));
    let Some((array, layout)) =
        exported.and_then(|array| ExportedLayout::of(&array).map(|layout| (array, layout)))
    else {
        return false;
    };
    // SAFETY: Ruby passes a view to be filled, which nobody else uses until `get` returns.
    let view = unsafe { &mut *view };
    view.obj = object;
    view.data = array.as_ptr().cast();
    view.byte_size = bytes_of(&array) as ssize_t;
    view.readonly = array.is_readonly();
    view.format = layout.format.as_ptr();
    view.item_size = array.dtype().itemsize() as ssize_t;
    view.ndim = layout.shape.len() as ssize_t;
    view.shape = layout.shape.as_ptr();
    view.strides = layout.strides.as_ptr();
    view.sub_offsets = std::ptr::null();
    view.private_data = Box::into_raw(layout).cast();
    true
}

unsafe extern "C" fn release(_object: VALUE, view: *mut rb_memory_view_t) -> bool {
    // SAFETY: Ruby passes a view that `get` filled, and releases each view once.
    let layout = unsafe { (*view).private_data }.cast::<ExportedLayout>();
    // SAFETY: `get` stored an `ExportedLayout` from `Box::into_raw` there, and `release` takes it
    // back once.
    drop(unsafe { Box::from_raw(layout) });
    true
}

/// Returns whether the array satisfies the consumer's flags. Strides are always given.
fn satisfies(array: &Array, flags: u32) -> bool {
    use ruby_memory_view_flags as Flags;
    let asks = |flag: Flags| flags & flag as u32 == flag as u32;
    let contiguous =
        match (asks(Flags::RUBY_MEMORY_VIEW_ROW_MAJOR), asks(Flags::RUBY_MEMORY_VIEW_COLUMN_MAJOR))
        {
            (true, true) => array.is_contiguous(Order::C) || array.is_contiguous(Order::F),
            (true, false) => array.is_contiguous(Order::C),
            (false, true) => array.is_contiguous(Order::F),
            (false, false) => true,
        };
    let writable = !asks(Flags::RUBY_MEMORY_VIEW_WRITABLE) || !array.is_readonly();
    contiguous && writable
}

fn array_of(object: VALUE) -> Option<Held> {
    // SAFETY: Ruby calls with an object of the registered class, which it keeps alive during the
    // call.
    let value = unsafe { Value::from_raw(object) };
    <&ArrayObject>::try_convert(value).ok().and_then(ArrayObject::open)
}
