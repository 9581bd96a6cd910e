//! No fd is left: nothing is lost, nothing leaks, and the error says so.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use shmarray::{Access, Array, Error, Message, Pipe, Received, Sent};

use crate::exchange::marked;
use crate::support::{directory, fork, segments_in};
use crate::watched::{Pool, end_abruptly, wait_for, watched};

/// The sizes of arrays in a cell, and in a segment of its own.
const SIZES: [u64; 2] = [10, 200_000];

fn limit_fds(most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: 1024 };
    // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it and
    // is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// Takes all free fds but some. They are free again when the result is dropped.
fn all_fds_but(left: usize) -> Vec<File> {
    let mut taken = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                break;
            }
        }
    }
    taken.truncate(taken.len() - left);
    taken
}

const MOST: u64 = 64;

/// Receives a message at once or not at all. Nothing of it is lost on the way.
fn receive_at_once(pipe: &Pipe) -> Result<Message, Error> {
    match pipe.receive(Some(Duration::from_millis(1)))? {
        Received::Message(message) => Ok(message),
        other => panic!("the message is lost: {other:?}"),
    }
}

/// The parts of a message.
#[derive(Debug, Clone, Copy)]
struct Kind {
    arrays: usize,
    fds: usize,
    payload_bytes: usize,
}

impl Kind {
    fn send(self, pipe: &Pipe) {
        let arrays: Vec<_> =
            (0..self.arrays).map(|n| marked(SIZES[n % SIZES.len()], n as u8)).collect();
        let file = File::open("/dev/null").unwrap();
        let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); self.fds];
        let payload = vec![9; self.payload_bytes];
        let sent =
            pipe.send_with(&payload, &arrays.iter().collect::<Vec<_>>(), &fds, None).unwrap();
        assert_eq!(sent, Sent::Sent);
    }

    /// Checks that all parts have arrived.
    fn check(self, message: &mut Message) {
        let payload = message.payload();
        assert!(
            payload == vec![9; self.payload_bytes],
            "{self:?}: {} other bytes came",
            payload.len()
        );
        for number in 0..self.arrays {
            let array = message.array(number, Access::ReadOnly).unwrap();
            assert_eq!(array.get::<u8>(&[0]).unwrap(), number as u8, "{self:?}");
        }
        assert_eq!(message.take_fds().len(), self.fds, "{self:?}");
    }
}

/// With no free fd, with one, and so on: each receive that fails reports that no fd was left, and
/// the message is received as soon as there are enough.
fn arrives_whole_when_there_are_enough(kind: Kind) {
    limit_fds(MOST);
    let (here, there) = Pipe::pair().unwrap();
    kind.send(&here);
    for left in 0..20 {
        wait_for(format!("{kind:?} with {left} fds free"));
        let taken = all_fds_but(left);
        let received = receive_at_once(&there);
        drop(taken);
        match received {
            Ok(mut message) => return kind.check(&mut message),
            Err(error) => {
                assert_eq!(
                    error.os_errno(),
                    Some(libc::EMFILE),
                    "{kind:?} with {left} free: {error}"
                );
            }
        }
    }
    panic!("{kind:?} was not received with 19 fds free");
}

#[test]
fn a_message_is_received_whole_or_not_at_all() {
    const KINDS: [Kind; 6] = [
        Kind { arrays: 4, fds: 0, payload_bytes: 100 },
        Kind { arrays: 0, fds: 1, payload_bytes: 100 },
        Kind { arrays: 0, fds: 2, payload_bytes: 100 },
        Kind { arrays: 2, fds: 10, payload_bytes: 0 },
        Kind { arrays: 0, fds: 0, payload_bytes: 40_000 },
        Kind { arrays: 3, fds: 3, payload_bytes: 5_000_000 },
    ];
    watched(Pool::Bytes(1 << 26), || {
        for kind in KINDS {
            fork(|| arrives_whole_when_there_are_enough(kind)).ended();
            shmarray::sweep().unwrap();
            assert_eq!(segments_in(&directory()), Vec::<String>::new(), "{kind:?}");
        }
    });
}

/// The receiver has no fd for a while, as a server with many connections. Messages that come
/// meanwhile are received afterwards, in order.
#[test]
fn messages_that_could_not_be_received_are_received_later_in_order() {
    watched(Pool::Bytes(1 << 26), || {
        limit_fds(MOST);
        let (here, there) = Pipe::pair().unwrap();
        let kinds = [(1, 2, 3), (0, 1, 40_000), (2, 0, 50_000), (0, 3, 0), (3, 0, 10)];
        let kinds = kinds.map(|(arrays, fds, payload_bytes)| Kind { arrays, fds, payload_bytes });
        kinds.iter().for_each(|kind| kind.send(&here));
        for kind in kinds {
            let taken = all_fds_but(1);
            let early = receive_at_once(&there);
            drop(taken);
            kind.check(&mut early.or_else(|_| receive_at_once(&there)).unwrap());
        }
        shmarray::sweep().unwrap();
    });
}

/// The end of a child that was forked at the limit is known only if the child reports it itself.
fn all_that_a_child_left_is_given_back(has_room_again: bool, leave: fn(&[Array])) {
    watched(Pool::Bytes(1 << 26), || {
        let family = fork(|| {
            limit_fds(MOST);
            let arrays: Vec<_> = SIZES.iter().map(|size| marked(*size, 1)).collect();
            let taken = all_fds_but(0);
            let child = fork(|| {
                if has_room_again {
                    limit_fds(2 * MOST);
                }
                leave(&arrays);
                end_abruptly()
            });
            drop(taken);
            child.ended();
            end_abruptly()
        });
        family.ended();
        wait_for("a sweep");
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new(), "all of the family are dead");
    });
}

/// Sends what it can. At the limit an error is as good.
fn send_out_of_band(arrays: &[Array]) {
    arrays.iter().for_each(|array| drop(array.handle_to_send()));
}

#[test]
fn arrays_that_a_child_forked_without_fds_sent_out_of_band_are_given_back() {
    all_that_a_child_left_is_given_back(false, send_out_of_band);
}

#[test]
fn arrays_that_a_child_with_fds_again_sent_out_of_band_are_given_back() {
    all_that_a_child_left_is_given_back(true, send_out_of_band);
}

#[test]
fn arrays_that_a_child_with_fds_again_sent_and_made_are_given_back() {
    all_that_a_child_left_is_given_back(true, |arrays| {
        let (here, _there) = Pipe::pair().unwrap();
        let own: Vec<_> = SIZES.iter().map(|size| marked(*size, 2)).collect();
        here.send(&[3; 50_000], &[&arrays[0], &arrays[1], &own[0], &own[1]], None).unwrap();
        send_out_of_band(&own);
        std::mem::forget(own);
    });
}

/// A child that was forked without fds holds what its parent held, for as long as it lives.
#[test]
fn a_child_that_was_forked_without_fds_holds_what_its_parent_held() {
    watched(Pool::Bytes(1 << 26), || {
        limit_fds(MOST);
        let arrays: Vec<_> = SIZES.iter().map(|size| marked(*size, 5)).collect();
        let [drops, dropped] = [(); 2].map(|()| crate::watched::Gate::new());
        let taken = all_fds_but(0);
        let child = fork(|| {
            drops.open();
            dropped.wait();
            assert!(arrays.iter().all(|array| array.get::<u8>(&[0]).unwrap() == 5));
        });
        drop(taken);
        drops.wait();
        drop(arrays);
        shmarray::sweep().unwrap();
        // No array that is made now lies where the child still reads.
        let made: Vec<_> = SIZES.iter().map(|size| marked(*size, 6)).collect();
        dropped.open();
        child.ended();
        drop(made);
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new(), "the child has gone");
    });
}
