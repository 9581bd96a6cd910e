//! Converts dtypes between NumPy and core. Only NumPy can read all of its dtypes, so the package's
//! Python codec does that.
//!
//! The dtypes of the table are cached, so that no Python code runs for them after the first time.
//! A daemon thread that is inside Python code called from Rust would be unwound through Rust when
//! the interpreter ends.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shmarray::{DType, TypeCode};

use crate::error::to_py;
use crate::first_use::{FirstUse, interned};

static ENCODE: FirstUse<Py<PyAny>> = FirstUse::new();
static DECODE: FirstUse<Py<PyAny>> = FirstUse::new();
/// The decoded dtypes of the table, by their texts.
static DECODED: FirstUse<Py<PyDict>> = FirstUse::new();
/// Some encoded dtypes of the table. NumPy has one object for each of its own dtypes, which lives
/// forever. The entries here keep theirs alive, too, so that no address is reused.
static ENCODED: Mutex<Vec<Encoded>> = Mutex::new(Vec::new());
const ENCODED_MOST: usize = 64;

struct Encoded {
    dtype: Py<PyAny>,
    row: DType,
    /// A number's `str`, always the same object, which a pickler writes only once. A dtype by name
    /// has none: its name is a dtype only where its package is imported.
    text: Option<Py<PyAny>>,
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
    if let Some(row) = encoded(dtype, |encoded| encoded.row.clone()) {
        return Ok(row);
    }
    if let Some(number) = number(dtype)? {
        return Ok(number);
    }
    let encoded = encode(dtype.py())?.call1((dtype,))?;
    let text: &str = encoded.extract()?;
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return DType::parse(text).map_err(to_py);
    }
    let by_name = DType::by_name(text, dtype.getattr("itemsize")?.extract()?).map_err(to_py)?;
    if by_name.code() != TypeCode::Opaque && dtype.getattr("metadata")?.is_none() {
        keep(dtype, &by_name, None);
    }
    Ok(by_name)
}

/// Returns core's dtype of a dtype that `is_number`, or `None`.
pub(crate) fn number(dtype: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if let Some((row, true)) = encoded(dtype, |one| (one.row.clone(), one.text.is_some())) {
        return Ok(Some(row));
    }
    if !is_number(dtype)? {
        return Ok(None);
    }
    let text = dtype.getattr("str")?;
    let number = DType::parse(text.extract()?).map_err(to_py)?;
    keep(dtype, &number, Some(text));
    Ok(Some(number))
}

/// Returns the type string of a number, which unpickling accepts as a dtype. Returns any other
/// dtype itself.
pub(crate) fn compact<'py>(dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let text = encoded(dtype, |encoded| encoded.text.as_ref().map(|text| text.clone_ref(py)));
    if let Some(text) = text.flatten() {
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

fn keep(dtype: &Bound<'_, PyAny>, row: &DType, text: Option<Bound<'_, PyAny>>) {
    let mut all = ENCODED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() < ENCODED_MOST {
        all.push(Encoded {
            dtype: dtype.clone().unbind(),
            row: row.clone(),
            text: text.map(Bound::unbind),
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

/// Returns the `numpy.dtype` of core's dtype, ValueError if the text is none of NumPy's, or
/// ImportError if the package that has it is missing.
pub(crate) fn to_numpy<'py>(py: Python<'py>, dtype: &DType) -> PyResult<Bound<'py, PyAny>> {
    let all = DECODED.get_or_try_make(py, || Ok(PyDict::new(py).unbind()))?.bind(py);
    if let Some(number) = all.get_item(dtype.text())? {
        return Ok(number);
    }
    let decoded = decode(py)?.call1((dtype.text(),))?;
    if dtype.code() != TypeCode::Opaque || is_number(&decoded)? {
        all.set_item(dtype.text(), &decoded)?;
    }
    Ok(decoded)
}
