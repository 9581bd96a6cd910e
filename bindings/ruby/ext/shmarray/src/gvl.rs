//! Running without Ruby's global lock, and in Ractors.
#![allow(unsafe_code)] // rb_thread_call_without_gvl2 and what it calls

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::thread;

use magnus::rb_sys::protect;
use magnus::{Error, Ruby, TypedData};
use rb_sys::{
    Qnil, rb_ext_ractor_safe, rb_thread_call_with_gvl, rb_thread_call_without_gvl2,
    rb_thread_check_ints, rb_thread_current, rb_thread_interrupted,
};

/// From here on a copy takes longer than handing the lock over.
const LARGE_BYTES: usize = 1 << 20;

/// Runs work that moves so many bytes; other Ruby threads run meanwhile if they are many.
///
/// The work must touch nothing of Ruby's, nor memory that Ruby code could free, unless that is kept
/// from it (`sources`). Locks of core's are free in a child that another thread forks meanwhile.
pub(crate) fn copying<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    match bytes < LARGE_BYTES {
        true => work(),
        false => without_gvl(work),
    }
}

/// Tells Ruby that methods defined from here on may run in any Ractor: what is in common is core's,
/// which has locks of its own.
pub(crate) fn allow_ractors() {
    // SAFETY: says something about this extension, while Ruby loads it.
    unsafe { rb_ext_ractor_safe(true) };
}

/// Has a type's class looked up while the extension is loaded. Otherwise magnus does it when it
/// wraps the first value: once, under a lock, by Ruby code. An interrupt that came just then would
/// be a panic, and a thread that came in between would wait for that lock with Ruby's. Here there
/// was a look for interrupts right before.
pub(crate) fn look_up_class<T: TypedData>(ruby: &Ruby) -> Result<(), Error> {
    check_interrupts()?;
    let _ = T::class(ruby);
    Ok(())
}

/// Runs work on so many bytes that asks now and then whether to go on. If they are many, other Ruby
/// threads run meanwhile, signal handlers run, and an exception that is raised in this thread ends
/// the work.
///
/// The work must touch nothing of Ruby's, as in [`copying`].
pub(crate) fn stoppable<T: Send>(
    bytes: usize,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send,
) -> Result<T, Error> {
    if bytes < LARGE_BYTES {
        return Ok(work(&mut || true));
    }
    // SAFETY: this is a thread of Ruby's.
    let thread = unsafe { rb_thread_current() };
    let mut raised = None;
    let go_on = &mut || {
        // Ruby's flag is asked instead of passing an unblocking function: when the last other
        // thread has ended, Ruby (3.1) does not call that function for a signal. SAFETY: this
        // thread lives, and Ruby documents the function as safe without the lock.
        if unsafe { rb_thread_interrupted(thread) } != 0 {
            raised = with_gvl(check_interrupts).err();
        }
        raised.is_none()
    };
    let mut job = Job { work: Some(move || work(go_on)), done: None };
    job.run();
    if job.work.is_some() {
        check_interrupts()?; // one was pending, so Ruby did not call it
        job.run();
    }
    let done = job.finish();
    raised.map_or(Ok(done), Err)
}

fn check_interrupts() -> Result<(), Error> {
    let checked = protect(|| {
        // SAFETY: this thread has the lock; what it raises is caught.
        unsafe { rb_thread_check_ints() };
        Qnil.into()
    });
    checked.map(|_| ())
}

/// Runs what touches Ruby, in the middle of work that has given the lock away.
fn with_gvl<T>(work: impl FnOnce() -> T) -> T {
    let mut job = Job { work: Some(work), done: None };
    // SAFETY: `run` takes exactly this type, and the call is over before `job` goes. It lets no
    // panic out, and its work no exception.
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
    /// Without the lock; not at all if an interrupt is pending.
    fn run(&mut self) {
        let data = ptr::from_mut(self).cast::<c_void>();
        // SAFETY: `run` takes exactly this type, and the call is over before the job goes. The
        // variant with a 2 raises nothing, so no Rust frame is jumped over.
        unsafe { rb_thread_call_without_gvl2(Some(self.runner()), data, None, ptr::null_mut()) };
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
    // SAFETY: a `Job` passes itself, and does not touch itself meanwhile.
    let job = unsafe { &mut *data.cast::<Job<T, F>>() };
    if let Some(work) = job.work.take() {
        job.done = Some(catch_unwind(AssertUnwindSafe(work)));
    }
    ptr::null_mut()
}
