//! The end of the stream does not depend on the time at which a receiver looks.

use shmarray::{Channel, ChannelOptions, Receives};

use super::deaths::peer_that;
use super::{
    STREAMS, create, is_nothing_there, message, number, open, receive, receive_all, send, waits,
};
use crate::support::scenario;

/// Opens the channel, to send or to receive.
fn open_undecided() -> Channel {
    Channel::open("numbers", Receives::Later).unwrap()
}

#[test]
fn the_stream_ends_whenever_the_last_sender_leaves() {
    scenario(|| {
        for mode in STREAMS {
            let early = create(&ChannelOptions::new().mode(mode));
            assert!(is_nothing_there(&early));
            let sender = open();
            send(&sender, 1);
            assert_eq!(receive(&early), 1);
            let late = open();
            drop(sender); // before the first look of `late`
            assert_eq!(receive_all(&late), (vec![], false));
            assert_eq!(receive_all(&early), (vec![], false));
            assert!(waits(&open()), "a sender that left before it opened ends nothing");
        }
    });
}

#[test]
fn one_that_opens_and_closes_between_two_looks_has_ended_the_stream() {
    scenario(|| {
        for mode in STREAMS {
            let receiver = create(&ChannelOptions::new().mode(mode));
            assert!(is_nothing_there(&receiver));
            open_undecided().close();
            assert_eq!(receive_all(&receiver), (vec![], false));
            assert!(waits(&open()));
        }
    });
}

#[test]
fn another_receiver_that_opens_and_closes_ends_nothing() {
    scenario(|| {
        for mode in STREAMS {
            let receiver = create(&ChannelOptions::new().mode(mode));
            let another = open_undecided();
            assert!(waits(&receiver), "the other may send");
            assert!(is_nothing_there(&another)); // now it does not
            assert!(waits(&receiver));
            another.close();
            assert!(waits(&receiver));
        }
    });
}

#[test]
fn an_end_that_has_sent_keeps_the_stream_open_for_itself_too() {
    scenario(|| {
        let channel = create(&ChannelOptions::new()); // of two threads, one of which sends
        for value in 1..3 {
            send(&channel, value);
            assert_eq!(receive(&channel), value);
            drop(open_undecided());
            assert!(waits(&channel));
        }
        let other = open(); // through one of its own, a process sees the end of what it sent
        send(&channel, 3);
        channel.close();
        assert_eq!(receive_all(&other), (vec![3], false));
    });
}

#[test]
fn messages_of_earlier_senders_are_a_stream_that_ends() {
    scenario(|| {
        let first = create(&ChannelOptions::new());
        let keeps = open();
        assert!(is_nothing_there(&keeps));
        send(&first, 1);
        send(&first, 2);
        drop(first);
        let late = open();
        let kept = message(&late);
        assert_eq!(number(&kept), 1);
        assert_eq!(receive_all(&late), (vec![2], false));
        assert_eq!(receive_all(&keeps), (vec![], false));
        assert!(waits(&open()));
    });
}

#[test]
fn a_sender_that_died_before_an_end_opened_does_not_end_its_stream() {
    scenario(|| {
        for mode in STREAMS {
            let early = create(&ChannelOptions::new().mode(mode));
            assert!(is_nothing_there(&early));
            let peer = peer_that(&["1"]);
            assert_eq!(receive(&early), 1);
            peer.kill(); // nobody has looked yet
            let late = open();
            assert!(waits(&late));
            assert_eq!(receive_all(&early), (vec![], true));
        }
    });
}

#[test]
fn one_that_is_killed_before_it_decides_has_ended_the_stream() {
    scenario(|| {
        let receiver = create(&ChannelOptions::new());
        assert!(is_nothing_there(&receiver));
        peer_that(&["join"]).kill();
        assert_eq!(receive_all(&receiver), (vec![], true));
        let late = open();
        let sender = open();
        send(&sender, 3);
        assert_eq!(receive(&late), 3);
        drop(sender);
        peer_that(&["join"]).kill(); // it has sent nothing: the stream was closed
        assert_eq!(receive_all(&late), (vec![], false));
    });
}
