//! Many NPY files in one array.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use shmarray::npy::{Batch, Source};
use shmarray::{Error, ErrorKind, Layout, Options, Order};

use super::input::{Input, path_of};
use super::room::Room;
use crate::error::{expected, to_py, value_error};
use crate::{dtypes, segment_memory};

/// How often the program is told of the progress, and asked whether it was interrupted.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// A file of a batch: opened when its turn comes, or memory.
enum File {
    Path(PathBuf),
    Memory(Input),
}

impl File {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(path) = path_of(object)? {
            return Ok(Self::Path(path));
        }
        let input = Input::of(object, 0)?;
        input.map(Self::Memory).ok_or_else(|| expected("paths, or the bytes of files", object))
    }

    fn open(&self) -> shmarray::Result<Source<'_>> {
        match self {
            Self::Path(path) => Source::file(path),
            Self::Memory(input) => Ok(input.source.again()),
        }
    }
}

/// Returns one array with the arrays of all files. `progress` is called with the number of files
/// that are read, in this thread.
#[pyfunction]
pub(crate) fn load_batch<'py>(
    py: Python<'py>,
    sources: Vec<Bound<'py, PyAny>>,
    shared: bool,
    threads: usize,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let files: Vec<File> = sources.iter().map(File::of).collect::<PyResult<_>>()?;
    let teller = Teller::new(progress.map(Bound::unbind), files.len());
    let tell = |done| teller.tell(done);
    let open = |index: usize| files[index].open();
    let batch = py.detach(|| Batch::open(files.len(), open)).map_err(refused)?;
    let dtype = dtypes::to_numpy(py, batch.header().dtype().map_err(to_py)?)?;
    if shared {
        let array = py.detach(|| batch.load(&Options::new(), threads, &tell));
        return segment_memory::to_ndarray(&dtype, array.map_err(|error| teller.error(error))?);
    }
    let itemsize = batch.header().dtype().map_err(to_py)?.itemsize();
    let layout = Layout::contiguous(batch.shape(), itemsize, Order::C).map_err(to_py)?;
    let mut room = Room::new(&dtype, &layout, Order::C, batch.size_bytes())?;
    let to = room.slice();
    let read = py.detach(|| batch.read_into(to, threads, &tell));
    read.map_err(|error| teller.error(error))?;
    Ok(room.filled())
}

/// Returns the exception for a first file that cannot begin a batch. One with Python objects is a
/// ValueError, as for `load_npy`.
fn refused(error: Error) -> PyErr {
    match error.kind() {
        ErrorKind::InvalidDType => value_error(error.to_string()),
        _ => to_py(error),
    }
}

/// Tells the program of the progress, at intervals.
struct Teller {
    progress: Option<Py<PyAny>>,
    total: usize,
    reported: Mutex<Instant>,
    /// The exception of the program, or of a signal.
    raised: Mutex<Option<PyErr>>,
}

impl Teller {
    fn new(progress: Option<Py<PyAny>>, total: usize) -> Self {
        Self { progress, total, reported: Mutex::new(Instant::now()), raised: Mutex::new(None) }
    }

    fn tell(&self, done: usize) -> shmarray::Result<()> {
        let is_due = self.reported.lock().is_ok_and(|mut reported| {
            let is_due = done == self.total || reported.elapsed() >= REPORT_EVERY;
            if is_due {
                *reported = Instant::now();
            }
            is_due
        });
        if !is_due {
            return Ok(());
        }
        let called = Python::attach(|py| {
            py.check_signals()?;
            match &self.progress {
                Some(progress) => progress.call1(py, (done, self.total)).map(drop),
                None => Ok(()),
            }
        });
        called.map_err(|raised| {
            if let Ok(mut slot) = self.raised.lock() {
                slot.get_or_insert(raised);
            }
            Error::Unsupported { what: "a batch whose progress raised an exception" }
        })
    }

    /// Returns the exception that ended the work, or the one for core's error.
    fn error(&self, error: Error) -> PyErr {
        let raised = self.raised.lock().ok().and_then(|mut raised| raised.take());
        raised.unwrap_or_else(|| to_py(error))
    }
}
