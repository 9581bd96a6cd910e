//! A program closes every fd, as daemons do: nothing is lost, and nothing breaks.
#![cfg(linux_backend)] // it needs the kernel

use std::mem;
use std::thread;

use shmarray::{Access, Array, DType, Options};

use crate::support::{Peer, bytes, directory, fork, scenario, segments_in, serve};

/// The sizes of arrays in two classes of cells, and of one with a segment of its own.
const SIZES: [u64; 3] = [10, 5_000, 200_000];

fn attached(array: &Array) -> Array {
    Array::attach(&array.handle(), Access::ReadOnly).unwrap()
}

/// Closes every fd but those of input and output. Nothing in a scenario uses any of them again.
fn close_all() {
    (3..1024).for_each(crate::support::close);
}

#[test]
fn closing_every_fd_loses_nothing() {
    scenario(|| {
        let array = bytes(100);
        close_all();
        assert_eq!(shmarray::sweep().unwrap().segments, 0);
        array.set(&[5], 5u8).unwrap();
        attached(&array);
    });
}

/// Sweeps until it is killed, and counts its sweeps in the array that it is told.
#[test]
#[ignore = "it is another process of the tests"]
fn sweeper() {
    serve(|handle| {
        let count = Array::attach(handle, Access::ReadWrite).unwrap();
        thread::spawn(move || {
            loop {
                shmarray::sweep().unwrap();
                count.set(&[0], count.get::<u64>(&[0]).unwrap() + 1).unwrap();
            }
        });
        "sweeps".to_owned()
    });
    loop {
        thread::park(); // its input was closed with all other fds of the peer
    }
}

/// Another process, which sweeps until it is killed.
struct Sweeper {
    pid: i32,
    count: Array,
}

impl Sweeper {
    /// Starts it. `close_all` closes its pipes.
    fn start() -> Self {
        let count = Array::create(DType::parse("<u8").unwrap(), &[1], &Options::default()).unwrap();
        let mut peer = Peer::start(sweeper);
        assert_eq!(peer.ask(&count.handle()), "sweeps");
        let pid = peer.process.id() as i32;
        mem::forget(peer);
        Self { pid, count }
    }

    /// Waits for two sweeps that begin after this call.
    fn wait_for_sweeps(&self) {
        let before = self.count.get::<u64>(&[0]).unwrap();
        while self.count.get::<u64>(&[0]).unwrap() < before + 2 {
            thread::yield_now();
        }
    }

    fn kill(self) {
        drop(self.count);
        crate::support::kill(self.pid);
    }
}

/// Checks that a store to an array is seen by an earlier attach of it and by a new one.
fn is_shared(array: &Array, again: &Array) {
    array.set(&[9], 9u8).unwrap();
    assert_eq!(again.get::<u8>(&[9]).unwrap(), 9);
    assert_eq!(attached(array).get::<u8>(&[9]).unwrap(), 9);
}

#[test]
fn closing_every_fd_while_another_process_sweeps_loses_nothing_and_breaks_nothing() {
    scenario(|| {
        let held = SIZES.map(bytes);
        let again = held.each_ref().map(attached);
        let sweeper = Sweeper::start();
        close_all();
        sweeper.wait_for_sweeps();
        held.iter().zip(&again).for_each(|(array, again)| is_shared(array, again));

        let made = SIZES.map(bytes);
        fork(|| {
            sweeper.wait_for_sweeps();
            let own = bytes(SIZES[2]);
            made.iter().chain([&own]).for_each(|array| array.set(&[4], 4u8).unwrap());
            assert_eq!(attached(&held[0]).get::<u8>(&[9]).unwrap(), 9);
        })
        .ended();
        sweeper.wait_for_sweeps();
        assert!(made.iter().all(|array| array.get::<u8>(&[4]).unwrap() == 4));

        let gone = held[2].handle();
        drop((held, again));
        sweeper.wait_for_sweeps();
        assert!(Array::attach(&gone, Access::ReadOnly).is_err());
        made.iter().for_each(|array| drop(attached(array)));

        drop(made);
        sweeper.kill();
        while !segments_in(&directory()).is_empty() {
            shmarray::sweep().unwrap(); // until the kernel has ended it
        }
    });
}
