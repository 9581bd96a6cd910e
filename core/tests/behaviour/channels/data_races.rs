//! Threads that fill and read slots as plain memory, as NumPy and Numo do: the channel alone orders
//! them. `ci/thread-sanitizer` runs these tests, also where a slot is given back without a release.

use std::thread;

use shmarray::{
    Array, Channel, ChannelMode, ChannelOptions, Delivered, Loaned, Options, Receives, WhenFull,
};

use super::{STREAMS, create, int32, open, posted};
use crate::support::scenario;

/// The messages of each sender.
const EACH: i32 = 300;
/// The elements of an array.
const COUNT: usize = 2;

fn fill(array: &Array, value: i32) {
    let first = array.as_ptr().cast::<i32>();
    for at in 0..COUNT {
        // SAFETY: the offset stays in bounds, because the array has COUNT elements.
        let element = unsafe { first.add(at) };
        // SAFETY: the element is mapped and aligned, because the array lives. That nobody else
        // accesses it meanwhile is what these tests are about.
        unsafe { element.write(value) };
    }
}

/// Returns the number that each element has.
fn read(array: &Array) -> i32 {
    let first = array.as_ptr().cast::<[i32; COUNT]>();
    // SAFETY: the elements are mapped and aligned, because the array lives and has COUNT of them.
    // That nobody writes them meanwhile is what these tests are about.
    let elements = unsafe { first.read() };
    assert_eq!(elements, [elements[0]; COUNT], "a torn message");
    elements[0]
}

fn send_each(channel: &Channel) {
    for value in 0..EACH {
        match channel.loan(None).unwrap() {
            Loaned::Loan(loan) => {
                fill(loan.array(), value);
                loan.publish(b"").unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Sends arrays by their handles.
fn send_each_by_handle(channel: &Channel) {
    for value in 0..EACH {
        let array = Array::create(int32(), &[COUNT as u64], &Options::new()).unwrap();
        fill(&array, value);
        posted(channel.send_array(&array, b"", None).unwrap());
    }
}

/// Receives until the stream has ended. Returns how many messages came or were missed.
fn receive_each(channel: &Channel) -> u64 {
    let mut count = 0;
    loop {
        match channel.receive(None).unwrap() {
            Delivered::Message(delivery) => {
                count += 1 + delivery.missed();
                let array = delivery.array().clone();
                drop(delivery); // the other array keeps the slot
                assert!((0..EACH).contains(&read(&array)));
            }
            Delivered::Ended { died: false, .. } => return count,
            other => panic!("{other:?}"),
        }
    }
}

/// Lets senders send to receivers, each in a thread with an end of its own. Returns what each
/// receiver counted.
fn exchange(channel: Channel, senders: usize, receivers: usize, send: fn(&Channel)) -> Vec<u64> {
    let receivers: Vec<_> = (0..receivers).map(|_| open()).collect();
    let senders: Vec<_> =
        (0..senders).map(|_| Channel::open("numbers", Receives::Later).unwrap()).collect();
    channel.close();
    let receiving: Vec<_> =
        receivers.into_iter().map(|end| thread::spawn(move || receive_each(&end))).collect();
    let sending: Vec<_> =
        senders.into_iter().map(|end| thread::spawn(move || send(&end))).collect();
    sending.into_iter().for_each(|thread| thread.join().unwrap());
    receiving.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn options(mode: ChannelMode, when_full: WhenFull) -> ChannelOptions {
    ChannelOptions::new().slots(2).mode(mode).when_full(when_full)
}

const ALL: u64 = 2 * EACH as u64;

#[test]
fn one_thread_at_a_time_has_a_slot_of_a_queue() {
    scenario(|| {
        for when_full in [WhenFull::Block, WhenFull::DropOldest] {
            let channel = create(&options(ChannelMode::Queue, when_full));
            let counted = exchange(channel, 2, 2, send_each);
            assert_eq!(counted.iter().sum::<u64>(), ALL, "{when_full:?}");
        }
    });
}

#[test]
fn a_slot_of_a_broadcast_is_filled_when_all_have_read_it() {
    scenario(|| {
        for when_full in [WhenFull::Block, WhenFull::DropOldest] {
            let channel = create(&options(ChannelMode::Broadcast, when_full));
            assert_eq!(exchange(channel, 2, 2, send_each), [ALL, ALL], "{when_full:?}");
        }
    });
}

#[test]
fn an_array_that_is_sent_by_its_handle_is_read_after_it_was_filled() {
    scenario(|| {
        let channel = Channel::create_by_handle("numbers", &ChannelOptions::new()).unwrap();
        let counted = exchange(channel, 2, 2, send_each_by_handle);
        assert_eq!(counted.iter().sum::<u64>(), ALL);
    });
}

#[test]
fn threads_share_an_end() {
    scenario(|| {
        for mode in STREAMS {
            let channel = create(&options(mode, WhenFull::Block));
            let [receiver, sender] = [open(), Channel::open("numbers", Receives::Later).unwrap()];
            channel.close();
            thread::scope(|scope| {
                let receiving = [(); 2].map(|()| scope.spawn(|| receive_each(&receiver)));
                let sending = [(); 2].map(|()| scope.spawn(|| send_each(&sender)));
                sending.into_iter().for_each(|thread| thread.join().unwrap());
                sender.close();
                let counted = receiving.map(|thread| thread.join().unwrap());
                assert_eq!(counted.iter().sum::<u64>(), ALL, "{mode:?}");
            });
        }
    });
}

/// The thread of an fd looks at the channel beside the one that receives.
#[test]
fn a_receiver_with_an_fd_reads_what_was_filled() {
    scenario(|| {
        let channel = create(&options(ChannelMode::Queue, WhenFull::Block));
        channel.fd().unwrap();
        let receiver = channel;
        let sender = Channel::open("numbers", Receives::Later).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || send_each(&sender));
            assert_eq!(receive_each(&receiver), EACH as u64);
        });
    });
}
