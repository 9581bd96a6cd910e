//! Long lives in short: many forks beside threads, a supervisor whose workers die, eight users of
//! one directory, one of whom is hostile. In the end nothing is left and no process hangs.
//!
//! SHMARRAY_ENDURANCE is the factor of the length: 1 takes seconds; 100 makes 100,000 forks and
//! 10,000 workers (`ci/checks/scenarios/README.md` has the figures).
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shmarray::{Access, Array, DType, Options, Pipe, Received, SegmentKind};

use crate::beside_strangers::locked_file;
use crate::exchange::{mark, marked, receive};
use crate::support::{Forked, create, directory, fork, segments_in};
use crate::watched::{
    Pool, become_user, end_abruptly, open_to_all, used, wait_for, watched, watched_as_root,
};

fn times(base: usize) -> usize {
    let times = std::env::var("SHMARRAY_ENDURANCE").ok().and_then(|text| text.parse().ok());
    base * times.unwrap_or(1)
}

/// Pseudo-random numbers, which are the same in each run (Marsaglia, xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

const SIZES: [u64; 4] = [10, 5_000, 70_000, 300_000];

/// Makes, attaches, sends, receives and drops, and checks what was written.
fn use_it(number: u8) {
    let array = marked(SIZES[number as usize % SIZES.len()], number);
    let again = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
    let (here, there) = Pipe::pair().unwrap();
    here.send(b"", &[&array], None).unwrap();
    drop(array);
    let message = receive(&there);
    assert_eq!(
        (mark(&again), mark(&message.array(0, Access::ReadOnly).unwrap())),
        (number, number)
    );
}

/// Checks that nothing is left but the pools of processes.
fn nothing_is_left() {
    shmarray::sweep().unwrap();
    let left: Vec<_> = shmarray::segments()
        .unwrap()
        .into_iter()
        .filter(|info| info.kind != SegmentKind::Pool)
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(segments_in(&directory()), Vec::<String>::new());
}

/// A child with threads of its own, which ends in one of three ways.
fn child(number: usize) -> Forked {
    fork(|| {
        let threads: Vec<_> =
            (0..2).map(|one| thread::spawn(move || use_it((number + one) as u8))).collect();
        use_it(number as u8);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let held = marked(SIZES[number % SIZES.len()], 1);
        match number % 3 {
            0 => drop(held),
            1 => {
                std::mem::forget(held);
                end_abruptly()
            }
            _ => drop(marked(5_000, 2)), // exits while it holds an array
        }
    })
}

#[test]
fn children_of_a_busy_process_go_on_and_leave_nothing() {
    watched(Pool::Bytes(1 << 26), || {
        let stop = AtomicBool::new(false);
        let rounds = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..2u8 {
                let stop = &stop;
                let rounds = &rounds;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        use_it(number);
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut living = std::collections::VecDeque::new();
            for number in 0..times(1_000) {
                wait_for(format!("child {number}"));
                living.push_back(child(number));
                if living.len() > 2 {
                    living.pop_front().unwrap().ended();
                }
            }
            living.into_iter().for_each(Forked::ended);
            stop.store(true, Ordering::Relaxed);
        });
        eprintln!("{} children beside {} rounds of threads", times(1_000), rounds.into_inner());
        wait_for("the end");
        nothing_is_left();
    });
}

/// The most bytes that a worker makes: arrays that it keeps, arrays that it sends, and its pool.
const WORKER_MOST: u64 = 3 << 20;

fn worker(pipe: &Pipe, random: &mut Random) {
    let kept: Vec<_> =
        (0..random.below(4)).map(|n| marked(SIZES[random.below(4) as usize], n as u8)).collect();
    for number in 0..random.below(3) {
        let array = marked(SIZES[random.below(4) as usize], number as u8);
        pipe.send(&[number as u8], &[&array], None).unwrap();
    }
    std::mem::forget(kept);
    match random.below(3) {
        0 => end_abruptly(),
        1 => crate::support::kill(std::process::id() as i32),
        _ => {}
    }
}

/// Receives all messages in the pipe, and checks what was written.
fn receive_all(pipe: &Pipe) -> usize {
    let mut count = 0;
    while let Received::Message(message) = pipe.receive(Some(Duration::ZERO)).unwrap() {
        let array = message.array(0, Access::ReadOnly).unwrap();
        assert_eq!([mark(&array)], message.payload());
        count += 1;
    }
    count
}

#[test]
fn a_supervisor_of_workers_that_die_does_not_grow() {
    watched(Pool::Bytes(1 << 23), || {
        let (here, there) = Pipe::pair().unwrap();
        let mut random = Random(0x5eed);
        let mut received = 0;
        let mut most = 0;
        for number in 0..times(100) {
            wait_for(format!("worker {number}"));
            let mut own = Random(random.below(u64::MAX) | 1);
            // SAFETY: the child runs `worker` in its only thread, and this process waits for it
            // below.
            let pid = fork(|| worker(&there, &mut own)).id();
            // SAFETY: the pid is of a child of this process, and a null status is not written to.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            received += receive_all(&here);
            drop(marked(10, 1));
            most = most.max(used());
            assert!(
                used() <= 2 * WORKER_MOST + (1 << 23),
                "{} bytes are there after worker {number}",
                used()
            );
        }
        eprintln!("{} workers, {received} messages, at most {most} bytes", times(100));
        drop((here, there));
        wait_for("the end");
        nothing_is_left();
    });
}

const USERS: std::ops::Range<u32> = 40_001..40_008;
const HOSTILE: u32 = 40_008;

/// A user whose workers die, as any other's do.
fn ordinary_user(user: u32) {
    become_user(user);
    let mut random = Random(u64::from(user));
    for number in 0..times(20) {
        use_it(number as u8);
        let shared = marked(5_000, 7);
        fork(|| {
            assert_eq!(mark(&shared), 7);
            std::mem::forget(marked(SIZES[random.below(4) as usize], 3));
            end_abruptly()
        })
        .ended();
        let name = format!("of-{user}");
        let options = Options::new().name(&name);
        let named = Array::create(DType::parse("<i4").unwrap(), &[10], &options).unwrap();
        assert!(Array::attach(&name, Access::ReadOnly).is_ok());
        drop(named);
        shmarray::segments().unwrap();
    }
    shmarray::sweep().unwrap();
    let mine: Vec<_> =
        fs::read_dir(directory()).unwrap().flatten().filter(|entry| is_of(entry, user)).collect();
    assert!(mine.is_empty(), "user {user} leaves {mine:?}");
}

fn is_of(entry: &fs::DirEntry, user: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_registry = entry.file_name().to_string_lossy().starts_with("shmarray-registry-");
    !is_registry && entry.metadata().is_ok_and(|facts| facts.uid() == user)
}

/// Takes the registries of other users first, locks files that look like segments, truncates its
/// own files that others may read, and takes names.
fn hostile_user(ready: &crate::watched::Gate) -> ! {
    become_user(HOSTILE);
    let path = |name: String| -> PathBuf { directory().join(name) };
    let locked: Vec<_> =
        USERS.map(|user| locked_file(&path(format!("shmarray-registry-{user}")), 0o666)).collect();
    let more: Vec<_> = (0..20)
        .map(|n| locked_file(&path(format!("shmarray-{:b>24}", char::from(b'c' + n))), 0o666))
        .collect();
    let names: Vec<_> =
        (0..5).map(|n| locked_file(&path(format!("shmarray-name-taken-{n}")), 0o666)).collect();
    let options = Options::new().mode(0o666);
    let bait: Vec<_> = (0..5).map(|_| create(1 << 20, &options).unwrap()).collect();
    let files: Vec<_> = bait
        .iter()
        .map(|array| path(format!("shmarray-{}", array.descriptor().segment.id)))
        .collect();
    let whole: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    ready.open();
    loop {
        for (file, bytes) in files.iter().zip(&whole) {
            fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap();
            fs::write(file, bytes).unwrap();
        }
        assert_eq!((locked.len(), more.len(), names.len()), (USERS.len(), 20, 5));
    }
}

#[test]
fn seven_users_beside_a_hostile_one_lose_nothing_and_wait_for_nobody() {
    watched_as_root(Pool::Bytes(1 << 22), || {
        open_to_all();
        let ready = crate::watched::Gate::new();
        let hostile = fork(|| hostile_user(&ready));
        ready.wait();
        wait_for("the users");
        let users: Vec<_> = USERS.map(|user| fork(|| ordinary_user(user))).collect();
        let root = fork(|| {
            for number in 0..times(20) {
                use_it(number as u8);
                shmarray::sweep().unwrap();
                shmarray::segments().unwrap();
            }
        });
        users.into_iter().for_each(Forked::ended);
        root.ended();
        hostile.kill();
        eprintln!("{} users, {} rounds each", USERS.len() + 1, times(20));
        for entry in fs::read_dir(directory()).unwrap().flatten() {
            if is_of(&entry, HOSTILE) {
                fs::remove_file(entry.path()).unwrap(); // root may
            }
        }
    });
}
