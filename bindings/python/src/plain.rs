//! Plain objects: None, bools, ints, floats, texts, bytes, functions, and small tuples, lists and
//! dicts of those. Most small messages are plain. Complex numbers are not: `copyreg` has a reducer
//! for them, which a program may replace.
//!
//! The pickler writes plain objects by itself, whatever reducers there are, and they contain no
//! arrays. Looking for arrays while such an object is pickled would take longer than everything
//! else that is done for a small message.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::first_use::FirstUse;

const OBJECTS_MOST: usize = 256;
const DEPTH_MOST: usize = 8;
/// A pickler passes longer texts on without a copy when it writes to a stream.
const TEXT_MOST: usize = 60 << 10;

/// Returns whether an object is plain and has few parts.
#[pyfunction]
pub(crate) fn is_plain(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut left = OBJECTS_MOST;
    is_plain_part(object, DEPTH_MOST, &mut left)
}

fn is_plain_part(object: &Bound<'_, PyAny>, depth: usize, left: &mut usize) -> PyResult<bool> {
    if depth == 0 || *left == 0 {
        return Ok(false);
    }
    *left -= 1;
    if is_plain_item(object)? {
        return Ok(true);
    }
    let mut part = |part: Bound<'_, PyAny>| is_plain_part(&part, depth - 1, left);
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return all(tuple.iter(), part);
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return all(list.iter(), part);
    }
    match object.cast_exact::<PyDict>() {
        Ok(dict) => all(dict.iter(), |(key, value)| Ok(part(key)? && part(value)?)),
        Err(_) => Ok(false),
    }
}

fn all<T>(
    parts: impl Iterator<Item = T>,
    mut is_plain: impl FnMut(T) -> PyResult<bool>,
) -> PyResult<bool> {
    for part in parts {
        if !is_plain(part)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_plain_item(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(text.len()? <= TEXT_MOST);
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(bytes.as_bytes().len() <= TEXT_MOST);
    }
    let is_plain = object.is_none()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>();
    Ok(is_plain || object.get_type().is(function(object.py())?))
}

/// Returns the class of Python's functions.
pub(crate) fn function(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static FUNCTION: FirstUse<Py<PyType>> = FirstUse::new();
    FUNCTION.import(py, "types", "FunctionType")
}
