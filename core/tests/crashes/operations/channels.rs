//! Operations on a channel that a survivor has open, with two messages in its three slots.
//!
//! Each ends with everything given back, so afterwards all slots can be used, whether its process
//! died or not.

use std::time::Duration;

use shmarray::{
    Access, Array, Channel, ChannelMode, ChannelOptions, ChannelStats, DType, Delivered, Loaned,
    Posted, Receives, WhenFull,
};

use super::{Operation, PLAIN, Traced};
use crate::process::{kill, start};
use crate::stage::Prop::{self, Broadcast, Dropping, Handles, Latest, Queue, Sole};
use crate::stage::{Kept, Stage};

const SLOTS: u32 = 3;
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
const CHANNEL: &str = "channel";

/// What a process keeps of a channel until it ends.
pub(crate) fn furnish(prop: Prop) -> Option<Channel> {
    let options = ChannelOptions::new().slots(SLOTS).ends(8);
    let options = match prop {
        Queue | Handles | Sole => options,
        Broadcast => options.mode(ChannelMode::Broadcast),
        Latest => options.mode(ChannelMode::Latest),
        Dropping => options.when_full(WhenFull::DropOldest),
        _ => return None,
    };
    let channel = match prop {
        Handles => Channel::create_by_handle(CHANNEL, &options),
        _ => Channel::create(CHANNEL, number_type(), &[2], &options),
    };
    let channel = channel.unwrap();
    match prop {
        Handles => {}
        // The second closes the session of the first, and begins none.
        Sole => [1, 2].into_iter().for_each(|number| send(&open(), number)),
        _ => [1, 2].into_iter().for_each(|number| send(&channel, number)),
    }
    Some(channel)
}

fn number_type() -> DType {
    DType::parse("<i4").unwrap()
}

pub(crate) fn open() -> Channel {
    Channel::open(CHANNEL, Receives::Now).unwrap()
}

pub(crate) fn send(channel: &Channel, number: i32) {
    let Loaned::Loan(loan) = channel.loan(AT_ONCE).unwrap() else { panic!("no slot") };
    [0, 1].into_iter().for_each(|index| loan.array().set(&[index], number).unwrap());
    loan.publish(&number.to_le_bytes()).unwrap();
}

/// Returns the next number, of a message that is whole.
pub(crate) fn receive(channel: &Channel) -> Option<i32> {
    let Delivered::Message(view) = channel.receive(AT_ONCE).unwrap() else { return None };
    let number: i32 = view.array().get(&[0]).unwrap();
    assert_eq!(view.array().get::<i32>(&[1]).unwrap(), number, "a torn message");
    assert_eq!(view.meta(), number.to_le_bytes(), "another message's metadata");
    Some(number)
}

/// Prepares what a process does with a channel that it has opened.
fn with(channel: Channel, does: fn(&Channel)) -> Traced {
    Box::new(move || {
        does(&channel);
        Kept { others: vec![Box::new(channel)], ..Kept::default() }
    })
}

/// Leaves a dead process that had a loan and, of a broadcast, a view.
fn leave_a_dead_one() {
    let mut dead = start(|line| {
        let channel = open();
        let view = channel.receive(AT_ONCE);
        let loan = channel.loan(AT_ONCE);
        line.tell("has both");
        let _ = line.hear(); // until it is killed
        drop((view, loan));
    });
    dead.line.hear().unwrap();
    kill(dead.pid);
}

/// Checks that the messages are one of some sequences, and that all slots are usable.
fn goes_on(possible: &[&[i32]]) {
    let channel = open();
    let received: Vec<_> = std::iter::from_fn(|| receive(&channel)).collect();
    assert!(possible.contains(&&received[..]), "received {received:?}, and not of {possible:?}");
    let loans: Vec<_> = (0..SLOTS).map(|_| channel.loan(AT_ONCE).unwrap()).collect();
    assert!(loans.iter().all(|loan| matches!(loan, Loaned::Loan(_))), "a slot is lost: {loans:?}");
    drop(loans);
    (10..13).for_each(|number| send(&channel, number));
    assert_eq!([(); 4].map(|()| receive(&channel)), [Some(10), Some(11), Some(12), None]);
}

/// Checks that the latest value is one of some, and that it is overwritten.
fn latest_goes_on(possible: &[i32]) {
    let channel = open();
    let found = receive(&channel).unwrap();
    assert!(possible.contains(&found), "the latest value is {found}, and none of {possible:?}");
    for number in 10..16 {
        send(&channel, number);
        assert_eq!(receive(&channel), Some(number));
    }
    let loans: Vec<_> = (1..SLOTS).map(|_| channel.loan(AT_ONCE).unwrap()).collect();
    assert!(loans.iter().all(|loan| matches!(loan, Loaned::Loan(_))), "a slot is lost: {loans:?}");
}

/// The ends of living processes and of messages that can still be received.
fn ends() -> usize {
    ChannelStats::read(CHANNEL).unwrap().ends.len()
}

fn no_end_is_left() {
    assert!(ends() <= 2, "the survivor's, and that of the process if it lives");
    goes_on(&[&[1, 2]]);
}

fn by_handle_goes_on(_: &Stage) {
    let channel = open();
    while let Delivered::Message(view) = channel.receive(AT_ONCE).unwrap() {
        crate::stage::check(view.array());
    }
    let array = Array::create(number_type(), &[1], &shmarray::Options::new()).unwrap();
    for _ in 0..SLOTS {
        let posted = channel.send_array(&array, b"", AT_ONCE).unwrap();
        assert!(matches!(posted, Posted::Posted(_)), "a slot is lost: {posted:?}");
    }
    for _ in 0..SLOTS {
        assert!(matches!(channel.receive(AT_ONCE).unwrap(), Delivered::Message(_)));
    }
}

pub(super) static ROWS: &[Operation] = &[
    Operation {
        name: "make a channel",
        prepare: |_| {
            Box::new(|| {
                let options = ChannelOptions::new().slots(SLOTS).ends(4);
                drop(Channel::create("new", number_type(), &[2], &options).unwrap());
                Kept::default()
            })
        },
        ..PLAIN
    },
    Operation {
        name: "open a channel and close it",
        props: &[Queue],
        prepare: |_| {
            Box::new(|| {
                drop(open());
                Kept::default()
            })
        },
        then: |_| goes_on(&[&[1, 2]]),
        ..PLAIN
    },
    Operation {
        name: "hand an end over",
        props: &[Queue],
        prepare: |_| {
            with(open(), |channel| {
                let handed_over = channel.hand_over().unwrap();
                assert_eq!(ends(), 3);
                drop(handed_over); // before anybody has opened it
            })
        },
        then: |_| no_end_is_left(),
        ..PLAIN
    },
    Operation {
        name: "open an end that was handed over",
        props: &[Queue],
        prepare: |_| {
            let handed_over = open().hand_over().unwrap();
            Box::new(move || {
                let opened = Channel::open(handed_over.handle(), Receives::Now).unwrap();
                assert_eq!(ends(), 2, "it is the one that was handed over");
                Kept { others: vec![Box::new((opened, handed_over))], ..Kept::default() }
            })
        },
        then: |_| no_end_is_left(),
        ..PLAIN
    },
    Operation {
        name: "send by a channel",
        props: &[Queue],
        prepare: |_| with(open(), |channel| send(channel, 3)),
        then: |_| goes_on(&[&[1, 2], &[1, 2, 3]]),
        ..PLAIN
    },
    Operation {
        name: "send as the sole sender",
        props: &[Sole],
        prepare: |_| {
            with(open(), |channel| {
                send(channel, 3);
                assert_eq!([receive(channel), receive(channel)], [Some(1), Some(2)]);
                [4, 5].into_iter().for_each(|number| send(channel, number));
            })
        },
        then: |_| {
            goes_on(&[&[1, 2], &[1, 2, 3], &[2, 3], &[3], &[3, 4], &[3, 4, 5]]);
        },
        ..PLAIN
    },
    Operation {
        name: "give a loan back",
        props: &[Queue],
        prepare: |_| with(open(), |channel| drop(channel.loan(AT_ONCE).unwrap())),
        then: |_| goes_on(&[&[1, 2]]),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "receive by a channel",
        props: &[Queue],
        prepare: |_| with(open(), |channel| assert_eq!(receive(channel), Some(1))),
        then: |_| goes_on(&[&[1, 2], &[2]]),
        ..PLAIN
    },
    Operation {
        name: "send by a channel that drops the oldest",
        props: &[Dropping],
        prepare: |_| with(open(), |channel| (3..6).for_each(|number| send(channel, number))),
        then: |_| {
            goes_on(&[&[1, 2], &[1, 2, 3], &[2, 3], &[2, 3, 4], &[3, 4], &[3, 4, 5]]);
        },
        ..PLAIN
    },
    Operation {
        name: "send a broadcast whose messages are received",
        props: &[Broadcast],
        prepare: |_| {
            with(Channel::open(CHANNEL, Receives::Later).unwrap(), |channel| {
                (3..6).for_each(|number| send(channel, number));
            })
        },
        then: |_| goes_on(&[&[]]),
        ..PLAIN
    },
    Operation {
        name: "join a broadcast and receive",
        props: &[Broadcast],
        prepare: |_| {
            with(Channel::open(CHANNEL, Receives::Later).unwrap(), |channel| {
                assert_eq!(receive(channel), None);
                send(channel, 3);
                assert_eq!(receive(channel), Some(3));
            })
        },
        then: |_| goes_on(&[&[]]),
        ..PLAIN
    },
    Operation {
        name: "recover what a dead process had of a queue",
        props: &[Queue],
        prepare: |_| {
            let channel = open();
            leave_a_dead_one();
            // The dead one has received 1, and had the third slot on loan.
            with(channel, |channel| drop([(); 2].map(|()| channel.loan(AT_ONCE).unwrap())))
        },
        then: |_| goes_on(&[&[2]]),
        ..PLAIN
    },
    Operation {
        name: "open a channel that a dead process had",
        props: &[Queue],
        prepare: |_| {
            leave_a_dead_one();
            Box::new(|| Kept { others: vec![Box::new(open())], ..Kept::default() })
        },
        then: |_| goes_on(&[&[2]]),
        ..PLAIN
    },
    Operation {
        name: "recover what a dead process had of a broadcast",
        props: &[Broadcast],
        prepare: |_| {
            let channel = Channel::open(CHANNEL, Receives::Later).unwrap();
            leave_a_dead_one();
            with(channel, |channel| {
                drop([(); 3].map(|()| channel.loan(AT_ONCE).unwrap()));
            })
        },
        then: |_| goes_on(&[&[]]),
        ..PLAIN
    },
    Operation {
        name: "join a broadcast with a history",
        props: &[Broadcast],
        prepare: |_| {
            Box::new(|| {
                let channel = Channel::open(CHANNEL, Receives::WithHistory(2)).unwrap();
                assert_eq!([(); 3].map(|()| receive(&channel)), [Some(1), Some(2), None]);
                Kept { others: vec![Box::new(channel)], ..Kept::default() }
            })
        },
        then: |_| goes_on(&[&[]]),
        ..PLAIN
    },
    Operation {
        name: "send latest values",
        props: &[Latest],
        prepare: |_| with(open(), |channel| (3..7).for_each(|number| send(channel, number))),
        then: |_| latest_goes_on(&[2, 3, 4, 5, 6]),
        ..PLAIN
    },
    Operation {
        name: "read the latest value in place and as a copy",
        props: &[Latest],
        prepare: |_| {
            with(open(), |channel| {
                let in_place = channel.receive(AT_ONCE).unwrap();
                assert_eq!(receive(channel), Some(2));
                drop(in_place);
            })
        },
        then: |_| latest_goes_on(&[2]),
        ..PLAIN
    },
    Operation {
        name: "recover what a dead process had of the latest value",
        props: &[Latest],
        prepare: |_| {
            let channel = open();
            leave_a_dead_one();
            with(channel, |channel| (3..7).for_each(|number| send(channel, number)))
        },
        then: |_| latest_goes_on(&[2, 3, 4, 5, 6]),
        ..PLAIN
    },
    Operation {
        name: "send an array by a channel of handles",
        props: &[Handles],
        prepare: |stage| {
            let array = Array::attach(&stage.handle("kept"), Access::ReadWrite).unwrap();
            let channel = open();
            Box::new(move || {
                let posted = channel.send_array(&array, b"", AT_ONCE).unwrap();
                assert!(matches!(posted, Posted::Posted(_)));
                Kept { arrays: vec![array], others: vec![Box::new(channel)] }
            })
        },
        then: by_handle_goes_on,
        ..PLAIN
    },
    Operation {
        name: "receive an array by a channel of handles",
        props: &[Handles],
        prepare: |stage| {
            let array = Array::attach(&stage.handle("kept"), Access::ReadWrite).unwrap();
            let channel = open();
            let posted = channel.send_array(&array, b"", AT_ONCE).unwrap();
            assert!(matches!(posted, Posted::Posted(_)));
            drop(array);
            Box::new(move || {
                let received = channel.receive(AT_ONCE).unwrap();
                let Delivered::Message(view) = received else { panic!("{received:?}") };
                let arrays = vec![view.array().clone()];
                Kept { arrays, others: vec![Box::new(channel)] }
            })
        },
        then: by_handle_goes_on,
        ..PLAIN
    },
];
