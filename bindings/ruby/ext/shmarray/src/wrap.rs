//! `Shmarray::Array.wrap`: makes an array of a Numo array, of an `IO::Buffer`, or of a MemoryView
//! that any object exports.
//!
//! Memory that is in a segment becomes an array over it; any other memory is copied, in one pass
//! whatever its strides.
#![allow(unsafe_code)] // a C protocol of structs and callbacks

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use magnus::rb_sys::AsRawValue;
use magnus::value::ReprValue;
use magnus::{Error, Object, Ruby, TypedData, Value, function};
use rb_sys::{
    rb_memory_view_available_p, rb_memory_view_get, rb_memory_view_item_component_t,
    rb_memory_view_parse_item_format, rb_memory_view_release, rb_memory_view_t,
    ruby_memory_view_flags, ruby_xfree, ssize_t,
};
use shmarray::{Array, DType, Layout, Options, Order};

use crate::array::ArrayObject;
use crate::error::{OrRaise, argument_error, type_error, with_room};
use crate::{array, io_buffer, numo_shared};

/// Defines `Shmarray::Array.wrap`.
pub(crate) fn define(ruby: &Ruby) -> Result<(), Error> {
    ArrayObject::class(ruby).define_singleton_method("wrap", function!(wrap, 1))
}

/// Returns the array of an object's memory.
fn wrap(ruby: &Ruby, object: Value) -> Result<Value, Error> {
    if let Some(open) = array::array_of(ruby, object) {
        return open.map(|_| object);
    }
    if numo_shared::is_numo(ruby, object) {
        let (array, part) = numo_shared::shared_copy(ruby, object)?.into_parts();
        return Ok(ArrayObject::having(ruby, array, part.within()));
    }
    if let Some((start, bytes)) = io_buffer::bytes(ruby, object)? {
        let layout = Layout::contiguous(&[bytes as u64], 1, Order::C).or_raise(ruby)?;
        // SAFETY: the buffer reported these bytes as its own, and no Ruby code runs before they are
        // copied.
        return unsafe { array_of(ruby, start, &DType::parse("|u1").or_raise(ruby)?, &layout) };
    }
    let view = ImportedView::of(ruby, object)?;
    let dtype = view
        .dtype()
        .ok_or_else(|| view.refused(ruby, "its elements are no numbers of one kind"))?;
    let layout =
        view.layout().ok_or_else(|| view.refused(ruby, "its elements are reached by pointers"))?;
    // SAFETY: the exporter reported these elements, and keeps them until `view` is released, which
    // is after the copy; no Ruby code runs before it.
    unsafe { array_of(ruby, view.0.data.cast(), &dtype, &layout) }
}

/// Returns the array over these elements, or else a shared copy of them.
///
/// # Safety
/// The elements must be readable until they are copied.
unsafe fn array_of(
    ruby: &Ruby,
    start: *const u8,
    dtype: &DType,
    layout: &Layout,
) -> Result<Value, Error> {
    let array =
        match Array::over_memory(start as usize, dtype.clone(), &layout.shape, &layout.strides) {
            Some(array) if !array.is_in_slot() => array, // this one would not keep its slot
            // SAFETY: the caller guarantees that the elements of this layout are readable until
            // they are copied.
            _ => with_room(ruby, || unsafe {
                Array::share(start, dtype.clone(), layout, &Options::default())
            })?,
        };
    Ok(ArrayObject::holding(ruby, array))
}

/// An exported MemoryView, which is released when this is dropped.
struct ImportedView(rb_memory_view_t);

impl ImportedView {
    fn of(ruby: &Ruby, object: Value) -> Result<Self, Error> {
        let none = || type_error(ruby, format!("{} exports no MemoryView", object.class()));
        // SAFETY: Ruby's function takes any object and only asks whether its class exports views.
        if !unsafe { rb_memory_view_available_p(object.as_raw()) } {
            return Err(none());
        }
        let mut view = MaybeUninit::zeroed();
        let flags = ruby_memory_view_flags::RUBY_MEMORY_VIEW_FORMAT as i32
            | ruby_memory_view_flags::RUBY_MEMORY_VIEW_STRIDES as i32;
        // SAFETY: the function above says that the object exports views, and `view` has room for
        // one.
        if unsafe { rb_memory_view_get(object.as_raw(), view.as_mut_ptr(), flags) } {
            // SAFETY: the function returned true, so it has filled all fields of the view.
            Ok(Self(unsafe { view.assume_init() }))
        } else {
            Err(none())
        }
    }

    fn refused(&self, ruby: &Ruby, reason: &str) -> Error {
        let format = if self.0.format.is_null() {
            String::new()
        } else {
            // SAFETY: the format is not null, as checked above, and ends with a zero byte; it lives
            // as long as the view.
            unsafe { CStr::from_ptr(self.0.format) }.to_string_lossy().into_owned()
        };
        argument_error(
            ruby,
            format!("a MemoryView of the format {format:?} is no array of numbers: {reason}"),
        )
    }

    /// Returns the layout; `None` for a view with indirect dimensions.
    fn layout(&self) -> Option<Layout> {
        let view = &self.0;
        let ndim = usize::try_from(view.ndim).ok()?;
        let itemsize = u64::try_from(view.item_size).ok()?;
        // SAFETY: by the protocol `shape` is null or has `ndim` numbers, and lives as long as the
        // view.
        let shape = match unsafe { numbers(view.shape, ndim) } {
            Some(shape) => {
                shape.iter().map(|&count| u64::try_from(count).ok()).collect::<Option<Vec<_>>>()?
            }
            None if ndim <= 1 => vec![u64::try_from(view.byte_size).ok()?.checked_div(itemsize)?],
            None => return None,
        };
        // SAFETY: by the protocol `strides` is null or has `ndim` numbers, and lives as long as the
        // view.
        let strides = match unsafe { numbers(view.strides, ndim) } {
            Some(strides) => strides.to_vec(),
            None => Layout::contiguous(&shape, itemsize, Order::C).ok()?.strides,
        };
        // SAFETY: by the protocol `sub_offsets` is null or has `ndim` numbers, and lives as long as
        // the view.
        let is_direct = unsafe { numbers(view.sub_offsets, ndim) }
            .is_none_or(|all| all.iter().all(|&one| one < 0));
        is_direct.then_some(Layout { shape, strides, offset: 0 })
    }

    /// Returns the dtype: one number, or two that form a complex one.
    fn dtype(&self) -> Option<DType> {
        if self.0.format.is_null() {
            return DType::parse("|u1").ok().filter(|_| self.0.item_size <= 1);
        }
        // SAFETY: the format is not null, as checked above, and ends with a zero byte; it lives as
        // long as the view.
        let format = unsafe { CStr::from_ptr(self.0.format) };
        if is_big_endian(format) {
            return None;
        }
        let components = Components::of(format)?;
        let (first, all) = components.0.split_first()?;
        let count = first.repeat + all.iter().map(|one| one.repeat).sum::<u64>();
        let is_same = |one: &rb_memory_view_item_component_t| {
            one.format == first.format && one.size == first.size
        };
        let is_whole = count * first.size == u64::try_from(self.0.item_size).ok()?;
        let text = text_of(first, count).filter(|_| is_whole && all.iter().all(is_same))?;
        DType::parse(&text).ok()
    }
}

impl Drop for ImportedView {
    fn drop(&mut self) {
        // SAFETY: `rb_memory_view_get` filled this view, and `drop` releases it once.
        unsafe { rb_memory_view_release(&raw mut self.0) };
    }
}

/// Returns whether a format has big-endian numbers. The parsed component's own flag is a field in
/// some versions of Ruby, and one bit of a field in others.
fn is_big_endian(format: &CStr) -> bool {
    format.to_bytes().iter().any(|letter| b">nNgG".contains(letter))
}

/// Returns a type string: byte order, kind (from the letter of `Array#pack`), size.
fn text_of(component: &rb_memory_view_item_component_t, count: u64) -> Option<String> {
    let kind = match (component.format as u8, count) {
        (b'c' | b's' | b'i' | b'l' | b'q' | b'j', 1) => 'i',
        (b'C' | b'S' | b'I' | b'L' | b'Q' | b'J' | b'v' | b'V', 1) => 'u',
        (b'f' | b'F' | b'd' | b'D' | b'e' | b'E', 1) => 'f',
        (b'f' | b'F' | b'd' | b'D' | b'e' | b'E', 2) => 'c',
        _ => return None,
    };
    let order = if component.size == 1 { '|' } else { '<' };
    Some(format!("{order}{kind}{}", component.size * count))
}

/// The components of a format, in memory that Ruby allocated.
struct Components<'a>(&'a [rb_memory_view_item_component_t]);

impl Components<'_> {
    fn of(format: &CStr) -> Option<Self> {
        let mut all = ptr::null_mut();
        let mut count = 0;
        let mut wrong = ptr::null();
        let start = format.as_ptr();
        // SAFETY: the format is a C string, and the outputs are valid locals.
        let bytes = unsafe {
            rb_memory_view_parse_item_format(start, &raw mut all, &raw mut count, &raw mut wrong)
        };
        if bytes < 0 || all.is_null() {
            return None;
        }
        // SAFETY: the function returned no error, so `all` points to `count` components.
        Some(Self(unsafe { slice::from_raw_parts(all, count as usize) }))
    }
}

impl Drop for Components<'_> {
    fn drop(&mut self) {
        // SAFETY: the array came from Ruby's allocator, and the parser leaves it to its caller to
        // free.
        unsafe { ruby_xfree(self.0.as_ptr().cast_mut().cast()) };
    }
}

/// # Safety
/// `start` must be null or point to `count` numbers that live for `'a`.
unsafe fn numbers<'a>(start: *const ssize_t, count: usize) -> Option<&'a [ssize_t]> {
    // SAFETY: the caller guarantees `count` numbers at a `start` that is not null.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, count) })
}
