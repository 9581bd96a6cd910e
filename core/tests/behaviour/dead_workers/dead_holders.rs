//! Arrays that dead processes held, or would have held, are given back.

use shmarray::{Access, Array};

use super::{MIB, POOL};
use crate::support::{Peer, bytes, fork, serve};
use crate::watched::{
    become_user, end_abruptly, used_in_own_memory, wait_for, watched_in_own_memory,
};

/// Attaches each handle of a line and drops all of them, so that its process may keep them mapped.
#[test]
#[ignore = "it is another process of the tests"]
fn reader() {
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
    let mut reader = Peer::start(reader);
    for some in arrays.chunks(100) {
        wait_for("a reader");
        let handles = some.iter().map(Array::handle).collect::<Vec<_>>().join("\t");
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
    watched_in_own_memory(256 * MIB, POOL, || {
        the_dead_do_not_pin((0..1000).map(|_| bytes(30_000)).collect(), || children_die(40));
    });
}

#[test]
fn large_arrays_that_dead_children_held_are_given_back() {
    watched_in_own_memory(256 * MIB, POOL, || {
        the_dead_do_not_pin((0..4).map(|_| bytes(8 * MIB)).collect(), || children_die(300));
    });
}

/// The child has exited: nobody touches any more what its other threads might have touched then.
#[test]
fn arrays_that_an_ended_child_held_are_given_back() {
    watched_in_own_memory(256 * MIB, POOL, || {
        the_dead_do_not_pin((0..1000).map(|_| bytes(30_000)).collect(), || fork(|| {}).ended());
    });
}

/// Those that die are not all children of the process that made the arrays.
#[test]
fn arrays_that_dead_grandchildren_held_are_given_back() {
    watched_in_own_memory(256 * MIB, POOL, || {
        the_dead_do_not_pin((0..1000).map(|_| bytes(30_000)).collect(), || {
            fork(|| {
                children_die(40);
                end_abruptly()
            })
            .ended();
        });
    });
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
    watched_in_own_memory(256 * MIB, POOL, || {
        failed_forks_do_not_pin(|| (0..1000).map(|_| bytes(30_000)).collect(), 40);
    });
}

#[test]
fn large_arrays_that_children_of_failed_forks_would_have_held_are_given_back() {
    watched_in_own_memory(256 * MIB, POOL, || {
        failed_forks_do_not_pin(|| (0..4).map(|_| bytes(8 * MIB)).collect(), 300);
    });
}
