//! Three hundred workers die one after the other, and what they leave stays little.

use std::thread;

use shmarray::{Access, Array};

use super::{ALONE, Gate, used_bytes};
use crate::support::{Forked, bytes, directory, fork, scenario, segments_in};

/// The arrays of its own that each worker leaves.
const OWN: usize = 3;
const WORKERS: usize = 300;
/// The creates between two sweeps of a process. There are more only where so many segments are in
/// use, because a sweep examines each (sweep.rs).
const CREATES_BETWEEN_SWEEPS: usize = 64;
/// While the supervisor makes one array for each worker, so many workers may have died since its
/// last sweep, each of which left its own arrays; the supervisor's arrays are added.
const MOST_FILES: usize = (CREATES_BETWEEN_SWEEPS + 1) * OWN + 2;

/// Holds what it got from the supervisor, by its fork and once more, and its own arrays, until it
/// is killed.
fn work(handed: &Array, has_all: &Gate) -> Forked {
    fork(|| {
        has_all.say(|| {
            let again = Array::attach(&handed.handle(), Access::ReadWrite).unwrap();
            again.set(&[0], again.get::<u8>(&[0]).unwrap().wrapping_add(1)).unwrap();
            std::mem::forget((again, [(); OWN].map(|()| bytes(ALONE))));
        });
        loop {
            thread::park();
        }
    })
}

/// A supervisor's life: workers come and are killed one after the other. Returns the most files and
/// bytes that there were at once, with the handed array.
fn supervise(handed: &Array, mut worker_comes_and_dies: impl FnMut()) -> (usize, u64) {
    let one = |round: usize| {
        worker_comes_and_dies();
        drop(bytes(ALONE)); // the supervisor's own work
        assert_eq!(handed.get::<u8>(&[0]).unwrap(), (round + 1) as u8, "each worker had it");
        (segments_in(&directory()).len(), used_bytes())
    };
    let rounds: Vec<_> = (0..WORKERS).map(one).collect();
    (
        rounds.iter().map(|round| round.0).max().unwrap(),
        rounds.iter().map(|round| round.1).max().unwrap(),
    )
}

fn stays_within_the_sweep_interval((files, used): (usize, u64), bytes_of_one: u64) {
    shmarray::sweep().unwrap(); // what the last of them left
    assert!(files <= MOST_FILES, "{files} files at once, more than {MOST_FILES}");
    assert!(used <= MOST_FILES as u64 * bytes_of_one, "{used} bytes at once");
}

#[test]
fn dead_workers_of_a_supervisor_leave_no_more_than_a_sweep_interval_allows() {
    scenario(|| {
        let handed = bytes(ALONE);
        let has_all = Gate::new();
        let bytes_of_one = used_bytes();
        let most = supervise(&handed, || {
            let worker = work(&handed, &has_all);
            has_all.wait(1);
            worker.kill();
        });
        stays_within_the_sweep_interval(most, bytes_of_one);
    });
}

/// A forkserver that has used the library forks the workers. So none of them is the first to use
/// it, and the creates of one do not count for the next. Only the supervisor sweeps.
#[test]
fn dead_workers_of_a_forkserver_leave_no_more_than_a_sweep_interval_allows() {
    scenario(|| {
        let handed = bytes(ALONE);
        let gates = [(); 3].map(|()| Gate::new());
        let [next, has_all, is_dead] = &gates;
        let bytes_of_one = used_bytes();
        let forkserver = fork(|| {
            for _ in 0..WORKERS {
                next.wait(1);
                is_dead.say(|| {
                    let worker = work(&handed, has_all);
                    has_all.wait(1);
                    worker.kill();
                });
            }
        });
        let most = supervise(&handed, || {
            next.open(1);
            is_dead.wait(1);
        });
        forkserver.ended();
        stays_within_the_sweep_interval(most, bytes_of_one);
    });
}
