//! A supervisor forks workers and reaps them: what it does next takes the memory of the dead back.

use std::collections::VecDeque;

use shmarray::{Access, Array, Options, Pipe, Received};

use super::{MIB, POOL};
use crate::support::{Forked, bytes, create, fork, resting_after};
use crate::watched::{Pool, end_abruptly, used, wait_for, watched};

fn named(name: &str) -> Array {
    let options = Options::new().name(name);
    create(MIB, &options).unwrap()
}

const WORKERS: usize = 60;
/// Headers, registries and small cells, in addition to what is measured.
const SLACK: u64 = MIB;

/// How a worker ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// As multiprocessing's workers do.
    Abrupt,
    Killed,
}

/// A worker's life: it has arrays, and others in its pool, when it ends.
fn work() {
    drop(bytes(3 * MIB));
    let held = [bytes(MIB), bytes(100), named(&format!("worker.{}", std::process::id()))];
    std::mem::forget(held);
}

/// Forks a worker, waits until it has worked and ended, and reaps it.
pub(crate) fn worker_comes_and_goes(work: impl FnOnce(), end: End) {
    match end {
        End::Abrupt => fork(|| {
            work();
            end_abruptly()
        })
        .ended(),
        End::Killed => resting_after(work).kill(),
    }
}

/// Returns the bytes that one worker has at the end of its work.
fn one_workers_bytes(work: impl FnOnce()) -> u64 {
    let before = used();
    let worker = resting_after(work);
    let bytes = used() - before;
    worker.kill();
    assert!(bytes > 4 * MIB, "it has {bytes} bytes only");
    bytes
}

/// A supervisor forks workers one after the other, and uses the library after each. After each use
/// there is no more memory than the supervisor's own and what one worker held.
fn the_dead_leave_at_most_what_one_held(work: impl Fn(), end: End, use_it: impl Fn()) {
    wait_for("the supervisor's first use");
    use_it();
    let own = used();
    let of_one = one_workers_bytes(&work);
    for round in 0..WORKERS {
        wait_for(format!("worker {round}, and what its supervisor does then"));
        worker_comes_and_goes(&work, end);
        let most = own + of_one + SLACK;
        let there = used_after_a_use_or_while_proc_is_read(&use_it, most);
        assert!(
            there <= most,
            "{there} bytes are there after worker {round}: \
             {own} are the supervisor's, {of_one} what a worker held"
        );
    }
}

/// The kernel keeps the memory of a process, and its life, while another program reads its files in
/// /proc. So where there is too much memory once, a few more uses follow before the test fails.
fn used_after_a_use_or_while_proc_is_read(use_it: impl Fn(), most: u64) -> u64 {
    const USES: usize = 5;
    (0..USES)
        .map(|_| {
            use_it();
            used()
        })
        .find(|there| *there <= most)
        .unwrap_or_else(used)
}

fn use_of_the_pool() {
    drop(bytes(2 * MIB));
}

fn use_of_a_small_cell() {
    drop(bytes(100));
}

fn use_of_a_name() {
    drop(named("supervisor"));
}

#[test]
fn a_large_array_takes_the_memory_of_the_dead_workers_back() {
    watched(POOL, || the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_the_pool));
}

#[test]
fn a_small_array_takes_the_memory_of_the_dead_workers_back() {
    watched(POOL, || the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_a_small_cell));
}

#[test]
fn a_named_array_takes_the_memory_of_the_dead_workers_back() {
    watched(POOL, || the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_a_name));
}

#[test]
fn an_array_takes_the_memory_of_killed_workers_back() {
    watched(POOL, || the_dead_leave_at_most_what_one_held(work, End::Killed, use_of_the_pool));
}

#[test]
fn an_array_takes_the_memory_of_dead_workers_without_pools_back() {
    watched(Pool::Off, || {
        let work = || std::mem::forget([bytes(3 * MIB), bytes(2 * MIB)]);
        the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_the_pool);
    });
}

/// A child inherits that the first sweep was made, and may be a supervisor itself.
#[test]
fn a_forked_supervisor_takes_the_memory_of_its_dead_workers_back() {
    watched(POOL, || {
        drop(bytes(10)); // the first use, with its sweep, is over
        fork(|| the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_the_pool)).ended();
    });
}

/// The supervisor makes nothing. It receives what each worker sent before it ended.
#[test]
fn a_receive_takes_the_memory_of_the_dead_workers_back() {
    watched(POOL, || {
        let (here, there) = Pipe::pair().unwrap();
        let work_and_send = || {
            work();
            there.send(b"done", &[&bytes(MIB)], None).unwrap();
        };
        let receive = || match here.receive(None).unwrap() {
            Received::Message(message) => drop(message.array(0, Access::ReadOnly).unwrap()),
            other => panic!("{other:?}"),
        };
        work_and_send();
        // What the first worker sent is received after the second has ended, and so on, so there is
        // one message more.
        the_dead_leave_at_most_what_one_held(work_and_send, End::Abrupt, receive);
        receive();
    });
}

/// The supervisor only forks and reaps. A worker's own use gives back what the earlier workers
/// left.
#[test]
fn a_worker_takes_the_memory_of_those_before_it_back() {
    watched(POOL, || {
        drop(bytes(10));
        let own = used();
        let of_one = one_workers_bytes(work);
        for round in 0..WORKERS {
            wait_for(format!("worker {round}"));
            worker_comes_and_goes(work, End::Abrupt);
            let there = used();
            assert!(
                there <= own + 2 * of_one + SLACK,
                "{there} bytes are there after worker {round}: \
                 {own} are the supervisor's, {of_one} what a worker held"
            );
        }
        shmarray::sweep().unwrap();
    });
}

const LIVING: usize = 4;

/// As in a pool of processes, a dead worker is replaced at once, and the others live on.
#[test]
fn beside_living_workers_the_dead_leave_at_most_what_one_held() {
    watched(POOL, || {
        wait_for("the supervisor's first use");
        use_of_the_pool();
        let own = used();
        let of_one = one_workers_bytes(work);
        let mut living: VecDeque<Forked> = (0..LIVING).map(|_| resting_after(work)).collect();
        for round in 0..WORKERS {
            wait_for(format!("worker {round}, and what its supervisor does then"));
            living.pop_front().unwrap().kill();
            living.push_back(resting_after(work));
            use_of_the_pool();
            let there = used();
            let most = own + (LIVING as u64 + 1) * of_one + SLACK;
            assert!(
                there <= most,
                "{there} bytes are there after worker {round}, more than {most}"
            );
        }
        living.into_iter().for_each(Forked::kill);
        shmarray::sweep().unwrap();
    });
}

/// The supervisor exits, and no process of its family uses the library after it.
#[test]
fn the_end_of_a_supervisor_takes_the_memory_of_its_dead_workers_back() {
    watched(POOL, || {
        drop(bytes(10));
        let own = used();
        let of_one = one_workers_bytes(work);
        let supervisor = || {
            drop(bytes(10));
            (0..5).for_each(|_| worker_comes_and_goes(work, End::Abrupt));
        };
        fork(supervisor).ended();
        let there = used();
        assert!(
            there <= own + of_one + SLACK,
            "{there} bytes are there, and a worker held {of_one}"
        );
        shmarray::sweep().unwrap();
    });
}
