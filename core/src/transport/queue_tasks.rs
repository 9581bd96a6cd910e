//! The tasks of a queue that are not done, each of which is lost with its process.
//!
//! A queue is a [`Pipe`], and each of its messages is a *task* until the process that received it
//! says that it is done. Python's `JoinableQueue` is the only user: bindings/python/TASKS.md
//! ("Tasks of a queue") describes what a crash at each step leaves.
//!
//! Each process of the queue has an *entry*, a word that counts the tasks which the process has: it
//! is about to send them, or received them and they are not done. The binding says which entries
//! are living processes'. So a task is in the entry of a process, in the pipe, or in both, and none
//! is left when the pipe is empty, no living process's entry has any, and no entry has changed
//! while the pipe was looked at.
//!
//! The word of an entry: the tasks in the lower half, and in the upper one the count of changes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::pipe::{Pipe, Received};
use crate::system::{AsFd, BorrowedFd, OwnedFd, SharedWords};
use crate::value::error::{Error, Result};

/// The words before the entries. The number of tasks that are not done, which says when to wake: it
/// is too high after a death, until the entry is used again. And the number of entries that were
/// ever used.
const UNFINISHED: usize = 0;
const USED: usize = 1;
const FRONT: usize = 2;

/// One change, in the upper half.
const CHANGE: u64 = 1 << 32;

/// The number of entries, which is a limit of the processes that have a queue.
pub const QUEUE_TASK_ENTRIES: usize = 1 << 16;

/// The tasks of a queue that are not done.
#[derive(Debug)]
pub struct QueueTasks(SharedWords);

impl QueueTasks {
    /// Returns the tasks of a new queue, which has none.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn new() -> Result<Self> {
        SharedWords::new(FRONT + QUEUE_TASK_ENTRIES).map(Self)
    }

    /// Opens the tasks that another process made, from their fd.
    ///
    /// # Errors
    /// [`Error::Os`] or [`Error::InvalidArgument`] when it is not an fd of such tasks.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let words = SharedWords::open(fd)?;
        if words.words().len() == FRONT + QUEUE_TASK_ENTRIES {
            Ok(Self(words))
        } else {
            Err(Error::argument("fd", "it has no tasks of a queue"))
        }
    }

    fn entry(&self, entry: usize) -> &AtomicU64 {
        &self.0.words()[FRONT + entry]
    }

    fn hold(&self, entry: usize) {
        self.entry(entry).fetch_add(CHANGE + 1, SeqCst);
    }

    fn let_go(&self, entry: usize) {
        self.entry(entry).fetch_add(CHANGE - 1, SeqCst); // the change is the carry
        self.wake_if_done();
    }

    fn wake_if_done(&self) {
        if self.unfinished() <= 0 {
            self.0.wake_all();
        }
    }

    fn finish(&self, count: u64) {
        self.0.words()[UNFINISHED].fetch_sub(count, SeqCst);
        self.wake_if_done();
    }

    /// Begins to use an entry, which no living process has. The tasks of the process that had it
    /// are lost.
    ///
    /// # Panics
    /// If `entry` is not below [`QUEUE_TASK_ENTRIES`], here and in the other methods.
    pub fn claim(&self, entry: usize) {
        let word = self.entry(entry);
        let lost = word.load(SeqCst) % CHANGE;
        word.fetch_add(CHANGE - lost, SeqCst);
        self.0.words()[USED].fetch_max(entry as u64 + 1, SeqCst);
        self.finish(lost);
    }

    /// Records a task that the process of the entry is about to send.
    pub fn put(&self, entry: usize) {
        self.0.words()[UNFINISHED].fetch_add(1, SeqCst);
        self.hold(entry);
    }

    /// Records that a task is in the pipe.
    pub fn set_in_pipe(&self, entry: usize) {
        self.let_go(entry);
    }

    /// Records that a task of the entry's process is done, or will not be sent.
    pub fn set_done(&self, entry: usize) {
        self.let_go(entry);
        self.finish(1);
    }

    /// Receives a task. Its process has it until it is done.
    ///
    /// # Errors
    /// As for [`Pipe::receive`].
    pub fn receive(
        &self,
        entry: usize,
        pipe: &Pipe,
        timeout: Option<Duration>,
    ) -> Result<Received> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            // A process that waits has no task, so it is not recorded meanwhile.
            self.hold(entry);
            let received = pipe.receive(Some(Duration::ZERO));
            if !matches!(received, Ok(Received::Message(_))) {
                self.let_go(entry);
            }
            match received {
                Ok(Received::TimedOut) if !timeout.is_some_and(|timeout| timeout.is_zero()) => {
                    if !pipe.wait(false, until)? {
                        return Ok(Received::TimedOut);
                    }
                }
                done => return done,
            }
        }
    }

    /// Returns the words of the entries that were ever used.
    #[must_use]
    pub fn entries(&self) -> Vec<u64> {
        let used = self.0.words()[USED].load(SeqCst) as usize;
        let entries = &self.0.words()[FRONT..];
        entries[..used.min(entries.len())].iter().map(|word| word.load(SeqCst)).collect()
    }

    /// Returns the number of tasks in the word of an entry.
    #[must_use]
    pub fn held(word: u64) -> u64 {
        word % CHANGE
    }

    /// Returns about how many tasks are not done.
    #[must_use]
    pub fn unfinished(&self) -> i64 {
        self.0.words()[UNFINISHED].load(SeqCst) as i64
    }

    /// Returns the count of wake-ups. A process reads it before it looks at the entries.
    #[must_use]
    pub fn wakeups(&self) -> u32 {
        self.0.wakeups()
    }

    /// Waits until there was another wake-up than `seen`, or the time is over.
    ///
    /// # Errors
    /// [`Error::Os`], with `EINTR` when a signal ended the wait.
    pub fn wait(&self, seen: u32, timeout: Duration) -> Result<()> {
        let failed = |error: io::Error| Error::os("futex", "", error);
        self.0.wait(seen, timeout, || false).map_err(failed)
    }
}

impl AsFd for QueueTasks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
