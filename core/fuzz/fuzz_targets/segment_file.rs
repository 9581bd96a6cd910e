//! Any bytes as a segment's file: refused or attached, never a panic or a signal, and no segment is
//! left.
//!
//! The first byte of an input selects the parts of the file that are corrected before it is tried,
//! so that mutations also get behind the first checks. The rest are the file's bytes:
//!
//! | bit | corrects |
//! |---|---|
//! | 0 | magic, major version and required features |
//! | 1 | the id |
//! | 2 | state LIVE and the generation of our handle |
//! | 3 | the sizes: the header one page, the data all the rest |
//! | 4 | PERSIST: set, so that closing gives nothing back |
//! | 5 | the handle is what the file describes, not all of its data as bytes |
//! | 6 | the handle is of the first cell, with the generation and the size that its head says |
//!
//! Mutations prefer the offsets of fields, since most of a header is zeros.
#![no_main]

#[path = "support/planted.rs"]
mod planted;

use std::fs;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use planted::{ID, NAME, assert_nothing_is_left, corrected, put_file, remove_file, segment_path};
use shmarray::{Access, Array, Error, size_bytes};

const GENERATION: u64 = 7;
const PAGE_BYTES: usize = 4096;
/// The most bytes that are copied: with strides of zero, arrays may be huge without memory.
const MOST_COPIED_BYTES: u64 = 1 << 20;
/// The offsets of the lease table, which ends with the first page.
const LEASES: std::ops::Range<usize> = 2304..PAGE_BYTES;
/// The offsets of fields: identity, control words, description, shape, strides, dtype (FORMAT.md).
const FIELDS: [(usize, usize); 8] = [
    (0, 128),
    (128, 160),
    (256, 352),
    (352, 416),
    (864, 928),
    (1376, 1440),
    (HEAD, HEAD + 32),
    (HEAD + 128, HEAD + 160),
];
/// The offset of the first cell's head.
const HEAD: usize = PAGE_BYTES;

fn made_right(bits: u8, bytes: &[u8]) -> Vec<u8> {
    let data_bytes = bytes.len().saturating_sub(PAGE_BYTES) as u64;
    let sizes = [PAGE_BYTES as u64, bytes.len() as u64, data_bytes].map(u64::to_le_bytes).concat();
    let control = [1, GENERATION].map(u64::to_le_bytes).concat();
    let parts: [(u8, usize, &[u8]); 6] = [
        (0, 0, b"shmarray\x01\0\0\0"),
        (0, 16, &[0; 8]),
        (1, 32, ID.as_bytes()),
        (2, 128, &control),
        (3, 56, &sizes),
        (4, 144, &[1]),
    ];
    corrected(bits, bytes, &parts)
}

/// Returns a handle of all that the file may hold after one page, as bytes.
fn handle_of_bytes(file: &[u8]) -> String {
    let count = file.len().saturating_sub(PAGE_BYTES);
    let front = format!(r#"{{"shmarray":1,"segment":"{ID}","generation":{GENERATION},"#);
    format!(r#"{front}"offset":0,"dtype":"|u1","shape":[{count}],"strides":[1]}}"#)
}

fn number(file: &[u8], offset: usize) -> u64 {
    let bytes = file.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// Returns the handle of all of the first cell's array, as bytes.
fn handle_of_cell(file: &[u8]) -> String {
    let generation = number(file, HEAD + 8);
    let count = number(file, HEAD + 24);
    let front = format!(r#"{{"shmarray":1,"segment":"{ID}.0","generation":{generation},"#);
    format!(r#"{front}"offset":0,"dtype":"|u1","shape":[{count}],"strides":[1]}}"#)
}

/// Returns the handle of what the file describes, or of all of its data when it cannot be attached.
fn described_handle(file: &[u8]) -> String {
    put_file(file);
    Array::attach(NAME, Access::ReadOnly)
        .map_or_else(|_| handle_of_bytes(file), |array| array.handle())
}

fn read_all(array: &Array) {
    let copied = size_bytes(array.shape(), array.dtype().itemsize()).unwrap();
    if copied <= MOST_COPIED_BYTES {
        assert_eq!(array.to_bytes().unwrap().len() as u64, copied);
    }
    let ends: Vec<u64> = array.shape().iter().map(|count| count.saturating_sub(1)).collect();
    for index in [vec![0; ends.len()], ends] {
        let _ = array.get::<u8>(&index);
        let _ = array.get::<f64>(&index);
    }
    reads_back(array);
}

/// Its handle finds it again, unless there is no file of the id that it says.
fn reads_back(array: &Array) {
    let descriptor = array.descriptor();
    match Array::attach(&descriptor.to_handle(), Access::ReadOnly) {
        Ok(again) => assert_eq!(again.descriptor(), descriptor),
        Err(Error::SegmentNotFound { .. }) if descriptor.segment.id.as_str() != ID => {}
        Err(error) => panic!("its own handle is refused: {error}"),
    }
}

/// Attaches, reads and closes. Read-only and read-write must agree. Returns whether it could be
/// attached.
fn attempt(file: &[u8], what: &str) -> bool {
    let attached = [Access::ReadOnly, Access::ReadWrite].map(|access| {
        put_file(file);
        assert!(shmarray::segments().unwrap().iter().all(|info| info.segment.id.as_str() == ID));
        let Ok(array) = Array::attach(what, access) else { return false };
        read_all(&array);
        let is_ours = array.descriptor().segment.id.as_str() == ID;
        drop(array);
        // An array that persists, or seems to have another holder, is not given back by a close.
        // Other cells of its slab may be in use.
        let stays =
            file[144] & 1 != 0 || file[80] == 2 || file[LEASES].iter().any(|byte| *byte != 0);
        assert!(
            stays || !is_ours || !segment_path().exists(),
            "its last holder did not give it back"
        );
        true
    });
    assert_eq!(attached[0], attached[1], "read-only and read-write differ for {what}");
    attached[0]
}

/// Whether the file says that a message holds it, in a registry that does not exist: that stays, by
/// design.
fn is_under_way(file: &[u8]) -> bool {
    let header = if file[80] == 2 { LEASES.start..file.len() } else { LEASES };
    let entries = file.get(header).unwrap_or_default().chunks_exact(16);
    entries.into_iter().any(|entry| entry[0] & 1 != 0 && entry[12] != 0)
}

/// Checks that a sweep gives everything back: without its name nothing persists, and nobody holds
/// it. A file that is no segment, so that nobody lists it, stays as it was. One with another id in
/// its header is listed by no process either, but was found by its name and may have been changed.
fn nothing_is_left(file: &[u8]) {
    let _ = shmarray::unlink(NAME);
    shmarray::sweep().unwrap();
    let is_segment =
        shmarray::segments().unwrap().iter().any(|info| info.segment.id.as_str() == ID);
    if !is_segment && file.get(32..56) == Some(ID.as_bytes()) {
        assert!(
            fs::read(segment_path()).is_ok_and(|left| left == file) || !segment_path().exists(),
            "a stranger's file was changed"
        );
    }
    if !is_segment || file.len() > PAGE_BYTES && is_under_way(file) {
        remove_file();
    }
    assert_nothing_is_left();
}

fuzz_target!(|input: &[u8]| {
    let Some((bits, bytes)) = input.split_first() else { return };
    let file = made_right(*bits, bytes);
    let handle = match bits & (32 | 64) {
        0 => handle_of_bytes(&file),
        32 => described_handle(&file),
        _ => handle_of_cell(&file),
    };
    attempt(&file, &handle);
    attempt(&file, NAME);
    nothing_is_left(&file);
});

fuzz_mutator!(|input: &mut [u8], size: usize, max_size: usize, seed: u32| {
    planted::mutate(input, size, max_size, seed, &FIELDS)
});
