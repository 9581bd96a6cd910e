//! Dtypes across the border: only NumPy can read its own, so the package's codec does.
//!
//! For numbers no Python code runs after the first time: a daemon thread that is inside Python code
//! which Rust has called would, when the interpreter ends, be unwound through Rust.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use shmarray::DType;

use crate::errors::to_py;

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// The dtypes of numbers that were decoded, by their texts.
static NUMBERS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

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
    let text = match is_number(dtype)? {
        true => dtype.getattr("str")?,
        false => encode(dtype.py())?.call1((dtype,))?,
    };
    DType::parse(text.extract()?).map_err(to_py)
}

/// One of NumPy's own, native and without metadata: its type string tells all of it.
fn is_number(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = dtype.getattr("kind")?;
    let plain = dtype.getattr("isbuiltin")?.extract::<i32>()? == 1 && dtype.getattr("metadata")?.is_none();
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
