//! Where a file comes from: a path, a file that is open, or the memory of an object.
#![allow(unsafe_code)] // the buffer protocol

use std::ffi::c_int;
use std::path::PathBuf;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use shmarray::npy::{FileMap, Source};

use crate::error::{to_py, value_error};
use crate::first_use::interned;

/// A source of core's, and what keeps its memory.
pub(crate) struct Input {
    /// Declared first, so that it goes before the memory that it reads.
    pub(crate) source: Source<'static>,
    /// The export of the object's buffer, if it is not `bytes`, whose memory nobody can change.
    pub(crate) export: Option<PyUntypedBuffer>,
}

impl Input {
    /// Returns the input of a path or of an object with a buffer, from a byte of it on. `None` for
    /// any other object.
    pub(crate) fn of(source: &Bound<'_, PyAny>, offset: usize) -> PyResult<Option<Self>> {
        if let Ok(bytes) = source.cast_exact::<PyBytes>() {
            let bytes = bytes.as_bytes();
            return Self::memory(bytes.as_ptr(), bytes.len(), offset, None).map(Some);
        }
        if let Some(path) = path_of(source)? {
            let source = source.py().detach(|| Source::file(path)).map_err(to_py)?;
            return Ok(Some(Self { source, export: None }));
        }
        let Ok(buffer) = PyUntypedBuffer::get(source) else { return Ok(None) };
        if !buffer.is_c_contiguous() {
            return Err(value_error("the buffer is not contiguous: pass bytes(source)"));
        }
        let start = buffer.buf_ptr().cast_const().cast();
        let size = buffer.len_bytes();
        Self::memory(start, size, offset, Some(buffer)).map(Some)
    }

    fn memory(
        start: *const u8,
        size: usize,
        offset: usize,
        export: Option<PyUntypedBuffer>,
    ) -> PyResult<Self> {
        let Some(rest) = size.checked_sub(offset) else {
            return Err(value_error("the offset is behind the end of the data"));
        };
        // SAFETY: `rest` bytes from `start + offset` on must stay readable. They are the object's
        // buffer, which `export` keeps, or those of a `bytes`, whose reference the owner of this
        // value keeps beside it.
        let source = unsafe { Source::memory(start.wrapping_add(offset), rest) };
        Ok(Self { source, export })
    }
}

impl Input {
    /// Returns an object that has the source's memory as its buffer and keeps it: `bytes` itself,
    /// or one that owns the export. `None` for a file.
    pub(crate) fn memory_of<'py>(
        &mut self,
        source: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.export.take() {
            Some(export) => Ok(Some(Bound::new(source.py(), BufferMemory(export))?.into_any())),
            None if self.source.is_memory() => Ok(Some(source.clone())),
            None => Ok(None),
        }
    }
}

/// The exported buffer of an object: the ``base`` of the arrays in it. NumPy itself would release
/// the export at once, and the object could free or move its memory.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct BufferMemory(PyUntypedBuffer);

#[pymethods]
impl BufferMemory {
    /// Exports the same memory.
    ///
    /// # Safety
    /// `view` points to a `Py_buffer` that may be written, as the interpreter guarantees for this
    /// slot.
    unsafe fn __getbuffer__(
        memory: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let buffer = &memory.get().0;
        let data = buffer.buf_ptr();
        let bytes = buffer.len_bytes() as isize;
        let readonly = c_int::from(buffer.readonly());
        // SAFETY: `PyBuffer_FillInfo` needs memory that outlives the view: the object keeps it as
        // long as its export lives in `memory`, to which the view gets a reference.
        let status =
            unsafe { ffi::PyBuffer_FillInfo(view, memory.as_ptr(), data, bytes, readonly, flags) };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(memory.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes of a buffer>", self.0.len_bytes())
    }
}

/// Returns the path that an object is, if it is a `str` or an `os.PathLike`.
pub(crate) fn path_of(object: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    let py = object.py();
    if object.cast::<PyString>().is_ok() || object.hasattr(interned!(py, "__fspath__"))? {
        return object.extract().map(Some);
    }
    Ok(None)
}

/// The memory of a mapped file, copy on write: the ``base`` of the arrays in it.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct FileMemory(pub(crate) FileMap);

#[pymethods]
impl FileMemory {
    /// Exports the bytes of the file.
    ///
    /// # Safety
    /// `view` points to a `Py_buffer` that may be written, as the interpreter guarantees for this
    /// slot.
    unsafe fn __getbuffer__(
        memory: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let map = &memory.get().0;
        let data = map.as_ptr().cast();
        let bytes = map.size_bytes() as isize;
        // SAFETY: `PyBuffer_FillInfo` needs memory that outlives the view: the file is mapped while
        // `memory` lives, to which the view gets a reference.
        match unsafe { ffi::PyBuffer_FillInfo(view, memory.as_ptr(), data, bytes, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(memory.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes of a mapped file>", self.0.size_bytes())
    }
}
