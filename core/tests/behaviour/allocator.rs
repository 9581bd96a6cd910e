//! Memory by its address: freed, used again, kept by a fork, and moved to whoever receives it.
#![cfg(linux_backend)] // it needs the pool
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::thread;

use shmarray::allocator::{self, Offer, allocate, size, stats};
use shmarray::{Access, Pipe};

use crate::exchange::{is_empty, marks, receive, send};
use crate::support::fork;
use crate::watched::{Pool, used_in_own_memory, wait_for, watched, watched_in_own_memory};

const MIB: usize = 1 << 20;

/// Memory that a test uses as a program would.
#[derive(Clone, Copy)]
struct Allocated(NonNull<u8>);

impl Allocated {
    fn new(bytes: usize) -> Self {
        Self(allocate(bytes, false).expect("the pool has room"))
    }

    fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    fn size(self) -> usize {
        size(self.address()).expect("it is in use")
    }

    fn at(self, at: usize) -> *mut u8 {
        self.0.as_ptr().wrapping_add(at)
    }

    /// Stores to the first byte and to the last.
    fn set(self, mark: u8) {
        for at in [0, self.size() - 1] {
            // SAFETY: it has that byte, and this process alone uses it.
            unsafe { self.at(at).write_volatile(mark) };
        }
    }

    fn get(self) -> [u8; 2] {
        // SAFETY: it has these bytes, and this process alone uses them.
        [0, self.size() - 1].map(|at| unsafe { self.at(at).read_volatile() })
    }

    fn free(self) {
        // SAFETY: the tests use it no more.
        assert!(unsafe { allocator::free(self.0) });
    }
}

#[test]
fn what_was_freed_is_used_again() {
    watched(Pool::Default, || {
        let first = Allocated::new(MIB);
        first.set(7);
        let second = Allocated::new(MIB);
        second.set(8);
        assert_eq!(first.get(), [7, 7]);
        first.free();
        assert_eq!(Allocated::new(MIB).address(), first.address());
        second.free();
        // SAFETY: the size is that of the allocation, which nobody else uses.
        let zeros = |at: NonNull<u8>| unsafe {
            std::slice::from_raw_parts(at.as_ptr(), MIB).iter().all(|byte| *byte == 0)
        };
        let again = allocate(MIB, true).unwrap();
        assert_eq!(again, second.0);
        assert!(zeros(again), "it was asked for zeros");
        let stats = stats();
        assert_eq!((stats.live, stats.allocations, stats.reused), (2, 4, 2));
    });
}

#[test]
fn all_sizes_are_there_to_the_last_byte() {
    watched(Pool::Default, || {
        let sizes = (0..40).map(|n| 1 + n * n * 4099 + (n << 12));
        let all: Vec<_> = sizes.map(|bytes| (bytes, Allocated::new(bytes))).collect();
        for (number, (bytes, one)) in all.iter().enumerate() {
            assert!(one.size() >= *bytes);
            one.set(number as u8);
        }
        for (number, (_, one)) in all.iter().enumerate() {
            assert_eq!(one.get(), [number as u8; 2]);
            one.free();
        }
        allocator::free_idle();
        assert_eq!(stats().idle_bytes, 0);
        assert!(all.iter().all(|(_, one)| size(one.address()).is_none()));
    });
}

#[test]
fn memory_of_another_allocator_is_left_alone() {
    watched(Pool::Default, || {
        let one = Allocated::new(MIB);
        let mut other = vec![7u8; 1 << 16];
        for at in [other.as_mut_ptr(), one.at(4096), one.at(1)] {
            // SAFETY: it is no allocation, so nothing is done.
            assert!(!unsafe { allocator::free(NonNull::new(at).unwrap()) });
            assert!(size(at as usize).is_none());
        }
        assert!(Offer::at(other.as_ptr() as usize).is_none());
        one.free();
    });
}

#[test]
fn what_was_freed_is_moved_and_what_is_in_use_is_copied() {
    watched(Pool::Default, || {
        let (here, there) = Pipe::pair().unwrap();
        let child = fork(|| {
            let message = receive(&there);
            let moved = message.array(0, Access::Owned).unwrap();
            assert_eq!(marks(&moved), [7, 7]);
            moved.set(&[0], 9u8).unwrap();
            let copied = message.array(1, Access::Owned).unwrap();
            assert_eq!(marks(&copied), [8, 8]);
            copied.set(&[0], 9u8).unwrap();
            send(&there, &[]);
        });
        let (freed, used) = (Allocated::new(MIB), Allocated::new(MIB));
        freed.set(7);
        used.set(8);
        let mut offers = [freed, used].map(|one| Offer::at(one.address() + 100).unwrap());
        assert!(Offer::at(freed.address()).is_none(), "another message has it");
        assert!(offers[0].take().is_none(), "it is in use");
        freed.free();
        assert_eq!(offers.each_ref().map(Offer::is_dropped), [true, false]);
        let copied = shmarray::copied_bytes();
        let moved = offers[0].take().unwrap();
        assert_eq!(shmarray::copied_bytes(), copied);
        let copy = offers[1].copy(used.size()).unwrap();
        assert!(offers[1].copy(used.size() + 1).is_err());
        used.set(10);
        send(&here, &[&moved, &copy]);
        drop((moved, copy, offers));
        receive(&here);
        assert_eq!(used.get(), [10, 10], "nobody else has it");
        child.ended();
        assert!(size(freed.address()).is_none());
        assert_eq!((stats().moved, stats().live), (1, 1));
        used.free();
    });
}

/// What a process moves it may go on to read, and gives back when it frees it.
#[test]
fn what_is_moved_in_use_is_the_receivers() {
    watched(Pool::Default, || {
        let (here, there) = Pipe::pair().unwrap();
        let one = Allocated::new(MIB);
        one.set(7);
        // SAFETY: it is not written to from now on.
        let move_it = |one: Allocated| unsafe { allocator::move_in_use(one.address() + 5) };
        let array = move_it(one).unwrap().unwrap();
        assert!(move_it(one).is_err(), "a message has it");
        assert!(Offer::at(one.address()).is_none());
        send(&here, &[&array]);
        drop(array);
        let received = receive(&there).array(0, Access::Owned).unwrap();
        received.set(&[0], 9u8).unwrap();
        assert_eq!(one.get()[0], 9, "it is the same memory");
        let child = fork(|| {
            received.set(&[0], 10u8).unwrap();
            assert_eq!(one.get()[0], 9, "the child has what there was");
        });
        child.ended();
        one.free();
        assert!(size(one.address()).is_none(), "it is not used again while the receiver has it");
        assert_eq!(marks(&received)[0], 9);
        let frozen = Allocated::new(MIB);
        fork(|| ()).ended();
        assert!(move_it(frozen).unwrap().is_none(), "it can only be copied");
        frozen.free();
        let other = vec![0u8; 1 << 20];
        // SAFETY: as above.
        assert!(unsafe { allocator::move_in_use(other.as_ptr() as usize) }.unwrap().is_none());
    });
}

#[test]
fn an_offer_that_ends_leaves_what_there_was() {
    watched(Pool::Default, || {
        let (freed, used) = (Allocated::new(MIB), Allocated::new(2 * MIB));
        let offers = [freed, used].map(|one| Offer::at(one.address()).unwrap());
        freed.free();
        assert_ne!(Allocated::new(MIB).address(), freed.address(), "a message may have it");
        drop(offers);
        assert_eq!(Allocated::new(MIB).address(), freed.address());
        used.set(7);
        assert_eq!(used.get(), [7, 7]);
        used.free();
    });
}

#[test]
fn a_fork_leaves_each_side_its_own() {
    watched(Pool::Default, || {
        let idle = Allocated::new(MIB);
        let [used, offered] = [7, 8].map(|mark| {
            let one = Allocated::new(MIB);
            one.set(mark);
            one
        });
        idle.free();
        let mut offer = Offer::at(offered.address()).unwrap();
        let (here, there) = Pipe::pair().unwrap();
        let child = fork(|| {
            receive(&there);
            assert_eq!(used.get(), [7, 7], "the parent's stores are its own");
            used.set(9);
            let new = Allocated::new(MIB);
            new.set(10);
            assert_ne!(new.address(), idle.address(), "the parent has it");
            used.free();
            assert!(size(used.address()).is_none(), "what a fork froze is not used again");
            assert!(Offer::at(new.address()).is_some());
            send(&there, &[]);
        });
        used.set(11);
        send(&here, &[]);
        receive(&here);
        child.ended();
        assert_eq!(used.get(), [11, 11]);
        assert!(Offer::at(used.address()).is_none(), "it can only be copied");
        offered.free();
        assert!(offer.take().is_none(), "it was frozen after it was offered");
        assert_eq!(marks(&offer.copy(MIB).unwrap())[0], 8);
        drop(offer);
        used.free();
        assert!(size(used.address()).is_none());
        assert_eq!(stats().live, 0);
    });
}

#[test]
fn a_full_pool_leaves_it_to_the_other_allocator() {
    watched_in_own_memory(64 << 20, Pool::Default, || {
        let mut all = Vec::new();
        while let Some(one) = allocate(MIB, false) {
            all.push(one);
            assert!(all.len() <= 64);
        }
        assert!(all.len() >= 8, "{}", all.len());
        assert_eq!(stats().fell_back, 1);
        let before = used_in_own_memory();
        assert!(before <= 24 << 20, "a quarter of shared memory, and its headers: {before}");
        for one in all {
            Allocated(one).free();
        }
        for bytes in [3 * MIB, 5 * MIB] {
            Allocated::new(bytes).free(); // in place of what was idle
        }
        allocator::free_idle();
    });
    watched(Pool::Off, || assert!(allocate(MIB, false).is_none()));
}

/// Threads allocate and free as the standard allocator lets them, while one forks.
#[test]
fn threads_beside_forks_lose_no_byte() {
    watched(Pool::Default, || {
        thread::scope(|scope| {
            for number in 0..3u8 {
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..300usize {
                        let one = Allocated::new((1 + round * 7919 % 50) << 14);
                        one.set(number + 10 * (round % 20) as u8);
                        kept.push((round, one));
                        if kept.len() > 8 {
                            let (then, one) = kept.swap_remove(round % 8);
                            assert_eq!(one.get(), [number + 10 * (then % 20) as u8; 2]);
                            one.free();
                        }
                    }
                });
            }
            for count in 0..20 {
                wait_for(format!("child {count}"));
                fork(|| {
                    let one = Allocated::new(MIB);
                    one.set(7);
                    one.free();
                })
                .ended();
            }
        });
    });
}

#[test]
fn what_a_killed_process_had_is_given_back() {
    watched(Pool::Default, || {
        let (here, there) = Pipe::pair().unwrap();
        let child = fork(|| {
            let [kept, offered, dropped, idle] = [1, 2, 3, 4].map(|n| Allocated::new(n * MIB));
            let offers = [offered, dropped].map(|one| Offer::at(one.address()).unwrap());
            dropped.free();
            idle.free();
            kept.set(7);
            send(&there, &[]);
            receive(&there);
            drop(offers);
        });
        receive(&here);
        child.kill();
        shmarray::sweep().unwrap();
        assert!(is_empty());
    });
}
