//! One process: a loan becomes a message, and a message a delivery.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shmarray::{
    Channel, ChannelMode, ChannelOptions, Delivered, Loaned, Receives, SegmentKind, WhenFull,
    segments, unlink,
};

use super::{
    AT_ONCE, STREAMS, can_loan, create, int32, is_nothing_there, message, number, open, posted,
    receive, receive_all, send,
};
use crate::support::scenario;

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn a_message_arrives_with_its_number_time_and_metadata() {
    scenario(|| {
        let sender = create(&ChannelOptions::new());
        let receiver = open();
        let before = now_ns();
        for value in 0..20 {
            assert_eq!(send(&sender, value), value as u64);
            let delivery = message(&receiver);
            assert_eq!(
                (number(&delivery), delivery.sequence(), delivery.missed()),
                (value, value as u64, 0)
            );
            assert!((before..=now_ns()).contains(&delivery.time_ns()));
        }
    });
}

#[test]
fn metadata_of_every_length_arrives() {
    scenario(|| {
        let sender = create(&ChannelOptions::new());
        let receiver = open();
        let meta: Vec<u8> = (1..=64).collect();
        for length in (0..=64).rev() {
            let Loaned::Loan(loan) = sender.loan(None).unwrap() else { panic!() };
            loan.publish(&meta[..length]).unwrap();
            assert_eq!(message(&receiver).meta(), &meta[..length]);
        }
    });
}

#[test]
fn a_loan_that_is_dropped_is_given_back_and_nobody_receives_it() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(1));
        let receiver = open();
        for value in 0..10 {
            assert!(can_loan(&sender));
            assert!(is_nothing_there(&receiver));
            send(&sender, value);
            assert_eq!(receive(&receiver), value);
        }
    });
}

#[test]
fn a_loan_knows_whether_there_are_views_of_its_array() {
    scenario(|| {
        let sender = create(&ChannelOptions::new());
        let Loaned::Loan(loan) = sender.loan(None).unwrap() else { panic!() };
        assert!(!loan.has_views());
        let view = loan.array().slice(0, None, None, -1).unwrap();
        assert!(loan.has_views());
        drop(view);
        assert!(!loan.has_views());
    });
}

#[test]
fn a_view_keeps_its_slot_and_so_do_its_arrays() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(1));
        let receiver = open();
        send(&sender, 7);
        let delivery = message(&receiver);
        assert!(!can_loan(&sender));
        let array = delivery.array().slice(0, None, None, -1).unwrap();
        drop(delivery);
        assert!(!can_loan(&sender));
        assert_eq!(array.get::<i32>(&[0]).unwrap(), 7);
        drop(array);
        assert!(can_loan(&sender));

        send(&sender, 8);
        let delivery = message(&receiver);
        let array = delivery.array().clone();
        delivery.release(); // though there is an array still
        assert!(can_loan(&sender));
        drop(array);
        send(&sender, 9);
        assert_eq!(receive(&receiver), 9);
    });
}

#[test]
fn arrays_of_a_slot_stay_inside_it() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(3));
        let receiver = open();
        (0..3).for_each(|value| _ = send(&sender, value));
        let deliveries = [(); 3].map(|()| message(&receiver));
        for delivery in &deliveries {
            let whole = delivery.array().whole();
            assert_eq!(whole.shape(), [64]);
            let end = whole.view(&[0], &[1], 64).unwrap();
            assert_eq!(end.whole().as_ptr(), whole.as_ptr(), "not the next slot");
            assert!(delivery.array().view(&[3], &[4], 0).is_err());
            assert!(delivery.array().is_in_slot());
        }
    });
}

#[test]
fn shapes_may_vary_up_to_the_channels() {
    scenario(|| {
        let options = ChannelOptions::new().varying(true);
        let sender = Channel::create("images", int32(), &[4, 8], &options).unwrap();
        let receiver = Channel::open("images", Receives::Now).unwrap();
        for shape in [&[4, 8][..], &[32], &[], &[0, 7], &[2, 2, 2, 2, 1, 1, 1, 2], &[1]] {
            let Loaned::Loan(loan) = sender.loan_shape(shape, None).unwrap() else { panic!() };
            assert_eq!(loan.array().shape(), shape);
            loan.publish(b"").unwrap();
            assert_eq!(message(&receiver).array().shape(), shape);
        }
        for shape in [&[33][..], &[5, 7], &[3, 11], &[1; 9], &[u64::MAX, 2]] {
            assert!(sender.loan_shape(shape, None).is_err(), "{shape:?}");
        }
        let array = [1i32, 2, 3];
        let layout = shmarray::Layout::contiguous(&[3], 4, shmarray::Order::C).unwrap();
        // SAFETY: the three elements of the layout are those of `array`.
        let outcome = unsafe { sender.send(array.as_ptr().cast(), &int32(), &layout, b"", None) };
        posted(outcome.unwrap());
        assert_eq!(message(&receiver).array().get::<i32>(&[2]).unwrap(), 3);
    });
}

#[test]
fn a_full_queue_times_out_or_is_an_error() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(2));
        send(&sender, 1);
        send(&sender, 2);
        let a_moment = Some(Duration::from_millis(20));
        for timeout in [AT_ONCE, a_moment] {
            assert!(matches!(sender.loan(timeout).unwrap(), Loaned::TimedOut));
        }
        let options = ChannelOptions::new().slots(1).when_full(shmarray::WhenFull::Error);
        let other = Channel::create("other", int32(), &[2], &options).unwrap();
        send(&other, 1);
        assert!(matches!(other.loan(None).unwrap(), Loaned::Full));
    });
}

#[test]
fn one_that_waits_for_a_slot_takes_none() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(1));
        let receiver = open();
        assert!(sender.wait_until_free(AT_ONCE).unwrap());
        send(&sender, 1);
        assert!(!sender.wait_until_free(AT_ONCE).unwrap());
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| sender.wait_until_free(None).unwrap());
            drop(message(&receiver));
            assert!(waits.join().unwrap());
        });
        assert!(can_loan(&sender) && is_nothing_there(&receiver));
        let by_handle = Channel::create_by_handle("handles", &ChannelOptions::new()).unwrap();
        assert!(by_handle.wait_until_free(None).unwrap());
    });
}

#[test]
fn the_stream_ends_after_what_is_in_the_queue() {
    scenario(|| {
        for mode in STREAMS {
            let receiver = create(&ChannelOptions::new().mode(mode));
            assert!(is_nothing_there(&receiver)); // nobody has sent yet
            let sender = open();
            (0..5).for_each(|value| _ = send(&sender, value));
            sender.close();
            assert_eq!(receive_all(&receiver), ((0..5).collect(), false));
            assert!(matches!(receiver.receive(None).unwrap(), Delivered::Ended { .. }));

            let another = open();
            send(&another, 6);
            assert_eq!(receive(&receiver), 6);
            drop(another);
            assert_eq!(receive_all(&receiver), (vec![], false));
        }
    });
}

#[test]
fn one_that_only_receives_does_not_keep_the_stream_open() {
    scenario(|| {
        let one = create(&ChannelOptions::new());
        let another = open();
        let sender = open();
        assert!(is_nothing_there(&one) && is_nothing_there(&another));
        send(&sender, 1);
        drop(sender);
        assert_eq!(receive_all(&one), (vec![1], false));
        assert_eq!(receive_all(&another), (vec![], false));
    });
}

#[test]
fn a_closed_channel_refuses_and_its_views_stay() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(2));
        let receiver = open();
        send(&sender, 3);
        let delivery = message(&receiver);
        let Loaned::Loan(loan) = sender.loan(None).unwrap() else { panic!() };
        sender.close();
        receiver.close();
        sender.close();
        assert!(sender.loan(AT_ONCE).is_err() && receiver.receive(AT_ONCE).is_err());
        assert_eq!(number(&delivery), 3);
        assert!(loan.publish(b"").is_ok(), "a loan from before the close");
        drop(delivery);
    });
}

#[test]
fn a_channel_is_listed_and_goes_with_its_last_user() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let listed = segments().unwrap();
        assert_eq!((listed.len(), listed[0].kind), (1, SegmentKind::Channel));
        assert_eq!(listed[0].name.as_deref(), Some("numbers"));
        let other = open();
        drop(channel);
        send(&other, 1);
        drop(other);
        assert!(Channel::open("numbers", Receives::Now).is_err());
    });
}

#[test]
fn one_that_persists_keeps_its_messages_until_it_is_unlinked() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().persist(true));
        send(&channel, 5);
        drop(channel);
        assert_eq!(receive_all(&open()), (vec![5], false));
        unlink("numbers").unwrap();
        assert!(Channel::open("numbers", Receives::Now).is_err());
    });
}

#[test]
fn many_slots_and_many_ends_are_all_usable() {
    scenario(|| {
        for mode in STREAMS {
            let options = ChannelOptions::new().slots(1023).ends(1023).mode(mode);
            let sender = create(&options);
            let others: Vec<_> = (1..1023).map(|_| open()).collect();
            assert!(Channel::open("numbers", Receives::Now).is_err(), "all ends are in use");
            let receiver = others.last().unwrap();
            (0..1023).for_each(|value| _ = send(&sender, value));
            assert!(!can_loan(&sender));
            let deliveries: Vec<_> = (0..1023).map(|_| message(receiver)).collect();
            assert!(deliveries.iter().zip(0..).all(|(delivery, value)| number(delivery) == value));
        }
    });
}

#[test]
fn each_option_is_read_from_its_word() {
    for mode in ChannelMode::ALL {
        assert_eq!(mode.to_string().parse::<ChannelMode>().unwrap(), mode);
    }
    for when_full in WhenFull::ALL {
        assert_eq!(when_full.to_string().parse::<WhenFull>().unwrap(), when_full);
    }
    assert_eq!("queue block", format!("{} {}", ChannelMode::default(), WhenFull::default()));
}
