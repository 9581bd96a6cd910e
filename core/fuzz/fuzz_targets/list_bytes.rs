//! Any bytes as those of a list: refused, or every item is refused or lies in the list.
//!
//! If the first byte of an input is odd, the header's magic, version and size are corrected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shmarray::{Array, Column, DType, Error, List, Options};

/// How many items of a column are read: a broken one may say that it has any number.
const MOST_ITEMS: u64 = 20;
/// The most bytes of an item that are copied.
const MOST_COPIED_BYTES: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((front, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if front % 2 == 1 && bytes.len() >= 24 {
        let size = bytes.len() as u64;
        bytes[..12].copy_from_slice(b"shmalist\x01\0\0\0");
        bytes[16..24].copy_from_slice(&size.to_le_bytes());
    }
    match List::of(array_of(&bytes)) {
        Ok(list) => read(&list, list.items()),
        Err(Error::InvalidList { field, reason }) => {
            assert!(!field.is_empty() && !reason.is_empty(), "{field}: {reason}");
        }
        Err(error) => panic!("{error}"),
    }
});

#[allow(unsafe_code)]
fn array_of(bytes: &[u8]) -> Array {
    let made = DType::by_name("list", 1)
        .and_then(|dtype| Array::create(dtype, &[bytes.len() as u64], &Options::default()));
    let array = made.unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: the bytes are the fuzzer's, and not those of the new array.
    unsafe { array.write_bytes(0, bytes) }.unwrap_or_else(|error| panic!("{error}"));
    array
}

/// Reads the items of a column in every way, and those of its children.
fn read(list: &List, column: Column<'_>) {
    for values in [column.values(), column.offsets()].into_iter().flatten() {
        assert_inside(list, &values);
    }
    let first = 0..column.len().min(MOST_ITEMS);
    let last = column.len().saturating_sub(MOST_ITEMS)..column.len();
    for at in first.chain(last) {
        let is_none = column.is_none(at).unwrap_or_else(|error| panic!("{error}"));
        assert!(!is_none || column.nulls() > 0, "item {at} is None, and none is");
        if let Ok(array) = column.array(at) {
            assert_inside(list, &array);
        }
        let (text, bytes) = (column.string(at), column.bytes(at));
        assert!(text.is_err() || bytes.is_err(), "item {at} is of two kinds");
        if let (Ok(items), Some(child)) = (column.list(at), column.children().next()) {
            assert!(items.start <= items.end && items.end <= child.len(), "{items:?}");
        }
    }
    assert!(column.is_none(column.len()).is_err(), "there is an item behind the last");
    column.children().for_each(|child| read(list, child));
}

/// Asserts that an array's elements are bytes of the list, and reads them.
fn assert_inside(list: &List, array: &Array) {
    let bytes = array.layout().len() * array.dtype().itemsize();
    let (first, start) = (list.as_ptr() as u64, array.as_ptr() as u64);
    let is_inside = start >= first && start + bytes <= first + list.size_bytes();
    assert!(bytes == 0 || is_inside, "{bytes} bytes from {} on", start.wrapping_sub(first));
    if bytes <= MOST_COPIED_BYTES {
        array.to_bytes().unwrap_or_else(|error| panic!("{error}"));
    }
}
