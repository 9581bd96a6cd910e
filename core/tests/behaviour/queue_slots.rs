//! The slots of a bounded queue: none is lost with a process, wherever it dies.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code, clippy::incompatible_msrv)] // tests run with today's Rust

use std::os::fd::AsFd;
use std::time::Duration;

use shmarray::{Error, Pipe, QueueSlot, QueueSlots, Received, Sent};

use crate::support::{fork, kill, scenario};

const NOW: Option<Duration> = Some(Duration::ZERO);

struct Queue {
    reader: Pipe,
    writer: Pipe,
    slots: QueueSlots,
}

impl Queue {
    fn new(count: u32) -> Self {
        let (reader, writer) = Pipe::pair().unwrap();
        Self { reader, writer, slots: QueueSlots::new(count).unwrap() }
    }

    fn take(&self) -> Option<QueueSlot> {
        self.slots.take(&self.reader, NOW).unwrap()
    }

    fn send(&self, slot: QueueSlot) {
        assert_eq!(self.writer.send(&slot.to_bytes(), &[], None).unwrap(), Sent::Sent);
    }

    /// Receives a message. Returns its slot, which is not freed yet.
    fn receive(&self) -> QueueSlot {
        match self.reader.receive(None).unwrap() {
            Received::Message(message) => {
                QueueSlot::from_bytes(message.payload().try_into().unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    fn put(&self) {
        let slot = self.take().unwrap();
        self.send(slot);
        self.slots.set_in_pipe(slot);
    }

    fn taken(&self) -> u32 {
        self.slots.taken(&self.reader)
    }
}

/// A process that runs `body` and is killed.
fn killed_after(body: impl FnOnce()) {
    fork(|| {
        body();
        kill(std::process::id() as i32);
    })
    .killed();
}

#[test]
fn there_are_as_many_slots_as_were_made() {
    scenario(|| {
        for count in [1, 2, 7, 1000] {
            let queue = Queue::new(count);
            for round in 0..3 {
                let all: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
                assert_eq!((all.len(), queue.taken()), (count as usize, count), "{round}");
                all.iter().for_each(|slot| queue.slots.free(*slot));
                all.iter().for_each(|slot| queue.slots.free(*slot)); // a second time has no effect
                assert_eq!(queue.taken(), 0);
            }
        }
    });
}

#[test]
fn a_slot_goes_with_its_message() {
    scenario(|| {
        let queue = Queue::new(2);
        queue.put();
        queue.put();
        assert!(queue.take().is_none());
        let first = queue.receive();
        queue.slots.free(first);
        assert_eq!(queue.taken(), 1);
        queue.put();
        queue.slots.free(first); // of an earlier life, so it frees nothing
        assert_eq!(queue.taken(), 2);
    });
}

#[test]
fn no_slot_is_lost_with_a_process() {
    type Deed = fn(&Queue);
    let deeds: [(&str, Deed); 6] = [
        ("took one", |queue| {
            queue.take().unwrap();
        }),
        ("kept one", |queue| queue.slots.set_waiting(queue.take().unwrap())),
        ("sent one, and has not said so", |queue| queue.send(queue.take().unwrap())),
        ("sent one", Queue::put),
        ("received what it sent, and has not freed it", |queue| {
            queue.put();
            queue.receive();
        }),
        ("was about to send what it kept", |queue| {
            let slot = queue.take().unwrap();
            queue.slots.set_waiting(slot);
            queue.slots.set_sending(slot);
        }),
    ];
    scenario(|| {
        for (what, deed) in deeds {
            let queue = Queue::new(2);
            for _ in 0..5 {
                killed_after(|| deed(&queue));
                if what.starts_with("sent") {
                    queue.slots.free(queue.receive());
                }
                let all = [queue.take(), queue.take(), queue.take()];
                assert!(
                    matches!(all, [Some(_), Some(_), None]),
                    "a process that {what} took its slot with it: {all:?}"
                );
                all.iter().flatten().for_each(|slot| queue.slots.free(*slot));
            }
        }
    });
}

#[test]
fn a_slot_that_a_dead_process_kept_is_free_though_there_are_messages() {
    scenario(|| {
        let queue = Queue::new(2);
        queue.put();
        killed_after(|| queue.slots.set_waiting(queue.take().unwrap()));
        queue.put();
        assert!(queue.take().is_none(), "there are two messages");
    });
}

#[test]
fn a_living_process_keeps_its_slot() {
    scenario(|| {
        let queue = Queue::new(1);
        let (here, there) = Pipe::pair().unwrap();
        let child = fork(|| {
            let slot = queue.take().unwrap();
            there.send(b"taken", &[], None).unwrap();
            there.receive(None).unwrap();
            queue.slots.free(slot);
        });
        assert!(matches!(here.receive(None).unwrap(), Received::Message(_)));
        assert!(queue.take().is_none());
        assert!(
            queue.slots.take(&queue.reader, Some(Duration::from_millis(250))).unwrap().is_none()
        );
        here.send(b"free it", &[], None).unwrap();
        assert!(
            queue.slots.take(&queue.reader, None).unwrap().is_some(),
            "the process that waited was not woken"
        );
        child.ended();
    });
}

#[test]
fn another_process_has_the_same_slots_by_their_fd() {
    scenario(|| {
        let queue = Queue::new(3);
        let same = QueueSlots::from_fd(queue.slots.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let slot = same.take(&queue.reader, NOW).unwrap().unwrap();
        assert_eq!(queue.taken(), 1);
        queue.slots.free(slot);
        assert_eq!(same.taken(&queue.reader), 0);
    });
}

#[test]
fn an_fd_without_slots_is_refused() {
    scenario(|| {
        let (pipe, _other) = Pipe::pair().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for fd in [pipe.into(), file.into()] {
            assert!(matches!(
                QueueSlots::from_fd(fd),
                Err(Error::Os { .. } | Error::InvalidArgument { .. })
            ));
        }
    });
}

#[test]
fn processes_that_are_killed_at_any_moment_cost_no_slot() {
    scenario(|| {
        let queue = Queue::new(3);
        for round in 0..60 {
            let work = |puts: bool| {
                loop {
                    if puts { queue.put_one() } else { queue.slots.free(queue.receive()) }
                }
            };
            let putter = fork(|| work(true));
            let getter = fork(|| work(false));
            (0..round % 7 * 40).for_each(|_| queue.slots.free(queue.receive()));
            putter.kill();
            getter.kill();
            while let Received::Message(message) = queue.reader.receive(NOW).unwrap() {
                queue.slots.free(QueueSlot::from_bytes(message.payload().try_into().unwrap()));
            }
            assert_eq!(queue.taken(), 0, "round {round}");
        }
    });
}

impl Queue {
    /// Does the same as `put`, but waits.
    fn put_one(&self) {
        let slot = self.slots.take(&self.reader, None).unwrap().unwrap();
        self.send(slot);
        self.slots.set_in_pipe(slot);
    }
}
