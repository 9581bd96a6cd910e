//! A process ends while its threads are in the middle of something: nothing of theirs stays.
#![cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))] // it needs the kernel
#![allow(missing_docs, unsafe_code)]

mod support;
#[path = "support/watched.rs"]
mod watched;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use shmarray::{Access, Array, DType, Options};
use support::{directory, fork, segments_in};
use watched::{Pool, rest, wait_for, watched};

const ENDS: usize = 40;
const THREADS: usize = 2;

static IS_ENDING: AtomicBool = AtomicBool::new(false);
static ROUNDS: AtomicUsize = AtomicUsize::new(0);

/// Runs before the handlers of whoever was loaded earlier, and so before the library's.
extern "C" fn ends() {
    IS_ENDING.store(true, Ordering::SeqCst);
    for _ in 0..50 {
        thread::yield_now(); // who has just seen that it had not begun begins to work
    }
}

fn bytes(count: u64) -> Array {
    Array::create(DType::parse("|u1").unwrap(), &[count], &Options::default()).unwrap()
}

/// Ends by `exit` while threads do it again and again. They begin nothing when that has begun.
fn ends_beside(work: impl Fn() + Copy + Send + 'static) {
    // SAFETY: a function of this program.
    unsafe { libc::atexit(ends) };
    for _ in 0..THREADS {
        thread::spawn(move || {
            while !IS_ENDING.load(Ordering::SeqCst) {
                work();
                ROUNDS.fetch_add(1, Ordering::Release);
            }
            rest();
        });
    }
    while ROUNDS.load(Ordering::Acquire) < 3 * THREADS {
        thread::yield_now();
    }
    // SAFETY: the threads may be anywhere; that is the test.
    unsafe { libc::exit(0) }
}

fn nothing_stays_beside(pool: Pool, test: &str, work: impl Fn() + Copy + Send + 'static) {
    watched(test, pool, || {
        for end in 0..ENDS {
            wait_for(format!("end {end}"));
            fork(|| ends_beside(work)).ended();
            assert_eq!(segments_in(&directory()), [""; 0], "end {end}");
        }
    });
}

#[test]
fn arrays_that_threads_make_and_drop_while_the_process_ends_do_not_stay() {
    const TEST: &str = "arrays_that_threads_make_and_drop_while_the_process_ends_do_not_stay";
    nothing_stays_beside(Pool::Off, TEST, || drop(bytes(8 << 20)));
}

#[test]
fn small_arrays_that_threads_make_and_drop_while_the_process_ends_do_not_stay() {
    const TEST: &str = "small_arrays_that_threads_make_and_drop_while_the_process_ends_do_not_stay";
    nothing_stays_beside(Pool::Bytes(1 << 26), TEST, || drop([10, 1000, 200_000].map(bytes)));
}

#[test]
fn arrays_that_threads_attach_while_the_process_ends_do_not_stay() {
    const TEST: &str = "arrays_that_threads_attach_while_the_process_ends_do_not_stay";
    nothing_stays_beside(Pool::Off, TEST, || {
        let array = bytes(1 << 20);
        let again = Array::attach(&array.handle().to_text(), Access::ReadOnly);
        assert!(again.is_ok() || IS_ENDING.load(Ordering::SeqCst)); // the end has given it back
        drop((array, again));
    });
}
