//! The file that a method is given, by its path or as its bytes.
#![allow(unsafe_code)] // the memory of Ruby's Strings

use std::path::PathBuf;

use magnus::value::ReprValue;
use magnus::{Error, RString, Ruby, TryConvert, Value};
use shmarray::Order;
use shmarray::npy::Source;

use crate::array::{ArrayObject, array_of, bytes_of};
use crate::error::{argument_error, type_error};

/// A file: its path, or the memory that has its bytes.
pub(super) enum Input {
    Path(PathBuf),
    Memory { start: usize, bytes: usize },
}

/// Converts a path, or the bytes of a file if those are not nil: a String, or a `Shmarray::Array`.
/// Returns also the object that has the bytes.
///
/// Another thread may change the String while it is read. So it is read through a frozen String,
/// which shares its memory: a change gives the other one memory of its own.
pub(super) fn input_of(ruby: &Ruby, path: Value, bytes: Value) -> Result<(Input, Value), Error> {
    if bytes.is_nil() {
        return Ok((Input::Path(PathBuf::try_convert(path)?), path));
    }
    if let Some(text) = RString::from_value(bytes) {
        let frozen = RString::new_frozen(text);
        // SAFETY: only the address and the length of the slice are used, and no Ruby code runs
        // before it ends.
        let slice = unsafe { frozen.as_slice() };
        let input = Input::Memory { start: slice.as_ptr() as usize, bytes: slice.len() };
        return Ok((input, frozen.as_value()));
    }
    let Some(array) = array_of(ruby, bytes).transpose()? else {
        let text = format!("{} is neither a String nor a Shmarray::Array", bytes.class());
        return Err(type_error(ruby, text));
    };
    if !array.is_contiguous(Order::C) {
        return Err(argument_error(ruby, "the bytes of a file lie side by side, these do not"));
    }
    let input = Input::Memory { start: array.as_ptr() as usize, bytes: bytes_of(&array) as usize };
    Ok((input, ArrayObject::frozen(ruby, &array).as_value()))
}

impl Input {
    /// Returns the source that core reads.
    ///
    /// # Safety
    /// The object that [`input_of`] returned keeps the bytes: it must be on a stack, or be marked,
    /// as long as the source is used.
    pub(super) unsafe fn source(&self) -> shmarray::Result<Source<'static>> {
        match self {
            Self::Path(path) => Source::file(path),
            Self::Memory { start, bytes } => {
                // SAFETY: the caller keeps the object alive. Its memory never moves: a frozen
                // String keeps its bytes where they are, and so does an array that nobody closes.
                Ok(unsafe { Source::memory(*start as *const u8, *bytes) })
            }
        }
    }

    /// Returns the bytes to read without Ruby's lock if they are many. Those of a file count as
    /// many, since it may be on a slow disk.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Path(_) => usize::MAX,
            Self::Memory { bytes, .. } => *bytes,
        }
    }
}
