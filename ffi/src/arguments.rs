//! Converts C arguments to Rust values, and writes outputs.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use shmarray::npy::Source;
use shmarray::{Error, MAX_NDIM};

use crate::error::Failure;

/// Returns the borrowed object, or an error if it is NULL.
pub(crate) fn needed<'a, T>(
    argument: &'static str,
    object: Option<&'a T>,
) -> Result<&'a T, Failure> {
    object.ok_or(Failure::Null(argument))
}

/// Returns the text, or an error if it is NULL or is not UTF-8.
///
/// # Safety
/// `text` is NULL or ends in a zero byte, and is live and unchanged for `'a`.
pub(crate) unsafe fn text<'a>(
    argument: &'static str,
    text: *const c_char,
) -> Result<&'a str, Failure> {
    // SAFETY: `optional_text` needs NULL or a zero-terminated text that lives for `'a`, which the
    // caller of this function guarantees by its own `# Safety` section.
    let text = unsafe { optional_text(argument, text) }?;
    text.ok_or(Failure::Null(argument))
}

/// Returns the text, `None` if it is NULL, or an error if it is not UTF-8.
///
/// # Safety
/// `text` is NULL or ends in a zero byte, and is live and unchanged for `'a`.
pub(crate) unsafe fn optional_text<'a>(
    argument: &'static str,
    text: *const c_char,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: `CStr::from_ptr` needs a zero-terminated text that lives for `'a`. `text` is not NULL
    // (checked above), so the caller guarantees that by the `# Safety` section.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|error| invalid(argument, error.to_string()))
}

/// Returns a path, or an error if it is NULL or, on a system other than Unix, not UTF-8.
///
/// # Safety
/// `path` is NULL or ends in a zero byte, and is live and unchanged for `'a`.
pub(crate) unsafe fn path<'a>(
    argument: &'static str,
    path: *const c_char,
) -> Result<&'a Path, Failure> {
    if path.is_null() {
        return Err(Failure::Null(argument));
    }
    // SAFETY: `CStr::from_ptr` needs a zero-terminated text that lives for `'a`. `path` is not NULL
    // (checked above), so the caller guarantees that by the `# Safety` section.
    path_of(argument, unsafe { CStr::from_ptr(path) })
}

#[cfg(unix)]
fn path_of<'a>(_argument: &'static str, path: &'a CStr) -> Result<&'a Path, Failure> {
    use std::os::unix::ffi::OsStrExt;
    Ok(std::ffi::OsStr::from_bytes(path.to_bytes()).as_ref())
}

#[cfg(not(unix))]
fn path_of<'a>(argument: &'static str, path: &'a CStr) -> Result<&'a Path, Failure> {
    path.to_str().map(Path::new).map_err(|error| invalid(argument, error.to_string()))
}

/// Returns `count` numbers, at most MAX_NDIM; `numbers` may be NULL if `count` is 0.
///
/// # Safety
/// `numbers` is NULL or points to `count` numbers, which are live and unchanged for `'a`.
pub(crate) unsafe fn numbers<'a, T>(
    argument: &'static str,
    numbers: *const T,
    count: usize,
) -> Result<&'a [T], Failure> {
    if count > MAX_NDIM {
        return Err(invalid("ndim", format!("{count} dimensions, at most {MAX_NDIM}")));
    }
    // SAFETY: `list` needs NULL or `count` live elements, which the caller of this function
    // guarantees by its own `# Safety` section; `count` is passed on unchanged.
    unsafe { list(argument, numbers, count) }
}

/// Returns `count` elements; `first` may be NULL if `count` is 0.
///
/// # Safety
/// `first` is NULL or points to the first of `count` elements, which are live and unchanged for
/// `'a`.
pub(crate) unsafe fn list<'a, T>(
    argument: &'static str,
    first: *const T,
    count: usize,
) -> Result<&'a [T], Failure> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() => Err(Failure::Null(argument)),
        // SAFETY: `from_raw_parts` needs `count` live elements. `first` is not NULL (checked in the
        // arm above), so the caller guarantees them by the `# Safety` section.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// Returns a shape, or an error if a dimension is negative.
///
/// # Safety
/// `shape` is NULL or points to `ndim` numbers, which are not changed during the call.
pub(crate) unsafe fn shape(shape: *const i64, ndim: usize) -> Result<Vec<u64>, Failure> {
    // SAFETY: `numbers` needs NULL or `ndim` live numbers, which the caller of this function
    // guarantees by its own `# Safety` section; the slice is dropped before it returns.
    let counts = unsafe { numbers("shape", shape, ndim) }?;
    let counted = counts.iter().map(|&count| u64::try_from(count).ok()).collect::<Option<_>>();
    counted.ok_or_else(|| invalid("shape", format!("{counts:?} has a negative dimension")))
}

/// An object that C owns by a pointer, uses in any threads, and closes.
pub(crate) trait Object: Sized + Send + Sync {
    /// Returns the pointer by which C owns the object.
    fn into_pointer(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }
}

/// Makes an object and writes its pointer to `output`. Makes none if `output` is NULL.
///
/// # Safety
/// `output`, which the header calls `argument`, is NULL or valid for a write.
pub(crate) unsafe fn produce<T: Object>(
    argument: &'static str,
    output: *mut *mut T,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if output.is_null() {
        return Err(Failure::Null(argument));
    }
    let object = make()?;
    // SAFETY: `put` needs an output that is valid for a write. `output` is not NULL (checked
    // above), so the caller guarantees that by the `# Safety` section.
    unsafe { put(output, object) };
    Ok(())
}

/// Writes the pointer of an object to `output`. The C caller owns the object and closes it.
///
/// # Safety
/// `output` is valid for a write.
pub(crate) unsafe fn put<T: Object>(output: *mut *mut T, object: T) {
    // SAFETY: `write` needs a pointer that is aligned and valid for a write, which the caller of
    // this function guarantees by the `# Safety` section.
    unsafe { output.write(object.into_pointer()) };
}

/// Returns an error if the caller's buffer is too short for a text and its terminating zero. Writes
/// the number of bytes that they need to `needed_bytes_out`.
///
/// # Safety
/// `needed_bytes_out` is NULL or valid for a write.
pub(crate) unsafe fn check_text_buffer(
    text: &str,
    buffer: *mut c_char,
    buffer_bytes: usize,
    needed_bytes_out: *mut usize,
) -> Result<(), Failure> {
    let needed = text.len() + 1;
    if !needed_bytes_out.is_null() {
        // SAFETY: `write` needs a pointer that is valid for a write. It is not NULL (checked
        // above), so the caller guarantees that by the `# Safety` section.
        unsafe { needed_bytes_out.write(needed) };
    }
    if buffer.is_null() || buffer_bytes < needed {
        Err(Failure::TextTooShort(needed))
    } else {
        Ok(())
    }
}

/// Copies a text and its terminating zero into the caller's buffer. Writes the number of bytes that
/// they need to `needed_bytes_out`, also when the buffer is too short.
///
/// # Safety
/// `buffer` is NULL or valid for writes of `buffer_bytes`; `needed_bytes_out` is NULL or valid for
/// a write.
pub(crate) unsafe fn put_text(
    text: &str,
    buffer: *mut c_char,
    buffer_bytes: usize,
    needed_bytes_out: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: `check_text_buffer` needs `needed_bytes_out` to be NULL or valid for a write, which
    // the caller of this function guarantees by the `# Safety` section.
    unsafe { check_text_buffer(text, buffer, buffer_bytes, needed_bytes_out) }?;
    // SAFETY: the buffer must be valid for writes of `text.len()` bytes. It is for `buffer_bytes`
    // by the `# Safety` section, and `check_text_buffer` has checked that they are enough. The
    // caller owns the buffer and this library owns `text`, so they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
    // SAFETY: the byte after the text must be valid for a write: `check_text_buffer` has checked
    // that the buffer has at least `text.len() + 1` bytes.
    unsafe { buffer.wrapping_add(text.len()).write(0) };
    Ok(())
}

/// Returns the failure for an invalid argument.
pub(crate) fn invalid(argument: &'static str, reason: String) -> Failure {
    Failure::Core(Error::InvalidArgument { argument, reason })
}

/// Returns the bytes that the caller describes as a file in memory.
///
/// # Safety
/// `data` is NULL or points to `size_bytes` bytes that any thread can read during `'a`.
pub(crate) unsafe fn file_in_memory<'a>(
    data: *const c_void,
    size_bytes: usize,
) -> Result<Source<'a>, Failure> {
    match data.is_null() {
        true if size_bytes == 0 => Ok(Source::bytes(&[])),
        true => Err(Failure::Null("data")),
        // SAFETY: `Source::memory` needs bytes that any thread can read during `'a`, which the
        // caller of this function guarantees by the `# Safety` section. `data` is not NULL.
        false => Ok(unsafe { Source::memory(data.cast(), size_bytes) }),
    }
}
