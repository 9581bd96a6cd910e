//! Arrays with a mark, and how they are sent and received in tests.
#![allow(dead_code, reason = "each test uses some of it")]

use shmarray::{Access, Array, Message, Pipe, Received, Sent};

use crate::support::{bytes, directory, segments_in};

/// Too large for a cell.
pub(crate) const ALONE: u64 = 100_000;

/// Makes an array with a mark at both ends.
pub(crate) fn marked(count: u64, mark: u8) -> Array {
    let array = bytes(count);
    array.set(&[0], mark).unwrap();
    array.set(&[count - 1], mark).unwrap();
    array
}

pub(crate) fn marks(array: &Array) -> [u8; 2] {
    [array.get(&[0]).unwrap(), array.get(&[array.shape()[0] - 1]).unwrap()]
}

/// Returns the mark that is at both ends.
pub(crate) fn mark(array: &Array) -> u8 {
    let [first, last] = marks(array);
    assert_eq!(first, last);
    first
}

pub(crate) fn send(pipe: &Pipe, arrays: &[&Array]) {
    assert_eq!(pipe.send(b"", arrays, None).unwrap(), Sent::Sent);
}

pub(crate) fn receive(pipe: &Pipe) -> Message {
    match pipe.receive(None).unwrap() {
        Received::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn take(message: &Message, index: usize) -> Array {
    message.array(index, Access::ReadWrite).unwrap()
}

pub(crate) fn is_empty() -> bool {
    segments_in(&directory()).is_empty()
}
