//! The one table from core's errors to Ruby's exception classes.

use std::cell::{Ref, RefCell};

use magnus::value::ReprValue;
use magnus::{Error, Exception, ExceptionClass, Module, RModule, Ruby, TryConvert, Value};
use shmarray::ErrorKind;

/// The class that an error of each kind is raised as. The tests walk all of `ErrorKind::ALL`.
const TABLE: &[(ErrorKind, &str)] = &[
    (ErrorKind::NotFound, "Errno::ENOENT"),
    (ErrorKind::Exists, "Errno::EEXIST"),
    (ErrorKind::StaleHandle, "Shmarray::StaleHandleError"),
    (ErrorKind::InvalidHandle, "ArgumentError"),
    (ErrorKind::InvalidSegment, "Shmarray::Error"),
    (ErrorKind::InvalidFile, "ArgumentError"),
    (ErrorKind::InvalidArgument, "ArgumentError"),
    (ErrorKind::InvalidDType, "TypeError"),
    (ErrorKind::DTypeMismatch, "TypeError"),
    (ErrorKind::OutOfBounds, "ArgumentError"),
    (ErrorKind::ReadOnly, "FrozenError"),
    (ErrorKind::NoSpace, "Errno::ENOSPC"),
    (ErrorKind::NoMemory, "NoMemoryError"),
    (ErrorKind::PermissionDenied, "Errno::EACCES"),
    (ErrorKind::Unsupported, "Shmarray::Error"),
    (ErrorKind::Os, "SystemCallError"), // with its errno, so that Ruby makes an Errno class of it
];

/// The class of a kind without a row, and of a failed call without an errno.
const FALLBACK: &str = "Shmarray::Error";

/// Defines `Shmarray::Error`, its children, and the table for users and tests to read.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let error = shmarray.define_error("Error", ruby.exception_standard_error())?;
    shmarray.define_error("StaleHandleError", error)?;
    let classes = ruby.hash_new();
    for kind in ErrorKind::ALL {
        let class = class_name(kind).map(|name| named_class(ruby, name)).transpose()?;
        classes.aset(format!("{kind:?}"), class)?;
    }
    classes.freeze();
    shmarray.const_set("ERROR_CLASSES", classes)
}

/// Converts core's errors to exceptions.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or the exception of the table.
    fn or_raise(self, ruby: &Ruby) -> Result<T, Error>;
    /// Does the same as [`OrRaise::or_raise`], but an index out of bounds is an `IndexError`.
    fn or_raise_index(self, ruby: &Ruby) -> Result<T, Error>;
}

impl<T> OrRaise<T> for shmarray::Result<T> {
    fn or_raise(self, ruby: &Ruby) -> Result<T, Error> {
        self.map_err(|error| raised(ruby, &error).unwrap_or_else(|failure| failure))
    }

    fn or_raise_index(self, ruby: &Ruby) -> Result<T, Error> {
        self.map_err(|error| match error.kind() {
            ErrorKind::OutOfBounds => Error::new(ruby.exception_index_error(), error.to_string()),
            _ => raised(ruby, &error).unwrap_or_else(|failure| failure),
        })
    }
}

/// Makes or attaches something that needs shared memory. If that is full, or this process can map
/// no more, unreferenced arrays are collected first, as Ruby itself does when it has no fds left;
/// then, if it is full, those of the other processes of a `Numo::Parallel` call. Only then does it
/// raise.
pub(crate) fn with_room<T>(
    ruby: &Ruby,
    make: impl Fn() -> shmarray::Result<T>,
) -> Result<T, Error> {
    try_with_room(ruby, || Ok(make()))
}

/// Does the same as [`with_room`], for work that exceptions end.
pub(crate) fn try_with_room<T>(
    ruby: &Ruby,
    make: impl Fn() -> Result<shmarray::Result<T>, Error>,
) -> Result<T, Error> {
    for attempt in 1.. {
        match make()? {
            Err(error) if made_room(ruby, &error, attempt)? => {}
            made => return made.or_raise(ruby),
        }
    }
    unreachable!("`made_room` gives up")
}

/// Makes room after an error of so many attempts. Returns whether there may be some now.
pub(crate) fn made_room(
    ruby: &Ruby,
    error: &shmarray::Error,
    attempt: usize,
) -> Result<bool, Error> {
    match (error.kind(), attempt) {
        (ErrorKind::NoSpace | ErrorKind::NoMemory, 1) => make_room(ruby).map(|()| true),
        (ErrorKind::NoSpace, 2) => others_made_room(ruby),
        _ => Ok(false),
    }
}

/// Frees unreferenced arrays and empties the pool.
pub(crate) fn make_room(ruby: &Ruby) -> Result<(), Error> {
    let collector: RModule = ruby.class_object().const_get("GC")?;
    // Ruby's method, since the function of its C API does nothing after GC.disable.
    collector.funcall::<_, _, Value>("start", ())?;
    shmarray::empty_pool();
    Ok(())
}

fn others_made_room(ruby: &Ruby) -> Result<bool, Error> {
    let shmarray: Value = ruby.class_object().const_get("Shmarray")?;
    shmarray.funcall("others_make_room", ())
}

fn raised(ruby: &Ruby, error: &shmarray::Error) -> Result<Error, Error> {
    let kind = error.kind();
    let text = error.to_string();
    let class = |name| named_class(ruby, name);
    let exception: Exception = match (kind, error.os_errno()) {
        (ErrorKind::Os, Some(errno)) => class("SystemCallError")?.funcall("new", (text, errno))?,
        (ErrorKind::Os, None) => class(FALLBACK)?.funcall("new", (text,))?,
        _ => class(class_name(kind).unwrap_or(FALLBACK))?.funcall("new", (text,))?,
    };
    Ok(exception.into())
}

fn class_name(kind: ErrorKind) -> Option<&'static str> {
    TABLE.iter().find(|row| row.0 == kind).map(|row| row.1)
}

/// Returns the exception class with this name.
pub(crate) fn named_class(ruby: &Ruby, name: &str) -> Result<ExceptionClass, Error> {
    let class: Value = ruby.class_object().funcall("const_get", (name,))?;
    ExceptionClass::try_convert(class)
}

/// Returns an `ArgumentError`.
pub(crate) fn argument_error(ruby: &Ruby, text: impl Into<String>) -> Error {
    Error::new(ruby.exception_arg_error(), text.into())
}

/// Returns a `TypeError`.
pub(crate) fn type_error(ruby: &Ruby, text: impl Into<String>) -> Error {
    Error::new(ruby.exception_type_error(), text.into())
}

/// Returns an `IOError` for an object that was closed.
pub(crate) fn closed(ruby: &Ruby, what: &str) -> Error {
    Error::new(ruby.exception_io_error(), format!("closed {what}"))
}

/// Returns what an object has until it is closed.
pub(crate) fn unless_closed<'c, T>(
    ruby: &Ruby,
    cell: &'c RefCell<Option<T>>,
    what: &str,
) -> Result<Ref<'c, T>, Error> {
    Ref::filter_map(cell.borrow(), Option::as_ref).map_err(|_| closed(ruby, what))
}
