//! Processes killed with a loan, a delivery, or in the middle of everything: the others go on.

use std::collections::BTreeSet;

use shmarray::{
    Channel, ChannelMode, ChannelOptions, Delivered, Delivery, Loan, Loaned, Receives, WhenFull,
};

use super::{STREAMS, can_loan, create, message, number, open, receive, receive_all, send};
use crate::support::{Peer, is_peer, scenario, serve};

/// Keeps loans and deliveries until it ends.
#[test]
#[ignore = "it is another process of the tests"]
pub(crate) fn peer() {
    if !is_peer() {
        return;
    }
    let channel = open();
    let (mut loans, mut deliveries): (Vec<Loan>, Vec<Delivery>) = Default::default();
    serve(|line| {
        match line {
            "loan" => match channel.loan(None).unwrap() {
                Loaned::Loan(loan) => loans.push(loan),
                other => panic!("{other:?}"),
            },
            "join" => {} // with its `open`
            "view" => deliveries.push(message(&channel)),
            "receive and drop" => drop(message(&channel)),
            "exit" => std::process::exit(0),
            number => _ = send(&channel, number.parse().unwrap()),
        }
        format!("did {line}")
    });
}

pub(crate) fn peer_that(did: &[&str]) -> Peer {
    let mut peer = Peer::start(peer);
    for what in did {
        assert_eq!(peer.ask(what), format!("did {what}"));
    }
    peer
}

/// Sends from a thread, which sleeps until there is a slot, and kills the peer meanwhile.
fn send_is_freed_by_the_death_of(peer: Peer, channel: &Channel, value: i32) {
    assert!(!can_loan(channel), "the peer has the slot");
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| send(channel, value));
        peer.kill();
        sent.join().unwrap();
    });
}

#[test]
fn the_loan_of_a_killed_sender_comes_back_to_one_that_waits_for_it() {
    scenario(|| {
        for mode in STREAMS {
            let channel = create(&ChannelOptions::new().slots(1).mode(mode));
            let receiver = open();
            for value in 0..3 {
                send_is_freed_by_the_death_of(peer_that(&["loan"]), &channel, value);
                assert_eq!(receive(&receiver), value);
            }
        }
    });
}

#[test]
fn the_view_of_a_killed_receiver_comes_back_to_one_that_waits_for_its_slot() {
    scenario(|| {
        for mode in STREAMS {
            let channel = create(&ChannelOptions::new().slots(1).mode(mode));
            for value in 0..3 {
                let mut peer = peer_that(&["join"]);
                send(&channel, value);
                assert_eq!(peer.ask("view"), "did view");
                send_is_freed_by_the_death_of(peer, &channel, 100 + value);
                let receiver = open();
                if mode == ChannelMode::Queue {
                    assert_eq!(receive(&receiver), 100 + value);
                }
            }
        }
    });
}

#[test]
fn a_receiver_waits_no_longer_for_a_killed_sender_and_is_told_that_it_died() {
    scenario(|| {
        for mode in STREAMS {
            let channel = create(&ChannelOptions::new().mode(mode));
            let receiver = open();
            channel.close();
            let killed = peer_that(&["1", "2", "loan"]);
            std::thread::scope(|scope| {
                let received = scope.spawn(|| receive_all(&receiver));
                killed.kill();
                assert_eq!(received.join().unwrap(), (vec![1, 2], true));
            });
            peer_that(&["3"]).end(); // it drops its channel
            assert_eq!(receive_all(&receiver), (vec![3], false));
            let mut exits = peer_that(&["4"]);
            exits.tell("exit"); // it drops nothing
            exits.process.wait().unwrap();
            assert_eq!(receive_all(&receiver), (vec![4], false));
        }
    });
}

#[test]
fn a_message_of_a_killed_sender_is_received() {
    scenario(|| {
        let receiver = create(&ChannelOptions::new().slots(2));
        peer_that(&["7", "8"]).kill();
        assert_eq!([receive(&receiver), receive(&receiver)], [7, 8]);
    });
}

#[test]
fn a_full_channel_that_does_not_wait_takes_what_the_dead_had_at_once() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(2).when_full(WhenFull::Error));
        let peer = peer_that(&["loan", "loan"]);
        assert!(matches!(channel.loan(None).unwrap(), Loaned::Full));
        peer.kill();
        assert!(can_loan(&channel));
    });
}

#[test]
fn the_ends_of_dead_processes_are_used_again() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().ends(3));
        for _ in 0..5 {
            let peers = [peer_that(&["loan"]), peer_that(&["loan"])];
            assert!(Channel::open("numbers", Receives::Now).is_err());
            peers.into_iter().for_each(Peer::kill);
            drop(open());
        }
        send(&channel, 1);
    });
}

#[test]
fn a_dead_receiver_of_a_broadcast_stops_nobody() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(2).mode(ChannelMode::Broadcast));
        let mut peer = peer_that(&["join"]);
        let living = open();
        send(&channel, 0);
        assert_eq!(receive(&living), 0);
        assert_eq!(peer.ask("receive and drop"), "did receive and drop");
        send(&channel, 1);
        send(&channel, 2);
        peer.kill();
        for value in 3..10 {
            assert_eq!(receive(&living), value - 2);
            send(&channel, value);
        }
    });
}

/// A process that sends or receives until it is killed.
#[test]
#[ignore = "it is another process of the tests"]
fn worker() {
    if !is_peer() {
        return;
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let sends = line.trim().strip_prefix("send ");
    let channel = Channel::open("numbers", Receives::from(sends.is_none())).unwrap();
    println!("peer says: begun");
    match sends {
        Some(first) => {
            let first: i32 = first.parse().unwrap();
            (first..first + EACH).for_each(|value| _ = send(&channel, value));
        }
        None => loop {
            let _ = channel.receive(None).unwrap(); // the sender may be dead before it
        },
    }
}

/// The messages of one sender: more than it sends.
const EACH: i32 = 1_000_000;

fn worker_that(does: &str) -> Peer {
    let mut worker = Peer::start(worker);
    assert_eq!(worker.ask(does), "begun");
    worker
}

/// Kills senders and receivers in turn while this process receives: what it sees of each sender is
/// in order, and none of it twice.
fn beside_the_killed(mode: ChannelMode, slots: u32, rounds: i32) {
    let channel = create(&ChannelOptions::new().slots(slots).mode(mode));
    let mut seen = BTreeSet::new();
    let mut last = std::collections::BTreeMap::new();
    for round in 0..rounds {
        let sender = worker_that(&format!("send {}", round * EACH));
        let receiver = worker_that("receive");
        let mut received = 0;
        // What is left of earlier senders comes first.
        while received < 20 + round % 7 {
            match channel.receive(None).unwrap() {
                Delivered::Message(delivery) => {
                    let value = number(&delivery);
                    assert!(seen.insert(value), "{value} is received twice");
                    let before = last.insert(value / EACH, value);
                    assert!(before.is_none_or(|before| before < value), "not in order");
                    received += i32::from(value / EACH == round);
                }
                other => panic!("{other:?}"),
            }
        }
        match round % 2 {
            0 => [receiver, sender],
            _ => [sender, receiver],
        }
        .into_iter()
        .for_each(Peer::kill);
    }
    while let Delivered::Message(delivery) = channel.receive(super::AT_ONCE).unwrap() {
        assert!(seen.insert(number(&delivery)), "received twice");
    }
    let all: Vec<_> = (0..slots).map(|_| channel.loan(None).unwrap()).collect();
    assert!(all.iter().all(|loan| matches!(loan, Loaned::Loan(_))), "a slot is lost");
}

#[test]
fn whoever_is_killed_in_a_queue_the_others_go_on_in_order() {
    scenario(|| {
        beside_the_killed(ChannelMode::Queue, 3, 30);
        beside_the_killed(ChannelMode::Queue, 1, 30);
    });
}

#[test]
fn whoever_is_killed_in_a_broadcast_the_others_go_on_in_order() {
    scenario(|| {
        beside_the_killed(ChannelMode::Broadcast, 3, 30);
        beside_the_killed(ChannelMode::Broadcast, 1, 30);
    });
}
