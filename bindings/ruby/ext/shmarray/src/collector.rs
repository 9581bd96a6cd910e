//! Tells Ruby's collector how much shared memory its objects hold, and trims the pool after
//! collections.
//!
//! The collector counts the bytes that were allocated since it last ran, and runs when they are too
//! many. It checks the count only when Ruby itself allocates memory, which making an array here
//! does not do; so one byte of it is allocated each time. Memory that is freed while the collector
//! sweeps is not subtracted: a sweep is spread over the time until the next collection, so it would
//! cancel the arrays that are made meanwhile.
//!
//! Every hook with which Ruby reports the end of a collection slows all allocations down. An object
//! that lives for ever, the *marker*, is marked in each collection at no cost. If there is
//! something to do then, its mark function asks Ruby for a job, which runs when Ruby next checks
//! for interrupts: after the collection, and before `GC.start` returns. A finalizer would not do:
//! a copy of its object's address that is left on the stack keeps the object.
#![allow(unsafe_code)] // uses Ruby's allocator, and makes an object without a class

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use magnus::rb_sys::protect;
use magnus::{Error, Ruby};
use rb_sys::{
    Qnil, VALUE, rb_cObject, rb_data_type_struct__bindgen_ty_1, rb_data_type_t,
    rb_data_typed_object_wrap, rb_during_gc, rb_gc_adjust_memory_usage, rb_gc_latest_gc_info,
    rb_gc_register_mark_object, rb_id2sym, rb_intern, rb_set_end_proc, ruby_xfree, ruby_xmalloc,
};
use shmarray::Array;

use crate::postponed::Job;

/// Memory that the pool has not used for this long is returned at the next collection.
const A_WHILE: Duration = Duration::from_secs(5);

/// The bytes that Ruby's collector counts as belonging to an object.
pub(crate) struct Counted(usize);

impl Counted {
    /// Counts an array that was just created or attached. An array that this process already maps
    /// counts as 0 bytes.
    pub(crate) fn array(array: &Array) -> Self {
        let bytes = if array.is_last_in_process() { array.segment_data().1 } else { 0 };
        let counted = Self(usize::try_from(bytes).unwrap_or(usize::MAX));
        adjust(isize::try_from(counted.0).unwrap_or(isize::MAX));
        collect_if_due();
        counted
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // SAFETY: the function only reads a flag of Ruby's collector, and any Ruby thread may call
        // it.
        if unsafe { rb_during_gc() } == 0 {
            adjust(isize::try_from(self.0).map_or(isize::MIN, |bytes| -bytes));
        }
    }
}

fn adjust(difference: isize) {
    if Ruby::get().is_ok() {
        // SAFETY: `Ruby::get` succeeded, so this is a Ruby thread that holds Ruby's lock.
        unsafe { rb_gc_adjust_memory_usage(difference as _) };
    }
}

/// Makes Ruby check its count.
fn collect_if_due() {
    let allocated = protect(|| {
        // SAFETY: the callers hold Ruby's lock, and `protect` catches the exception that a failed
        // allocation raises.
        let memory = unsafe { ruby_xmalloc(1) };
        // SAFETY: `ruby_xmalloc` returned this memory just now, and nobody else has its address.
        unsafe { ruby_xfree(memory) };
        Qnil.into()
    });
    // Without even one byte of memory the next allocation raises.
    drop(allocated);
}

/// Set when the process ends: nothing is done any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Objects with a mark function never become old: Ruby marks them in every collection.
static MARKER_TYPE: SyncType = SyncType(rb_data_type_t {
    wrap_struct_name: c"Shmarray::Collections".as_ptr(),
    function: rb_data_type_struct__bindgen_ty_1 {
        dmark: Some(ask_for_what_is_due),
        dfree: None,
        dsize: None,
        dcompact: None,
        reserved: [ptr::null_mut(); 1],
    },
    parent: ptr::null(),
    data: ptr::null_mut(),
    flags: 0,
});

struct SyncType(rb_data_type_t);
// SAFETY: the struct is a constant: function pointers and static strings, which nothing ever
// changes.
unsafe impl Sync for SyncType {}

/// Starts to look at the pool after each collection.
pub(crate) fn follow() -> Result<(), Error> {
    SYMBOLS.get_or_init(|| (symbol(c"gc_by"), symbol(c"method")));
    // The first call makes symbols of Ruby's own, which it cannot do while it marks.
    was_asked_for();
    now_ms(); // fills its cell, which no fork then finds half made
    JOB.register();
    let marker = new_marker()?;
    // SAFETY: `new_marker` made the object, and Ruby never frees one that is registered so.
    unsafe { rb_gc_register_mark_object(marker) };
    // SAFETY: `end` has the type that Ruby calls, and it ignores its argument.
    unsafe { rb_set_end_proc(Some(end), Qnil.into()) };
    Ok(())
}

unsafe extern "C" fn end(_: VALUE) {
    IS_OVER.store(true, Ordering::Relaxed);
}

fn new_marker() -> Result<VALUE, Error> {
    // Ruby calls no hooks for an object whose data pointer is null, so any other address is given.
    let something = ptr::from_ref(&MARKER_TYPE).cast_mut().cast();
    // SAFETY: Ruby sets `rb_cObject` before it loads any extension, and never changes it
    // afterwards.
    let class = unsafe { rb_cObject };
    let mut object = 0;
    protect(|| {
        // SAFETY: the data type is static, and no hook dereferences the data pointer, which points
        // to it.
        object = unsafe { rb_data_typed_object_wrap(class, something, &MARKER_TYPE.0) };
        object
    })?;
    Ok(object)
}

/// What the job does, in the order of how much it gives back.
const NOTHING: u8 = 0;
const TRIM: u8 = 1;
const EMPTY: u8 = 2;
static DUE: AtomicU8 = AtomicU8::new(NOTHING);

/// Runs while Ruby marks, which may happen more than once in a collection, and allocates nothing.
unsafe extern "C" fn ask_for_what_is_due(_: *mut c_void) {
    let due = match (was_asked_for(), is_a_while_ago(now_ms())) {
        _ if IS_OVER.load(Ordering::Relaxed) => NOTHING,
        (true, _) => EMPTY,
        (false, true) => TRIM,
        (false, false) => NOTHING,
    };
    DUE.fetch_max(due, Ordering::Relaxed);
    if due != NOTHING {
        JOB.trigger();
    }
}

/// Returns the pool's memory: all of it if the program asked for the collection, else what was not
/// used for a while.
unsafe extern "C" fn give_back(_: *mut c_void) {
    let due = DUE.swap(NOTHING, Ordering::Relaxed);
    if IS_OVER.load(Ordering::Relaxed) {
        return;
    }
    // A panic must not unwind into Ruby.
    let _ = std::panic::catch_unwind(|| {
        if due == EMPTY {
            shmarray::empty_pool();
        } else if due == TRIM {
            shmarray::trim_pool();
            LAST_LOOK.store(now_ms(), Ordering::Relaxed);
        }
    });
}

static JOB: Job = Job::new(give_back);

/// When the pool was last looked at, in milliseconds since the first look.
static LAST_LOOK: AtomicU64 = AtomicU64::new(0);

fn is_a_while_ago(now: u64) -> bool {
    now.saturating_sub(LAST_LOOK.load(Ordering::Relaxed)) >= A_WHILE.as_millis() as u64
}

fn now_ms() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// The symbols `gc_by` and `method`. They are made in advance, because Ruby makes no symbol while
/// it marks.
static SYMBOLS: OnceLock<(usize, usize)> = OnceLock::new();

/// Set while `reuse_dead` collects.
static KEEPS_POOL: AtomicBool = AtomicBool::new(false);

/// Collects, so that the memory of arrays that are no longer referenced goes to the pool and stays
/// there. A program's own `GC.start` empties the pool.
pub(crate) fn reuse_dead(ruby: &Ruby) {
    KEEPS_POOL.store(true, Ordering::Relaxed);
    ruby.gc_start(); // it does nothing after GC.disable
    KEEPS_POOL.store(false, Ordering::Relaxed);
}

fn was_asked_for() -> bool {
    if KEEPS_POOL.load(Ordering::Relaxed) {
        return false;
    }
    let Some(&(key, method)) = SYMBOLS.get() else { return false };
    // SAFETY: `follow` made the symbol, a key that Ruby knows; after the first call there it
    // allocates nothing.
    let found = unsafe { rb_gc_latest_gc_info(key as VALUE) };
    found as usize == method
}

fn symbol(name: &CStr) -> usize {
    // SAFETY: a `CStr` ends with a zero byte, and Ruby copies the text.
    let id = unsafe { rb_intern(name.as_ptr()) };
    // SAFETY: `rb_intern` returned this id just now, and Ruby never collects symbols of such ids.
    let symbol = unsafe { rb_id2sym(id) };
    symbol as usize
}
