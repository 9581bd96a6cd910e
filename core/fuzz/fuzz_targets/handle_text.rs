//! Any text as a handle: it is refused, or prints and reads back to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shmarray::{Descriptor, MAX_HANDLE_BYTES};

fuzz_target!(|bytes: &[u8]| {
    let Ok(descriptor) = Descriptor::parse(&String::from_utf8_lossy(bytes)) else { return };
    let printed = descriptor.to_handle();
    assert!(printed.len() <= MAX_HANDLE_BYTES, "what was read prints longer than what is read");
    match Descriptor::parse(&printed) {
        Ok(again) => assert_eq!(again, descriptor, "{printed}"),
        Err(error) => panic!("{printed} was printed and cannot be read: {error}"),
    }
});
