//! Histories: what a broadcast still has for one that joins late.

use shmarray::{Channel, ChannelMode, ChannelOptions, ErrorKind, Receives, WhenFull};

use super::followers::{self, as_root};
use super::{
    AT_ONCE, can_loan, create, is_nothing_there, message, number, receive, receive_all, send,
};
use crate::support::{Peer, is_peer, scenario, serve};

fn broadcast(slots: u32) -> ChannelOptions {
    ChannelOptions::new().mode(ChannelMode::Broadcast).slots(slots)
}

fn late(history: u32) -> Channel {
    Channel::open("numbers", Receives::WithHistory(history)).unwrap()
}

#[test]
fn one_that_joins_late_has_the_last_messages_first() {
    scenario(|| {
        let sender = create(&broadcast(8));
        assert!(is_nothing_there(&late(4)));
        (0..6).for_each(|value| _ = send(&sender, value));
        for history in 0..=8 {
            let channel = late(history);
            for expected in 6 - history.min(6)..6 {
                let delivery = message(&channel);
                assert_eq!((number(&delivery), delivery.missed()), (expected as i32, 0));
            }
            assert!(is_nothing_there(&channel));
        }
    });
}

#[test]
fn a_history_is_what_the_slots_still_have() {
    scenario(|| {
        let sender = create(&broadcast(4));
        (0..100).for_each(|value| _ = send(&sender, value));
        let first = message(&late(u32::MAX));
        assert_eq!((number(&first), first.missed()), (96, 0));
        drop(first);
        // A slot on loan has no message any more.
        let loan = sender.loan(AT_ONCE).unwrap();
        let first = message(&late(4));
        assert_eq!((number(&first), first.missed()), (97, 0));
        drop((first, loan));
    });
}

#[test]
fn what_is_dropped_after_the_join_is_missed_once_a_message_was_received() {
    scenario(|| {
        let sender = create(&broadcast(4).when_full(WhenFull::DropOldest));
        (0..4).for_each(|value| _ = send(&sender, value));
        let [before, between] = [late(4), late(4)];
        assert_eq!(receive(&between), 0);
        (4..7).for_each(|value| _ = send(&sender, value));
        let first = message(&before);
        assert_eq!((number(&first), first.missed()), (3, 0), "it has had none of those before");
        drop(first);
        let next = message(&between);
        assert_eq!((number(&next), next.missed()), (3, 2), "1 and 2, behind one that it has had");
        drop(next);
        (7..20).for_each(|value| _ = send(&sender, value));
        let next = message(&before);
        assert_eq!((number(&next), next.missed()), (16, 12));
    });
}

#[test]
fn one_that_has_missed_all_of_its_history_counts_what_came_later() {
    scenario(|| {
        let sender = create(&broadcast(2).when_full(WhenFull::DropOldest));
        (0..2).for_each(|value| _ = send(&sender, value));
        let channel = late(2);
        (2..10).for_each(|value| _ = send(&sender, value));
        let first = message(&channel);
        assert_eq!((number(&first), first.missed()), (8, 6), "2 to 7 came after the join");
    });
}

#[test]
fn a_history_ends_with_the_stream_and_stops_senders_as_any_message() {
    scenario(|| {
        let sender = create(&broadcast(4));
        (0..4).for_each(|value| _ = send(&sender, value));
        let channel = late(4);
        assert!(!can_loan(&sender), "the late one is to have 0 first");
        assert_eq!(receive(&channel), 0);
        assert!(can_loan(&sender));
        drop(sender);
        assert_eq!(receive_all(&channel), (vec![1, 2, 3], false), "the loan took the slot of 0");
        // One that joins when no sender is left has what is there, and then the end.
        let later = late(4);
        assert_eq!(receive_all(&later), (vec![1, 2, 3], false));
    });
}

#[test]
fn a_queue_and_the_latest_value_have_no_history() {
    scenario(|| {
        for mode in [ChannelMode::Queue, ChannelMode::Latest] {
            let made = create(&ChannelOptions::new().mode(mode));
            let refused = Channel::open("numbers", Receives::WithHistory(1)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains("history"), "{refused}");
            drop(Channel::open("numbers", Receives::WithHistory(0)).unwrap());
            drop(made);
        }
    });
}

#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    if !is_peer() {
        return;
    }
    serve(|line| {
        let channel = late(line.parse().unwrap());
        let first = message(&channel);
        assert_eq!(first.missed(), 0, "nothing was missed before the first");
        let first = number(&first);
        let (rest, _) = receive_all(&channel);
        let next = first + 1 + rest.len() as i32;
        assert!(rest.into_iter().eq(first + 1..next), "a gap");
        next.to_string()
    });
}

/// Each joins beside a sender that sends all the time.
#[test]
fn one_that_joins_beside_a_sender_has_a_history_without_a_gap() {
    scenario(|| {
        for history in [1, 3, 8] {
            let sender = create(&broadcast(8));
            send(&sender, 0);
            let mut value = 1;
            let mut peer = Peer::start(peer);
            peer.tell(&history.to_string());
            let joined = || shmarray::ChannelStats::read("numbers").unwrap().ends.len() > 1;
            while !joined() {
                send(&sender, value);
                value += 1;
            }
            for _ in 0..100 {
                send(&sender, value);
                value += 1;
            }
            sender.close();
            assert_eq!(peer.hear(), value.to_string());
            peer.end();
        }
    });
}

#[test]
fn a_follower_has_a_history_too() {
    as_root(|| {
        let sender = create(&broadcast(8).file_mode(0o644));
        (0..5).for_each(|value| _ = send(&sender, value));
        let mut peer = Peer::start(followers::peer);
        assert_eq!(peer.ask("open with a history of 3"), "opened");
        (5..7).for_each(|value| _ = send(&sender, value));
        let received: Vec<_> = (0..5).map(|_| peer.ask("receive")).collect();
        assert_eq!(received.len(), 5);
        assert!(received[0].starts_with('2'), "{received:?}");
        assert!(received[4].starts_with('6'), "{received:?}");
        peer.end();
    });
}
