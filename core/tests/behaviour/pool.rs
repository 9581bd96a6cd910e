//! The pool: its memory is used again, bounded, and given back when memory is wanted.
#![cfg(linux_backend)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;

use shmarray::{Access, Array, Error, Options};

use crate::exchange::{marked, marks};
use crate::support::{POOL, Peer, bytes, create, directory, fork, scenario, segments_in, serve};

const MIB: u64 = 1 << 20;

/// Runs a scenario with a pool of so many bytes.
fn pooled(limit: &str, body: impl FnOnce()) {
    scenario(|| {
        // SAFETY: changing the environment needs a process in which nothing reads it, and the
        // scenario's process has no other threads yet.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(POOL, limit);
        }
        body();
    });
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

#[test]
fn the_next_array_has_the_memory_of_the_last_and_begins_with_zeros() {
    pooled("100000000", || {
        for count in [10, 5000, MIB, 9 * MIB] {
            let first = marked(count, 7);
            let handle = first.handle();
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
    pooled("100000000", || {
        drop(marked(MIB, 9));
        let options = Options::new().uninitialized(true);
        let again = create(MIB, &options).unwrap();
        assert_eq!(marks(&again), [9, 9]);
    });
}

/// Attaches each handle of a line, and drops all at an empty line. Answers with what it sees.
#[test]
#[ignore = "it is another process of the tests"]
fn reader() {
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
    pooled("100000000", || {
        let mut reader = Peer::start(reader);
        let mut segments = std::collections::HashSet::new();
        for round in 1..20 {
            let array = marked(MIB, round);
            segments.insert(segment_of(&array));
            let handle = array.handle();
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
    pooled("100000000", || {
        for count in [100, 40_000, MIB] {
            let mut reader = Peer::start(reader);
            for round in 1..9 {
                let array = marked(count, round);
                assert_eq!(
                    reader.ask(&format!("private {}", array.handle())),
                    format!("{:?}", [round, round])
                );
                assert_eq!(marks(&array), [round, round], "what the reader wrote is its own");
                reader.ask("");
            }
            reader.end();
        }
    });
}

#[test]
fn a_pool_stays_below_its_limit() {
    pooled(&(4 * MIB).to_string(), || {
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
    pooled(&(3 * MIB).to_string(), || {
        let arrays: Vec<_> = (0..30).map(|mark| marked(MIB, mark)).collect();
        let handles: Vec<_> = arrays.iter().map(Array::handle).collect();
        let readers: Vec<_> = handles
            .iter()
            .map(|handle| {
                let mut reader = Peer::start(reader);
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
    });
}

#[test]
fn a_sweep_frees_the_memory_though_readers_have_it_mapped() {
    pooled("100000000", || {
        let mut reader = Peer::start(reader);
        let array = marked(8 * MIB, 1);
        let file =
            fs::File::open(directory().join(format!("shmarray-{}", array.descriptor().segment.id)))
                .unwrap();
        reader.ask(&format!("shared {}", array.handle()));
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
    pooled("100000000", || {
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
    pooled("100000000", || {
        let mut maker = Peer::start(maker);
        let mut reader = Peer::start(reader);
        let handle = maker.ask("make");
        assert_eq!(reader.ask(&format!("shared {handle}")), format!("{:?}", [5, 5]));
        maker.ask("drop");
        reader.ask("");
        maker.kill();
        assert!(allocated() >= MIB);
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new());
        reader.end();
    });
}

#[test]
#[ignore = "it is another process of the tests"]
fn maker() {
    let mut made = None;
    serve(|line| {
        made = (line == "make").then(|| marked(MIB, 5));
        made.as_ref().map_or("gone".to_owned(), Array::handle)
    });
}

#[test]
fn parent_and_child_have_pools_of_their_own() {
    pooled("100000000", || {
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
    pooled("100000000", || {
        let parent = fork(|| {
            drop(marked(MIB, 1));
            let held = marked(2 * MIB, 2);
            let child = fork(|| {
                crate::support::kill(std::os::unix::process::parent_id() as i32);
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
    pooled("0", || {
        drop([bytes(10), bytes(MIB)]);
        assert_eq!(segments_in(&directory()), Vec::<String>::new());
    });
    pooled("a lot", || {
        let refused = create(3, &Options::default());
        let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("SHMARRAY_POOL_BYTES") && message.contains("a lot"), "{message}");
    });
}

#[test]
fn many_holders_of_a_large_array_have_entries() {
    pooled("100000000", || {
        let array = marked(MIB, 6);
        let segment = segment_of(&array);
        let mut readers: Vec<_> = (0..40).map(|_| Peer::start(reader)).collect();
        for reader in &mut readers {
            reader.ask(&format!("shared {}", array.handle()));
        }
        assert_eq!(shmarray::segments().unwrap()[0].holders.len(), 41);
        readers.into_iter().for_each(Peer::kill);
        drop(array);
        assert_eq!(segment_of(&bytes(MIB)), segment, "nobody holds it by lock");
    });
}

#[test]
fn threads_share_it() {
    pooled(&(6 * MIB).to_string(), || {
        thread::scope(|scope| {
            for mark in 1..5 {
                scope.spawn(move || {
                    for round in 0..300u64 {
                        let array = marked(70_000 + 90_000 * (round % 7), mark);
                        let again = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
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
    pooled("100000000", || {
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
    pooled("20000000", || {
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
