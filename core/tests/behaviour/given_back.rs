//! Known bugs that Miri must see through the stand-in for shared memory. `ci/miri` runs each and
//! expects it to fail.
#![cfg(miri)]
#![allow(unsafe_code)]

use std::thread;

use crate::support::bytes;

struct Address(*const u8);

// SAFETY: an address may be sent between threads, because it is a number until it is read, which
// only these tests do.
unsafe impl Send for Address {}

impl Address {
    fn read(&self) -> u8 {
        // SAFETY: none: these tests exist to show that nothing is mapped there any more, which Miri
        // must report.
        unsafe { self.0.read_volatile() }
    }
}

#[test]
#[ignore = "it ends in undefined behaviour"]
fn a_read_of_what_was_given_back() {
    let array = bytes(3);
    let address = Address(array.as_ptr());
    drop(array);
    address.read();
}

#[test]
#[ignore = "it ends in undefined behaviour"]
fn a_read_beside_the_next_array_of_the_cell() {
    let _kept = bytes(3);
    let array = bytes(3);
    let address = Address(array.as_ptr());
    thread::scope(|scope| {
        scope.spawn(move || address.read());
        drop(array);
        drop(bytes(3));
    });
}
