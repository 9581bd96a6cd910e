//! The library allocates nothing in a fork, because a signal handler that forks may have
//! interrupted the program's own `malloc`, whose heap is inconsistent then.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::{bytes, directory, scenario, segments_in, use_directory};

/// Counts the requests of a thread that forks.
struct Counting;

thread_local! {
    /// The number of requests, while this thread is in a fork.
    static ASKED: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count() {
    let _ = ASKED.try_with(|asked| asked.set(asked.get().map(|times| times + 1)));
}

// SAFETY: the contract of an allocator is met, because the system's allocator does all of the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller makes the promises that the system's allocator asks for, and the
        // arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller makes the promises that the system's allocator asks for, and the
        // arguments are passed on unchanged.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of requests to the allocator in a fork: in the parent, and in the child.
fn asked_by_a_fork() -> (usize, usize) {
    ASKED.set(Some(0));
    // SAFETY: a child of a fork may do little, and this one does nothing but end.
    let child = unsafe { libc::fork() };
    let asked = ASKED.take().unwrap_or_default();
    if child == 0 {
        // SAFETY: the call cannot touch memory, because it takes a plain number and does not
        // return.
        unsafe { libc::_exit(asked.min(100) as i32) };
    }
    let mut status = 0;
    // SAFETY: the pointer is valid for the call, because it points to room for the status of a
    // child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    (asked, libc::WEXITSTATUS(status) as usize)
}

/// Forks more often than a table has entries, so that the entries of dead children must be cleared.
fn no_fork_allocates() {
    let held = [bytes(100), bytes(1_000_000)];
    let asked: Vec<_> = (0..300).map(|_| asked_by_a_fork()).collect();
    assert!(asked.iter().all(|asked| *asked == (0, 0)), "{asked:?}");
    drop(held);
}

#[test]
fn a_fork_allocates_nothing_also_when_tables_are_full_of_dead_children() {
    scenario(no_fork_allocates);
}

#[test]
fn a_fork_allocates_nothing_in_a_directory_with_a_long_path() {
    scenario(|| {
        let long = directory().join("d".repeat(200)).join("e".repeat(200));
        std::fs::create_dir_all(&long).unwrap();
        use_directory(&long);
        no_fork_allocates();
        assert_eq!(segments_in(&long), Vec::<String>::new());
        std::fs::remove_dir_all(long.parent().unwrap()).unwrap();
    });
}
