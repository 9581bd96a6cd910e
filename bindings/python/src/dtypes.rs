//! Dtypes across the border: only NumPy can read its own, so the package's codec does.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use shmarray::DType;

use crate::errors::to_py;

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

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
    let text = encode(dtype.py())?.call1((dtype,))?;
    DType::parse(text.extract()?).map_err(to_py)
}

/// The `numpy.dtype` of core's; ValueError when the text is none of NumPy's.
pub(crate) fn to_numpy<'py>(py: Python<'py>, dtype: &DType) -> PyResult<Bound<'py, PyAny>> {
    decode(py)?.call1((dtype.text(),))
}
