//! What a process has alone, it writes to in place; a fork gives each side what there was, and its
//! own later stores.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

use shmarray::{Access, Array, Pipe};

use crate::exchange::{ALONE, is_empty, mark, marked, marks, receive, send};
use crate::support::{Forked, directory, fork, scenario};
use crate::watched::{Pool, wait_for, watched};

/// The sizes of arrays in two classes of cells, and of one too large for a shared slab.
const SIZES: [u64; 3] = [10, 5_000, ALONE];

/// Returns an array that this process alone has.
fn owned(count: u64, mark: u8) -> Array {
    let made = marked(count, mark);
    Array::attach_descriptor(&made.descriptor(), Access::Owned).unwrap()
}

fn set(array: &Array, mark: u8) {
    array.set(&[0], mark).unwrap();
    array.set(&[array.shape()[0] - 1], mark).unwrap();
}

/// Two ends by which processes wait for each other.
struct Turns(Pipe, Pipe);

impl Turns {
    fn new() -> Self {
        let (one, other) = Pipe::pair().unwrap();
        Self(one, other)
    }

    fn childs_turn(&self) {
        send(&self.0, &[]);
        receive(&self.0);
    }

    fn parents_turn(&self) {
        send(&self.1, &[]);
        receive(&self.1);
    }
}

#[test]
fn each_side_of_a_fork_has_what_there_was_and_its_own_stores() {
    watched(Pool::Default, || {
        for count in SIZES {
            wait_for(format!("{count} bytes"));
            let array = owned(count, 7);
            set(&array, 8);
            let turns = Turns::new();
            let child = fork(|| {
                receive(&turns.1);
                assert_eq!(marks(&array), [8, 8], "as it was at the fork");
                set(&array, 10);
                let grandchild = fork(|| {
                    assert_eq!(marks(&array), [10, 10]);
                    set(&array, 11);
                });
                grandchild.ended();
                assert_eq!(marks(&array), [10, 10]);
                turns.parents_turn();
                assert_eq!(marks(&array), [10, 10]);
            });
            set(&array, 9);
            turns.childs_turn();
            assert_eq!(marks(&array), [9, 9]);
            set(&array, 12);
            send(&turns.0, &[]);
            child.ended();
            assert_eq!(marks(&array), [12, 12]);
        }
    });
}

#[test]
fn it_has_no_handle_and_its_stores_go_to_its_memory() {
    scenario(|| {
        for count in SIZES {
            let made = marked(count, 7);
            let array = Array::attach_descriptor(&made.descriptor(), Access::Owned).unwrap();
            assert!(!array.is_readonly());
            set(&array, 8);
            assert_eq!(marks(&made), [8, 8], "it is no copy");
            let address = array.as_ptr() as usize;
            assert!(Array::over_memory(address, array.dtype().clone(), &[count], &[1]).is_none());
            drop(made);
            assert_eq!(marks(&array), [8, 8], "it holds the memory");
            drop(array);
            assert!(is_empty());
        }
    });
}

/// Lets messages have an array of which nothing is used any more.
fn begin_move(array: &Array) -> bool {
    // SAFETY: the tests read and write its elements no more.
    unsafe { array.begin_move() }
}

#[test]
fn what_is_moved_goes_there_and_back_without_a_copy() {
    watched(Pool::Off, || {
        for count in SIZES {
            wait_for(format!("{count} bytes"));
            let array = owned(count, 7);
            let (here, there) = Pipe::pair().unwrap();
            let child = fork(|| {
                let array = receive(&there).array(0, Access::Owned).unwrap();
                assert_eq!(marks(&array), [8, 8]);
                set(&array, 9);
                assert!(begin_move(&array));
                send(&there, &[&array]);
            });
            assert!(!begin_move(&array), "the fork has frozen it");
            drop(array);
            let array = owned(count, 8);
            let other = array.clone();
            assert!(!begin_move(&array), "another array has the memory");
            drop(other);
            let copied = shmarray::copied_bytes();
            assert!(array.descriptor_to_send().is_err());
            assert!(begin_move(&array));
            send(&here, &[&array]);
            drop(array);
            let array = receive(&here).array(0, Access::Owned).unwrap();
            assert_eq!(marks(&array), [9, 9]);
            assert_eq!(shmarray::copied_bytes(), copied);
            child.ended();
            assert!(begin_move(&array), "the child has given it back");
            drop(array);
            assert!(is_empty());
        }
    });
}

/// A fork between the move and the drop: the child has a hold, and no array.
#[test]
fn what_is_moved_beside_a_fork_is_the_receivers_alone() {
    watched(Pool::Off, || {
        let (here, there) = Pipe::pair().unwrap();
        let array = owned(ALONE, 7);
        assert!(begin_move(&array));
        send(&here, &[&array]);
        let array = Cell::new(Some(array)); // each side has it
        let turns = Turns::new();
        let child = fork(|| {
            receive(&turns.1);
            drop(array.take());
            turns.parents_turn();
        });
        drop(array.take());
        let received = receive(&there).array(0, Access::Owned).unwrap();
        assert_eq!(marks(&received), [7, 7]);
        set(&received, 8);
        turns.childs_turn();
        assert_eq!(marks(&received), [8, 8]);
        send(&turns.0, &[]);
        child.ended();
        drop(received);
        assert!(is_empty());
    });
}

/// The next array in memory that was frozen, and to which a process stored privately.
#[test]
fn the_next_array_in_a_frozen_cell_is_itself() {
    watched(Pool::Default, || {
        for count in SIZES {
            let (here, there) = Pipe::pair().unwrap();
            for round in 0..20 {
                wait_for(format!("round {round} of {count} bytes"));
                send(&here, &[&marked(count, round)]);
                let array = receive(&there).array(0, Access::Owned).unwrap();
                assert_eq!(mark(&array), round);
                set(&array, 100 + round);
                let child = fork(|| {
                    assert_eq!(mark(&array), 100 + round);
                    set(&array, 200);
                });
                child.ended();
                set(&array, 150 + round);
                assert_eq!(mark(&array), 150 + round);
                drop(array);
                let next = marked(count, round);
                let access = Access::CopyOnWrite;
                let array = Array::attach_descriptor(&next.descriptor(), access).unwrap();
                assert_eq!(mark(&array), round);
            }
        }
    });
}

/// A child that still has an array keeps its cell from the next one.
#[test]
fn a_frozen_cell_is_free_when_both_sides_have_dropped_it() {
    watched(Pool::Default, || {
        for count in SIZES {
            let mut array = Some(owned(count, 7));
            let turns = Turns::new();
            let child = fork(|| {
                receive(&turns.1);
                assert_eq!(mark(array.as_ref().unwrap()), 7);
                drop(array.take());
                turns.parents_turn();
            });
            drop(array.take());
            let others: Vec<_> = (0..20).map(|_| marked(count, 1)).collect();
            turns.childs_turn();
            assert!(others.iter().all(|one| mark(one) == 1));
            drop(others);
            send(&turns.0, &[]);
            child.ended();
        }
    });
}

/// Threads store to arrays while the process forks: each store is kept.
#[test]
fn no_store_beside_a_fork_is_lost() {
    const ROUNDS: usize = 60;
    const PAGES: u64 = 64;
    watched(Pool::Default, || {
        for round in 0..ROUNDS {
            wait_for(format!("round {round}"));
            let array = owned(PAGES * 4096, 0);
            let is_over = AtomicBool::new(false);
            let at = |page: u64| {
                let first = array.as_ptr().cast::<AtomicU8>();
                // SAFETY: the array has the page, is mapped while `array` lives, and is accessed by
                // atomics alone here.
                unsafe { &*first.wrapping_add(page as usize * 4096 + 9) }
            };
            let stores = thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut stores = 0_u64;
                    while !is_over.load(Ordering::Relaxed) || stores < 2 * PAGES {
                        at(stores % PAGES).fetch_add(1, Ordering::Relaxed);
                        stores += 1;
                    }
                    stores
                });
                while at(PAGES - 1).load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
                let child = fork(|| ());
                is_over.store(true, Ordering::Relaxed);
                child.ended();
                writer.join().unwrap()
            });
            for page in 0..PAGES {
                let expected = stores / PAGES + u64::from(page < stores % PAGES);
                assert_eq!(at(page).load(Ordering::Relaxed), expected as u8, "page {page}");
            }
        }
    });
}

/// Forks, and checks that a store of the child is its own.
fn sides_differ(array: &Array) {
    let before = mark(array);
    let child = fork(|| {
        assert_eq!(mark(array), before);
        set(array, 255);
    });
    child.ended();
    assert_eq!(mark(array), before);
}

fn sides_differ_with_fds(left: usize, hard_limit: u64) {
    watched(Pool::Default, || {
        let arrays = SIZES.map(|count| owned(count, 7));
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: hard_limit };
        // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it
        // and is only read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let open = || fs::File::open("/dev/null").ok();
        let mut taken: Vec<_> = std::iter::from_fn(open).collect();
        taken.truncate(taken.len() - left);
        arrays.iter().for_each(sides_differ);
        drop(taken);
        for array in arrays {
            let count = array.shape()[0];
            drop(array); // the next array in its memory is itself
            let next = marked(count, 9);
            for access in [Access::CopyOnWrite, Access::Owned] {
                let array = Array::attach_descriptor(&next.descriptor(), access).unwrap();
                assert_eq!(mark(&array), 9);
            }
        }
    });
}

#[test]
fn a_fork_without_a_free_fd_keeps_the_sides_apart() {
    sides_differ_with_fds(0, 1024);
}

#[test]
fn a_fork_that_can_have_no_fd_keeps_the_sides_apart() {
    sides_differ_with_fds(0, 64);
}

#[test]
fn a_fork_whose_only_fd_is_needed_for_the_child_keeps_the_sides_apart() {
    sides_differ_with_fds(1, 64);
}

/// Limits the address space to so much more than there is, or to nothing.
fn limit_address_space(more: Option<u64>) {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let most = more.map_or(libc::RLIM_INFINITY, |more| pages * 4096 + more);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it and
    // is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// The child has no memory there, and the parent goes on; later forks can freeze it.
#[test]
fn a_fork_that_finds_no_memory_leaves_the_array_to_its_process() {
    watched(Pool::Default, || {
        let array = owned(1 << 20, 7);
        limit_address_space(Some(256 << 10));
        let child = fork(|| {
            // SAFETY: setting a disposition touches no memory of this process.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            limit_address_space(None);
            drop(vec![0_u8; 8 << 20]); // nothing else may come to lie there
            // SAFETY: the address was one of an array; here the store is a fault, which ends this
            // process.
            unsafe { array.as_ptr().write_volatile(8) };
        });
        child.ended_by(libc::SIGSEGV);
        let child = fork(|| {
            limit_address_space(None);
            drop(array.clone());
            let next = owned(1 << 20, 3);
            assert_eq!(mark(&next), 3);
        });
        child.ended();
        limit_address_space(None);
        assert_eq!(mark(&array), 7);
        sides_differ(&array);
        set(&array, 9);
        sides_differ(&array);
    });
}

#[test]
fn a_fork_keeps_the_sides_apart_when_another_program_has_removed_the_files() {
    watched(Pool::Default, || {
        let arrays = SIZES.map(|count| owned(count, 7));
        for entry in fs::read_dir(directory()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        arrays.iter().for_each(sides_differ);
    });
}

unsafe extern "C" {
    /// Forks without any handler.
    fn _Fork() -> i32;
}

/// A fork of which this library is not told: its child has no memory there, and not the parent's.
#[test]
fn a_child_of_which_nobody_was_told_has_no_owned_array() {
    scenario(|| {
        let array = owned(ALONE, 7);
        // SAFETY: the child uses no lock and allocates nothing: it stores, and ends.
        let child = unsafe { _Fork() };
        if child == 0 {
            // SAFETY: setting a disposition touches no memory of this process.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            // SAFETY: the address was one of an array; here the store is a fault, which ends this
            // process.
            unsafe { array.as_ptr().write_volatile(8) };
            // SAFETY: it ends this process.
            unsafe { libc::_exit(0) };
        }
        Forked::of(child).ended_by(libc::SIGSEGV);
        assert_eq!(mark(&array), 7);
    });
}

/// The mapping of an array that was dropped serves the next message, in parent and child.
#[test]
fn a_cached_mapping_serves_both_sides_of_a_fork() {
    watched(Pool::Default, || {
        let (here, there) = Pipe::pair().unwrap();
        let come_and_go = |number: u8| {
            send(&here, &[&marked(ALONE, number)]);
            let array = receive(&there).array(0, Access::Owned).unwrap();
            assert_eq!(mark(&array), number);
            set(&array, number + 1);
            sides_differ(&array);
        };
        let sent_and_dropped = |number: u8| {
            send(&here, &[&marked(ALONE, number)]);
            let array = receive(&there).array(0, Access::Owned).unwrap();
            assert_eq!(mark(&array), number);
        };
        sent_and_dropped(1);
        fork(|| {
            sent_and_dropped(3);
            come_and_go(5);
            sent_and_dropped(7);
        })
        .ended();
        sent_and_dropped(9);
        come_and_go(11);
        sent_and_dropped(13);
    });
}

#[test]
fn a_program_that_is_started_changes_nothing() {
    scenario(|| {
        let made = marked(ALONE, 7);
        let array = Array::attach_descriptor(&made.descriptor(), Access::Owned).unwrap();
        assert!(Command::new("true").status().unwrap().success());
        set(&array, 8);
        assert_eq!([mark(&array), mark(&made)], [8, 8]);
    });
}

/// What was attached copy-on-write, because others could have it, becomes this process's own.
#[test]
fn memory_is_owned_when_nobody_else_has_it_and_no_page_was_stored_to() {
    scenario(|| {
        let mut made = Some(marked(ALONE, 7));
        let attach = |made: &Option<Array>| {
            let descriptor = made.as_ref().unwrap().descriptor();
            Array::attach_descriptor(&descriptor, Access::CopyOnWrite).unwrap()
        };
        let [stored, array] = [0; 2].map(|_| attach(&made));
        set(&stored, 8);
        assert!(!array.own(), "others have it");
        let descriptor = made.take().unwrap().descriptor();
        assert!(!array.own(), "this process has it twice");
        drop(array);
        assert!(!stored.own(), "a page is its own");
        assert_eq!(mark(&stored), 8);
        let array = Array::attach_descriptor(&descriptor, Access::CopyOnWrite).unwrap();
        drop(stored);
        assert_eq!(array.own(), is_scanned());
        assert_eq!(mark(&array), 7);
        set(&array, 9);
        let again = Array::attach_descriptor(&descriptor, Access::ReadOnly).unwrap();
        assert_eq!(mark(&again), if is_scanned() { 9 } else { 7 });
        drop(again);
        sides_differ(&array);
    });
}

/// Memory that was owned late leaves no mapping behind: the next attach would not find it.
#[test]
fn what_is_attached_and_owned_again_and_again_takes_no_more_mappings() {
    watched(Pool::Default, || {
        for round in 0..40 {
            let made = marked(ALONE, round);
            let descriptor = made.descriptor();
            let array = Array::attach_descriptor(&descriptor, Access::CopyOnWrite).unwrap();
            drop(made);
            let _ = array.own();
            assert_eq!(mark(&array), round);
        }
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let ours = maps.lines().filter(|line| line.contains("/shmarray-")).count();
        assert!(ours < 10, "{ours} mappings");
    });
}

/// Whether the kernel tells which pages were stored to: since Linux 6.7.
fn is_scanned() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|text| text.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
}
