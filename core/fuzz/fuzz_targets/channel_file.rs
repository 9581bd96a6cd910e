//! Any bytes as a channel's file: refused or opened, never a panic or a signal. No call whose
//! timeout is zero waits, and no segment is left.
//!
//! The first byte of an input selects the parts of the file that are corrected before it is tried:
//!
//! | bit | corrects |
//! |---|---|
//! | 0 | magic, major version, required features and kind |
//! | 1 | the id |
//! | 2 | state LIVE and a generation |
//! | 3 | no entry of the lease table is in use |
//!
//! The upper four bits choose the first operation: to send, to receive, or to ask.
#![no_main]

#[path = "support/planted.rs"]
mod planted;

use std::time::Duration;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use planted::{ID, NAME, assert_nothing_is_left, corrected, put_file, remove_file};
use shmarray::{Channel, ChannelStats, Delivered, Loaned};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
const LEASES: std::ops::Range<usize> = 2304..4096;
/// The offsets of fields: identity, control words, description, shape, strides, dtype, the
/// channel's description and words, and where the golden file has ring, ends and slots (FORMAT.md).
const FIELDS: [(usize, usize); 11] = [
    (0, 128),
    (128, 160),
    (256, 352),
    (352, 416),
    (864, 928),
    (1376, 1440),
    (4096, 4160),
    (4224, 4800),
    (5376, 5440),
    (6144, 6272),
    (7168, 7680),
];
/// More than a channel of this size can hold.
const MANY: usize = 2000;

fn made_right(bits: u8, bytes: &[u8]) -> Vec<u8> {
    let control = [1u64, 7].map(u64::to_le_bytes).concat();
    let parts: [(u8, usize, &[u8]); 6] = [
        (0, 0, b"shmarray\x01\0\0\0"),
        (0, 16, &[0; 8]),
        (0, 80, &[3, 0, 0, 0]),
        (1, 32, ID.as_bytes()),
        (2, 128, &control),
        (3, LEASES.start, &[0; LEASES.end - LEASES.start]),
    ];
    corrected(bits, bytes, &parts)
}

/// Receives until there is no message, and reads each.
fn receive_all(channel: &Channel) {
    for _ in 0..MANY {
        match channel.receive(AT_ONCE) {
            Ok(Delivered::Message(view)) => {
                assert!(view.meta().len() <= shmarray::MAX_META_BYTES);
                let _ = view.array().to_bytes();
            }
            Ok(_) => return, // the stream has ended, or there is no message
            Err(_) => {}
        }
    }
}

/// Sends until no slot is free.
fn send_all(channel: &Channel) {
    for _ in 0..MANY {
        match channel.loan(AT_ONCE) {
            Ok(Loaned::Loan(loan)) => {
                let _ = loan.array().set(&[0], 1i32);
                let _ = loan.publish(b"fuzz");
            }
            Ok(_) => return, // no slot is free
            Err(_) => {}
        }
    }
}

fn ask(channel: &Channel) {
    let _ = channel.is_ready();
    let _ = channel.wait_until_ready(AT_ONCE);
    let _ = ChannelStats::read(NAME);
}

fn use_channel(first: u8) {
    let Ok(channel) = Channel::open(NAME, Receives::from(first & 1 == 0)) else { return };
    let mut steps = [send_all, receive_all, ask];
    steps.rotate_left(usize::from(first % 3));
    steps.iter().chain(&steps).for_each(|step| step(&channel));
    channel.close();
}

/// Removes the file, which a sweep may not take, and checks that nothing else is left.
fn nothing_is_left() {
    let _ = shmarray::unlink(NAME);
    shmarray::sweep().unwrap();
    remove_file();
    assert_nothing_is_left();
}

fuzz_target!(|input: &[u8]| {
    let Some((bits, bytes)) = input.split_first() else { return };
    put_file(&made_right(*bits, bytes));
    let _ = ChannelStats::read(NAME);
    use_channel(bits >> 4);
    nothing_is_left();
});

fuzz_mutator!(|input: &mut [u8], size: usize, max_size: usize, seed: u32| {
    planted::mutate(input, size, max_size, seed, &FIELDS)
});
