//! Objects that are made at their first use, without a lock that a fork could leave locked.
//!
//! pyo3's own way, `get_or_init`, locks a cell, releases the GIL, takes it again and makes the
//! value. A child that another thread forks meanwhile waits for the cell for ever: the thread that
//! was to fill it exists only in the parent. Here the value is made first and the cell is filled
//! afterwards.
//!
//! | step | a child forked now |
//! |---|---|
//! | make the value, perhaps in Python | finds the cell empty, and makes a value of its own |
//! | fill the cell, with the GIL | does not exist: a fork needs the GIL, too |
//! | use it | has it |
//!
//! Two threads may both make a value; the second is dropped. pyo3 has such cells of its own, which
//! [`make_pyo3s`] makes when the module is imported.
#![allow(clippy::disallowed_types, reason = "only the cells' `get` and `set` are called")]

use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PySequence, PyString};
use pyo3::{PyTypeCheck, PyTypeInfo};

/// A cell that is filled at its first use.
pub(crate) struct FirstUse<T>(PyOnceLock<T>);

impl<T> FirstUse<T> {
    pub(crate) const fn new() -> Self {
        Self(PyOnceLock::new())
    }

    /// Returns the value, made by `make` if there was none. `make` runs without any lock.
    pub(crate) fn get_or_try_make(
        &self,
        py: Python<'_>,
        mut make: impl FnMut() -> PyResult<T>,
    ) -> PyResult<&T> {
        loop {
            match self.0.get(py) {
                Some(made) => return Ok(made),
                // `set` keeps the GIL. Of two values it refuses the second, which is dropped.
                None => drop(self.0.set(py, make()?)),
            }
        }
    }
}

impl<T: PyTypeCheck> FirstUse<Py<T>> {
    /// Returns a module's attribute, imported now if it was not yet.
    pub(crate) fn import<'py>(
        &self,
        py: Python<'py>,
        module: &str,
        name: &str,
    ) -> PyResult<&Bound<'py, T>> {
        let import = || Ok(py.import(module)?.getattr(name)?.cast_into()?.unbind());
        self.get_or_try_make(py, import).map(|made| made.bind(py))
    }
}

impl FirstUse<Py<PyString>> {
    /// Returns Python's one string with this text.
    pub(crate) fn intern<'py>(&self, py: Python<'py>, text: &str) -> &Bound<'py, PyString> {
        let intern = || Ok(PyString::intern(py, text).unbind());
        match self.get_or_try_make(py, intern) {
            Ok(made) => made.bind(py),
            Err(_) => unreachable!("`intern` returns no error"),
        }
    }
}

/// `interned!(py, "text")`: Python's one string with this text, looked up once.
macro_rules! interned {
    ($py:expr, $text:literal) => {{
        static TEXT: $crate::first_use::FirstUse<pyo3::Py<pyo3::types::PyString>> =
            $crate::first_use::FirstUse::new();
        TEXT.intern($py, $text)
    }};
}
pub(crate) use interned;

/// Fills pyo3's own cells by using them: its entry from a thread without the GIL, the texts of a
/// class's name, of a traceback and of a refused argument, and the types that it imports.
///
/// `refusing` is a function of this module that takes a text.
pub(crate) fn make_pyo3s(refusing: &Bound<'_, PyCFunction>) -> PyResult<()> {
    let py = refusing.py();
    py.detach(|| Python::attach(|_| ()));
    let class = PanicException::type_object(py);
    class.fully_qualified_name()?;
    class.module()?;
    PySequence::type_object(py);
    py.import("numpy")?.getattr("bool_")?.call1((true,))?.extract::<bool>()?;
    let _ = refusing.call1((py.None(),)); // a TypeError with a note
    let raised = py.run(c"raise ValueError", None, None);
    if let Some(traceback) = raised.err().and_then(|raised| raised.traceback(py)) {
        traceback.format()?;
    }
    Ok(())
}
