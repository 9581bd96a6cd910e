//! A queue with one sender, which publishes in the slots alone, and whoever comes in between.

use std::fs;
use std::os::unix::fs::FileExt;

use shmarray::{Channel, ChannelOptions, ChannelStats, Loaned};

use super::deaths::peer_that;
use super::{
    AT_ONCE, can_loan, create, is_nothing_there, message, number, open, open_as_sender, receive,
    send,
};
use crate::support::{Peer, directory, fork, is_peer, scenario, serve};

/// The sole word of FORMAT.md, "Channel, kind 3", and its state SOLE.
const SOLE_WORD: u64 = 4096 + 664;
const SOLE: u64 = 2;
/// States of a slot.
const LOANED: u64 = 1;
const NUMBERED: u64 = 2;

fn is_sole() -> bool {
    let file = fs::File::open(directory().join("shmarray-name-numbers")).unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, SOLE_WORD).unwrap();
    u64::from_le_bytes(word) & 7 == SOLE
}

/// Sends and receives until the sender is the sole one again. Returns the next number to send.
fn become_sole(sender: &Channel, receiver: &Channel, from: i32) -> i32 {
    let next = (from..).find(|value| {
        send(sender, *value);
        assert_eq!(receive(receiver), *value);
        is_sole()
    });
    next.unwrap() + 1
}

#[test]
fn a_sender_is_the_sole_one_until_another_sends_and_again_when_that_has_left() {
    scenario(|| {
        let sender = create(&ChannelOptions::new());
        let receiver = open();
        let mut next = become_sole(&sender, &receiver, 0);
        for _ in 0..5 {
            let guest = open();
            (next..next + 2).for_each(|value| _ = send(&sender, value));
            assert!(is_sole(), "one that has only opened the channel disturbs nobody");
            assert_eq!(send(&guest, next + 2), next as u64 + 2);
            assert!(!is_sole());
            assert_eq!(send(&sender, next + 3), next as u64 + 3);
            for value in next..next + 4 {
                let delivery = message(&receiver);
                assert_eq!((number(&delivery), delivery.sequence()), (value, value as u64));
            }
            guest.close();
            next = become_sole(&sender, &receiver, next + 4);
        }
        assert_eq!(ChannelStats::read("numbers").unwrap().sent, next as u64);
    });
}

#[test]
fn a_sender_that_is_stopped_leaves_its_messages_and_the_channel_to_the_others() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(4));
        let mut stopped = peer_that(&["1", "2", "loan"]);
        assert!(is_sole());
        let pid = stopped.process.id() as libc::pid_t;
        // SAFETY: the calls touch no memory.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        assert_eq!(send(&channel, 3), 2);
        assert!(!is_sole());
        let late = open();
        assert_eq!([receive(&late), receive(&channel), receive(&late)], [1, 2, 3]);
        assert!(is_nothing_there(&late));
        // SAFETY: the same.
        unsafe { libc::kill(pid, libc::SIGCONT) };
        assert_eq!(stopped.ask("4"), "did 4");
        assert_eq!(receive(&late), 4);
        stopped.end();
    });
}

#[test]
fn a_killed_sole_sender_leaves_what_it_has_published_and_its_slots() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(4));
        peer_that(&["1", "2", "loan"]).kill();
        assert_eq!([receive(&channel), receive(&channel)], [1, 2]);
        let loans: Vec<_> = (0..4).map(|_| channel.loan(None).unwrap()).collect();
        assert!(loans.iter().all(|loan| matches!(loan, Loaned::Loan(_))), "{loans:?}");
    });
}

#[test]
fn a_message_that_is_kept_delays_no_later_one() {
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(4));
        let receiver = open();
        let mut next = become_sole(&sender, &receiver, 0);
        send(&sender, next);
        let kept = message(&receiver);
        for value in next + 1..next + 100 {
            send(&sender, value);
            assert_eq!(receive(&receiver), value);
        }
        assert_eq!(number(&kept), next);
        drop(kept);
        next = become_sole(&sender, &receiver, next + 100);
        // Loans that are published in another order than they were taken.
        let loans: Vec<_> = (0..3).map(|_| sender.loan(AT_ONCE).unwrap()).collect();
        for (loan, value) in loans.into_iter().rev().zip(next..) {
            let Loaned::Loan(loan) = loan else { panic!("{loan:?}") };
            loan.array().set(&[0], value).unwrap();
            loan.array().set(&[1], value).unwrap();
            assert_eq!(loan.publish(&value.to_le_bytes()).unwrap(), value as u64);
        }
        (next..next + 3).for_each(|value| assert_eq!(receive(&receiver), value));
        // A loan that is cancelled.
        next = become_sole(&sender, &receiver, next + 3);
        assert!(can_loan(&sender));
        become_sole(&sender, &receiver, next);
    });
}

#[test]
fn threads_that_share_a_channel_send_each_message_once() {
    const EACH: i32 = 5_000;
    scenario(|| {
        let sender = create(&ChannelOptions::new().slots(4));
        let receiver = open();
        let mut received = Vec::new();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let sender = &sender;
                scope.spawn(move || {
                    (0..EACH).for_each(|value| _ = send(sender, thread * EACH + value));
                });
            }
            for sequence in 0..3 * EACH as u64 {
                let delivery = message(&receiver);
                assert_eq!(delivery.sequence(), sequence);
                received.push(number(&delivery));
            }
        });
        for thread in 0..3 {
            let its = received.iter().filter(|value| **value / EACH == thread);
            assert!(its.copied().eq(thread * EACH..(thread + 1) * EACH));
        }
    });
}

/// As a sender leaves it that is killed between the slot's number and the ring's word.
#[test]
fn a_message_that_was_numbered_and_not_published_is_not_queued() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(4));
        let _other = open_as_sender();
        let dead = peer_that(&["loan"]);
        let path = directory().join("shmarray-name-numbers");
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let mut at = [0; 4];
        file.read_exact_at(&mut at, 4096 + 32).unwrap();
        let slot_word = u64::from(u32::from_le_bytes(at));
        let mut word = [0; 8];
        file.read_exact_at(&mut word, slot_word).unwrap();
        let word = u64::from_le_bytes(word);
        assert_eq!(word & 7, LOANED);
        file.write_all_at(&1000_u64.to_le_bytes(), slot_word + 8).unwrap();
        file.write_all_at(&(word & !7 | NUMBERED).to_le_bytes(), slot_word).unwrap();
        let stats = ChannelStats::read("numbers").unwrap();
        assert_eq!((stats.loaned, stats.queued), (1, 0));
        dead.kill();
        assert!(is_nothing_there(&channel)); // it recovers
        let stats = ChannelStats::read("numbers").unwrap();
        assert_eq!((stats.loaned, stats.queued), (0, 0));
    });
}

/// Sends a number, and leaves, as often as it is told to.
#[test]
#[ignore = "it is another process of the tests"]
fn guest() {
    if !is_peer() {
        return;
    }
    serve(|line| {
        let channel = open();
        let sequence = send(&channel, line.parse().unwrap());
        channel.close();
        sequence.to_string()
    });
}

/// Whatever stands there: all go on, and nobody loops for ever.
#[test]
fn a_sole_word_that_no_sender_wrote_stops_nobody() {
    scenario(|| {
        let of_states = (0..8_u64).flat_map(|state| {
            [0, 1, 1022, 1023].into_iter().flat_map(move |end| {
                let parts = state | end << 3;
                [0, 3 << 13 | 9 << 17, 15 << 13 | u64::MAX << 17].map(|more| parts | more)
            })
        });
        for (word, others) in of_states.flat_map(|word| [(word, 5), (word, u64::MAX)]) {
            let channel = create(&ChannelOptions::new().slots(2));
            let receiver = open();
            (5..7).for_each(|value| _ = send(&channel, value));
            let path = directory().join("shmarray-name-numbers");
            let file = fs::File::options().read(true).write(true).open(path).unwrap();
            let mut at = [0; 4];
            file.read_exact_at(&mut at, 4096 + 28).unwrap();
            let ends = u64::from(u32::from_le_bytes(at));
            file.write_all_at(&word.to_le_bytes(), SOLE_WORD).unwrap();
            for next_or_mark in [ends + 96, ends + 104, ends + 256 + 96, ends + 256 + 104] {
                file.write_all_at(&others.to_le_bytes(), next_or_mark).unwrap();
            }
            let third = open();
            for _ in 0..5 {
                let _ = third.is_ready();
                let _ = receiver.receive(AT_ONCE);
                let _ = ChannelStats::read("numbers").unwrap().sent;
                for sender in [&channel, &third] {
                    if let Ok(Loaned::Loan(loan)) = sender.loan(AT_ONCE) {
                        loan.publish(b"").unwrap();
                    }
                }
                let _ = receiver.receive(AT_ONCE);
            }
            drop((channel, receiver, third));
            let _ = shmarray::unlink("numbers");
        }
    });
}

/// Receives a message, and checks that it is the one after the last.
fn next(receiver: &Channel, sequence: &mut u64, from_sender: &mut i32) -> i32 {
    let delivery = message(receiver);
    assert_eq!(delivery.sequence(), *sequence);
    *sequence += 1;
    let value = number(&delivery);
    if value >= 0 {
        assert_eq!(value, *from_sender);
        *from_sender += 1;
    }
    value
}

/// The sender is killed between two messages, or inside one.
#[test]
fn guests_and_kills_lose_nothing_that_was_published() {
    scenario(|| {
        let receiver = create(&ChannelOptions::new().slots(4));
        let _undecided = open(); // so the stream does not end
        let mut guest = Peer::start(guest);
        let mut sequence = 0;
        for round in 0..60 {
            let sending = fork(|| {
                let sender = open();
                let mut value = 0;
                loop {
                    send(&sender, value);
                    value += 1;
                }
            });
            let mut from_sender = 0;
            for part in 1..4 {
                for _ in 0..100 + 7 * round {
                    next(&receiver, &mut sequence, &mut from_sender);
                }
                guest.tell(&(-part).to_string());
                while next(&receiver, &mut sequence, &mut from_sender) != -part {}
                assert_eq!(guest.hear(), (sequence - 1).to_string());
            }
            sending.kill();
            while ChannelStats::read("numbers").unwrap().queued > 0 {
                next(&receiver, &mut sequence, &mut from_sender);
            }
            let all = open();
            let loans: Vec<_> = (0..4).map(|_| all.loan(None).unwrap()).collect();
            assert!(loans.iter().all(|loan| matches!(loan, Loaned::Loan(_))), "{loans:?}");
        }
        guest.end();
    });
}
