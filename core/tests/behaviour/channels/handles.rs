//! Channels of handles: a message holds a shared array until it was received.

use shmarray::{
    Array, Channel, ChannelMode, ChannelOptions, Layout, Loaned, Order, Posted, Receives, WhenFull,
    segments,
};

use super::{AT_ONCE, int32, message, posted};
use crate::support::{Peer, is_peer, scenario, serve};

fn create(options: &ChannelOptions) -> Channel {
    Channel::create_by_handle("numbers", options).unwrap()
}

fn open() -> Channel {
    Channel::open("numbers", Receives::Now).unwrap()
}

fn array(value: i32) -> Array {
    let array = Array::create(int32(), &[3, 1000], &shmarray::Options::new()).unwrap();
    array.set(&[2, 999], value).unwrap();
    array
}

fn value(array: &Array) -> i32 {
    array.get(&[2, 999]).unwrap()
}

/// Returns how many arrays are in shared memory.
fn arrays() -> usize {
    shmarray::sweep().unwrap();
    segments().unwrap().iter().filter(|one| one.kind == shmarray::SegmentKind::Array).count()
}

#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    if !is_peer() {
        return;
    }
    let channel = open();
    let mut held = Vec::new();
    serve(|line| match line {
        "join" => "joined".to_owned(),
        "receive" => {
            let delivery = message(&channel);
            let said = format!("{} {:?}", value(delivery.array()), delivery.array().shape());
            held.push(delivery.array().clone());
            said
        }
        "drop" => {
            held.clear();
            "dropped".to_owned()
        }
        number => {
            posted(channel.send_array(&array(number.parse().unwrap()), b"", None).unwrap());
            "sent".to_owned()
        }
    });
}

#[test]
fn a_message_holds_its_array_until_it_is_received() {
    scenario(|| {
        for mode in [ChannelMode::Queue, ChannelMode::Broadcast] {
            let channel = create(&ChannelOptions::new().mode(mode).slots(4));
            let mut peer = Peer::start(peer);
            assert_eq!(peer.ask("join"), "joined");
            for number in 0..10 {
                posted(channel.send_array(&array(number), b"", None).unwrap());
                assert!(arrays() >= 1, "the message holds it");
                assert_eq!(peer.ask("receive"), format!("{number} [3, 1000]"));
                // The receiver has the array itself.
                assert_eq!(peer.ask("drop"), "dropped");
            }
            peer.end();
            // A broadcast's messages hold theirs until their slots are used again.
            let left = if mode == ChannelMode::Queue { 0 } else { 4 };
            assert_eq!(arrays(), left);
            drop(channel);
            assert_eq!(arrays(), 0);
        }
    });
}

#[test]
fn a_view_and_private_memory_are_sent_too() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let receiver = open();
        let whole = array(8);
        let view = whole.slice(0, Some(2), None, 1).unwrap();
        posted(channel.send_array(&view, b"view", None).unwrap());
        let received = message(&receiver);
        assert_eq!((received.array().shape(), received.meta()), (&[1, 1000][..], &b"view"[..]));
        received.array().set(&[0, 0], 77).unwrap();
        assert_eq!(whole.get::<i32>(&[2, 0]).unwrap(), 77, "it is the same memory");

        let private = [1i16, 2, 3];
        let layout = Layout::contiguous(&[3], 2, Order::C).unwrap();
        let dtype = shmarray::DType::parse("<i2").unwrap();
        // SAFETY: the three elements of the layout are those of `private`.
        let sent = unsafe { channel.send(private.as_ptr().cast(), &dtype, &layout, b"", None) };
        posted(sent.unwrap());
        assert_eq!(message(&receiver).array().get::<i16>(&[1]).unwrap(), 2);
    });
}

#[test]
fn arrays_of_dropped_messages_and_of_closed_channels_are_given_back() {
    scenario(|| {
        for mode in [ChannelMode::Queue, ChannelMode::Broadcast] {
            let options = ChannelOptions::new().mode(mode).slots(2);
            let channel = create(&options.when_full(WhenFull::DropOldest));
            for number in 0..20 {
                posted(channel.send_array(&array(number), b"", None).unwrap());
            }
            assert_eq!(arrays(), 2);
            drop(channel);
            assert_eq!(arrays(), 0);
        }
    });
}

#[test]
fn an_array_of_a_killed_sender_arrives_and_is_given_back_then() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(2));
        let mut peer = Peer::start(peer);
        assert_eq!(peer.ask("5"), "sent");
        peer.kill();
        assert_eq!(arrays(), 1);
        let delivery = message(&channel);
        assert_eq!(value(delivery.array()), 5);
        drop(delivery);
        assert_eq!(arrays(), 0);
    });
}

#[test]
fn an_array_of_a_slot_is_copied() {
    scenario(|| {
        let handles = create(&ChannelOptions::new());
        let receiver = open();
        let slots = Channel::create("slots", int32(), &[2], &ChannelOptions::new()).unwrap();
        let Loaned::Loan(loan) = slots.loan(None).unwrap() else { panic!() };
        loan.array().set(&[1], 4).unwrap();
        posted(handles.send_array(loan.array(), b"", None).unwrap());
        loan.array().set(&[1], 5).unwrap();
        assert_eq!(message(&receiver).array().get::<i32>(&[1]).unwrap(), 4);
    });
}

#[test]
fn a_channel_of_handles_has_no_loans() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(1));
        assert!(channel.loan(AT_ONCE).is_err());
        assert!(channel.loan_shape(&[2], AT_ONCE).is_err());
        posted(channel.send_array(&array(1), b"", AT_ONCE).unwrap());
        assert_eq!(channel.send_array(&array(2), b"", AT_ONCE).unwrap(), Posted::TimedOut);
        assert!(channel.send_array(&array(2), &[0; 65], AT_ONCE).is_err());
        assert_eq!(value(message(&channel).array()), 1);
    });
}
