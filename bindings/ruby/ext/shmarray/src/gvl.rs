//! Runs work without Ruby's global lock, and in Ractors.
#![allow(unsafe_code)] // calls rb_thread_call_without_gvl2 and its relatives

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use magnus::rb_sys::protect;
use magnus::{Error, Ruby, TypedData};
use rb_sys::{
    Qnil, VALUE, rb_ext_ractor_safe, rb_thread_call_with_gvl, rb_thread_check_ints,
    rb_thread_current, rb_thread_interrupted,
};

/// Copying this many bytes takes longer than passing the lock to another thread.
const LARGE_BYTES: usize = 1 << 20;

/// Runs work that moves `bytes` bytes. If they are many, other Ruby threads run meanwhile.
///
/// The work must touch no Ruby object, and no memory that Ruby code could free, unless `sources`
/// protects that memory. Core's locks are free in a child that another thread forks meanwhile.
pub(crate) fn copying<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if bytes < LARGE_BYTES { work() } else { without_gvl(work) }
}

/// Runs work that waits for a short time, while other Ruby threads run. Returns `None` if an
/// interrupt is pending: then the caller goes back to Ruby first. One that comes later interrupts a
/// system call of the work (`EINTR`). The work must touch no Ruby object.
pub(crate) fn waiting<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let mut job = Job { work: Some(work), done: None };
    job.run_until(BY_SIGNAL);
    job.work.is_none().then(|| job.finish())
}

type Work = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

// Declared here because `rb_sys` takes a function, and Ruby's constants for it are numbers.
unsafe extern "C" {
    fn rb_thread_call_without_gvl2(
        work: Option<Work>,
        data: *mut c_void,
        unblock: isize,
        unblocked: *mut c_void,
    ) -> *mut c_void;
}

/// Nothing unblocks the work.
const BY_NOTHING: isize = 0;
/// Ruby's `RUBY_UBF_IO`: it sends the thread a signal.
const BY_SIGNAL: isize = -1;

/// Tells Ruby that methods defined from here on may run in any Ractor: all shared state is core's,
/// which has its own locks.
pub(crate) fn allow_ractors() {
    // SAFETY: the call only sets a flag of this extension, and Ruby is loading the extension now.
    unsafe { rb_ext_ractor_safe(true) };
}

/// Looks a type's class up while the extension is loaded. Otherwise magnus looks it up when it
/// wraps the first value: once, under a lock, by Ruby code. An interrupt at that moment would be a
/// panic, and a thread that came in between would wait for that lock while it holds Ruby's. Here
/// interrupts are checked immediately before.
pub(crate) fn look_up_class<T: TypedData>(ruby: &Ruby) -> Result<(), Error> {
    check_interrupts()?;
    let _ = T::class(ruby);
    Ok(())
}

/// Runs work on `bytes` bytes that asks its [`Caller`] now and then whether to go on. If they are
/// many, other Ruby threads and signal handlers run meanwhile, and an exception that is raised in
/// this thread ends the work.
///
/// The work must touch no Ruby object, as in [`copying`], but in [`Caller::call`].
pub(crate) fn stoppable<T: Send>(
    bytes: usize,
    work: impl FnOnce(&Caller) -> T + Send,
) -> Result<T, Error> {
    let caller = Caller::new(bytes < LARGE_BYTES);
    if caller.has_lock {
        let done = work(&caller);
        return caller.raised().map_or(Ok(done), Err);
    }
    let mut job = Job { work: Some(|| work(&caller)), done: None };
    job.run();
    while job.work.is_some() {
        // An interrupt was pending, so Ruby did not call the work.
        check_interrupts()?;
        job.run();
    }
    let done = job.finish();
    caller.raised().map_or(Ok(done), Err)
}

/// The Ruby thread that called a method, for work of the method that may run without its lock, and
/// in other threads, too.
pub(crate) struct Caller {
    thread: VALUE,
    id: ThreadId,
    /// Whether the thread keeps its lock meanwhile.
    has_lock: bool,
    is_stopped: AtomicBool,
    /// The exception that ends the work. Only the thread that called uses it.
    raised: RefCell<Option<Error>>,
}

// SAFETY: other threads must not touch the cell, nor Ruby's objects: `call` returns at once there,
// `raised` is called after they have ended, and they only read and compare the rest.
unsafe impl Sync for Caller {}

impl Caller {
    fn new(has_lock: bool) -> Self {
        // SAFETY: Ruby called the method that runs this, so this is a Ruby thread.
        let thread = unsafe { rb_thread_current() };
        let id = thread::current().id();
        let is_stopped = AtomicBool::new(false);
        Self { thread, id, has_lock, is_stopped, raised: RefCell::new(None) }
    }

    /// Returns whether the work goes on. In the thread that called, it runs what interrupts it:
    /// signal handlers, and exceptions of other threads.
    pub(crate) fn goes_on(&self) -> bool {
        // Ruby's flag is polled here. An unblocking function would not do: when the last other
        // thread has ended, Ruby (3.1) does not call it for a signal.
        //
        // SAFETY: `thread` called the method that still runs, so it lives; Ruby documents the
        // function as safe without the lock.
        let is_interrupted = || unsafe { rb_thread_interrupted(self.thread) } != 0;
        if !self.has_lock && !self.is_stopped() && is_interrupted() {
            self.call(check_interrupts);
        }
        !self.is_stopped()
    }

    /// Runs work that touches Ruby, in the thread that called. `None` in any other thread, and for
    /// an exception, which ends all of the work.
    pub(crate) fn call<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Option<T> {
        if thread::current().id() != self.id {
            return None;
        }
        let done = if self.has_lock { work() } else { with_gvl(work) };
        let stop = |error| {
            self.is_stopped.store(true, Ordering::Relaxed);
            self.raised.replace(Some(error));
        };
        done.map_err(stop).ok()
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn raised(&self) -> Option<Error> {
        self.raised.take()
    }
}

/// Runs what interrupts this thread: signal handlers, and exceptions of other threads.
pub(crate) fn check_interrupts() -> Result<(), Error> {
    let checked = protect(|| {
        // SAFETY: this thread holds Ruby's lock, and `protect` catches the exception that an
        // interrupt raises.
        unsafe { rb_thread_check_ints() };
        Qnil.into()
    });
    checked.map(|_| ())
}

/// Runs work that touches Ruby, from within work that has released the lock.
fn with_gvl<T>(work: impl FnOnce() -> T) -> T {
    let mut job = Job { work: Some(work), done: None };
    // SAFETY: `run` takes exactly this type, and the call returns before `job` is dropped; `run`
    // catches panics, and the work catches its own exceptions.
    unsafe { rb_thread_call_with_gvl(Some(job.runner()), ptr::from_mut(&mut job).cast()) };
    job.finish()
}

struct Job<T, F> {
    work: Option<F>,
    done: Option<thread::Result<T>>,
}

fn without_gvl<T: Send, F: FnOnce() -> T + Send>(work: F) -> T {
    let mut job = Job { work: Some(work), done: None };
    job.run();
    job.finish()
}

impl<T, F: FnOnce() -> T> Job<T, F> {
    /// Runs the work without the lock; not at all if an interrupt is pending.
    fn run(&mut self) {
        self.run_until(BY_NOTHING);
    }

    /// Does the same, and lets Ruby unblock the work for an interrupt.
    fn run_until(&mut self, unblock: isize) {
        let data = ptr::from_mut(self).cast::<c_void>();
        let runner = Some(self.runner());
        // SAFETY: `run` takes exactly this type, and the call returns before the job is dropped.
        // The variant with a 2 raises nothing, so no Rust frame is jumped over.
        unsafe { rb_thread_call_without_gvl2(runner, data, unblock, ptr::null_mut()) };
    }

    fn runner(&self) -> unsafe extern "C" fn(*mut c_void) -> *mut c_void {
        run::<T, F>
    }

    fn finish(self) -> T {
        match (self.done, self.work) {
            (Some(Ok(result)), _) => result,
            (Some(Err(panic)), _) => resume_unwind(panic),
            (None, Some(work)) => work(), // an interrupt was pending, so Ruby did not call it
            (None, None) => unreachable!("work that was taken was done"),
        }
    }
}

unsafe extern "C" fn run<T, F: FnOnce() -> T>(data: *mut c_void) -> *mut c_void {
    // SAFETY: `Job::run` and `with_gvl` pass a pointer to their own job, which they do not touch
    // during the call.
    let job = unsafe { &mut *data.cast::<Job<T, F>>() };
    if let Some(work) = job.work.take() {
        job.done = Some(catch_unwind(AssertUnwindSafe(work)));
    }
    ptr::null_mut()
}
