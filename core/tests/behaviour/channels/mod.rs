//! Channels between real processes: what is sent arrives once, in order and whole, whoever dies.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code, clippy::incompatible_msrv)] // tests run with today's Rust

mod basics;
mod broadcasts;
mod closing;
mod data_races;
mod deaths;
mod ends;
mod events;
mod followers;
mod forks;
mod golden;
mod handed_over;
mod handles;
mod histories;
mod late_stores;
mod latest;
mod names;
mod opened_by_handle;
mod queues;
mod refusals;
mod sole;

use std::time::Duration;

use shmarray::{
    Channel, ChannelMode, ChannelOptions, DType, Delivered, Delivery, Loaned, Posted, Receives,
};

/// The modes in which a receiver has each message once.
const STREAMS: [ChannelMode; 2] = [ChannelMode::Queue, ChannelMode::Broadcast];

/// A time that is over at once.
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// Long enough for every look of a wait.
const EVERY_LOOK: Option<Duration> = Some(Duration::from_millis(250));

fn int32() -> DType {
    DType::parse("<i4").unwrap()
}

/// Creates a channel of arrays of two numbers.
fn create(options: &ChannelOptions) -> Channel {
    Channel::create("numbers", int32(), &[2], options).unwrap()
}

fn open() -> Channel {
    Channel::open("numbers", Receives::Now).unwrap()
}

/// Sends a number, twice in one array.
fn send(channel: &Channel, number: i32) -> u64 {
    match channel.loan(None).unwrap() {
        Loaned::Loan(loan) => {
            loan.array().set(&[0], number).unwrap();
            loan.array().set(&[1], number).unwrap();
            loan.publish(&number.to_le_bytes()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// Sends a number in the first element.
fn send_to(channel: &Channel, number: i32) -> u64 {
    match channel.loan(None).unwrap() {
        Loaned::Loan(loan) => {
            loan.array().set(&[0], number).unwrap();
            loan.publish(b"").unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// Receives a message; panics if the stream has ended.
fn message(channel: &Channel) -> Delivery {
    match channel.receive(None).unwrap() {
        Delivered::Message(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

/// Returns the number of a message, and checks that it is whole.
fn number(delivery: &Delivery) -> i32 {
    let number: i32 = delivery.array().get(&[0]).unwrap();
    assert_eq!(delivery.array().get::<i32>(&[1]).unwrap(), number, "a torn message");
    assert_eq!(delivery.meta(), number.to_le_bytes(), "another message's metadata");
    number
}

fn receive(channel: &Channel) -> i32 {
    number(&message(channel))
}

/// Receives until the stream has ended. Returns the numbers, and whether the last sender died.
fn receive_all(channel: &Channel) -> (Vec<i32>, bool) {
    let mut numbers = Vec::new();
    loop {
        match channel.receive(None).unwrap() {
            Delivered::Message(delivery) => numbers.push(number(&delivery)),
            Delivered::Ended { died, .. } => return (numbers, died),
            other => panic!("{other:?}"),
        }
    }
}

fn is_nothing_there(channel: &Channel) -> bool {
    matches!(channel.receive(AT_ONCE).unwrap(), Delivered::TimedOut)
}

fn waits(channel: &Channel) -> bool {
    matches!(channel.receive(EVERY_LOOK).unwrap(), Delivered::TimedOut)
}

fn can_loan(channel: &Channel) -> bool {
    matches!(channel.loan(AT_ONCE).unwrap(), Loaned::Loan(_))
}

/// Opens the channel as one that has sent: so no other is its sole sender.
fn open_as_sender() -> Channel {
    let channel = open();
    assert!(can_loan(&channel));
    channel
}

fn posted(outcome: Posted) -> u64 {
    match outcome {
        Posted::Posted(sequence) => sequence,
        other => panic!("{other:?}"),
    }
}
