//! Workers die without notice: their memory comes back without a sweep by hand, and their deaths
//! pin nothing.
#![cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))] // it needs the kernel
#![allow(missing_docs, unsafe_code)]

mod support;
#[path = "support/watched.rs"]
mod watched;

use shmarray::{Access, Array, DType, Options, Pipe, Received};
use support::{Forked, Peer, directory, fork, is_peer, serve};
use watched::{
    Gate, Pool, become_user, end_abruptly, rest, used, used_in_own_memory, wait_for, watched,
    watched_in_own_memory,
};

const MIB: u64 = 1 << 20;

fn bytes(count: u64) -> Array {
    Array::create(DType::parse("|u1").unwrap(), &[count], &Options::default()).unwrap()
}

fn named(name: &str) -> Array {
    let options = Options { name: Some(name.to_owned()), ..Options::default() };
    Array::create(DType::parse("|u1").unwrap(), &[MIB], &options).unwrap()
}

fn text(array: &Array) -> String {
    array.handle()
}

const WORKERS: usize = 60;
/// A pool that has room for more than all of the dead workers leave.
const POOL: Pool = Pool::Bytes(1 << 30);
/// Headers, registries and small cells, in addition to what is measured.
const SLACK: u64 = MIB;

/// How a worker ends.
#[derive(Debug, Clone, Copy)]
enum End {
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
fn worker_comes_and_goes(work: impl FnOnce(), end: End) {
    match end {
        End::Abrupt => fork(|| {
            work();
            end_abruptly()
        })
        .ended(),
        End::Killed => {
            let worked = Gate::new();
            let worker = fork(|| {
                work();
                worked.open();
                rest()
            });
            worked.wait();
            worker.kill();
        }
    }
}

/// Returns the bytes that one worker has at the end of its work.
fn one_workers_bytes(work: impl FnOnce()) -> u64 {
    let before = used();
    let worked = Gate::new();
    let worker = fork(|| {
        work();
        worked.open();
        rest()
    });
    worked.wait();
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
    let (own, of_one) = (used(), one_workers_bytes(&work));
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
    watched("a_large_array_takes_the_memory_of_the_dead_workers_back", POOL, || {
        the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_the_pool);
    });
}

#[test]
fn a_small_array_takes_the_memory_of_the_dead_workers_back() {
    watched("a_small_array_takes_the_memory_of_the_dead_workers_back", POOL, || {
        the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_a_small_cell);
    });
}

#[test]
fn a_named_array_takes_the_memory_of_the_dead_workers_back() {
    watched("a_named_array_takes_the_memory_of_the_dead_workers_back", POOL, || {
        the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_a_name);
    });
}

#[test]
fn an_array_takes_the_memory_of_killed_workers_back() {
    watched("an_array_takes_the_memory_of_killed_workers_back", POOL, || {
        the_dead_leave_at_most_what_one_held(work, End::Killed, use_of_the_pool);
    });
}

#[test]
fn an_array_takes_the_memory_of_dead_workers_without_pools_back() {
    watched("an_array_takes_the_memory_of_dead_workers_without_pools_back", Pool::Off, || {
        let work = || std::mem::forget([bytes(3 * MIB), bytes(2 * MIB)]);
        the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_the_pool);
    });
}

/// A child inherits that the first sweep was made, and may be a supervisor itself.
#[test]
fn a_forked_supervisor_takes_the_memory_of_its_dead_workers_back() {
    watched("a_forked_supervisor_takes_the_memory_of_its_dead_workers_back", POOL, || {
        drop(bytes(10)); // the first use, with its sweep, is over
        fork(|| the_dead_leave_at_most_what_one_held(work, End::Abrupt, use_of_the_pool)).ended();
    });
}

/// The supervisor makes nothing. It receives what each worker sent before it ended.
#[test]
fn a_receive_takes_the_memory_of_the_dead_workers_back() {
    watched("a_receive_takes_the_memory_of_the_dead_workers_back", POOL, || {
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
    watched("a_worker_takes_the_memory_of_those_before_it_back", POOL, || {
        drop(bytes(10));
        let (own, of_one) = (used(), one_workers_bytes(work));
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
    watched("beside_living_workers_the_dead_leave_at_most_what_one_held", POOL, || {
        wait_for("the supervisor's first use");
        use_of_the_pool();
        let (own, of_one) = (used(), one_workers_bytes(work));
        let worked = Gate::new();
        let start = || {
            let worker = fork(|| {
                work();
                worked.open();
                rest()
            });
            worked.wait();
            worker
        };
        let mut living: std::collections::VecDeque<Forked> = (0..LIVING).map(|_| start()).collect();
        for round in 0..WORKERS {
            wait_for(format!("worker {round}, and what its supervisor does then"));
            living.pop_front().unwrap().kill();
            living.push_back(start());
            use_of_the_pool();
            let (there, most) = (used(), own + (LIVING as u64 + 1) * of_one + SLACK);
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
    watched("the_end_of_a_supervisor_takes_the_memory_of_its_dead_workers_back", POOL, || {
        drop(bytes(10));
        let (own, of_one) = (used(), one_workers_bytes(work));
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

/// Makes an array of the size that it is told, in bytes, drops it, and is idle then.
#[test]
#[ignore = "it is another process of the tests"]
fn idler() {
    if !is_peer("idler") {
        return;
    }
    serve(|size| {
        drop(bytes(size.parse().unwrap()));
        "idle".to_owned()
    });
}

const MEMORY: u64 = 64 * MIB;

/// Starts processes that have used as much as their own pools may keep, and are idle now.
fn idle_processes(count: usize) -> Vec<Peer> {
    let mut idle: Vec<_> = (0..count).map(|_| Peer::start("idler")).collect();
    for idler in &mut idle {
        wait_for("an idle process");
        assert_eq!(idler.ask(&(MEMORY / 4 - MIB).to_string()), "idle");
    }
    idle
}

/// Writes as a program does that does not know this library, and cannot ask any process to give
/// memory back.
fn a_foreign_write_finds_room(processes: usize) {
    let idle = idle_processes(processes);
    let kept = used_in_own_memory();
    let written = std::fs::write(directory().join("foreign"), vec![1; (MEMORY / 4) as usize]);
    assert!(
        written.is_ok(),
        "{written:?}: {processes} idle processes keep {kept} of {MEMORY} bytes"
    );
    std::fs::remove_file(directory().join("foreign")).unwrap();
    idle.into_iter().for_each(Peer::end);
}

#[test]
fn the_pools_of_four_idle_processes_leave_a_quarter_of_the_memory_to_others() {
    let name = "the_pools_of_four_idle_processes_leave_a_quarter_of_the_memory_to_others";
    watched_in_own_memory(name, MEMORY, Pool::Default, || a_foreign_write_finds_room(4));
}

#[test]
fn the_pools_of_twelve_idle_processes_leave_a_quarter_of_the_memory_to_others() {
    let name = "the_pools_of_twelve_idle_processes_leave_a_quarter_of_the_memory_to_others";
    watched_in_own_memory(name, MEMORY, Pool::Default, || a_foreign_write_finds_room(12));
}

#[test]
fn an_array_that_needs_most_of_the_memory_takes_it_from_idle_pools() {
    let name = "an_array_that_needs_most_of_the_memory_takes_it_from_idle_pools";
    watched_in_own_memory(name, MEMORY, Pool::Default, || {
        let idle = idle_processes(4);
        wait_for("a large array");
        let array = bytes(MEMORY / 8 * 7);
        array.set(&[MEMORY / 8 * 7 - 1], 1u8).unwrap();
        drop(array);
        idle.into_iter().for_each(Peer::end);
    });
}

/// Returns the bytes that `segments` lists.
fn listed() -> u64 {
    shmarray::segments().unwrap().iter().map(|info| info.segment_bytes).sum()
}

#[test]
fn segments_accounts_for_what_an_idle_pool_keeps() {
    watched("segments_accounts_for_what_an_idle_pool_keeps", POOL, || {
        let mut idler = Peer::start("idler");
        idler.ask(&(8 * MIB).to_string());
        let (kept, listed) = (used(), listed());
        assert!(kept >= 8 * MIB, "it keeps {kept} bytes only");
        assert!(listed >= 8 * MIB, "{listed} bytes are listed and {kept} are there");
        idler.end();
    });
}

#[test]
fn segments_accounts_for_what_a_dead_process_left() {
    watched("segments_accounts_for_what_a_dead_process_left", POOL, || {
        drop(bytes(10));
        worker_comes_and_goes(|| drop(bytes(8 * MIB)), End::Abrupt);
        let (left, listed) = (used(), listed());
        assert!(listed >= left.min(8 * MIB), "{listed} bytes are listed and {left} are there");
        shmarray::sweep().unwrap();
    });
}

/// Attaches each handle of a line and drops all of them, so that its process may keep them mapped.
#[test]
#[ignore = "it is another process of the tests"]
fn reader() {
    if !is_peer("reader") {
        return;
    }
    serve(|line| {
        let attached =
            line.split('\t').map(|handle| Array::attach(handle, Access::ReadOnly).unwrap());
        format!("had {}", attached.collect::<Vec<_>>().len())
    });
}

/// Arrays that an unrelated process had once and that dead children held. When their maker drops
/// them nobody holds them, and a sweep gives their memory back while the unrelated process lives
/// on.
fn the_dead_do_not_pin(arrays: Vec<Array>, die: impl FnOnce()) {
    let mut reader = Peer::start("reader");
    for some in arrays.chunks(100) {
        wait_for("a reader");
        let handles = some.iter().map(text).collect::<Vec<_>>().join("\t");
        assert_eq!(reader.ask(&handles), format!("had {}", some.len()));
    }
    die();
    let before = used_in_own_memory();
    drop(arrays);
    wait_for("a sweep");
    shmarray::sweep().unwrap();
    let after = used_in_own_memory();
    assert!(after <= 2 * MIB, "{after} of {before} bytes stay, though nobody holds them");
    reader.end();
}

fn children_die(count: usize) {
    for child in 0..count {
        wait_for(format!("child {child}"));
        fork(|| end_abruptly()).ended();
    }
}

#[test]
fn small_arrays_that_dead_children_held_are_given_back() {
    watched_in_own_memory(
        "small_arrays_that_dead_children_held_are_given_back",
        256 * MIB,
        POOL,
        || {
            the_dead_do_not_pin((0..1000).map(|_| bytes(30_000)).collect(), || children_die(40));
        },
    );
}

#[test]
fn large_arrays_that_dead_children_held_are_given_back() {
    watched_in_own_memory(
        "large_arrays_that_dead_children_held_are_given_back",
        256 * MIB,
        POOL,
        || {
            the_dead_do_not_pin((0..4).map(|_| bytes(8 * MIB)).collect(), || children_die(300));
        },
    );
}

/// The child has exited: nobody touches any more what its other threads might have touched then.
#[test]
fn arrays_that_an_ended_child_held_are_given_back() {
    watched_in_own_memory(
        "arrays_that_an_ended_child_held_are_given_back",
        256 * MIB,
        POOL,
        || {
            the_dead_do_not_pin((0..1000).map(|_| bytes(30_000)).collect(), || fork(|| {}).ended());
        },
    );
}

/// Those that die are not all children of the process that made the arrays.
#[test]
fn arrays_that_dead_grandchildren_held_are_given_back() {
    watched_in_own_memory(
        "arrays_that_dead_grandchildren_held_are_given_back",
        256 * MIB,
        POOL,
        || {
            the_dead_do_not_pin((0..1000).map(|_| bytes(30_000)).collect(), || {
                fork(|| {
                    children_die(40);
                    end_abruptly()
                })
                .ended();
            });
        },
    );
}

/// Makes every fork fail, as for a user who may have no more processes.
fn forks_fail(count: usize) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it and
    // is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &none) }, 0);
    for _ in 0..count {
        // SAFETY: a child of a fork may do little, but here the limit on processes makes the fork
        // fail.
        assert_eq!(unsafe { libc::fork() }, -1, "a fork that should fail");
    }
}

const USER: u32 = 64_321;

fn failed_forks_do_not_pin(arrays: impl Fn() -> Vec<Array>, count: usize) {
    fork(|| {
        become_user(USER);
        the_dead_do_not_pin(arrays(), || forks_fail(count));
    })
    .ended();
}

#[test]
fn small_arrays_that_children_of_failed_forks_would_have_held_are_given_back() {
    let name = "small_arrays_that_children_of_failed_forks_would_have_held_are_given_back";
    watched_in_own_memory(name, 256 * MIB, POOL, || {
        failed_forks_do_not_pin(|| (0..1000).map(|_| bytes(30_000)).collect(), 40);
    });
}

#[test]
fn large_arrays_that_children_of_failed_forks_would_have_held_are_given_back() {
    let name = "large_arrays_that_children_of_failed_forks_would_have_held_are_given_back";
    watched_in_own_memory(name, 256 * MIB, POOL, || {
        failed_forks_do_not_pin(|| (0..4).map(|_| bytes(8 * MIB)).collect(), 300);
    });
}
