//! The tasks of a queue: each is in a process's entry or in the pipe until it is done.
#![cfg(linux_backend)] // it needs the kernel
#![allow(clippy::incompatible_msrv)] // tests run with today's Rust

use std::os::fd::AsFd;
use std::time::Duration;

use shmarray::{Error, Pipe, QueueTasks, Received};

use crate::support::{fork, kill, scenario};

const SENDER: usize = 0;
const RECEIVER: usize = 5;
const NOW: Option<Duration> = Some(Duration::ZERO);

struct Queue {
    reader: Pipe,
    writer: Pipe,
    tasks: QueueTasks,
}

impl Queue {
    fn new() -> Self {
        let (reader, writer) = Pipe::pair().unwrap();
        let tasks = QueueTasks::new().unwrap();
        tasks.claim(SENDER);
        tasks.claim(RECEIVER);
        Self { reader, writer, tasks }
    }

    fn put(&self) {
        self.tasks.put(SENDER);
        self.writer.send(b"a task", &[], None).unwrap();
        self.tasks.set_in_pipe(SENDER);
    }

    fn get(&self, timeout: Option<Duration>) -> bool {
        let received = self.tasks.receive(RECEIVER, &self.reader, timeout).unwrap();
        matches!(received, Received::Message(_))
    }

    /// Returns the tasks of the sender, those of the receiver, and those that are not done.
    fn counts(&self) -> (u64, u64, i64) {
        let entries = self.tasks.entries();
        let held = |entry| QueueTasks::held(entries[entry]);
        (held(SENDER), held(RECEIVER), self.tasks.unfinished())
    }
}

#[test]
fn a_task_is_in_an_entry_or_in_the_pipe_until_it_is_done() {
    scenario(|| {
        let queue = Queue::new();
        assert_eq!(queue.counts(), (0, 0, 0));
        queue.tasks.put(SENDER);
        assert_eq!(queue.counts(), (1, 0, 1));
        queue.writer.send(b"a task", &[], None).unwrap();
        queue.tasks.set_in_pipe(SENDER);
        assert_eq!(queue.counts(), (0, 0, 1));
        assert!(queue.get(NOW));
        assert_eq!(queue.counts(), (0, 1, 1));
        queue.tasks.set_done(RECEIVER);
        assert_eq!(queue.counts(), (0, 0, 0));
    });
}

#[test]
fn an_entry_that_had_a_task_meanwhile_has_changed() {
    scenario(|| {
        let queue = Queue::new();
        let before = queue.tasks.entries();
        queue.put();
        let sent = queue.tasks.entries();
        assert!(queue.get(NOW));
        queue.tasks.set_done(RECEIVER);
        let after = queue.tasks.entries();
        assert!(before[SENDER] != sent[SENDER] && sent[RECEIVER] != after[RECEIVER]);
    });
}

#[test]
fn a_process_that_gets_nothing_has_no_task() {
    scenario(|| {
        let queue = Queue::new();
        assert!(!queue.get(NOW));
        assert!(!queue.get(Some(Duration::from_millis(1))));
        assert_eq!(queue.counts(), (0, 0, 0));
        std::thread::scope(|scope| {
            let getting = scope.spawn(|| queue.get(None));
            queue.put();
            assert!(getting.join().unwrap());
        });
        assert_eq!(queue.counts(), (0, 1, 1));
    });
}

#[test]
fn the_tasks_of_a_process_that_died_end_when_its_entry_is_used_again() {
    scenario(|| {
        let queue = Queue::new();
        queue.put();
        queue.put();
        fork(|| {
            assert!(queue.get(None));
            assert!(queue.get(None));
            queue.tasks.set_done(RECEIVER);
            kill(std::process::id() as i32);
        })
        .killed();
        assert_eq!(queue.counts(), (0, 1, 1));
        queue.tasks.claim(RECEIVER);
        assert_eq!(queue.counts(), (0, 0, 0));
    });
}

#[test]
fn the_last_task_that_is_done_wakes_those_that_wait() {
    scenario(|| {
        let queue = Queue::new();
        queue.put();
        let seen = queue.tasks.wakeups();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.tasks.wait(seen, Duration::from_secs(3600)));
            assert!(queue.get(NOW));
            queue.tasks.set_done(RECEIVER);
            waiting.join().unwrap().unwrap();
        });
        assert_ne!(queue.tasks.wakeups(), seen);
    });
}

#[test]
fn tasks_are_opened_by_their_fd_and_by_no_other() {
    scenario(|| {
        let queue = Queue::new();
        queue.put();
        let same = QueueTasks::from_fd(queue.tasks.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(same.unfinished(), 1);
        let slots = shmarray::QueueSlots::new(3).unwrap();
        let other = QueueTasks::from_fd(slots.as_fd().try_clone_to_owned().unwrap());
        assert!(matches!(other, Err(Error::InvalidArgument { .. })), "{other:?}");
    });
}
