//! A process that was stopped just before it stored the tail or the head, and goes on much later,
//! sets them back. They only say where to look, so nobody notices.

use std::fs;
use std::os::unix::fs::FileExt;

use shmarray::{Channel, ChannelMode, ChannelOptions, ChannelStats, WhenFull};

use super::followers::{as_root, follower};
use super::{create, is_nothing_there, message, number, open, open_as_sender, receive, send};
use crate::support::{directory, scenario};

/// The words of FORMAT.md, "Channel, kind 3".
const TAIL: u64 = 4096 + 128;
const HEAD: u64 = 4096 + 256;
/// More messages than the ring has words.
const SENT: i32 = 1000;

/// Sets the tail and the head back to their first values.
fn set_back() {
    let path = directory().join("shmarray-name-numbers");
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut ring_words = [0; 4];
    file.read_exact_at(&mut ring_words, 4096 + 12).unwrap();
    let first = u64::from(u32::from_le_bytes(ring_words)).to_le_bytes();
    [TAIL, HEAD].into_iter().for_each(|at| file.write_all_at(&first, at).unwrap());
}

fn sent() -> u64 {
    ChannelStats::read("numbers").unwrap().sent
}

#[test]
fn a_queue_goes_on() {
    scenario(|| queue_goes_on(open));
}

#[test]
fn a_queue_of_two_senders_goes_on() {
    scenario(|| queue_goes_on(open_as_sender));
}

fn queue_goes_on(open: fn() -> Channel) {
    let channel = create(&ChannelOptions::new().slots(4));
    let receiver = open();
    for value in 0..SENT {
        send(&channel, value);
        assert_eq!(receive(&receiver), value);
    }
    (SENT..SENT + 2).for_each(|value| _ = send(&channel, value));
    set_back();
    assert_eq!(sent(), SENT as u64 + 2);
    for value in SENT..SENT + 2 {
        set_back();
        let delivery = message(&receiver);
        assert_eq!((number(&delivery), delivery.sequence()), (value, value as u64));
    }
    set_back();
    assert!(is_nothing_there(&receiver));
    set_back();
    assert_eq!(send(&channel, 5), SENT as u64 + 2);
    assert_eq!(receive(&receiver), 5);
}

#[test]
fn a_broadcast_goes_on_and_one_that_joins_misses_nothing() {
    scenario(|| {
        for when_full in [WhenFull::Block, WhenFull::DropOldest] {
            let options = ChannelOptions::new().mode(ChannelMode::Broadcast).when_full(when_full);
            let channel = create(&options.slots(4));
            let receiver = open();
            for value in 0..SENT {
                send(&channel, value);
                assert_eq!(receive(&receiver), value);
            }
            set_back();
            let late = open();
            for value in SENT..SENT + 10 {
                set_back();
                send(&channel, value);
                set_back();
                for receiver in [&receiver, &late] {
                    let delivery = message(receiver);
                    assert_eq!((number(&delivery), delivery.missed()), (value, 0), "{when_full:?}");
                }
            }
            channel.close();
        }
    });
}

#[test]
fn a_follower_sees_what_is_sent_from_when_it_opened() {
    as_root(|| {
        let options = ChannelOptions::new().mode(ChannelMode::Broadcast).slots(4).file_mode(0o644);
        let channel = create(&options.when_full(WhenFull::DropOldest));
        (0..SENT).for_each(|value| _ = send(&channel, value));
        set_back();
        let mut follower = follower();
        assert_eq!(follower.ask("poll"), "false");
        send(&channel, SENT);
        set_back();
        assert_eq!(follower.ask("receive"), format!("{SENT} 0"));
        (0..SENT).for_each(|value| _ = send(&channel, value));
        set_back();
        assert_eq!(follower.ask("receive"), format!("{} {}", SENT - 4, SENT - 4));
        follower.end();
    });
}
