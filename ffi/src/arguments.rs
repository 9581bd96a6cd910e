//! C arguments as Rust values: NULL, text, shapes, outputs.

use std::ffi::{CStr, c_char};

use shmarray::{Error, MAX_NDIM};

use crate::error::Failure;

/// A borrowed object that must be there.
pub(crate) fn needed<'a, T>(
    argument: &'static str,
    object: Option<&'a T>,
) -> Result<&'a T, Failure> {
    object.ok_or(Failure::Null(argument))
}

/// Text that must be there and be UTF-8.
///
/// # Safety
/// `text` is NULL or ends in a zero, and lives as long as `'a`.
pub(crate) unsafe fn text<'a>(
    argument: &'static str,
    text: *const c_char,
) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { optional_text(argument, text) }?;
    text.ok_or(Failure::Null(argument))
}

/// Text that may be NULL.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(
    argument: &'static str,
    text: *const c_char,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so it ends in a zero and lives long enough (the caller's promise).
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|error| invalid(argument, error.to_string()))
}

/// `count` numbers; NULL is right when there are none.
///
/// # Safety
/// `numbers` is NULL or has `count` of them, and lives as long as `'a`.
pub(crate) unsafe fn numbers<'a, T>(
    argument: &'static str,
    numbers: *const T,
    count: usize,
) -> Result<&'a [T], Failure> {
    if count > MAX_NDIM {
        return Err(invalid("ndim", format!("{count} dimensions, at most {MAX_NDIM}")));
    }
    // SAFETY: the caller's promise.
    unsafe { list(argument, numbers, count) }
}

/// `count` items; NULL is right when there are none.
///
/// # Safety
/// `first` is NULL or the first of `count`, which live as long as `'a`.
pub(crate) unsafe fn list<'a, T>(
    argument: &'static str,
    first: *const T,
    count: usize,
) -> Result<&'a [T], Failure> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() => Err(Failure::Null(argument)),
        // SAFETY: not NULL, so `count` of them are there (the caller's promise).
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// A shape: numbers that are not negative.
///
/// # Safety
/// As [`numbers`].
pub(crate) unsafe fn shape(shape: *const i64, ndim: usize) -> Result<Vec<u64>, Failure> {
    // SAFETY: the caller's promise.
    let counts = unsafe { numbers("shape", shape, ndim) }?;
    let counted = counts.iter().map(|&count| u64::try_from(count).ok()).collect::<Option<_>>();
    counted.ok_or_else(|| invalid("shape", format!("{counts:?} has a negative dimension")))
}

/// Puts an object where the caller wants it; it is made when there is such a place.
///
/// # Safety
/// `place`, which the header calls `argument`, is NULL or can be written.
pub(crate) unsafe fn produce<T>(
    argument: &'static str,
    place: *mut *mut T,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::Null(argument));
    }
    let object = make()?;
    // SAFETY: not NULL, so it can be written (the caller's promise).
    unsafe { put(place, object) };
    Ok(())
}

/// Puts an object where the caller wants it, who closes it.
///
/// # Safety
/// `place` can be written.
pub(crate) unsafe fn put<T>(place: *mut *mut T, object: T) {
    // SAFETY: the caller's promise.
    unsafe { place.write(Box::into_raw(Box::new(object))) };
}

/// Whether the caller's room is enough for a text and its final zero; says how much that needs.
///
/// # Safety
/// `needed_bytes_out` is NULL or can be written.
pub(crate) unsafe fn room_for_text(
    text: &str,
    room: *mut c_char,
    room_bytes: usize,
    needed_bytes_out: *mut usize,
) -> Result<(), Failure> {
    let needed = text.len() + 1;
    if !needed_bytes_out.is_null() {
        // SAFETY: not NULL, so it can be written (the caller's promise).
        unsafe { needed_bytes_out.write(needed) };
    }
    match room.is_null() || room_bytes < needed {
        true => Err(Failure::TextTooShort(needed)),
        false => Ok(()),
    }
}

/// Copies a text and its final zero into the caller's room, and says how much it needs.
///
/// # Safety
/// `room` is NULL or has `room_bytes`; `needed_bytes_out` is NULL or can be written.
pub(crate) unsafe fn put_text(
    text: &str,
    room: *mut c_char,
    room_bytes: usize,
    needed_bytes_out: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { room_for_text(text, room, room_bytes, needed_bytes_out) }?;
    // SAFETY: the room has at least one byte more than the text.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), room.cast(), text.len()) };
    // SAFETY: the last of them.
    unsafe { room.wrapping_add(text.len()).write(0) };
    Ok(())
}

pub(crate) fn invalid(argument: &'static str, reason: String) -> Failure {
    Failure::Core(Error::InvalidArgument { argument, reason })
}
