//! Running without Ruby's global lock, in Ractors, and telling the collector how much memory we hold.
#![allow(unsafe_code)] // rb_thread_call_without_gvl2

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::thread;

use magnus::Ruby;
use rb_sys::{rb_ext_ractor_safe, rb_thread_call_without_gvl2};

/// From here on a copy takes longer than handing the lock over.
const LARGE_BYTES: usize = 1 << 20;

/// Runs work that moves so many bytes; other Ruby threads run meanwhile if they are many.
///
/// The work must touch nothing of Ruby's, nor memory that Ruby code could free, unless that is kept from
/// it (`sources`). Locks of core's are free in a child that another thread forks meanwhile.
pub(crate) fn copying<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    match bytes < LARGE_BYTES {
        true => work(),
        false => without_gvl(work),
    }
}

/// Tells Ruby that methods defined from here on may run in any Ractor: what is in common is core's, which
/// has locks of its own.
pub(crate) fn allow_ractors() {
    // SAFETY: says something about this extension, while Ruby loads it.
    unsafe { rb_ext_ractor_safe(true) };
}

struct Job<T, F> {
    work: Option<F>,
    done: Option<thread::Result<T>>,
}

fn without_gvl<T: Send, F: FnOnce() -> T + Send>(work: F) -> T {
    let mut job = Job { work: Some(work), done: None };
    let data = ptr::from_mut(&mut job).cast::<c_void>();
    // SAFETY: `run` takes exactly this type, and the call is over before `job` goes. The
    // variant with a 2 raises nothing, so no Rust frame is jumped over.
    unsafe { rb_thread_call_without_gvl2(Some(run::<T, F>), data, None, ptr::null_mut()) };
    match (job.done, job.work) {
        (Some(Ok(result)), _) => result,
        (Some(Err(panic)), _) => resume_unwind(panic),
        (None, Some(work)) => work(), // an interrupt was pending, so Ruby did not call it
        (None, None) => unreachable!("work that was taken was done"),
    }
}

unsafe extern "C" fn run<T, F: FnOnce() -> T>(data: *mut c_void) -> *mut c_void {
    // SAFETY: `without_gvl` passes its job, which it does not touch meanwhile.
    let job = unsafe { &mut *data.cast::<Job<T, F>>() };
    if let Some(work) = job.work.take() {
        job.done = Some(catch_unwind(AssertUnwindSafe(work)));
    }
    ptr::null_mut()
}

/// Bytes that Ruby's collector counts as ours until this is dropped.
///
/// Without it the collector sees a few dozen bytes for each array, and lets hundreds of
/// dead ones fill the shared memory.
pub(crate) struct Counted(isize);

impl Counted {
    pub(crate) fn bytes(bytes: u64) -> Self {
        let counted = Self(isize::try_from(bytes).unwrap_or(isize::MAX));
        adjust(counted.0);
        counted
    }

    pub(crate) fn as_usize(&self) -> usize {
        self.0.unsigned_abs()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        adjust(-self.0);
    }
}

fn adjust(difference: isize) {
    if let Ok(ruby) = Ruby::get() {
        ruby.gc_adjust_memory_usage(difference);
    }
}
