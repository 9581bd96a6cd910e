//! Followers: processes of other users, which can read a broadcast and do nothing to it.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use shmarray::{
    Channel, ChannelMode, ChannelOptions, ChannelStats, Delivered, ErrorKind, Receives, WhenFull,
};

use super::{
    AT_ONCE, can_loan, int32, is_nothing_there, message, number, open, receive, receive_all, send,
};
use crate::support::{Peer, directory, fork, is_peer, scenario, serve};
use crate::watched::{become_user, is_root_or_skips, open_to_all};

const FOLLOWER: u32 = 64_322;

fn broadcast(slots: u32) -> ChannelOptions {
    ChannelOptions::new().mode(ChannelMode::Broadcast).slots(slots).file_mode(0o644)
}

/// Runs a scenario of root, whose directory all users share.
pub(crate) fn as_root(body: impl FnOnce()) {
    scenario(|| {
        if is_root_or_skips() {
            open_to_all();
            body();
        }
    });
}

/// A process of another user, which has the channel open from its first line on.
#[test]
#[ignore = "it is another process of the tests"]
pub(crate) fn peer() {
    if !is_peer() {
        return;
    }
    become_user(FOLLOWER);
    let mut channel = None;
    serve(|line| {
        if let Some(history) = line.strip_prefix("open with a history of ") {
            let receives = Receives::WithHistory(history.parse().unwrap());
            return match channel.insert(Channel::open("numbers", receives)) {
                Ok(_) => "opened".to_owned(),
                Err(error) => format!("{error}"),
            };
        }
        if let Some(handle) = line.strip_prefix("open ") {
            return match channel.insert(Channel::open(handle, Receives::Now)) {
                Ok(opened) => format!("is a follower: {}", opened.is_follower()),
                Err(error) => format!("{:?}", error.kind()),
            };
        }
        if line == "create" {
            let created = Channel::create("theirs", int32(), &[2], &broadcast(2));
            return channel.insert(created).as_ref().unwrap().handle();
        }
        let opened = channel.get_or_insert_with(|| Channel::open("numbers", Receives::Now));
        let channel = match opened {
            Ok(channel) => channel,
            Err(error) => return format!("{:?}: {error}", error.kind()),
        };
        match line {
            "open" => "opened".to_owned(),
            "receive" => match channel.receive(None) {
                Ok(Delivered::Message(delivery)) => {
                    format!("{} {}", number(&delivery), delivery.missed())
                }
                Ok(other) => format!("{other:?}"),
                Err(error) => format!("{:?}", error.kind()),
            },
            "receive all" => {
                let mut last = -1;
                let mut missed = 0;
                let mut count = 0;
                loop {
                    match channel.receive(None).unwrap() {
                        Delivered::Message(delivery) => {
                            missed += delivery.missed();
                            let this = number(&delivery); // and whole
                            assert_eq!(this as u64, delivery.sequence());
                            assert_eq!(last + 1 + delivery.missed() as i32, this);
                            (last, count) = (this, count + 1);
                        }
                        Delivered::Ended { died, .. } => {
                            assert_eq!(count + missed as i32, last + 1);
                            return format!("{last} {died}");
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            "send" => format!("{:?}", channel.loan(AT_ONCE).map(drop).map_err(|one| one.kind())),
            "fork" => {
                let fd = channel.fd().unwrap();
                fork(|| assert_ne!(channel.fd().unwrap(), fd)).ended();
                "forked".to_owned()
            }
            "poll" => format!("{}", channel.is_ready().unwrap()),
            "wait for newer than 1" => format!("{:?}", channel.wait_newer(Some(1), None).unwrap()),
            other => panic!("{other}"),
        }
    });
}

pub(crate) fn follower() -> Peer {
    let mut peer = Peer::start(peer);
    assert_eq!(peer.ask("open"), "opened");
    peer
}

#[test]
fn another_user_sees_every_message_from_when_it_opened() {
    as_root(|| {
        let channel = Channel::create("numbers", int32(), &[2], &broadcast(4)).unwrap();
        send(&channel, 7);
        let mut follower = follower();
        assert_eq!(follower.ask("poll"), "false");
        for value in 0..20 {
            follower.tell("receive");
            send(&channel, value);
            assert_eq!(follower.hear(), format!("{value} 0"));
        }
        assert_eq!(follower.ask("send"), "Err(PermissionDenied)");
        assert_eq!(follower.ask("fork"), "forked");
        drop(channel);
        assert_eq!(follower.ask("receive"), "Ended { died: false }");
        follower.end();
    });
}

#[test]
fn a_follower_that_is_slow_or_stopped_delays_nobody_and_is_told_what_it_missed() {
    as_root(|| {
        let channel = Channel::create("numbers", int32(), &[2], &broadcast(2)).unwrap();
        let member = open();
        let mut follower = follower();
        for value in 0..100 {
            send(&channel, value);
            assert_eq!(receive(&member), value);
        }
        assert_eq!(follower.ask("receive"), "98 98");
        assert_eq!(follower.ask("receive"), "99 0");
        follower.end();
    });
}

#[test]
fn no_message_that_a_follower_gets_is_torn() {
    as_root(|| {
        let options = broadcast(3).when_full(WhenFull::DropOldest);
        let channel = Channel::create("numbers", int32(), &[2], &options).unwrap();
        let mut follower = follower();
        follower.tell("receive all");
        (0..100_000).for_each(|value| _ = send(&channel, value));
        channel.close();
        let said = follower.hear();
        assert!(said.ends_with(" false"), "{said}");
        follower.end();
    });
}

#[test]
fn a_follower_is_told_that_the_last_sender_died() {
    as_root(|| {
        let channel = Channel::create("numbers", int32(), &[2], &broadcast(2)).unwrap();
        let mut follower = follower();
        let mut sender = Peer::start(super::deaths::peer);
        assert_eq!(sender.ask("1"), "did 1");
        drop(channel);
        assert_eq!(follower.ask("receive"), "1 0");
        sender.kill();
        assert_eq!(follower.ask("receive"), "Ended { died: true }");
        follower.end();
    });
}

#[test]
fn the_stream_of_a_follower_ends_whenever_the_last_sender_leaves() {
    as_root(|| {
        let keeps = Channel::create("numbers", int32(), &[2], &broadcast(2)).unwrap();
        assert!(is_nothing_there(&keeps));
        let sender = Channel::open("numbers", Receives::Later).unwrap();
        send(&sender, 1);
        let mut follower = follower();
        drop(sender); // before the follower's first look
        assert_eq!(follower.ask("receive"), "Ended { died: false }");
        follower.end();
        let mut late = self::follower();
        late.tell("receive"); // it waits
        let another = Channel::open("numbers", Receives::Later).unwrap();
        send(&another, 2);
        assert_eq!(late.hear(), "2 0");
        another.close();
        assert_eq!(late.ask("receive"), "Ended { died: false }");
        late.end();
    });
}

#[test]
fn only_a_broadcast_that_allows_it_is_followed() {
    as_root(|| {
        let private = ChannelOptions::new().mode(ChannelMode::Broadcast);
        for options in [private, ChannelOptions::new()] {
            let channel = Channel::create("numbers", int32(), &[2], &options).unwrap();
            let mut peer = Peer::start(peer);
            assert!(peer.ask("open").starts_with("PermissionDenied"));
            peer.end();
            drop(channel);
        }
    });
}

/// A file of another user that looks like a channel and becomes shorter ends nobody.
#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    as_root(|| {
        let channel = Channel::create("numbers", int32(), &[2], &broadcast(2)).unwrap();
        let whole = fs::read(directory().join("shmarray-name-numbers")).unwrap();
        for bytes in [whole.len() as u64 - 64, 9000, 4200, 100, 0] {
            // A copy, so that this process's own mapping stays whole.
            let copy = directory().join("shmarray-name-copy");
            fs::write(&copy, &whole).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
            let mut peer = Peer::start(reader_of_a_copy);
            assert_eq!(peer.ask("open"), "opened");
            fs::File::options().write(true).open(&copy).unwrap().set_len(bytes).unwrap();
            let said = peer.ask("receive");
            assert!(["Os", "ended"].contains(&said.as_str()), "{bytes}: {said}");
            peer.end();
            fs::remove_file(&copy).unwrap();
        }
        drop(channel);
    });
}

#[test]
#[ignore = "it is another process of the tests"]
fn reader_of_a_copy() {
    if !is_peer() {
        return;
    }
    become_user(FOLLOWER);
    let channel = Channel::open("copy", Receives::Now).unwrap();
    serve(|line| match line {
        "open" => "opened".to_owned(),
        _ => match channel.receive(AT_ONCE) {
            Ok(_) => "ended".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        },
    });
}

/// What another user wrote into a file that looks like a channel's moves no pointer.
#[test]
fn whatever_a_file_says_a_follower_lives() {
    as_root(|| {
        let channel = Channel::create("numbers", int32(), &[2], &broadcast(2)).unwrap();
        send(&channel, 1);
        let whole = fs::read(directory().join("shmarray-name-numbers")).unwrap();
        let copy = directory().join("shmarray-name-copy");
        for seed in 0..40u64 {
            fs::write(&copy, &whole).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
            let mut peer = Peer::start(reader_of_a_copy);
            assert_eq!(peer.ask("open"), "opened");
            let file = fs::File::options().write(true).open(&copy).unwrap();
            for at in (4224..8192).step_by(8) {
                let random = u64::wrapping_mul(at, 0x9e37_79b9_7f4a_7c15)
                    .rotate_left(seed as u32 * 7)
                    ^ seed;
                let word = if seed % 3 == 0 { random } else { random % 4096 };
                file.write_all_at(&word.to_le_bytes(), at).unwrap();
            }
            let said = peer.ask("receive");
            assert!(["Os", "ended"].contains(&said.as_str()), "{seed}: {said}");
            peer.end();
        }
        fs::remove_file(&copy).unwrap();
        drop(channel);
    });
}

#[test]
fn what_another_user_may_read_it_may_look_at() {
    as_root(|| {
        let channel = Channel::create("numbers", int32(), &[2], &broadcast(4)).unwrap();
        let receiver = open();
        (0..3).for_each(|value| _ = send(&channel, value));
        let held = message(&receiver);
        let stats = ChannelStats::read("numbers").unwrap();
        assert_eq!((stats.sent, stats.slots, stats.loaned, stats.queued), (3, 4, 0, 3));
        assert_eq!((stats.mode, stats.ends.len()), (ChannelMode::Broadcast, 2));
        let end = |sends| stats.ends.iter().find(|end| end.sends == sends).unwrap();
        assert_eq!((end(true).count, end(false).count, end(false).behind), (3, 1, 2));
        assert!(stats.newest_ns > 0 && end(false).pid == std::process::id());
        drop(held);
        assert_eq!(ChannelStats::read("nothing").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(can_loan(&channel));
        assert_eq!(receive_all_but_the_first(&receiver, channel), [1, 2]);
    });
}

fn receive_all_but_the_first(receiver: &Channel, sender: Channel) -> Vec<i32> {
    drop(sender);
    receive_all(receiver).0
}
