//! Saving arrays, without the GIL.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shmarray::npy::{
    Contents, Elements, NpyHeader, NpzOptions, save_elements, save_npz as save_npz_file, write_npy,
    write_npz, write_npz_stream,
};
use shmarray::{Order, Result};

use super::input::path_of;
use crate::dtypes;
use crate::error::{expected, to_py};
use crate::first_use::interned;
use crate::memory::Memory;

/// Saves an ndarray to a path, or to the `write` of an object. Returns the major version of the
/// format.
#[pyfunction]
pub(crate) fn save_npy(to: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<u8> {
    let elements = elements_of(array)?;
    let version = elements.header().to_bytes().map_err(to_py)?[6];
    match path_of(to)? {
        Some(path) => to.py().detach(|| save_elements(path, &elements)).map_err(to_py)?,
        None => Writer::write(to, |writer| write_npy(writer, &elements))?,
    }
    Ok(version)
}

/// Saves members to a path, or to the `write` of an object. A member is a name with `.npy` and an
/// ndarray, or bytes. Returns the highest major version of their formats.
#[pyfunction]
pub(crate) fn save_npz(
    to: &Bound<'_, PyAny>,
    members: Vec<(String, Bound<'_, PyAny>)>,
    options: (bool, usize, u16),
) -> PyResult<u8> {
    let mut contents = Vec::with_capacity(members.len());
    for (name, member) in &members {
        contents.push((name.as_str(), contents_of(member)?));
    }
    let (is_deflated, threads, align) = options;
    let options = NpzOptions { is_deflated, threads, align };
    let version = contents.iter().map(version_of).collect::<PyResult<Vec<_>>>()?;
    match path_of(to)? {
        Some(path) => to.py().detach(|| save_npz_file(path, &contents, options)).map_err(to_py)?,
        None if is_seekable(to) => {
            Writer::write(to, |writer| write_npz(writer, &contents, options))?;
        }
        None => Writer::write(to, |writer| write_npz_stream(writer, &contents, options))?,
    }
    Ok(version.into_iter().max().unwrap_or(1))
}

/// Returns the major version of the format in which a member is saved.
fn version_of((_, contents): &(&str, Contents<'_>)) -> PyResult<u8> {
    match contents {
        Contents::Elements(elements) => Ok(elements.header().to_bytes().map_err(to_py)?[6]),
        Contents::Bytes(_) => Ok(1), // NumPy wrote them, and warned
    }
}

/// Saves the bytes of a file to a path.
#[pyfunction]
pub(crate) fn save_bytes(py: Python<'_>, path: PathBuf, bytes: &[u8]) -> PyResult<()> {
    py.detach(|| shmarray::npy::save_bytes(path, bytes)).map_err(to_py)
}

/// Raises TypeError for a dtype that no file of core's describes.
#[pyfunction]
pub(crate) fn check_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let header = NpyHeader::new(dtypes::from_numpy(dtype)?, &[], Order::C).map_err(to_py)?;
    header.to_bytes().map(drop).map_err(to_py)
}

fn contents_of<'a>(member: &'a Bound<'_, PyAny>) -> PyResult<Contents<'a>> {
    match member.cast::<PyBytes>() {
        Ok(bytes) => Ok(Contents::Bytes(bytes.as_bytes())),
        Err(_) => elements_of(member).map(Contents::Elements),
    }
}

/// Returns the elements of an ndarray, which the caller keeps.
#[allow(unsafe_code)] // core reads memory that NumPy describes
fn elements_of<'a>(array: &'a Bound<'_, PyAny>) -> PyResult<Elements<'a>> {
    let memory = Memory::of(array)?;
    let dtype = dtypes::from_numpy(&array.getattr(interned!(array.py(), "dtype"))?)?;
    let start = memory.address() as *const u8;
    let layout = memory.layout().clone();
    // SAFETY: every element of the layout must be readable during `'a`. By M1 of `memory` they are
    // while the ndarray lives, to which `array` keeps a reference during `'a`.
    unsafe { Elements::memory(start, dtype, layout) }.map_err(to_py)
}

/// Whether a file can write over what it has written, as zipfile finds out: one that is not a pipe.
/// A file that appends cannot.
fn is_seekable(file: &Bound<'_, PyAny>) -> bool {
    let seek_to_where_it_is = || file.call_method1("seek", (file.call_method0("tell")?,));
    let mode = file.getattr("mode").and_then(|mode| mode.extract::<String>());
    seek_to_where_it_is().is_ok() && !mode.is_ok_and(|mode| mode.contains('a'))
}

/// A file of Python's: an object with `write`, which takes bytes, and perhaps `seek` and `tell`.
struct Writer {
    file: Py<PyAny>,
    write: Py<PyAny>,
    /// The exception that it raised.
    raised: Option<PyErr>,
}

impl Writer {
    /// Calls `work` with the `write` of an object.
    fn write(
        to: &Bound<'_, PyAny>,
        work: impl FnOnce(&mut Self) -> Result<()> + Send,
    ) -> PyResult<()> {
        let py = to.py();
        let Ok(write) = to.getattr(interned!(py, "write")) else {
            return Err(expected("a path, or a file that is open for writing", to));
        };
        let mut writer = Self { file: to.clone().unbind(), write: write.unbind(), raised: None };
        let written = py.detach(|| work(&mut writer));
        match (writer.raised, written) {
            (Some(raised), _) => Err(raised),
            (None, written) => written.map_err(to_py),
        }
    }
}

impl Writer {
    fn call<T>(&mut self, call: impl FnOnce(Python<'_>, &Self) -> PyResult<T>) -> io::Result<T> {
        Python::attach(|py| call(py, self)).map_err(|raised| {
            self.raised = Some(raised);
            io::Error::other("the file raised an exception")
        })
    }
}

impl Seek for Writer {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(at) => {
                self.call(|py, writer| writer.file.call_method1(py, "seek", (at,)).map(|_| at))
            }
            SeekFrom::Current(0) => {
                self.call(|py, writer| writer.file.call_method0(py, "tell")?.extract(py))
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|py, writer| {
            let written = writer.write.bind(py).call1((PyBytes::new(py, bytes),))?;
            // A raw file tells how much it took; some objects return nothing, or anything.
            Ok(written.extract::<usize>().map_or(bytes.len(), |written| written.min(bytes.len())))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
