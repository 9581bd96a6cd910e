//! Idle pools leave room for others, and `segments` lists what they keep.

use super::supervisors::{End, worker_comes_and_goes};
use super::{MIB, POOL};
use crate::support::{Peer, bytes, directory, serve};
use crate::watched::{Pool, used, used_in_own_memory, wait_for, watched, watched_in_own_memory};

/// Makes an array of the size that it is told, in bytes, drops it, and is idle then.
#[test]
#[ignore = "it is another process of the tests"]
fn idler() {
    serve(|size| {
        drop(bytes(size.parse().unwrap()));
        "idle".to_owned()
    });
}

const MEMORY: u64 = 64 * MIB;

/// Starts processes that have used as much as their own pools may keep, and are idle now.
fn idle_processes(count: usize) -> Vec<Peer> {
    let mut idle: Vec<_> = (0..count).map(|_| Peer::start(idler)).collect();
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
    watched_in_own_memory(MEMORY, Pool::Default, || a_foreign_write_finds_room(4));
}

#[test]
fn the_pools_of_twelve_idle_processes_leave_a_quarter_of_the_memory_to_others() {
    watched_in_own_memory(MEMORY, Pool::Default, || a_foreign_write_finds_room(12));
}

#[test]
fn an_array_that_needs_most_of_the_memory_takes_it_from_idle_pools() {
    watched_in_own_memory(MEMORY, Pool::Default, || {
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
    watched(POOL, || {
        let mut idler = Peer::start(idler);
        idler.ask(&(8 * MIB).to_string());
        let kept = used();
        let listed = listed();
        assert!(kept >= 8 * MIB, "it keeps {kept} bytes only");
        assert!(listed >= 8 * MIB, "{listed} bytes are listed and {kept} are there");
        idler.end();
    });
}

#[test]
fn segments_accounts_for_what_a_dead_process_left() {
    watched(POOL, || {
        drop(bytes(10));
        worker_comes_and_goes(|| drop(bytes(8 * MIB)), End::Abrupt);
        let left = used();
        let listed = listed();
        assert!(listed >= left.min(8 * MIB), "{listed} bytes are listed and {left} are there");
        shmarray::sweep().unwrap();
    });
}
