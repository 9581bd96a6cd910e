//! Two threads write one number without synchronisation, which ThreadSanitizer must report.

use std::cell::UnsafeCell;
use std::thread;

struct Number(UnsafeCell<u64>);

// SAFETY: this is unsound on purpose: the program exists so that ThreadSanitizer reports it.
unsafe impl Sync for Number {}

static NUMBER: Number = Number(UnsafeCell::new(0));

fn count() {
    for _ in 0..1000 {
        // SAFETY: unsound on purpose, so that ThreadSanitizer reports the two unordered writes.
        unsafe { *NUMBER.0.get() += 1 };
    }
}

fn main() {
    let other = thread::spawn(count);
    count();
    let _ = other.join();
    println!("counted");
}
