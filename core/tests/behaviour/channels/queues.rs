//! Queues between processes: each message is received once, in each sender's order.

use shmarray::{ChannelOptions, WhenFull};

use super::{create, message, number, open, receive, receive_all, send};
use crate::support::{Peer, is_peer, scenario, serve};

/// The messages of each sender: its number, times this, and the message's.
const EACH: i32 = 100_000;

#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    if !is_peer() {
        return;
    }
    let channel = open();
    serve(|line| match line.split_once(' ').unwrap() {
        ("send", of) => {
            let (first, count) = of.split_once(' ').unwrap();
            let first: i32 = first.parse().unwrap();
            let count: i32 = count.parse().unwrap();
            (0..count).for_each(|value| _ = send(&channel, first + value));
            channel.close();
            "sent".to_owned()
        }
        ("join", _) => "joined".to_owned(),
        ("receive", _) => {
            let (numbers, died) = receive_all(&channel);
            assert!(!died);
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    });
}

fn numbers(line: &str) -> Vec<i32> {
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Lets senders send to receivers through so many slots, all of them processes.
fn exchange(senders: i32, receivers: usize, slots: u32, count: i32) {
    let channel = create(&ChannelOptions::new().slots(slots));
    let mut receiving: Vec<_> = (0..receivers).map(|_| Peer::start(peer)).collect();
    let mut sending: Vec<_> = (0..senders).map(|_| Peer::start(peer)).collect();
    for peer in receiving.iter_mut().chain(&mut sending) {
        assert_eq!(peer.ask("join now"), "joined");
    }
    for (peer, of) in sending.iter_mut().zip(0..) {
        peer.tell(&format!("send {} {count}", of * EACH));
    }
    receiving.iter_mut().for_each(|peer| peer.tell("receive all"));
    // From here on only the senders keep the stream open.
    channel.close();
    for peer in &mut sending {
        assert_eq!(peer.hear(), "sent");
    }
    let received: Vec<_> = receiving.iter_mut().map(|peer| numbers(&peer.hear())).collect();
    for numbers in &received {
        for sender in 0..senders {
            let of = |number: &&i32| **number / EACH == sender;
            assert!(numbers.iter().filter(of).is_sorted(), "not in the sender's order");
        }
    }
    let mut all: Vec<_> = received.concat();
    all.sort_unstable();
    let expected = (0..senders).flat_map(|sender| sender * EACH..sender * EACH + count);
    assert!(all.into_iter().eq(expected), "lost or doubled");
    receiving.into_iter().chain(sending).for_each(Peer::end);
}

#[test]
fn one_sender_and_one_receiver() {
    scenario(|| exchange(1, 1, 8, 20_000));
}

#[test]
fn one_slot_is_enough() {
    scenario(|| exchange(2, 2, 1, 3_000));
}

#[test]
fn several_senders_and_receivers() {
    scenario(|| exchange(3, 3, 5, 10_000));
}

#[test]
fn one_sender_and_four_receivers() {
    scenario(|| exchange(1, 4, 8, 10_000));
}

#[test]
fn a_queue_that_drops_the_oldest_keeps_the_newest_and_counts_the_rest() {
    scenario(|| {
        let options = ChannelOptions::new().slots(3).when_full(WhenFull::DropOldest);
        let sender = create(&options);
        let receiver = open();
        (0..10).for_each(|value| _ = send(&sender, value));
        let first = message(&receiver);
        assert_eq!((number(&first), first.missed(), first.sequence()), (7, 7, 7));
        drop(first);
        let next = message(&receiver);
        assert_eq!((number(&next), next.missed()), (8, 0));
        // A slot that is held is not dropped.
        (20..30).for_each(|value| _ = send(&sender, value));
        assert_eq!(number(&next), 8);
        let next = message(&receiver);
        assert_eq!((number(&next), next.missed()), (28, 9));
    });
}

#[test]
fn a_sender_and_a_receiver_of_one_slot_take_turns() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(1));
        let receiver = open();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..200).for_each(|value| _ = send(&sender, value)));
            (0..200).for_each(|value| assert_eq!(receive(&receiver), value));
        });
    });
}
