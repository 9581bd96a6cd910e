//! Dtypes across the border: only NumPy can read its own, so the package's codec does.
//!
//! For numbers no Python code runs after the first time: a daemon thread that is inside Python code
//! which Rust has called would, when the interpreter ends, be unwound through Rust.

use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use shmarray::DType;

use crate::error::to_py;

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// The dtypes of numbers that were decoded, by their texts.
static NUMBERS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// Some dtypes of numbers that were encoded. NumPy's own are one object each, and live for ever;
/// those that are here do, too, so that none has the address of another.
static ENCODED: Mutex<Vec<Known>> = Mutex::new(Vec::new());
const ENCODED_MOST: usize = 32;

struct Known {
    dtype: Py<PyAny>,
    number: DType,
    /// Its `str`: one object, which a pickler writes once.
    text: Py<PyAny>,
}

/// Finds the codec now: a finalizer may be the first to need it, when nothing can be imported.
pub(crate) fn load(py: Python<'_>) -> PyResult<()> {
    encode(py)?;
    decode(py)?;
    Ok(())
}

fn encode(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    ENCODE.import(py, "shmarray._dtypes", "encode")
}

fn decode(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    DECODE.import(py, "shmarray._dtypes", "decode")
}

/// Core's dtype of a `numpy.dtype`; TypeError when it cannot be shared.
pub(crate) fn from_numpy(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    match number(dtype)? {
        Some(number) => Ok(number),
        None => DType::parse(encode(dtype.py())?.call1((dtype,))?.extract()?).map_err(to_py),
    }
}

/// Core's dtype of one that `is_number`.
pub(crate) fn number(dtype: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if let Some(number) = encoded(dtype, |known| known.number.clone()) {
        return Ok(Some(number));
    }
    if !is_number(dtype)? {
        return Ok(None);
    }
    let text = dtype.getattr("str")?;
    let number = DType::parse(text.extract()?).map_err(to_py)?;
    keep(dtype, &number, text);
    Ok(Some(number))
}

/// What tells a dtype where it is unpickled: of a number its text, of any other the dtype itself.
pub(crate) fn compact<'py>(dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    if let Some(text) = encoded(dtype, |known| known.text.clone_ref(py)) {
        return Ok(text.into_bound(py));
    }
    match number(dtype)? {
        Some(_) => dtype.getattr("str"),
        None => Ok(dtype.clone()),
    }
}

fn encoded<T>(dtype: &Bound<'_, PyAny>, part: impl FnOnce(&Known) -> T) -> Option<T> {
    let known = ENCODED.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().find(|one| one.dtype.is(dtype)).map(part)
}

fn keep(dtype: &Bound<'_, PyAny>, number: &DType, text: Bound<'_, PyAny>) {
    let mut known = ENCODED.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() < ENCODED_MOST {
        known.push(Known {
            dtype: dtype.clone().unbind(),
            number: number.clone(),
            text: text.unbind(),
        });
    }
}

/// A dtype of items of a size, whatever they mean.
pub(crate) fn of_size(itemsize: u64) -> PyResult<DType> {
    match DType::ALL.iter().find(|row| row.item_bytes() == itemsize) {
        Some(row) => Ok(row.clone()),
        None => DType::opaque(itemsize).map_err(to_py),
    }
}

/// One of NumPy's own, native and without metadata: its type string tells all of it.
fn is_number(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = dtype.py();
    let kind = dtype.getattr(intern!(py, "kind"))?;
    let is_builtin = dtype.getattr(intern!(py, "isbuiltin"))?.extract::<i32>()? == 1;
    let plain = is_builtin && dtype.getattr(intern!(py, "metadata"))?.is_none();
    Ok(plain && "biufc".contains(kind.extract::<&str>()?))
}

/// The `numpy.dtype` of core's; ValueError when the text is none of NumPy's.
pub(crate) fn to_numpy<'py>(py: Python<'py>, dtype: &DType) -> PyResult<Bound<'py, PyAny>> {
    let numbers = NUMBERS.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(number) = numbers.get_item(dtype.text())? {
        return Ok(number);
    }
    let decoded = decode(py)?.call1((dtype.text(),))?;
    if is_number(&decoded)? {
        numbers.set_item(dtype.text(), &decoded)?;
    }
    Ok(decoded)
}
