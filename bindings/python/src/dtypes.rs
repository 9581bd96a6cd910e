//! Converts dtypes between NumPy and core. Only NumPy can read all of its dtypes, so the package's
//! Python codec does that.
//!
//! Numbers are cached, so that no Python code runs for them after the first time. A daemon thread
//! that is inside Python code called from Rust would be unwound through Rust when the interpreter
//! ends.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shmarray::DType;

use crate::error::to_py;
use crate::first_use::{FirstUse, interned};

static ENCODE: FirstUse<Py<PyAny>> = FirstUse::new();
static DECODE: FirstUse<Py<PyAny>> = FirstUse::new();
/// The decoded dtypes of numbers, by their texts.
static NUMBERS: FirstUse<Py<PyDict>> = FirstUse::new();
/// Some encoded dtypes of numbers. NumPy has one object for each of its own dtypes, which lives
/// forever. The entries here keep theirs alive, too, so that no address is reused.
static ENCODED: Mutex<Vec<Encoded>> = Mutex::new(Vec::new());
const ENCODED_MOST: usize = 32;

struct Encoded {
    dtype: Py<PyAny>,
    number: DType,
    /// Its `str`, always the same object, which a pickler writes only once.
    text: Py<PyAny>,
}

/// Imports the codec now: a finalizer may be the first to need it, when imports no longer work.
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

/// Returns core's dtype of a `numpy.dtype`, or TypeError if it cannot be shared.
pub(crate) fn from_numpy(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    match number(dtype)? {
        Some(number) => Ok(number),
        None => DType::parse(encode(dtype.py())?.call1((dtype,))?.extract()?).map_err(to_py),
    }
}

/// Returns core's dtype of a dtype that `is_number`, or `None`.
pub(crate) fn number(dtype: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if let Some(number) = encoded(dtype, |encoded| encoded.number.clone()) {
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

/// Returns the type string of a number, which unpickling accepts as a dtype. Returns any other
/// dtype itself.
pub(crate) fn compact<'py>(dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    if let Some(text) = encoded(dtype, |encoded| encoded.text.clone_ref(py)) {
        return Ok(text.into_bound(py));
    }
    match number(dtype)? {
        Some(_) => dtype.getattr("str"),
        None => Ok(dtype.clone()),
    }
}

fn encoded<T>(dtype: &Bound<'_, PyAny>, part: impl FnOnce(&Encoded) -> T) -> Option<T> {
    let all = ENCODED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|one| one.dtype.is(dtype)).map(part)
}

fn keep(dtype: &Bound<'_, PyAny>, number: &DType, text: Bound<'_, PyAny>) {
    let mut all = ENCODED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() < ENCODED_MOST {
        all.push(Encoded {
            dtype: dtype.clone().unbind(),
            number: number.clone(),
            text: text.unbind(),
        });
    }
}

/// Returns a dtype with items of this size, whatever they mean.
pub(crate) fn of_size(itemsize: u64) -> PyResult<DType> {
    match DType::ALL.iter().find(|row| row.itemsize() == itemsize) {
        Some(row) => Ok(row.clone()),
        None => DType::opaque(itemsize).map_err(to_py),
    }
}

/// Returns whether it is one of NumPy's own dtypes, native and without metadata, so that its type
/// string describes it completely.
fn is_number(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = dtype.py();
    let kind = dtype.getattr(interned!(py, "kind"))?;
    let is_builtin = dtype.getattr(interned!(py, "isbuiltin"))?.extract::<i32>()? == 1;
    let plain = is_builtin && dtype.getattr(interned!(py, "metadata"))?.is_none();
    Ok(plain && "biufc".contains(kind.extract::<&str>()?))
}

/// Returns the `numpy.dtype` of core's dtype, or ValueError if the text is none of NumPy's.
pub(crate) fn to_numpy<'py>(py: Python<'py>, dtype: &DType) -> PyResult<Bound<'py, PyAny>> {
    let numbers = NUMBERS.get_or_try_make(py, || Ok(PyDict::new(py).unbind()))?.bind(py);
    if let Some(number) = numbers.get_item(dtype.text())? {
        return Ok(number);
    }
    let decoded = decode(py)?.call1((dtype.text(),))?;
    if is_number(&decoded)? {
        numbers.set_item(dtype.text(), &decoded)?;
    }
    Ok(decoded)
}
