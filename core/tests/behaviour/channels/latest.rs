//! The latest value: any number of receivers read it whole, and no sender waits for them.

use shmarray::{
    Channel, ChannelMode, ChannelOptions, Delivered, Delivery, ErrorKind, Loaned, WaitOutcome,
};

use super::followers::{self, as_root};
use super::{
    AT_ONCE, can_loan, create, int32, is_nothing_there, message, number, open, receive, send,
};
use crate::support::{Peer, is_peer, scenario, serve};

/// Enough numbers that a copy of them takes longer than a look at a word.
const LARGE: u64 = 4_000;

fn latest() -> ChannelOptions {
    ChannelOptions::new().mode(ChannelMode::Latest)
}

/// Sends a large value, unless no slot is free now.
fn overwrite(channel: &Channel, value: i32) -> u64 {
    let Loaned::Loan(loan) = channel.loan(AT_ONCE).unwrap() else {
        panic!("a sender waits for a reader")
    };
    for index in 0..LARGE {
        loan.array().set(&[index], value).unwrap();
    }
    loan.publish(&value.to_le_bytes()).unwrap()
}

/// Returns a large value, and fails if it is not whole.
fn whole(delivery: &Delivery) -> i32 {
    let value: i32 = delivery.array().get(&[0]).unwrap();
    for index in 0..LARGE {
        assert_eq!(delivery.array().get::<i32>(&[index]).unwrap(), value, "a torn value");
    }
    assert_eq!(delivery.meta(), value.to_le_bytes(), "another value's metadata");
    value
}

#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    if !is_peer() {
        return;
    }
    let channel = open();
    let mut kept = Vec::new();
    serve(|line| match line {
        "open" => "opened".to_owned(),
        "keep" => {
            let delivery = message(&channel);
            let answer = format!("{} {}", whole(&delivery), delivery.slot().is_some());
            kept.push(delivery);
            answer
        }
        "look" => kept.iter().map(whole).map(|value| format!("{value} ")).collect(),
        // As fast as it can, until the senders have left.
        "read" => {
            let mut reads = 0;
            let mut last = None;
            loop {
                let delivery = message(&channel);
                assert!(last.is_none_or(|last| delivery.sequence() >= last), "an older value");
                last = Some(delivery.sequence());
                whole(&delivery);
                reads += 1;
                drop(delivery);
                if let WaitOutcome::Ended { died: false, .. } =
                    channel.wait_newer(last, AT_ONCE).unwrap()
                {
                    return format!("{} {}", last.unwrap(), reads > 1);
                }
            }
        }
        "send" => {
            (0..300).for_each(|value| _ = overwrite(&channel, value));
            channel.close();
            "sent".to_owned()
        }
        other => panic!("{other}"),
    });
}

fn large(slots: u32) -> Channel {
    Channel::create("numbers", int32(), &[LARGE], &latest().slots(slots)).unwrap()
}

#[test]
fn a_value_is_read_again_and_again_until_there_is_a_newer_one() {
    scenario(|| {
        let sender = create(&latest());
        let reader = open();
        assert!(is_nothing_there(&reader));
        assert_eq!(reader.wait_newer(None, AT_ONCE).unwrap(), WaitOutcome::TimedOut);
        send(&sender, 5);
        assert!(reader.is_ready().unwrap());
        for _ in 0..3 {
            let delivery = message(&reader);
            assert_eq!((number(&delivery), delivery.sequence(), delivery.missed()), (5, 0, 0));
        }
        assert!(!reader.is_ready().unwrap(), "it has received it");
        assert_eq!(reader.wait_newer(None, AT_ONCE).unwrap(), WaitOutcome::Newer);
        assert_eq!(reader.wait_newer(Some(0), AT_ONCE).unwrap(), WaitOutcome::TimedOut);
        (6..9).for_each(|value| _ = send(&sender, value));
        assert!(reader.is_ready().unwrap());
        assert_eq!(reader.wait_newer(Some(0), AT_ONCE).unwrap(), WaitOutcome::Newer);
        let delivery = message(&reader);
        assert_eq!((number(&delivery), delivery.sequence(), delivery.missed()), (8, 3, 2));
        assert!(delivery.age() < std::time::Duration::from_secs(3600));
    });
}

#[test]
fn one_that_joins_late_has_the_value_at_once_also_when_its_sender_has_left() {
    scenario(|| {
        let sender = create(&latest());
        (0..10).for_each(|value| _ = send(&sender, value));
        let late = open();
        assert!(late.is_ready().unwrap());
        let delivery = message(&late);
        assert_eq!((number(&delivery), delivery.missed()), (9, 0));
        sender.close();
        assert_eq!(receive(&late), 9);
        let ended = late.wait_newer(Some(9), None).unwrap();
        assert!(matches!(ended, WaitOutcome::Ended { died: false, .. }));
        let later = open();
        assert_eq!(receive(&later), 9);
        assert!(matches!(later.wait_newer(Some(9), None).unwrap(), WaitOutcome::Ended { .. }));
        assert_eq!(later.messages().count(), 1, "each newer one, and then the end");
    });
}

#[test]
fn a_value_that_persists_is_read_by_later_processes() {
    scenario(|| {
        let sender = create(&latest().persist(true));
        send(&sender, 3);
        drop(sender);
        assert_eq!(receive(&open()), 3);
        shmarray::unlink("numbers").unwrap();
    });
}

#[test]
fn whatever_readers_keep_a_sender_never_waits_and_every_reader_has_the_latest() {
    scenario(|| {
        let sender = large(4);
        let mut peers: Vec<_> = (0..4).map(|_| Peer::start(peer)).collect();
        let mut in_place = 0;
        for (value, peer) in peers.iter_mut().enumerate() {
            assert_eq!(peer.ask("open"), "opened");
            overwrite(&sender, value as i32);
            let kept = peer.ask("keep");
            assert!(kept.starts_with(&format!("{value} ")), "{kept}");
            in_place += i32::from(kept.ends_with("true"));
        }
        assert_eq!(in_place, 2, "half of the slots may be pinned");
        for value in 4..200 {
            overwrite(&sender, value);
            assert_eq!(whole(&message(&sender)), value);
        }
        for (value, mut peer) in peers.into_iter().enumerate() {
            assert_eq!(peer.ask("look"), format!("{value} "), "what it keeps has not changed");
            peer.end();
        }
    });
}

#[test]
fn a_second_delivery_of_a_value_is_a_copy_and_neither_ends_the_other() {
    scenario(|| {
        let sender = create(&latest());
        send(&sender, 1);
        let reader = open();
        let [first, second] = [message(&reader), message(&reader)];
        assert_eq!((first.slot().is_some(), second.slot()), (true, None));
        first.release();
        let third = message(&reader);
        assert!(third.slot().is_some());
        (2..30).for_each(|value| _ = send(&sender, value));
        assert_eq!((number(&second), number(&third), receive(&reader)), (1, 1, 29));
    });
}

#[test]
fn values_are_whole_beside_senders_that_overwrite_them_all_the_time() {
    scenario(|| {
        let channel = large(3);
        let mut readers: Vec<_> = (0..3).map(|_| Peer::start(peer)).collect();
        let mut sender = Peer::start(peer);
        assert_eq!(sender.ask("open"), "opened");
        for reader in &mut readers {
            assert_eq!(reader.ask("open"), "opened");
            reader.tell("read");
        }
        (0..300).for_each(|value| _ = overwrite(&channel, value));
        assert_eq!(sender.ask("send"), "sent");
        channel.close();
        for mut reader in readers {
            assert_eq!(reader.hear(), "599 true");
            reader.end();
        }
        sender.end();
    });
}

#[test]
fn a_reader_that_is_killed_gives_its_slot_back() {
    scenario(|| {
        let sender = large(3);
        let mut value = 0;
        overwrite(&sender, value);
        for _ in 0..3 {
            let mut peer = Peer::start(peer);
            assert_eq!(peer.ask("open"), "opened");
            assert_eq!(peer.ask("keep"), format!("{value} true"));
            peer.kill();
            // A sender recovers, and nobody else: the only slot that may be pinned comes back.
            loop {
                value += 1;
                overwrite(&sender, value);
                let delivery = message(&sender);
                assert_eq!(whole(&delivery), value);
                if delivery.slot().is_some() {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_sender_that_is_killed_leaves_the_value_and_the_slots() {
    scenario(|| {
        let reader = create(&latest().slots(3));
        let mut peer = Peer::start(sending_peer);
        assert_eq!(peer.ask("send"), "sent");
        assert_eq!(peer.ask("loan"), "loaned");
        peer.kill();
        assert_eq!(receive(&reader), 1);
        let ended = reader.wait_newer(Some(0), None).unwrap();
        assert!(matches!(ended, WaitOutcome::Ended { died: true, .. }), "{ended:?}");
        for value in 2..10 {
            send(&reader, value);
            assert_eq!(receive(&reader), value);
        }
    });
}

#[test]
#[ignore = "it is another process of the tests"]
fn sending_peer() {
    if !is_peer() {
        return;
    }
    let channel = open();
    let mut loans = Vec::new();
    serve(|line| match line {
        "send" => {
            send(&channel, 1);
            "sent".to_owned()
        }
        "loan" => {
            loans.push(channel.loan(AT_ONCE).unwrap());
            "loaned".to_owned()
        }
        other => panic!("{other}"),
    });
}

#[test]
fn senders_take_turns_and_one_that_keeps_a_loan_leaves_the_others_slots() {
    scenario(|| {
        let first = create(&latest().slots(3));
        let second = open();
        let loan = second.loan(AT_ONCE).unwrap();
        for value in 0..10 {
            assert_eq!(send(&first, value), value as u64);
            assert_eq!(receive(&first), value);
        }
        let more = first.loan(AT_ONCE).unwrap();
        assert!(matches!(more, Loaned::Loan(_)), "the latest value has the third");
        assert!(!can_loan(&first));
        drop((loan, more));
        assert!(can_loan(&first));
    });
}

#[test]
fn what_a_latest_value_cannot_be_is_refused() {
    scenario(|| {
        let refused = |made: shmarray::Result<Channel>, what: &str| {
            let error = made.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(what), "{error}");
        };
        refused(Channel::create("n", int32(), &[2], &latest().slots(2)), "at least 3");
        refused(Channel::create_by_handle("n", &latest()), "mode");
        let queue = create(&ChannelOptions::new());
        let error = queue.wait_newer(None, AT_ONCE).unwrap_err();
        assert!(error.to_string().contains("no latest value"), "{error}");
    });
}

#[test]
fn values_of_varying_shapes_are_read_whole() {
    scenario(|| {
        let options = latest().slots(3).varying(true);
        let sender = Channel::create("numbers", int32(), &[8], &options).unwrap();
        let reader = open();
        let mut kept = Vec::new();
        for len in 1..=8_u64 {
            let Loaned::Loan(loan) = sender.loan_shape(&[len], AT_ONCE).unwrap() else { panic!() };
            for index in 0..len {
                loan.array().set(&[index], len as i32).unwrap();
            }
            loan.publish(b"").unwrap();
            let Delivered::Message(delivery) = reader.receive(AT_ONCE).unwrap() else { panic!() };
            assert_eq!(delivery.array().shape(), [len]);
            kept.push(delivery); // all but the first are copies
        }
        for (len, delivery) in (1..).zip(&kept) {
            assert_eq!(delivery.array().get::<i32>(&[len - 1]).unwrap(), len as i32);
        }
    });
}

#[test]
fn another_user_follows_the_latest_value() {
    as_root(|| {
        let sender = create(&latest().file_mode(0o644));
        send(&sender, 0);
        let mut follower = followers::follower();
        assert_eq!(follower.ask("receive"), "0 0");
        assert_eq!(follower.ask("poll"), "false");
        assert_eq!(follower.ask("receive"), "0 0");
        (1..5).for_each(|value| _ = send(&sender, value));
        assert_eq!(follower.ask("poll"), "true");
        assert_eq!(follower.ask("wait for newer than 1"), "Newer");
        assert_eq!(follower.ask("receive"), "4 3");
        sender.close();
        follower.end();
    });
}
