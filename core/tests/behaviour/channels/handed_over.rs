//! Ends that are handed over to another process: they count from then on, whenever it opens them.

use shmarray::{Channel, ChannelMode, ChannelOptions, ChannelStats, Delivered, Receives};

use super::{create, message, number, open, receive, receive_all, send, waits};
use crate::support::{fork, scenario};

/// An end that sends.
fn sender() -> Channel {
    Channel::open("numbers", Receives::Later).unwrap()
}

#[test]
fn a_stream_does_not_end_before_a_child_has_opened_what_it_was_given() {
    scenario(|| {
        for round in 0..20 {
            let viewer = create(&ChannelOptions::new());
            assert!(viewer.receive(Some(std::time::Duration::ZERO)).is_ok()); // it receives
            let given = sender();
            let handed_over = given.hand_over().unwrap();
            let handle = handed_over.handle().to_owned();
            let lock = handed_over.into_fd();
            let child = fork(|| {
                let own = Channel::open(&handle, Receives::Later).unwrap();
                (0..10).for_each(|value| _ = send(&own, value));
                if round % 2 == 0 { own.close() } else { std::mem::forget(own) }
            });
            drop(lock); // the child has a copy
            given.close();
            let (numbers, died) = receive_all(&viewer);
            assert_eq!(numbers, (0..10).collect::<Vec<_>>());
            assert!(!died || round % 2 == 1);
            child.ended();
        }
    });
}

#[test]
fn a_forked_child_adopts_the_end_that_its_parent_handed_over() {
    scenario(|| {
        let viewer = create(&ChannelOptions::new());
        let given = sender();
        let handed_over = given.hand_over().unwrap();
        let child = fork(|| {
            given.adopt(handed_over.handle()).unwrap();
            (0..10).for_each(|value| _ = send(&given, value));
            given.close();
        });
        drop(handed_over);
        given.close();
        assert_eq!(receive_all(&viewer), ((0..10).collect(), false));
        child.ended();
    });
}

#[test]
fn an_end_that_nobody_opens_ends_with_its_fd() {
    scenario(|| {
        let viewer = create(&ChannelOptions::new());
        let given = sender();
        let handed_over = given.hand_over().unwrap();
        given.close();
        assert!(waits(&viewer));
        assert_eq!(ChannelStats::read("numbers").unwrap().ends.len(), 2);
        drop(handed_over);
        assert!(receive_all(&viewer).0.is_empty());
    });
}

#[test]
fn one_that_is_handed_over_holds_the_channel() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        send(&channel, 1);
        let handed_over = channel.hand_over().unwrap();
        drop(channel);
        let opened = Channel::open(handed_over.handle(), Receives::Later).unwrap();
        assert_eq!(receive(&opened), 1);
        drop(opened);
        assert!(
            Channel::open(handed_over.handle(), Receives::Later).is_err(),
            "it was opened once"
        );
    });
}

#[test]
fn one_is_opened_though_the_giver_has_closed_and_keeps_a_message() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        send(&channel, 1);
        let kept = message(&channel);
        let handed_over = channel.hand_over().unwrap();
        channel.close();
        let opened = Channel::open(handed_over.handle(), Receives::Later).unwrap();
        send(&opened, 2);
        assert_eq!((receive(&opened), number(&kept)), (2, 1));
    });
}

#[test]
fn a_second_process_that_opens_the_same_end_joins_with_another() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let handed_over = channel.hand_over().unwrap();
        let [one, other] =
            [(); 2].map(|()| Channel::open(handed_over.handle(), Receives::Later).unwrap());
        assert_eq!(ChannelStats::read("numbers").unwrap().ends.len(), 3);
        send(&one, 1);
        assert_eq!(receive(&other), 1);
    });
}

#[test]
fn a_receiver_of_a_broadcast_gets_all_since_it_was_handed_over() {
    scenario(|| {
        let options = ChannelOptions::new().mode(ChannelMode::Broadcast);
        let channel = create(&options);
        let given = open();
        let handed_over = given.hand_over().unwrap();
        drop(given);
        (0..8).for_each(|value| _ = send(&channel, value));
        let opened = Channel::open(handed_over.handle(), Receives::Now).unwrap();
        channel.close();
        assert_eq!(receive_all(&opened), ((0..8).collect(), false));
    });
}

#[test]
fn one_that_has_received_does_not_count_as_a_sender_under_way() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        send(&channel, 1);
        let given = open();
        let delivery = message(&given);
        assert_eq!(number(&delivery), 1);
        let handed_over = given.hand_over().unwrap();
        let viewer = open();
        channel.close();
        assert!(matches!(viewer.receive(None).unwrap(), Delivered::Ended { died: false, .. }));
        drop(handed_over);
    });
}
