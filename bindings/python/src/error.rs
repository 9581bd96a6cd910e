//! Core's errors as Python's exceptions, in one table.
#![allow(clippy::disallowed_types, reason = "the module exports, and so makes, each exception")]

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyOSError,
    PyPermissionError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyType;
use shmarray::ErrorKind;

pyo3::create_exception!(
    shmarray,
    Error,
    PyException,
    "An error of shared memory that no built-in exception fits."
);
pyo3::create_exception!(
    shmarray,
    StaleHandleError,
    Error,
    "The handle belongs to an earlier generation of its segment: that array is gone."
);

pyo3::create_exception!(
    shmarray,
    Full,
    Error,
    "No slot of the channel is free, and it was created with when_full=\"error\"."
);

/// The table. `None` for a kind that is missing here, which a test refuses.
fn class(py: Python<'_>, kind: ErrorKind) -> Option<Bound<'_, PyType>> {
    Some(match kind {
        ErrorKind::NotFound => py.get_type::<PyFileNotFoundError>(),
        ErrorKind::Exists => py.get_type::<PyFileExistsError>(),
        ErrorKind::StaleHandle => py.get_type::<StaleHandleError>(),
        ErrorKind::InvalidHandle => py.get_type::<PyValueError>(),
        ErrorKind::InvalidSegment => py.get_type::<Error>(),
        ErrorKind::InvalidFile => py.get_type::<PyValueError>(),
        ErrorKind::InvalidArgument => py.get_type::<PyValueError>(),
        ErrorKind::InvalidDType => py.get_type::<PyTypeError>(),
        ErrorKind::DTypeMismatch => py.get_type::<PyTypeError>(),
        ErrorKind::OutOfBounds => py.get_type::<PyValueError>(),
        ErrorKind::ReadOnly => py.get_type::<PyValueError>(),
        ErrorKind::NoSpace | ErrorKind::NoMemory => py.get_type::<PyMemoryError>(),
        ErrorKind::PermissionDenied => py.get_type::<PyPermissionError>(),
        ErrorKind::Unsupported => py.get_type::<Error>(),
        ErrorKind::Os => py.get_type::<PyOSError>(),
        _ => return None,
    })
}

/// Returns the exception for an error of core. Those of the operating system carry an errno, which
/// MemoryError has no place for.
pub(crate) fn to_py(error: shmarray::Error) -> PyErr {
    let kind = error.kind();
    let errno = error.os_errno();
    let (text, filename) = text_and_filename(error);
    Python::attach(|py| {
        let class = class(py, kind).unwrap_or_else(|| py.get_type::<Error>());
        let has_errno = kind != ErrorKind::NoMemory;
        match (errno.or_else(|| usual_errno(kind)).filter(|_| has_errno), filename) {
            (Some(errno), Some(name)) => PyErr::from_type(class, (errno, text, name)),
            (Some(errno), None) => PyErr::from_type(class, (errno, text)),
            (None, _) => PyErr::from_type(class, text),
        }
    })
}

/// Returns an error's text, and the file as the `filename` of an OSError, which Python writes
/// behind the text.
fn text_and_filename(error: shmarray::Error) -> (String, Option<OsString>) {
    let has_errno = error.kind() != ErrorKind::NoMemory;
    match error {
        shmarray::Error::FileNotFound { path } => {
            ("No such file or directory".to_owned(), Some(path.into_os_string()))
        }
        shmarray::Error::Os { call, path, source }
            if has_errno && source.raw_os_error().is_some() && !path.as_os_str().is_empty() =>
        {
            let text = shmarray::Error::Os { call, path: PathBuf::new(), source }.to_string();
            (text, Some(path.into_os_string()))
        }
        error => (error.to_string(), None),
    }
}

/// Returns the errno that the same mistake has with files, for exceptions that have one.
fn usual_errno(kind: ErrorKind) -> Option<i32> {
    match kind {
        ErrorKind::NotFound => Some(ENOENT),
        ErrorKind::Exists => Some(EEXIST),
        ErrorKind::PermissionDenied => Some(EACCES),
        _ => None,
    }
}

// The same numbers on every system that Python runs on.
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;

/// Returns every kind of core's errors with its exception, for a test that none is missing.
#[pyfunction]
#[pyo3(name = "_error_classes")]
pub(crate) fn error_classes(py: Python<'_>) -> Vec<(String, Option<Bound<'_, PyType>>)> {
    ErrorKind::ALL.iter().map(|kind| (format!("{kind:?}"), class(py, *kind))).collect()
}

pub(crate) fn timed_out(outcome: &impl Display) -> PyErr {
    PyTimeoutError::new_err(outcome.to_string())
}

pub(crate) fn value_error(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

/// Returns a TypeError that says what was expected and what was found.
pub(crate) fn expected(wanted: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let class = found.get_type().fully_qualified_name();
    let class =
        class.as_ref().map_or("something else".into(), |name| name.to_string_lossy().into_owned());
    PyTypeError::new_err(format!("expected {wanted}, not {class}"))
}
