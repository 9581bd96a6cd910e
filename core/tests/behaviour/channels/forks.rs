//! Forks: a child has no part in its parent's loans and deliveries, and joins with its own end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use shmarray::{ChannelMode, ChannelOptions, Loaned};

use super::{
    can_loan, create, is_nothing_there, message, number, open, receive, receive_all, send,
};
use crate::support::{fork, scenario};

#[test]
fn a_child_sends_and_receives_with_an_end_of_its_own() {
    scenario(|| {
        let requests = create(&ChannelOptions::new());
        let answers = {
            let options = ChannelOptions::new();
            shmarray::Channel::create("answers", super::int32(), &[2], &options).unwrap()
        };
        let child = fork(|| {
            for _ in 0..100 {
                send(&answers, 2 * receive(&requests));
            }
        });
        for value in 0..100 {
            send(&requests, value);
            assert_eq!(receive(&answers), 2 * value);
        }
        child.ended();
    });
}

#[test]
fn what_a_child_inherits_is_its_parents() {
    scenario(|| {
        for mode in [ChannelMode::Queue, ChannelMode::Broadcast] {
            let channel = create(&ChannelOptions::new().slots(2).mode(mode));
            let receiver = open();
            send(&channel, 5);
            let delivery = message(&receiver);
            let Loaned::Loan(loan) = channel.loan(None).unwrap() else { panic!() };
            assert!(!can_loan(&channel));
            // The child drops its copies; the parent's are not touched.
            let mut copies = Some((delivery, loan, receiver));
            fork(|| {
                let (delivery, loan, receiver) = copies.take().unwrap();
                assert_eq!(number(&delivery), 5);
                drop((delivery, receiver));
                assert!(loan.publish(b"").is_err(), "the loan is the parent's");
                assert!(!can_loan(&channel), "both slots are in use");
            })
            .ended();
            let (delivery, loan, _receiver) = copies.unwrap();
            assert!(!can_loan(&channel), "both slots are in use");
            assert_eq!(number(&delivery), 5);
            drop(delivery);
            assert!(can_loan(&channel));
            loan.publish(b"").unwrap();
        }
    });
}

#[test]
fn a_child_that_ends_leaves_its_parent_all_that_it_has() {
    scenario(|| {
        for mode in [ChannelMode::Queue, ChannelMode::Broadcast] {
            let channel = create(&ChannelOptions::new().slots(2).mode(mode));
            let receiver = open();
            send(&channel, 5);
            let delivery = message(&receiver);
            fork(|| {}).ended();
            fork(|| drop(receiver.loan(super::AT_ONCE))).ended();
            assert!(can_loan(&channel));
            let Loaned::Loan(loan) = channel.loan(None).unwrap() else { panic!() };
            assert!(!can_loan(&channel), "the delivery keeps its slot");
            assert_eq!(number(&delivery), 5);
            drop(delivery);
            loan.array().set(&[0], 6).unwrap();
            loan.array().set(&[1], 6).unwrap();
            loan.publish(&6i32.to_le_bytes()).unwrap();
            assert_eq!(receive(&receiver), 6);
        }
    });
}

#[test]
fn a_child_of_a_broadcasts_receiver_joins_anew() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(4).mode(ChannelMode::Broadcast));
        let receiver = open();
        let go = open();
        send(&channel, 1);
        let child = fork(|| {
            assert!(is_nothing_there(&receiver), "it has joined after the message");
            send(&channel, 2);
            assert_eq!(receive(&receiver), 2);
        });
        assert_eq!([receive(&receiver), receive(&receiver)], [1, 2]);
        child.ended();
        drop(go);
        drop(channel);
        assert_eq!(receive_all(&receiver), (vec![], false));
    });
}

/// A thread is inside the library most of the time when another one forks.
#[test]
fn a_fork_finds_no_channel_locked() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    channel.is_ready().unwrap();
                }
            });
            for _ in 0..300 {
                fork(|| _ = channel.is_ready().unwrap()).ended();
            }
            is_over.store(true, Relaxed);
        });
    });
}
