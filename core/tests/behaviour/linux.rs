//! Guarantees of the Linux backend alone: a dead process's memory is given back, full memory is an
//! error, and other users have no access.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use shmarray::{Access, Array, DType, Error, ErrorKind, Options, SegmentKind};

use crate::support::{
    Peer, bytes, create, directory, fork, scenario, segments_in, serve, use_directory,
};
use crate::watched::{in_mounted, make_fifo};

fn named(name: &str) -> Options {
    Options::new().name(name)
}

/// Too large for a cell.
const ALONE: u64 = 100_000;

fn segment_file(array: &Array) -> PathBuf {
    directory().join(format!("shmarray-{}", array.descriptor().segment.id))
}

/// Creates or attaches what it is told, and holds all of it.
#[test]
#[ignore = "it is another process of the tests"]
fn holder() {
    let mut held = Vec::new();
    serve(|line| {
        let array = match line.split_once(' ') {
            Some(("create", "-")) => create(1 << 20, &Options::default()),
            Some(("create", name)) => create(1 << 20, &named(name)),
            Some(("attach", handle)) => Array::attach(handle, Access::ReadOnly),
            _ => unreachable!("{line}"),
        };
        let array = array.unwrap();
        array.is_readonly().then_some(()).map_or_else(|| array.set(&[7], 7u8).unwrap(), drop);
        held.push(array);
        held.last().unwrap().handle()
    });
}

#[test]
fn arrays_that_a_killed_process_held_are_given_back_by_the_next_use() {
    scenario(|| {
        let mut peer = Peer::start(holder);
        peer.ask("create -");
        peer.ask("create camera");
        assert_eq!(segments_in(&directory()).len(), 3);
        peer.kill();
        // The name of a dead process's array is free at once, and the first use sweeps the rest.
        let array = create(10, &named("camera")).unwrap();
        assert_eq!(segments_in(&directory()).len(), 2);
        assert_eq!(array.get::<u8>(&[7]).unwrap(), 0);
    });
}

#[test]
fn an_array_that_a_killed_process_shared_stays_with_the_survivor() {
    scenario(|| {
        let mut peer = Peer::start(holder);
        let handle = peer.ask("create -");
        let array = Array::attach(&handle, Access::ReadWrite).unwrap();
        peer.kill();
        assert_eq!(shmarray::sweep().unwrap().segments, 0);
        assert_eq!(array.get::<u8>(&[7]).unwrap(), 7);
    });
}

#[test]
fn a_sweep_says_what_it_gave_back() {
    scenario(|| {
        let kept = bytes(1);
        shmarray::sweep().unwrap(); // what it had in its own pool
        let mut peer = Peer::start(holder);
        peer.ask("create -");
        peer.ask("create -");
        peer.kill();
        let swept = shmarray::sweep().unwrap();
        assert_eq!((swept.segments, swept.bytes), (2, 2 * ((1 << 20) + 4096)));
        assert_eq!(shmarray::sweep().unwrap().segments, 0);
        let mut listed = shmarray::segments().unwrap();
        listed.retain(|info| info.kind == SegmentKind::Array);
        assert_eq!((listed.len(), listed[0].segment), (1, kept.descriptor().segment));
        assert_eq!(listed[0].holders, [std::process::id()]);
    });
}

#[test]
fn a_forked_child_and_its_parent_hold_it_in_every_order_of_ends() {
    scenario(|| {
        for child_first in [true, false] {
            let array = bytes(100);
            let handle = array.handle();
            let (mut read, write) = std::io::pipe().unwrap();
            let parents_end = std::cell::Cell::new(Some(write));
            let child = fork(|| {
                drop(parents_end.take());
                if child_first {
                    return drop(array.clone());
                }
                let _ = std::io::Read::read(&mut read, &mut [0]); // until the parent has dropped it
                Array::attach(&handle, Access::ReadWrite).unwrap().set(&[3], 3u8).unwrap();
                assert_eq!(array.get::<u8>(&[3]).unwrap(), 3);
            });
            if child_first {
                child.ended();
                array.set(&[1], 1u8).unwrap();
                assert!(segment_file(&array).exists());
            } else {
                drop(array);
                drop(parents_end.take());
                child.ended();
            }
            assert_eq!(shmarray::sweep().unwrap().segments, 0);
        }
    });
}

#[test]
fn many_arrays_keep_no_fds() {
    scenario(|| {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let arrays: Vec<_> = (0..300).map(|_| bytes(10)).collect();
        assert_eq!((arrays.len(), open()), (300, before));
    });
}

#[test]
fn full_shared_memory_is_an_error_with_the_figures() {
    in_mounted(["-t", "tmpfs", "-o", "size=1m", "tmpfs"], "0", || {
        let most = bytes(900 << 10);
        for asked in [200 << 10, 1 << 20, 1 << 33, 1 << 50, 1 << 61] {
            let error = create(asked, &Options::default()).unwrap_err();
            let Error::NoSpace { asked_bytes, free_bytes, .. } = error else { panic!("{error}") };
            assert!(
                asked_bytes == asked + 4096 && free_bytes < 200 << 10,
                "{asked_bytes} {free_bytes}"
            );
        }
        assert_eq!(segments_in(&directory()).len(), 1);
        most.set(&[(900 << 10) - 1], 1u8).unwrap();
    });
}

#[test]
fn memory_of_the_dead_makes_room_before_shared_memory_is_full() {
    in_mounted(["-t", "tmpfs", "-o", "size=2m", "tmpfs"], "0", || {
        // The first use, with its sweep, is over.
        let _kept = bytes(1);
        let mut peer = Peer::start(holder);
        peer.ask("create -");
        assert_eq!(create(1 << 20, &Options::default()).unwrap_err().kind(), ErrorKind::NoSpace);
        peer.kill();
        bytes(1 << 20);
    });
}

#[test]
fn an_array_goes_where_it_was_made_whatever_the_environment_says_later() {
    scenario(|| {
        let array = create(10, &named("camera")).unwrap();
        let made_in = directory();
        let elsewhere = made_in.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        use_directory(&elsewhere);
        assert_eq!(
            Array::attach("camera", Access::ReadOnly).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        drop(array);
        std::fs::remove_dir(&elsewhere).unwrap();
        assert_eq!(segments_in(&made_in), Vec::<String>::new());
    });
}

#[test]
fn no_link_is_followed_and_nothing_but_a_file_is_opened() {
    scenario(|| {
        let array = bytes(10);
        let name = |name: &str| directory().join(format!("shmarray-name-{name}"));
        symlink(segment_file(&array), name("link")).unwrap();
        std::fs::create_dir(name("folder")).unwrap();
        make_fifo(&name("fifo"));
        for name in ["link", "folder", "fifo"] {
            assert!(Array::attach(name, Access::ReadOnly).is_err(), "{name}");
        }
        std::fs::remove_file(name("link")).unwrap();
        std::fs::remove_file(name("fifo")).unwrap();
        std::fs::remove_dir(name("folder")).unwrap();
    });
}

#[test]
fn a_segment_is_0600_unless_its_maker_says_otherwise() {
    scenario(|| {
        let mode = |array: &Array| std::fs::metadata(segment_file(array)).unwrap().mode() & 0o777;
        assert_eq!(mode(&bytes(1)), 0o600);
        assert_eq!(mode(&create(1, &Options::new().mode(0o664)).unwrap()), 0o664);
    });
}

#[test]
fn another_users_array_is_found_by_no_name_and_only_when_it_is_shared() {
    scenario(|| {
        let mut peer = Peer::start(holder);
        let handle = peer.ask("create camera");
        let id = shmarray::Descriptor::parse(&handle).unwrap().segment;
        let file = directory().join(format!("shmarray-{id}"));
        std::os::unix::fs::chown(&file, Some(4242), None).unwrap(); // needs root
        let refused = Array::attach(&handle, Access::ReadOnly).unwrap_err();
        assert!(matches!(refused, Error::NotOwner { owner: 4242, .. }), "{refused}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(
            Array::attach("camera", Access::ReadOnly).unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
        // Root may attach what is shared.
        assert!(Array::attach(&handle, Access::ReadOnly).is_ok());
        peer.end();
    });
}

#[test]
fn hostile_and_broken_segment_files_are_refused_and_named() {
    scenario(|| {
        let array = bytes(ALONE);
        let good = std::fs::read(segment_file(&array)).unwrap();
        let id = "abcdefghijklmnopqrstuvwx";
        let path = directory().join(format!("shmarray-{id}"));
        let mut handle = array.descriptor();
        handle.segment = id.parse().unwrap();
        let attach = |contents: &[u8], patch: &[(u64, &[u8])]| {
            std::fs::write(&path, contents).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            for (offset, bytes) in patch {
                file.write_all_at(bytes, *offset).unwrap();
            }
            Array::attach(&handle.to_handle(), Access::ReadWrite).unwrap_err().to_string()
        };
        let own = (32u64, id.as_bytes());
        assert!(attach(&[], &[]).contains("4096"));
        assert!(attach(&good[..100], &[]).contains("4096"));
        assert!(attach(&good[..4096], &[own]).contains("segment_bytes"));
        assert!(attach(&good, &[]).contains("id"));
        assert!(attach(&good, &[own, (0, b"x")]).contains("magic"));
        assert!(attach(&good, &[own, (8, &[9])]).contains("layout 9.0"));
        assert!(attach(&good, &[own, (72, &[0xff; 8])]).contains("data_bytes"));
        assert!(attach(&good, &[own, (128, &[4])]).contains("no segment"), "a dead segment");
        assert!(attach(&good, &[own, (136, &[1])]).contains("stale"));
        assert!(attach(&good, &[own, (143, &[0xff])]).contains("generation"));
        assert!(attach(&vec![0xa5; 1 << 16], &[]).contains("magic"));
        assert_eq!(
            shmarray::sweep().unwrap().segments,
            0,
            "what is no segment is not ours to remove"
        );
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn a_name_of_a_broken_file_can_be_taken_away_and_the_file_stays_as_it_is() {
    scenario(|| {
        let kept = create(1, &named("broken").persist(true)).unwrap();
        let broken = std::fs::read(segment_file(&kept)).unwrap();
        let path = directory().join("shmarray-abcdefghijklmnopqrstuvwx");
        std::fs::write(&path, &broken[..1000]).unwrap();
        std::fs::hard_link(&path, directory().join("shmarray-name-other")).unwrap();
        assert_eq!(shmarray::sweep().unwrap().segments, 0);
        shmarray::unlink("other").unwrap();
        assert_eq!(shmarray::sweep().unwrap().segments, 0);
        assert_eq!(std::fs::read(&path).unwrap(), broken[..1000], "nothing was written into it");
        std::fs::remove_file(path).unwrap();
        shmarray::unlink("broken").unwrap();
    });
}

#[test]
fn a_crash_between_id_and_name_or_before_either_leaves_nothing_for_long() {
    scenario(|| {
        let kept = bytes(ALONE);
        let id = "abcdefghijklmnopqrstuvwx";
        std::fs::write(directory().join(format!("shmarray-new-{id}")), [0; 100]).unwrap();
        let mut unnamed = std::fs::read(segment_file(&kept)).unwrap();
        unnamed[32..56].copy_from_slice(id.as_bytes());
        std::fs::write(directory().join(format!("shmarray-{id}")), unnamed).unwrap();
        assert_eq!(shmarray::sweep().unwrap().segments, 2);
        assert_eq!(segments_in(&directory()).len(), 1);
    });
}

#[test]
fn a_copy_on_write_is_an_array_of_its_own_and_keeps_the_segment() {
    scenario(|| {
        for count in [100, ALONE] {
            let array = bytes(count);
            array.set(&[7], 7u8).unwrap();
            let [first, second] = [0; 2].map(|_| {
                Array::attach_descriptor(&array.descriptor(), Access::CopyOnWrite).unwrap()
            });
            first.set(&[7], 8u8).unwrap();
            let child = fork(|| first.set(&[7], 9u8).unwrap());
            child.ended();
            let seen = [&array, &first, &second].map(|one| one.get::<u8>(&[7]).unwrap());
            assert_eq!(seen, [7, 8, 7], "a store is seen by who made it, of {count} bytes");
            let address = first.as_ptr() as usize;
            assert!(
                Array::over_memory(address, array.dtype().clone(), &[count], &[1]).is_none(),
                "it has no handle"
            );

            let handle = array.descriptor();
            drop((array, first));
            let again = Array::attach_descriptor(&handle, Access::ReadOnly).unwrap();
            assert_eq!(again.get::<u8>(&[7]).unwrap(), 7);
            drop((again, second));
            assert!(
                Array::attach_descriptor(&handle, Access::ReadOnly).is_err(),
                "nobody holds it any more"
            );
        }
    });
}

/// Returns the page faults of this thread so far that needed no disk.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // Field 10 of proc(5): the 8th behind the name, which is in parentheses.
    stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Fills rows of an array from every second byte of a source.
fn fill_rows(array: &Array, source: &[u8]) {
    let rows = array.shape()[0];
    let count = array.shape()[1];
    let layout = shmarray::Layout { shape: vec![count], strides: vec![2], offset: 0 };
    for row in 0..rows {
        let row = array.select(0, row as i64).unwrap();
        // SAFETY: the layout describes every second byte of `source`, which is private.
        unsafe { row.fill_from(source.as_ptr(), &layout) }.unwrap();
    }
}

/// Returns a source for rows of so many bytes.
fn source(count: u64, add: u8) -> Vec<u8> {
    (0..2 * count).map(|at| (at % 251) as u8 + add).collect()
}

fn assert_rows(array: &Array, add: u8) {
    let bytes = array.to_bytes().unwrap();
    let count = array.shape()[1] as usize;
    assert!(
        bytes.iter().enumerate().all(|(at, byte)| *byte == (2 * (at % count) % 251) as u8 + add)
    );
}

#[test]
fn elements_are_written_to_pages_that_this_process_has_not_mapped() {
    scenario(|| {
        for (rows, count) in [(1, 3_000_000), (4, 1 << 20)] {
            let array =
                Array::create(DType::parse("|u1").unwrap(), &[rows, count], &Options::default());
            let array = array.unwrap();
            fill_rows(&array, &source(count, 1)); // its pages exist now
            fork(|| {
                let second = source(count, 2);
                let before = page_faults();
                fill_rows(&array, &second);
                let faults = page_faults() - before;
                let pages = rows * count / 4096;
                // The elements are gathered in new private memory.
                assert!(faults < pages / 2, "{faults} faults for {pages} pages");
                assert_rows(&array, 2);
                fill_rows(&array, &source(count, 3));
                fill_rows(&array, &source(count, 4));
            })
            .ended();
            assert_rows(&array, 4);
        }
    });
}
