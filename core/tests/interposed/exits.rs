//! A process exits while one of its threads is inside an operation: nothing of either stays.
//!
//! The calls of the C library go through this program, which stops its thread after the nth of them
//! until the exit of the process waits for it. So an exit meets an operation at each of its calls,
//! and none that begins afterwards.
#![cfg(target_env = "gnu")]
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use shmarray::{Access, Array};

use crate::support::{bytes, directory, fork, segments_in};
use crate::watched::{Pool, rest, wait_for, watched};

static IS_INSIDE: AtomicBool = AtomicBool::new(false);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The number of calls that this thread makes before it stops in one.
    static CALLS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs after each call of the library. The thread may stop here until the process exits.
fn called() {
    match CALLS.get() {
        None => return,
        Some(0) => CALLS.set(None),
        Some(more) => return CALLS.set(Some(more - 1)),
    }
    IS_INSIDE.store(true, Ordering::Release);
    while !IS_ENDING.load(Ordering::Acquire) || !is_first_thread_asleep() {
        thread::yield_now(); // an exit that does not wait ends this thread here
    }
}

fn is_first_thread_asleep() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

fn done(returned: c_long) -> c_long {
    called();
    returned
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from: c_int,
    old: *const c_char,
    to: c_int,
    new: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments are valid if the caller's are, because this does what the C library's
    // function of this name does.
    done(unsafe { libc::syscall(libc::SYS_linkat, from, old, to, new, flags) }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the arguments are valid if the caller's are, because this does what the C library's
    // function of this name does.
    done(unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0) }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    from: i64,
) -> *mut c_void {
    // SAFETY: the arguments are valid if the caller's are, because this does what the C library's
    // function of this name does.
    done(unsafe { libc::syscall(libc::SYS_mmap, at, len, prot, flags, fd, from) }) as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, len: usize) -> c_int {
    // SAFETY: the arguments are valid if the caller's are, because this does what the C library's
    // function of this name does.
    done(unsafe { libc::syscall(libc::SYS_munmap, at, len) }) as c_int
}

/// Runs before the exit handlers that were registered earlier, and so before the library's.
extern "C" fn ends() {
    IS_ENDING.store(true, Ordering::Release);
}

/// Exits when a thread that works in a loop has made this number of calls. What the thread has
/// begun is completed, and nothing follows it.
fn ends_beside(work: impl Fn() + Send + 'static, calls: usize) {
    drop(bytes(1)); // registers the library's handler before ours
    // SAFETY: the handler stays valid until the exit, because it is a function of this program.
    unsafe { libc::atexit(ends) };
    thread::spawn(move || {
        CALLS.set(Some(calls));
        while !IS_ENDING.load(Ordering::Acquire) {
            work();
        }
        rest();
    });
    while !IS_INSIDE.load(Ordering::Acquire) {
        thread::yield_now();
    }
    // SAFETY: no other thread calls `exit`. One is inside an operation of the library, which is
    // what the test is about.
    unsafe { libc::exit(0) }
}

/// `calls` are the numbers of calls at which the process exits.
fn nothing_stays_beside(pool: Pool, calls: usize, work: impl Fn() + Copy + Send + 'static) {
    watched(pool, || {
        for call in 0..calls {
            wait_for(format!("an end in call {call}"));
            fork(|| ends_beside(work, call)).ended();
            assert_eq!(segments_in(&directory()), [""; 0], "an end in call {call}");
        }
    });
}

#[test]
fn an_array_that_a_thread_makes_or_drops_while_the_process_ends_does_not_stay() {
    nothing_stays_beside(Pool::Off, 40, || drop(bytes(8 << 20)));
}

#[test]
fn a_small_array_that_a_thread_makes_while_the_process_ends_does_not_stay() {
    // The arrays are kept, so that more room is needed now and then. An array that finds room makes
    // no call.
    nothing_stays_beside(Pool::Bytes(1 << 26), 20, || std::mem::forget(bytes(200_000)));
}

#[test]
fn an_array_that_a_thread_attaches_while_the_process_ends_does_not_stay() {
    nothing_stays_beside(Pool::Off, 40, || {
        let array = bytes(1 << 20);
        let again = Array::attach(&array.handle(), Access::ReadOnly);
        assert!(again.is_ok() || IS_ENDING.load(Ordering::Acquire)); // the exit has given it back
        drop((array, again));
    });
}

/// Set in a process that must map no segment at its end.
static MAPS_NOTHING_AT_END: AtomicBool = AtomicBool::new(false);

/// Runs after the exit handlers, and so after the library's.
#[used]
#[unsafe(link_section = ".fini_array")]
static AFTER_HANDLERS: extern "C" fn() = after_handlers;

extern "C" fn after_handlers() {
    if MAPS_NOTHING_AT_END.load(Ordering::Acquire) && maps_segments() {
        // SAFETY: the call cannot touch memory, because it takes a plain number.
        unsafe { libc::_exit(1) };
    }
}

fn maps_segments() -> bool {
    let directory = format!("{}/", directory().display()); // its maker's file has no name there
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| line.contains(&directory) && !line.contains("registry"))
}

/// Ends without an array, but with the mapping of a slab that the library has cached or pooled.
fn ends_with_a_mapping() {
    assert!(maps_segments());
    MAPS_NOTHING_AT_END.store(true, Ordering::Release);
}

/// A mapping that no array uses must be gone when the exit handlers have run. The kernel removes it
/// only later. If the slab is LOCK_ONLY, a process that drops the last array in between finds the
/// mapping's lock and leaves the slab.
#[test]
fn mappings_that_no_array_uses_are_gone_before_the_process_is() {
    watched(Pool::Bytes(1 << 26), || {
        let (mut here, there) = UnixStream::pair().unwrap();
        let maker = fork(|| {
            let array = bytes(100);
            writeln!(&there, "{}", array.handle()).unwrap();
            assert_eq!((&there).read(&mut [0]).unwrap(), 1);
            drop(array);
            ends_with_a_mapping();
        });
        let mut handle = String::new();
        BufReader::new(&here).read_line(&mut handle).unwrap();
        let user = fork(|| {
            drop(Array::attach(handle.trim_end(), Access::ReadWrite).unwrap());
            ends_with_a_mapping();
        });
        user.ended();
        here.write_all(b".").unwrap();
        maker.ended();
    });
}
