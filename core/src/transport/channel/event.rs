//! The fd of a channel, for event loops: readable while a receive need not wait.
//!
//! A thread of this process sleeps where receivers sleep, and sets the event when there is
//! something. It then waits until a receive has found nothing, which clears the event.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use super::wait::{self, Look, SleepWord};
use crate::system::{self, AsFd, BorrowedFd, EventFd, Mutex};
use crate::transport::spins::Spins;
use crate::value::error::{Error, Result};

/// The stack of the thread, which calls little.
const STACK_BYTES: usize = 256 << 10;

struct Shared {
    event: EventFd,
    is_set: AtomicBool,
    is_over: AtomicBool,
    /// Locked while the event and `is_set` change.
    changing: Mutex<()>,
}

/// An event that is set while something can be received.
pub(super) struct Event {
    shared: Arc<Shared>,
    thread: Thread,
    running: Mutex<Option<JoinHandle<()>>>,
    /// The number of forks that led to this process: a forked child has no such thread.
    fork: u32,
}

/// The event of a [`Channel`](super::Channel), for event loops. Its fd is the same, and open, until
/// the last clone is dropped, also when the channel is closed; it is readable from then on.
#[derive(Clone)]
pub struct ChannelEvent(Arc<Event>);

impl ChannelEvent {
    pub(super) fn of(event: Arc<Event>) -> Self {
        Self(event)
    }

    /// The number of the fd.
    pub(super) fn number(&self) -> c_int {
        self.0.shared.event.number()
    }
}

impl AsFd for ChannelEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.shared.event.as_fd()
    }
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for ChannelEvent {
    fn as_raw_fd(&self) -> c_int {
        self.number()
    }
}

impl fmt::Debug for ChannelEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChannelEvent").field(&self.number()).finish()
    }
}

/// What an event's thread looks at.
pub(super) trait Readiness: Send + Sync + 'static {
    fn sleep_word(&self) -> &impl SleepWord;

    fn spins(&self) -> &Spins;

    /// Whether a receive would not wait. Fails when the channel is closed.
    fn is_ready(&self, may_sleep: bool) -> Result<bool>;

    /// Called by one that waited and takes nothing.
    fn pass_on_wake_up(&self) {}
}

impl Shared {
    fn set(&self) {
        let _changing = self.changing.lock();
        self.is_set.store(true, Ordering::Release);
        self.event.set();
    }
}

impl Event {
    /// Makes an event, and starts its thread. That ends when `source` says that it is closed.
    pub(super) fn new(source: Arc<impl Readiness>) -> Result<Self> {
        let event = EventFd::new().map_err(|error| Error::os("eventfd", "", error))?;
        let is_set = AtomicBool::new(false);
        let is_over = AtomicBool::new(false);
        let shared = Arc::new(Shared { event, is_set, is_over, changing: Mutex::new(()) });
        let start = || {
            let threads = Arc::clone(&shared);
            let source = Arc::clone(&source);
            thread::Builder::new()
                .name("shmarray-channel".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || watch(&threads, &*source))
        };
        // EAGAIN says that no thread can be had, or no address space for its stack.
        let is_short = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let started = system::or_after_relief_of(is_short, start);
        let running = started.map_err(|error| Error::os("clone", "", error))?;
        let thread = running.thread().clone();
        let running = Mutex::new(Some(running));
        Ok(Self { shared, thread, running, fork: system::forks() })
    }

    /// Whether its thread is one of this process, and not of the one that forked it.
    pub(super) fn is_ours(&self) -> bool {
        self.fork == system::forks()
    }

    /// Clears the event, after a receive that found nothing. The thread looks again.
    pub(super) fn clear(&self) {
        let _changing = self.shared.changing.lock();
        if self.shared.is_set.load(Ordering::Acquire)
            && !self.shared.is_over.load(Ordering::Acquire)
        {
            self.shared.event.clear();
            self.shared.is_set.store(false, Ordering::Release);
            self.thread.unpark();
        }
    }

    /// Ends the thread, after the channel was closed. It has the channel open until then.
    pub(super) fn end(&self) {
        self.thread.unpark();
        let running = self.running.lock().take();
        running.into_iter().for_each(|running| _ = running.join()); // it does not panic
    }
}

/// Waits until a receive would not wait. Returns whether that is so.
pub(super) fn wait_until_ready(source: &impl Readiness, timeout: Option<Duration>) -> Result<bool> {
    let ready = wait::wait(source.sleep_word(), source.spins(), timeout, |may_sleep| {
        Ok(if source.is_ready(may_sleep)? { Look::Found(()) } else { Look::Nothing })
    })?;
    if ready.is_some() {
        source.pass_on_wake_up();
    }
    Ok(ready.is_some())
}

/// Runs in the thread.
fn watch(shared: &Shared, source: &impl Readiness) {
    system::block_signals();
    loop {
        let ready = wait_until_ready(source, None);
        let is_over = ready.is_err();
        shared.is_over.store(is_over, Ordering::Release);
        shared.set(); // also at the end: a receive then says why
        if is_over {
            return;
        }
        while shared.is_set.load(Ordering::Acquire) {
            if source.is_ready(false).is_err() {
                return; // closed
            }
            thread::park();
        }
    }
}
