//! Ruby's collector and shared memory: it is told how much its objects hold, and when it has run,
//! the pool gives back what is not used.
//!
//! The collector counts what was allocated since it last ran, and runs when that is too much. It
//! looks at the count when Ruby itself allocates memory, which making an array here does not: so a
//! byte of it is allocated each time. What is freed while it sweeps is not subtracted: a sweep is
//! spread over the time until the next collection, and would make up for the arrays that are made
//! meanwhile.
//!
//! No hook of Ruby's says that a collection is over without making every allocation slower. The
//! finalizer of an object does. Two objects do it without one for each collection, which would
//! interrupt whatever waits: a *marker*, which always lives, marks the *canary* while there is
//! nothing to do; when there is, the canary is not marked, and so it is finalized after that
//! collection, does it, and leaves another.
#![allow(unsafe_code)] // memory of Ruby's, and an object without a class of its own

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use magnus::rb_sys::protect;
use magnus::{Error, Ruby};
use rb_sys::{
    Qnil, VALUE, rb_cObject, rb_data_type_struct__bindgen_ty_1, rb_data_type_t,
    rb_data_typed_object_wrap, rb_during_gc, rb_gc_adjust_memory_usage, rb_gc_latest_gc_info,
    rb_gc_mark, rb_gc_register_mark_object, rb_id2sym, rb_intern, rb_set_end_proc, ruby_xfree,
    ruby_xmalloc,
};
use shmarray::Array;

/// What the pool has not used for so long goes at the next collection.
const A_WHILE: Duration = Duration::from_secs(5);

/// Bytes that Ruby's collector counts as an object's.
pub(crate) struct Counted(usize);

impl Counted {
    /// Of an array that was made or attached just now. What this process has already costs nothing.
    pub(crate) fn array(array: &Array) -> Self {
        let bytes = if array.is_only_one_here() { array.segment_data().1 } else { 0 };
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
        // SAFETY: asks only.
        if unsafe { rb_during_gc() } == 0 {
            adjust(isize::try_from(self.0).map_or(isize::MIN, |bytes| -bytes));
        }
    }
}

fn adjust(difference: isize) {
    if Ruby::get().is_ok() {
        // SAFETY: this thread has Ruby's lock.
        unsafe { rb_gc_adjust_memory_usage(difference as _) };
    }
}

/// Has Ruby look at its count.
fn collect_if_due() {
    let looked = protect(|| {
        // SAFETY: what it raises is caught.
        let memory = unsafe { ruby_xmalloc(1) };
        // SAFETY: just allocated.
        unsafe { ruby_xfree(memory) };
        Qnil.into()
    });
    drop(looked); // without a byte of memory the next allocation says so
}

/// The process ends: no object is made any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Not finalized at once, which would be in the middle of a collection.
static CANARY_TYPE: SyncType =
    SyncType(data_type(c"Shmarray::AfterCollection", None, Some(after_collection)));
static MARKER_TYPE: SyncType =
    SyncType(data_type(c"Shmarray::Collections", Some(mark_canary), None));
static CANARY: AtomicUsize = AtomicUsize::new(0);

struct SyncType(rb_data_type_t);
// SAFETY: constants.
unsafe impl Sync for SyncType {}

type Hook = Option<unsafe extern "C" fn(*mut c_void)>;

const fn data_type(name: &'static CStr, dmark: Hook, dfree: Hook) -> rb_data_type_t {
    rb_data_type_t {
        wrap_struct_name: name.as_ptr(),
        function: rb_data_type_struct__bindgen_ty_1 {
            dmark,
            dfree,
            dsize: None,
            dcompact: None,
            reserved: [ptr::null_mut(); 1],
        },
        parent: ptr::null(),
        data: ptr::null_mut(),
        flags: 0,
    }
}

/// From now on the pool is looked at after each collection.
pub(crate) fn follow() -> Result<(), Error> {
    SYMBOLS.get_or_init(|| (symbol(c"gc_by"), symbol(c"method")));
    was_asked_for(); // Ruby makes symbols of its own for the first answer
    new_canary()?;
    let marker = new_object(&MARKER_TYPE)?;
    // SAFETY: an object, which lives as long as the process now.
    unsafe { rb_gc_register_mark_object(marker) };
    // SAFETY: a function of that type.
    unsafe { rb_set_end_proc(Some(end), Qnil.into()) };
    Ok(())
}

unsafe extern "C" fn end(_: VALUE) {
    IS_OVER.store(true, Ordering::Relaxed);
}

fn new_canary() -> Result<(), Error> {
    let canary = new_object(&CANARY_TYPE)?;
    CANARY.store(canary as usize, Ordering::Relaxed);
    Ok(())
}

fn new_object(of: &'static SyncType) -> Result<VALUE, Error> {
    let something = ptr::from_ref(of).cast_mut().cast(); // Ruby calls nothing for an object without
    // SAFETY: Ruby sets it before any extension is loaded.
    let class = unsafe { rb_cObject };
    let mut object = 0;
    protect(|| {
        // SAFETY: the type lives for ever, and nobody looks at what the object has.
        object = unsafe { rb_data_typed_object_wrap(class, something, &of.0) };
        object
    })?;
    Ok(object)
}

/// While Ruby marks, and perhaps more than once in a collection: nothing is allocated here.
unsafe extern "C" fn mark_canary(_: *mut c_void) {
    // Once it was not marked, it never is again: Ruby may collect once more before it finalizes
    // what is dead.
    if is_due() {
        CANARY.store(0, Ordering::Relaxed);
    }
    let canary = CANARY.load(Ordering::Relaxed);
    if canary != 0 {
        // SAFETY: every collection until now has marked it, so it lives.
        unsafe { rb_gc_mark(canary as VALUE) };
    }
}

unsafe extern "C" fn after_collection(_: *mut c_void) {
    if IS_OVER.load(Ordering::Relaxed) {
        return;
    }
    let _ = std::panic::catch_unwind(give_back);
    let _ = new_canary(); // without memory for it nothing is given back any more
}

/// When the pool was last looked at, in milliseconds since the first look.
static LAST_LOOK: AtomicU64 = AtomicU64::new(0);

fn is_due() -> bool {
    !IS_OVER.load(Ordering::Relaxed) && (was_asked_for() || is_a_while_ago(now_ms()))
}

fn is_a_while_ago(now: u64) -> bool {
    now.saturating_sub(LAST_LOOK.load(Ordering::Relaxed)) >= A_WHILE.as_millis() as u64
}

fn now_ms() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// All that the pool does not use when the program itself asked for the collection; else what it
/// has not used for a while.
fn give_back() {
    if was_asked_for() {
        shmarray::empty_pool();
    } else if is_a_while_ago(now_ms()) {
        shmarray::trim_pool();
        LAST_LOOK.store(now_ms(), Ordering::Relaxed);
    }
}

/// The symbols `gc_by` and `method`. Ruby makes no symbol while it marks, so they are here before.
static SYMBOLS: OnceLock<(usize, usize)> = OnceLock::new();

fn was_asked_for() -> bool {
    let Some(&(key, method)) = SYMBOLS.get() else { return false };
    // SAFETY: a symbol that it knows, and it allocates nothing after its first call.
    let found = unsafe { rb_gc_latest_gc_info(key as VALUE) };
    found as usize == method
}

fn symbol(name: &CStr) -> usize {
    // SAFETY: a text that ends.
    let id = unsafe { rb_intern(name.as_ptr()) };
    // SAFETY: just made, and never collected.
    let symbol = unsafe { rb_id2sym(id) };
    symbol as usize
}
