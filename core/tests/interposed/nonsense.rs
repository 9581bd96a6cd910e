//! An owner that writes nonsense to the ring of its channel for ever, and faster than others can
//! read it, stops no process that only reads.
//!
//! This program is that owner: its `pread64` finds a larger number in the ring with each look.
#![cfg(target_env = "gnu")]
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fs;
use std::time::Duration;

use shmarray::{Channel, ChannelMode, ChannelOptions, ChannelStats, DType, Delivered, Receives};

use crate::support::{directory, fork, resting_after, scenario};
use crate::watched::{Pool, become_user, open_to_all, watched_as_root};

/// The places of FORMAT.md, "Channel, kind 3".
const RING_WORDS: usize = 4096 + 12;
const RING_OFFSET: usize = 4096 + 24;

/// More looks than any reader may need, and fewer than take long.
const PATIENCE: u64 = 10_000;

#[derive(Clone, Copy)]
struct Nonsense {
    /// The ring: where it begins in the file, and where it ends.
    ring: (i64, i64),
    looks: u64,
}

thread_local! {
    /// What this thread finds in the ring, while it is nonsense.
    static FOUND: Cell<Option<Nonsense>> = const { Cell::new(None) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, into: *mut c_void, bytes: usize, from: i64) -> isize {
    // SAFETY: the arguments are valid if the caller's are, because this does what the C library's
    // function of this name does.
    let read = unsafe { libc::syscall(libc::SYS_pread64, fd, into, bytes, from) } as isize;
    if let Some(found) = FOUND.get()
        && read == 8
        && (found.ring.0..found.ring.1).contains(&from)
    {
        let looks = found.looks + 1;
        if looks > PATIENCE {
            eprintln!("it looks for ever");
            std::process::abort(); // a panic must not leave this function
        }
        FOUND.set(Some(Nonsense { looks, ..found }));
        let word = (1000 * looks) << 10;
        // SAFETY: the eight bytes are writable, because the call has just written them.
        unsafe { into.cast::<u64>().write_unaligned(word) };
    }
    read
}

/// Runs `body` while the ring of the channel is nonsense. Returns how often it looked there.
fn looks_of(body: impl FnOnce()) -> u64 {
    let file = fs::read(directory().join("shmarray-name-numbers")).unwrap();
    let word = |at: usize| i64::from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap()));
    let ring = (word(RING_OFFSET), word(RING_OFFSET) + 8 * word(RING_WORDS));
    FOUND.set(Some(Nonsense { ring, looks: 0 }));
    body();
    FOUND.take().unwrap().looks
}

fn create() -> Channel {
    let options = ChannelOptions::new().mode(ChannelMode::Broadcast).slots(4).file_mode(0o644);
    Channel::create("numbers", DType::parse("<i4").unwrap(), &[2], &options).unwrap()
}

#[test]
fn a_ring_that_is_nonsense_stops_nobody_who_looks_at_the_channel() {
    scenario(|| {
        let _channel = create();
        let looks = looks_of(|| assert!(ChannelStats::read("numbers").unwrap().sent > 0));
        assert_eq!(looks, 5, "once more than the ring has words");
    });
}

#[test]
fn a_ring_that_is_nonsense_stops_no_follower() {
    watched_as_root(Pool::Off, || {
        open_to_all();
        let owner = resting_after(|| std::mem::forget(create()));
        fork(|| {
            become_user(64_322);
            let open = || Channel::open("numbers", Receives::Now).unwrap();
            assert_eq!(looks_of(|| assert!(open().is_follower())), 5);
            let follower = open();
            let looks = looks_of(|| {
                let received = follower.receive(Some(Duration::ZERO)).unwrap();
                assert!(matches!(received, Delivered::TimedOut), "{received:?}");
            });
            assert_eq!(looks, 5);
        })
        .ended();
        owner.kill();
        shmarray::sweep().unwrap();
    });
}
