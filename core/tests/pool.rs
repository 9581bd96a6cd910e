//! The pool: its memory is used again, bounded, and given back when memory is wanted.
#![cfg(linux_backend)]
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;

use shmarray::{Access, Array, DType, Error, Options};
use support::{POOL, Peer, directory, fork, is_peer, scenario, segments_in, serve};

const MIB: u64 = 1 << 20;

/// Runs a scenario with a pool of so many bytes.
fn pooled(test: &str, limit: &str, body: impl FnOnce()) {
    scenario(test, || {
        // SAFETY: changing the environment needs a process in which nothing reads it, and the
        // scenario's process has no other threads yet.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(POOL, limit);
        }
        body();
    });
}

fn bytes(count: u64) -> Array {
    Array::create(DType::parse("|u1").unwrap(), &[count], &Options::default()).unwrap()
}

fn text(array: &Array) -> String {
    array.handle()
}

/// Returns the bytes of shared memory in files that have a name.
fn allocated() -> u64 {
    let sizes =
        segments_in(&directory()).into_iter().map(|name| fs::metadata(directory().join(name)));
    sizes.filter_map(|facts| Some(facts.ok()?.blocks() * 512)).sum()
}

fn segment_of(array: &Array) -> String {
    array.descriptor().segment.to_string()
}

/// Makes an array with a mark at both ends.
fn marked(count: u64, mark: u8) -> Array {
    let array = bytes(count);
    array.set(&[0], mark).unwrap();
    array.set(&[count - 1], mark).unwrap();
    array
}

fn marks(array: &Array) -> [u8; 2] {
    [array.get(&[0]).unwrap(), array.get(&[array.shape()[0] - 1]).unwrap()]
}

#[test]
fn the_next_array_has_the_memory_of_the_last_and_begins_with_zeros() {
    pooled("the_next_array_has_the_memory_of_the_last_and_begins_with_zeros", "100000000", || {
        for count in [10, 5000, MIB, 9 * MIB] {
            let first = marked(count, 7);
            let handle = text(&first);
            let segment = segment_of(&first);
            let inode = allocated();
            drop(first);
            assert!(matches!(
                Array::attach(&handle, Access::ReadWrite),
                Err(Error::SegmentNotFound { .. })
            ));
            let second = bytes(count);
            assert_eq!((segment_of(&second), allocated()), (segment, inode));
            assert_eq!(marks(&second), [0, 0]);
            assert!(matches!(
                Array::attach(&handle, Access::ReadWrite),
                Err(Error::StaleHandle { .. })
            ));
        }
    });
}

#[test]
fn uninitialized_memory_is_what_was_there() {
    pooled("uninitialized_memory_is_what_was_there", "100000000", || {
        drop(marked(MIB, 9));
        let options = Options::new().uninitialized(true);
        let again = Array::create(DType::parse("|u1").unwrap(), &[MIB], &options).unwrap();
        assert_eq!(marks(&again), [9, 9]);
    });
}

/// Attaches each handle of a line, and drops all at an empty line. Answers with what it sees.
#[test]
#[ignore = "it is another process of the tests"]
fn reader() {
    if !is_peer("reader") {
        return;
    }
    let mut held = None;
    serve(|line| {
        held = None;
        let Some((access, handle)) = line.split_once(' ') else { return "gone".to_owned() };
        let access = if access == "private" { Access::CopyOnWrite } else { Access::ReadWrite };
        match Array::attach(handle, access) {
            Ok(array) => {
                let seen = marks(&array);
                array.set(&[0], 200u8).unwrap();
                held = Some(array);
                format!("{seen:?}")
            }
            Err(error) => error.to_string(),
        }
    });
    drop(held);
}

#[test]
fn memory_that_another_process_let_go_last_is_used_again() {
    pooled("memory_that_another_process_let_go_last_is_used_again", "100000000", || {
        let mut reader = Peer::start("reader");
        let mut segments = std::collections::HashSet::new();
        for round in 1..20 {
            let array = marked(MIB, round);
            segments.insert(segment_of(&array));
            let handle = text(&array);
            drop(array.clone());
            let seen = reader.ask(&format!("shared {handle}"));
            drop(array);
            assert_eq!(seen, format!("{:?}", [round, round]));
            reader.ask("");
        }
        assert_eq!(segments.len(), 1);
        reader.end();
    });
}

#[test]
fn a_mapping_that_copies_on_write_shows_the_next_array_and_not_what_was_written_there() {
    pooled(
        "a_mapping_that_copies_on_write_shows_the_next_array_and_not_what_was_written_there",
        "100000000",
        || {
            for count in [100, 40_000, MIB] {
                let mut reader = Peer::start("reader");
                for round in 1..9 {
                    let array = marked(count, round);
                    assert_eq!(
                        reader.ask(&format!("private {}", text(&array))),
                        format!("{:?}", [round, round])
                    );
                    assert_eq!(marks(&array), [round, round], "what the reader wrote is its own");
                    reader.ask("");
                }
                reader.end();
            }
        },
    );
}

#[test]
fn a_pool_stays_below_its_limit() {
    pooled("a_pool_stays_below_its_limit", &(4 * MIB).to_string(), || {
        for size in (1..40).map(|n| n * 100_000) {
            drop([bytes(size), bytes(size / 3), bytes(size / 7)]);
            assert!(allocated() <= 4 * MIB, "{} after {size}", allocated());
        }
        let arrays: Vec<_> = (0..20).map(|_| marked(MIB, 3)).collect();
        assert!(arrays.iter().all(|array| marks(array) == [3, 3]));
        drop(arrays);
        assert!(allocated() <= 4 * MIB && allocated() > 0, "{}", allocated());
    });
}

#[test]
fn the_pool_of_an_idle_process_stays_below_its_limit_when_others_free() {
    pooled(
        "the_pool_of_an_idle_process_stays_below_its_limit_when_others_free",
        &(3 * MIB).to_string(),
        || {
            let arrays: Vec<_> = (0..30).map(|mark| marked(MIB, mark)).collect();
            let handles: Vec<_> = arrays.iter().map(text).collect();
            let readers: Vec<_> = handles
                .iter()
                .map(|handle| {
                    let mut reader = Peer::start("reader");
                    reader.ask(&format!("shared {handle}"));
                    reader
                })
                .collect();
            drop(arrays);
            readers.into_iter().for_each(|mut reader| {
                reader.ask("");
                reader.end();
            });
            assert!(allocated() <= 3 * MIB, "{}", allocated());
        },
    );
}

#[test]
fn a_sweep_frees_the_memory_though_readers_have_it_mapped() {
    pooled("a_sweep_frees_the_memory_though_readers_have_it_mapped", "100000000", || {
        let mut reader = Peer::start("reader");
        let array = marked(8 * MIB, 1);
        let file =
            fs::File::open(directory().join(format!("shmarray-{}", array.descriptor().segment.id)))
                .unwrap();
        reader.ask(&format!("shared {}", text(&array)));
        reader.ask("");
        drop(array);
        let facts = file.metadata().unwrap();
        assert!(facts.nlink() == 1 && facts.blocks() * 512 >= 8 * MIB, "it is kept");
        let swept = shmarray::sweep().unwrap();
        let facts = file.metadata().unwrap();
        assert!(
            facts.nlink() == 0 && facts.blocks() * 512 <= 16384,
            "{} bytes stay",
            facts.blocks() * 512
        );
        assert!(swept.bytes >= 8 * MIB && swept.segments == 0, "{swept:?}");
        reader.end();
    });
}

#[test]
fn a_sweep_by_another_process_frees_what_an_idle_one_keeps() {
    pooled("a_sweep_by_another_process_frees_what_an_idle_one_keeps", "100000000", || {
        drop(marked(8 * MIB, 1));
        let kept = allocated();
        let child = fork(|| assert!(shmarray::sweep().unwrap().bytes >= 8 * MIB));
        child.ended();
        assert!(kept >= 8 * MIB && allocated() < MIB, "{kept} bytes, then {}", allocated());
        assert_eq!(marks(&bytes(8 * MIB)), [0, 0], "and its maker reserves it again");
    });
}

#[test]
fn the_pool_of_a_killed_process_is_swept_though_readers_have_it_mapped() {
    pooled(
        "the_pool_of_a_killed_process_is_swept_though_readers_have_it_mapped",
        "100000000",
        || {
            let mut maker = Peer::start("maker");
            let mut reader = Peer::start("reader");
            let handle = maker.ask("make");
            assert_eq!(reader.ask(&format!("shared {handle}")), format!("{:?}", [5, 5]));
            maker.ask("drop");
            reader.ask("");
            maker.kill();
            assert!(allocated() >= MIB);
            shmarray::sweep().unwrap();
            assert_eq!(segments_in(&directory()), Vec::<String>::new());
            reader.end();
        },
    );
}

#[test]
#[ignore = "it is another process of the tests"]
fn maker() {
    if !is_peer("maker") {
        return;
    }
    let mut made = None;
    serve(|line| {
        made = (line == "make").then(|| marked(MIB, 5));
        made.as_ref().map_or("gone".to_owned(), text)
    });
}

#[test]
fn parent_and_child_have_pools_of_their_own() {
    pooled("parent_and_child_have_pools_of_their_own", "100000000", || {
        drop(marked(MIB, 1));
        let held = marked(2 * MIB, 2);
        let kept = allocated();
        let of_parent = segments_in(&directory());
        let child = fork(|| {
            assert_eq!(marks(&held), [2, 2]);
            let own = marked(MIB, 3);
            assert!(!of_parent.contains(&format!("shmarray-{}", own.descriptor().segment.id)));
            drop(own);
            drop(marked(MIB, 4));
        });
        child.ended();
        assert_eq!(
            (allocated(), segments_in(&directory())),
            (kept, of_parent.clone()),
            "a child takes its own away"
        );
        assert_eq!(marks(&held), [2, 2]);
        let again = bytes(MIB);
        assert!(of_parent.contains(&format!("shmarray-{}", again.descriptor().segment.id)));
    });
}

#[test]
fn a_child_may_outlive_the_parent_whose_pool_it_saw() {
    pooled("a_child_may_outlive_the_parent_whose_pool_it_saw", "100000000", || {
        let parent = fork(|| {
            drop(marked(MIB, 1));
            let held = marked(2 * MIB, 2);
            let child = fork(|| {
                support::kill(std::os::unix::process::parent_id() as i32);
                while std::os::unix::process::parent_id() as i32 > 1 && marks(&held) != [2, 2] {}
                assert_eq!(marks(&held), [2, 2]);
                drop(marked(MIB, 3));
            });
            child.ended();
        });
        parent.killed();
        while !segments_in(&directory()).is_empty() {
            shmarray::sweep().unwrap(); // until the grandchild has ended, too
            thread::yield_now();
        }
    });
}

#[test]
fn zero_turns_it_off_and_nonsense_is_refused() {
    pooled("zero_turns_it_off_and_nonsense_is_refused", "0", || {
        drop([bytes(10), bytes(MIB)]);
        assert_eq!(segments_in(&directory()), Vec::<String>::new());
    });
    pooled("zero_turns_it_off_and_nonsense_is_refused", "a lot", || {
        let refused = Array::create(DType::parse("|u1").unwrap(), &[3], &Options::default());
        let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("SHMARRAY_POOL_BYTES") && message.contains("a lot"), "{message}");
    });
}

#[test]
fn many_holders_of_a_large_array_have_entries() {
    pooled("many_holders_of_a_large_array_have_entries", "100000000", || {
        let array = marked(MIB, 6);
        let segment = segment_of(&array);
        let mut readers: Vec<_> = (0..40).map(|_| Peer::start("reader")).collect();
        for reader in &mut readers {
            reader.ask(&format!("shared {}", text(&array)));
        }
        assert_eq!(shmarray::segments().unwrap()[0].holders.len(), 41);
        readers.into_iter().for_each(Peer::kill);
        drop(array);
        assert_eq!(segment_of(&bytes(MIB)), segment, "nobody holds it by lock");
    });
}

#[test]
fn threads_share_it() {
    pooled("threads_share_it", &(6 * MIB).to_string(), || {
        thread::scope(|scope| {
            for mark in 1..5 {
                scope.spawn(move || {
                    for round in 0..300u64 {
                        let array = marked(70_000 + 90_000 * (round % 7), mark);
                        let again = Array::attach(&text(&array), Access::ReadOnly).unwrap();
                        drop(array);
                        assert_eq!(marks(&again), [mark, mark]);
                    }
                });
            }
        });
        assert!(allocated() <= 6 * MIB);
    });
}

#[test]
fn memory_that_was_prepared_is_what_the_next_array_gets() {
    pooled("memory_that_was_prepared_is_what_the_next_array_gets", "100000000", || {
        let kept = marked(9 * MIB, 7);
        assert!(shmarray::prepare_pool(9 * MIB).unwrap());
        let before = allocated();
        assert!(shmarray::prepare_pool(9 * MIB).unwrap(), "some is free");
        let next = marked(9 * MIB, 8);
        assert_eq!(allocated(), before);
        assert_eq!((marks(&kept), marks(&next)), ([7, 7], [8, 8]));
    });
}

#[test]
fn no_memory_is_prepared_that_the_pool_has_no_room_for() {
    pooled("no_memory_is_prepared_that_the_pool_has_no_room_for", "20000000", || {
        let kept = [bytes(9 * MIB), bytes(9 * MIB)];
        let before = allocated();
        assert!(!shmarray::prepare_pool(9 * MIB).unwrap());
        assert_eq!(allocated(), before);
        shmarray::limit_pool(50_000_000);
        assert!(shmarray::prepare_pool(9 * MIB).unwrap());
        assert!(allocated() > before);
        shmarray::limit_pool(0);
        drop(kept);
        shmarray::empty_pool();
        assert_eq!(allocated(), 0);
    });
}
