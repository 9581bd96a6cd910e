//! A process forks while its other threads use the library. Whatever these do then, the children go
//! on.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use shmarray::{Access, Array, Options, Pipe, Sent};

use crate::exchange::{mark, marked, receive};
use crate::support::{Forked, create, directory, fork, resting_after, segments_in};
use crate::watched::{Pool, all_have_ended, end_abruptly, wait_for, watched};

const POOL: Pool = Pool::Bytes(1 << 28);
/// The sizes of arrays in two classes of cells, and of one too large for a shared slab.
const SIZES: [u64; 3] = [10, 5_000, 200_000];

fn named(name: &str) -> Array {
    let options = Options::new().name(name);
    create(10, &options).unwrap()
}

/// Makes arrays of every size, attaches them, sends and receives one, and drops them.
fn use_it(number: u8) {
    for size in SIZES {
        let array = marked(size, number);
        let again = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
        drop(array);
        assert_eq!(mark(&again), number);
    }
}

fn send_and_receive(number: u8) {
    let (here, there) = Pipe::pair().unwrap();
    assert_eq!(here.send(b"one", &[&marked(5_000, number)], None).unwrap(), Sent::Sent);
    let message = receive(&there);
    assert_eq!(mark(&message.array(0, Access::ReadOnly).unwrap()), number);
}

/// So many segments that a first use, with its sweep, takes long enough for many forks.
const SEGMENTS: usize = 1_000;
const ROUNDS: usize = 4;
/// The children that are forked beside one first use.
const CHILDREN_MOST: usize = 40;

/// Holds segments that each first use examines.
fn holder() -> Forked {
    wait_for("a thousand segments");
    resting_after(|| {
        let held: Vec<_> = (0..SEGMENTS).map(|number| named(&format!("held.{number}"))).collect();
        std::mem::forget(held);
    })
}

/// A thread uses the library for the first time in its process. Meanwhile the process forks
/// children that use it, too. All of them go on.
fn forks_beside_a_first_use(what: &str, first_use: fn()) {
    let begins = Barrier::new(2);
    let has_ended = AtomicBool::new(false);
    let mut children = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            begins.wait();
            first_use();
            has_ended.store(true, Ordering::Release);
        });
        begins.wait();
        while !has_ended.load(Ordering::Acquire) && children.len() < CHILDREN_MOST {
            children.push(fork(|| {
                use_it(7);
                send_and_receive(7);
            }));
        }
    });
    let forked = children.len();
    let named = children.into_iter().map(|child| ("a child", child)).collect();
    all_have_ended(
        &format!("{forked} children forked beside another thread's first {what}"),
        named,
    );
    use_it(8);
}

fn first_use(what: &str, first_use: fn()) {
    watched(Pool::Off, || {
        let holder = holder();
        for round in 0..ROUNDS {
            wait_for(format!(
                "the children of round {round}, forked beside another thread's first {what}"
            ));
            fork(|| forks_beside_a_first_use(what, first_use)).ended();
        }
        holder.kill();
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new());
    });
}

#[test]
fn children_forked_beside_another_threads_first_create_go_on() {
    first_use("create", || drop(marked(10, 1)));
}

#[test]
fn children_forked_beside_another_threads_first_attach_go_on() {
    first_use("attach", || drop(Array::attach("held.7", Access::ReadWrite).unwrap()));
}

#[test]
fn children_forked_beside_another_threads_first_sweep_go_on() {
    first_use("sweep", || {
        shmarray::sweep().unwrap();
    });
}

#[test]
fn children_forked_beside_another_threads_first_list_go_on() {
    first_use("list", || drop(shmarray::segments().unwrap()));
}

#[test]
fn children_forked_beside_another_threads_first_message_go_on() {
    first_use("message", || send_and_receive(3));
}

const CHILDREN: usize = 60;
const AT_ONCE: usize = 4;
const THREADS: usize = 6;
/// The number of arrays that are held meanwhile.
const HELD: usize = 500;

/// The uses by the busy threads of the process that forks the children.
static USES: AtomicUsize = AtomicUsize::new(0);

/// Whether every other thread of this process sleeps.
fn all_others_sleep() -> bool {
    // SAFETY: the call cannot touch memory, because it takes no arguments, and it cannot fail.
    let own = unsafe { libc::gettid() }.to_string();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    let others = tasks.filter(|task| *task.file_name() != *own);
    let states = others.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    states
        .into_iter()
        .all(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")))
}

/// Two threads that fork at once need not wait for each other.
const LOOKS_MOST: usize = 10_000;

/// Runs in a fork when the library has prepared for it. Returns when all other threads wait, which
/// is the worst moment, or when it is clear that they do not wait for a fork.
extern "C" fn until_all_others_wait() {
    let before = USES.load(Ordering::Relaxed);
    for _ in 0..LOOKS_MOST {
        if all_others_sleep() || USES.load(Ordering::Relaxed) >= before + 100 {
            return;
        }
        thread::yield_now();
    }
}

/// Stops the busy threads, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `body` beside threads that use the library.
fn beside_busy_threads(use_it: impl Fn(u8) + Sync, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let stop = &stop;
            let use_it = &use_it;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    use_it(number as u8);
                    USES.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        body();
    });
}

/// A child whose own threads wait for each other, as its parent's threads did at its fork. None of
/// them is the last to use the library, so each must be woken by the thread that it waited for.
fn child_with_threads_that_wait(use_it: &(impl Fn(u8) + Sync)) -> Forked {
    fork(|| {
        let all = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let all = &all;
                scope.spawn(move || {
                    all.wait();
                    use_it(number as u8);
                });
            }
            all.wait();
            fork(|| end_abruptly()).ended(); // and the others wait for it
        });
    })
}

fn children_go_on(children: usize, of_whom: &str, use_it: &(impl Fn(u8) + Sync)) {
    for first in (0..children).step_by(AT_ONCE) {
        let who = format!("children {first} to {} of {children} {of_whom}", first + AT_ONCE - 1);
        wait_for(&who);
        all_have_ended(
            &who,
            (0..AT_ONCE).map(|_| ("a child", child_with_threads_that_wait(use_it))).collect(),
        );
    }
}

fn held() -> Vec<Array> {
    (0..HELD).map(|_| marked(10, 9)).collect()
}

/// The shortest use of arrays that a process has already.
fn attach(handle: &str) {
    assert_eq!(mark(&Array::attach(handle, Access::ReadWrite).unwrap()), 9);
}

fn watched_with_held(body: impl FnOnce(&str)) {
    watched(POOL, || {
        // SAFETY: the handler stays valid, because it is a function of this program. It runs last
        // before a fork, because it is registered first.
        unsafe { libc::pthread_atfork(Some(until_all_others_wait), None, None) };
        let held = held();
        body(&held[7].handle());
        assert!(held.iter().all(|array| mark(array) == 9));
        drop(held);
        shmarray::sweep().unwrap();
    });
}

#[test]
fn children_whose_threads_attach_go_on_though_their_parents_threads_waited_at_the_fork() {
    watched_with_held(|handle| {
        let attach = |_| attach(handle);
        beside_busy_threads(attach, || children_go_on(CHILDREN, "whose threads attach", &attach));
    });
}

#[test]
fn children_whose_threads_create_go_on_though_their_parents_threads_waited_at_the_fork() {
    watched_with_held(|_| {
        beside_busy_threads(use_it, || {
            children_go_on(CHILDREN, "whose threads create and attach", &use_it)
        });
    });
}

/// As before, where two threads fork and wait for each other's forks.
#[test]
fn children_of_two_threads_that_fork_at_once_go_on() {
    watched_with_held(|handle| {
        let attach = |_| attach(handle);
        beside_busy_threads(attach, || {
            thread::scope(|scope| {
                scope.spawn(|| children_go_on(CHILDREN / 2, "of one thread", &attach));
                scope.spawn(|| children_go_on(CHILDREN / 2, "of another thread", &attach));
            });
        });
    });
}
