//! The tasks of a queue that are not done.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::{to_py, value_error};
use crate::wait::wait;

use super::pipe::copy_of;

/// Wraps `shmarray::QueueTasks`, with the entry of this process.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct QueueTasks {
    pub(super) tasks: shmarray::QueueTasks,
    /// The number of the entry. There is none at first, and in a forked child.
    entry: AtomicUsize,
    /// How many tasks this process got by this object, and has not done.
    got: AtomicU64,
}

const NO_ENTRY: usize = usize::MAX;

impl QueueTasks {
    fn with(tasks: shmarray::QueueTasks) -> Self {
        Self { tasks, entry: AtomicUsize::new(NO_ENTRY), got: AtomicU64::new(0) }
    }

    /// Returns this process's entry.
    pub(super) fn entry(&self) -> PyResult<usize> {
        match self.entry.load(Relaxed) {
            NO_ENTRY => Err(value_error("this process has no entry of the queue")),
            entry => Ok(entry),
        }
    }

    /// Records that this process got a task.
    pub(super) fn add_got(&self) {
        self.got.fetch_add(1, Relaxed);
    }
}

#[pymethods]
impl QueueTasks {
    #[new]
    fn new() -> PyResult<Self> {
        shmarray::QueueTasks::new().map(Self::with).map_err(to_py)
    }

    /// Returns the tasks of an fd, which they own from then on. If this raises, the caller still
    /// owns it.
    #[staticmethod]
    #[allow(unsafe_code)]
    fn from_fd(fd: RawFd) -> PyResult<Self> {
        shmarray::QueueTasks::from_fd(copy_of(fd)?).map_err(to_py)?;
        // SAFETY: `copy_of` has found that `fd` is open, and the caller passes its ownership on.
        let tasks = shmarray::QueueTasks::from_fd(unsafe { OwnedFd::from_raw_fd(fd) });
        tasks.map(Self::with).map_err(to_py)
    }

    /// Returns the fd, which the tasks still own.
    fn fileno(&self) -> RawFd {
        self.tasks.as_fd().as_raw_fd()
    }

    /// Begins to use an entry, which no living process has.
    fn claim(&self, entry: usize) -> PyResult<()> {
        if entry >= shmarray::QUEUE_TASK_ENTRIES {
            return Err(value_error("invalid entry: there are not so many"));
        }
        self.tasks.claim(entry);
        self.entry.store(entry, Relaxed);
        Ok(())
    }

    /// Forgets the entry, which is that of the process that forked this one.
    fn forget(&self) {
        self.entry.store(NO_ENTRY, Relaxed);
        self.got.store(0, Relaxed);
    }

    /// This process is about to send a task.
    fn put(&self) -> PyResult<()> {
        self.tasks.put(self.entry()?);
        Ok(())
    }

    /// A task of this process is in the pipe.
    pub(super) fn set_in_pipe(&self) -> PyResult<()> {
        self.tasks.set_in_pipe(self.entry()?);
        Ok(())
    }

    /// A task of this process will not be sent.
    fn set_lost(&self) -> PyResult<()> {
        self.tasks.set_done(self.entry()?);
        Ok(())
    }

    /// A task that this process got is done. Returns false if it has none.
    fn set_done(&self) -> PyResult<bool> {
        let less = |got: u64| got.checked_sub(1);
        if self.got.fetch_update(Relaxed, Relaxed, less).is_err() {
            return Ok(false);
        }
        self.tasks.set_done(self.entry()?);
        Ok(true)
    }

    /// Returns the words of the entries that were ever used, and which of these have tasks.
    fn entries(&self) -> (Vec<u64>, Vec<usize>) {
        let words = self.tasks.entries();
        let have_some = |entry: &usize| shmarray::QueueTasks::held(words[*entry]) > 0;
        let with_tasks = (0..words.len()).filter(have_some).collect();
        (words, with_tasks)
    }

    /// Returns about how many tasks are not done.
    fn unfinished(&self) -> i64 {
        self.tasks.unfinished()
    }

    /// Returns the count of wake-ups.
    fn wakeups(&self) -> u32 {
        self.tasks.wakeups()
    }

    /// Waits until there was another wake-up than `seen`, or this many seconds have passed.
    fn wait(&self, py: Python<'_>, seen: u32, seconds: f64) -> PyResult<()> {
        wait(py, Some(seconds), |left| self.tasks.wait(seen, left.unwrap_or(Duration::ZERO)))
    }
}
