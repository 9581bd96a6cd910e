//! Two threads that write one number without agreeing on it: what ThreadSanitizer is there to
//! report.

use std::cell::UnsafeCell;
use std::thread;

struct Number(UnsafeCell<u64>);

// SAFETY: none: that this is wrong is what the program is for.
unsafe impl Sync for Number {}

static NUMBER: Number = Number(UnsafeCell::new(0));

fn count() {
    for _ in 0..1000 {
        // SAFETY: none, as above.
        unsafe { *NUMBER.0.get() += 1 };
    }
}

fn main() {
    let other = thread::spawn(count);
    count();
    let _ = other.join();
    println!("counted");
}
