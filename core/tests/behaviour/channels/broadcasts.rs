//! Broadcasts: each receiver sees every message from when it joined.

use shmarray::{Channel, ChannelMode, ChannelOptions, Delivered, Loaned, Receives, WhenFull};

use super::{
    AT_ONCE, can_loan, create, int32, is_nothing_there, message, number, open, receive,
    receive_all, send,
};
use crate::support::{Peer, directory, fork, is_peer, scenario, serve};
use crate::surroundings::set_timer;

fn options() -> ChannelOptions {
    ChannelOptions::new().mode(ChannelMode::Broadcast)
}

#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    if !is_peer() {
        return;
    }
    let channel = open();
    serve(|line| match line {
        "join" => "joined".to_owned(),
        "receive" => {
            let mut next = None;
            let mut missed = 0;
            let died = loop {
                match channel.receive(None).unwrap() {
                    Delivered::Message(delivery) => {
                        let this = number(&delivery);
                        missed += delivery.missed();
                        let expected = next.unwrap_or(0) + delivery.missed() as i32;
                        assert_eq!((this, this as u64), (expected, delivery.sequence()));
                        next = Some(this + 1);
                    }
                    Delivered::Ended { died, .. } => break died,
                    other => panic!("{other:?}"),
                }
            };
            format!("{} {missed} {died}", next.unwrap())
        }
        other => panic!("{other}"),
    });
}

#[test]
fn every_receiver_sees_every_message_in_order() {
    scenario(|| {
        let sender = create(&options().slots(4));
        let mut peers: Vec<_> = (0..3).map(|_| Peer::start(peer)).collect();
        for peer in &mut peers {
            assert_eq!(peer.ask("join"), "joined");
            peer.tell("receive");
        }
        (0..10_000).for_each(|value| _ = send(&sender, value));
        drop(sender);
        for mut peer in peers {
            assert_eq!(peer.hear(), "10000 0 false");
            peer.end();
        }
    });
}

#[test]
fn a_receiver_that_is_slow_misses_and_is_told_how_many() {
    scenario(|| {
        let sender = create(&options().slots(4).when_full(WhenFull::DropOldest));
        let slow = open();
        let quick = open();
        let mut missed = 0;
        for value in 0..100 {
            send(&sender, value);
            assert_eq!(receive(&quick), value);
            if value % 10 == 9 {
                let delivery = message(&slow);
                missed += delivery.missed();
                assert_eq!(number(&delivery) as u64, delivery.sequence());
            }
        }
        assert_eq!(message(&slow).missed(), 0);
        assert!(missed > 50, "{missed}");
        // One that holds a message is not disturbed.
        let held = message(&slow);
        let value = number(&held);
        (100..150).for_each(|value| _ = send(&sender, value));
        assert_eq!(number(&held), value);
        drop(sender);
        let (rest, _) = receive_all(&slow);
        assert_eq!(rest.last(), Some(&149));
    });
}

#[test]
fn a_slow_receiver_in_another_process_is_told_of_each_message_that_it_missed() {
    scenario(|| {
        let sender = create(&options().slots(2).when_full(WhenFull::DropOldest));
        let mut peers: Vec<_> = (0..2).map(|_| Peer::start(peer)).collect();
        for peer in &mut peers {
            assert_eq!(peer.ask("join"), "joined");
        }
        peers.iter_mut().for_each(|peer| peer.tell("receive"));
        (0..50_000).for_each(|value| _ = send(&sender, value));
        drop(sender);
        for mut peer in peers {
            let said = peer.hear();
            assert!(said.starts_with("50000 ") && said.ends_with(" false"), "{said}");
            peer.end();
        }
    });
}

#[test]
fn the_slowest_receiver_stops_the_sender_and_a_closed_one_does_not() {
    scenario(|| {
        let sender = create(&options().slots(2));
        let slow = open();
        let quick = open();
        send(&sender, 0);
        send(&sender, 1);
        assert_eq!((receive(&quick), receive(&quick)), (0, 1));
        assert!(!can_loan(&sender));
        assert_eq!(receive(&slow), 0);
        send(&sender, 2);
        assert!(!can_loan(&sender));
        slow.close();
        assert!(can_loan(&sender));
        let fail = options().slots(1).when_full(WhenFull::Error);
        let other = Channel::create("other", int32(), &[2], &fail).unwrap();
        let _slow = Channel::open("other", Receives::Now).unwrap();
        send(&other, 1);
        assert!(matches!(other.loan(AT_ONCE).unwrap(), Loaned::Full));
    });
}

#[test]
fn one_joins_with_its_open_or_with_its_first_receive() {
    scenario(|| {
        let sender = create(&options());
        let joined = open();
        let not_yet = Channel::open("numbers", Receives::Later).unwrap();
        send(&sender, 0);
        assert!(is_nothing_there(&not_yet) && is_nothing_there(&sender));
        send(&sender, 1);
        assert_eq!([receive(&joined), receive(&not_yet), receive(&sender)], [0, 1, 1]);
        assert_eq!(receive(&joined), 1);
    });
}

#[test]
fn without_receivers_a_sender_never_waits() {
    scenario(|| {
        let sender = create(&options().slots(1));
        (0..1000).for_each(|value| _ = send(&sender, value));
        let late = open();
        send(&sender, 1000);
        assert_eq!(receive(&late), 1000);
    });
}

/// The message is dropped, so the wait counts it, finds no other, and sleeps.
#[test]
fn a_receiver_whose_wait_a_signal_ends_is_told_later_what_it_missed() {
    scenario(|| {
        // In a child this thread is the only one, so it gets the signals.
        fork(|| {
            let sender = create(&options().slots(1).when_full(WhenFull::DropOldest));
            let receiver = open();
            send(&sender, 0);
            let Loaned::Loan(loan) = sender.loan(None).unwrap() else { panic!("it drops it") };
            set_timer(5_000);
            let error = receiver.receive(None).unwrap_err();
            set_timer(0);
            assert_eq!(error.os_errno(), Some(libc::EINTR), "{error}");
            loan.publish(b"").unwrap();
            assert_eq!(message(&receiver).missed(), 1);
            send(&sender, 2);
            assert_eq!(message(&receiver).missed(), 0);
        })
        .ended();
    });
}

/// Returns the word of FORMAT.md at which receivers sleep.
fn published() -> u32 {
    let bytes = std::fs::read(directory().join("shmarray-name-numbers")).unwrap();
    u32::from_le_bytes(bytes[4096 + 384..][..4].try_into().unwrap())
}

#[test]
fn receivers_that_sleep_are_woken_and_nobody_is_woken_in_vain() {
    scenario(|| {
        let sender = create(&options().slots(8));
        let receiver = open();
        send(&sender, 0);
        assert_eq!((published(), receive(&receiver)), (0, 0), "nobody sleeps");
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let receiving = scope.spawn(|| {
                let tell = tell; // dropped at the end
                // SAFETY: the call cannot touch memory, because it takes no arguments.
                tell.send(unsafe { gettid() }).unwrap();
                receive(&receiver)
            });
            let thread = told.recv().unwrap();
            let call = format!("/proc/self/task/{thread}/syscall");
            // 202 is futex on x86-64, 98 on arm64.
            while !["202 ", "98 "].iter().any(|number| {
                std::fs::read_to_string(&call).unwrap().starts_with(number) && published() == 1
            }) {
                std::thread::yield_now();
            }
            send(&sender, 1);
            assert_eq!(published() >> 1, 1, "the count has grown");
            assert_eq!(receiving.join().unwrap(), 1);
        });
    });
}

unsafe extern "C" {
    fn gettid() -> i32;
}
