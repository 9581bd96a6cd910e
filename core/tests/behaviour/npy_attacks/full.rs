//! Shared memory that is full, and forks while files are loaded.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use shmarray::npy::{Batch, Npy, Npz, Source};
use shmarray::{Error, ErrorKind, Options};

use super::making::{Member, archive, npy_of_bytes};
use super::{load_npy, load_npz};
use crate::support::fork;
use crate::watched::{Pool, used_in_own_memory, wait_for, watched, watched_in_own_memory};

const MEMORY_BYTES: u64 = 16 << 20;
const TOO_MANY: usize = 20 << 20;

/// Checks that an error says that shared memory is full, with the sizes, and that nothing of it is
/// used.
fn is_full<T>(loaded: Result<T, Error>, before: u64) {
    let Some(error) = loaded.err() else { panic!("there was room") };
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    let text = error.to_string();
    assert!(text.chars().filter(char::is_ascii_digit).count() > 10, "it has no sizes: {text}");
    shmarray::sweep().unwrap();
    assert!(used_in_own_memory() <= before + (1 << 16), "{} bytes", used_in_own_memory());
    assert!(shmarray::segments().unwrap().is_empty(), "arrays are left");
}

#[test]
fn shared_memory_that_is_full() {
    watched_in_own_memory(MEMORY_BYTES, Pool::Off, || {
        let small = npy_of_bytes(10);
        let whole = npy_of_bytes(TOO_MANY);
        drop(load_npy(Source::bytes(&small)).unwrap()); // the registry is made at the first use
        let before = used_in_own_memory();
        is_full(load_npy(Source::bytes(&whole)), before);
        for member in [Member::stored("a.npy", &whole), Member::deflated("a.npy", &whole)] {
            let bytes = archive(&[member]);
            is_full(load_npz(Source::bytes(&bytes)), before);
        }
        let files: Vec<_> = (0..3).map(|_| npy_of_bytes(6 << 20)).collect();
        let batch = Batch::open(files.len(), |index| Ok(Source::bytes(&files[index]))).unwrap();
        is_full(batch.load(&Options::new(), 2, &|_| Ok(())), before);
        drop(load_npy(Source::bytes(&small)).unwrap());
    });
}

/// Of several members some fit, and are given back when one does not.
#[test]
fn shared_memory_that_becomes_full_while_members_are_loaded() {
    watched_in_own_memory(MEMORY_BYTES, Pool::Off, || {
        drop(load_npy(Source::bytes(&npy_of_bytes(10))).unwrap());
        let before = used_in_own_memory();
        let members: Vec<_> = (0..10)
            .map(|at| Member::deflated(&format!("{at}.npy"), &npy_of_bytes(3 << 20)))
            .collect();
        let bytes = archive(&members);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap();
        let all: Vec<_> = (0..10).collect();
        is_full(npz.each(&all, 2, |member| member.load(&Options::new())), before);
    });
}

/// An error of any file, or of the caller, ends the batch, and nothing of it is left.
#[test]
fn a_file_of_a_batch_that_is_broken() {
    watched(Pool::Off, || {
        let mut files: Vec<_> = (0..20).map(|_| npy_of_bytes(5000)).collect();
        files[13].truncate(3000);
        let batch = Batch::open(files.len(), |index| Ok(Source::bytes(&files[index]))).unwrap();
        for threads in [1, 3] {
            let error = batch.load(&Options::new(), threads, &|_| Ok(())).unwrap_err();
            assert!(error.to_string().contains("13 of the batch"), "{error}");
        }
        let whole = npy_of_bytes(5000);
        let batch = Batch::open(20, |_| Ok(Source::bytes(&whole))).unwrap();
        let stop = |done| match done {
            0..5 => Ok(()),
            _ => Err(Error::Unsupported { what: "more than five files" }),
        };
        let error = batch.load(&Options::new(), 1, &stop).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(shmarray::segments().unwrap().is_empty(), "arrays are left");
    });
}

/// What is read has no room, or does not fill it.
#[test]
fn memory_of_another_size_than_the_elements() {
    watched(Pool::Off, || {
        let whole = npy_of_bytes(50);
        let bytes = archive(&[Member::deflated("a.npy", &whole), Member::stored("b", b"12345")]);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap();
        let npy = Npy::open(Source::bytes(&whole)).unwrap();
        let batch = Batch::open(3, |_| Ok(Source::bytes(&whole))).unwrap();
        let read = |what: usize, to: &mut [u8]| match what {
            50 => npy.read_into(to).and_then(|()| npz.member(0)?.read_into(to)),
            5 => npz.member(1)?.read_into(to),
            _ => batch.read_into(to, 2, &|_| Ok(())),
        };
        for size in [50, 5, 150] {
            read(size, &mut vec![0; size]).unwrap();
            for other in [0, size - 1, size + 1, size * 2] {
                let error = read(size, &mut vec![0; other]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            }
        }
    });
}

/// No lock of a load is taken in a child for ever.
#[test]
fn a_fork_while_other_threads_load() {
    watched(Pool::Bytes(1 << 26), || {
        let whole = npy_of_bytes(9 << 20);
        let members =
            [Member::deflated("a.npy", &npy_of_bytes(1 << 18)), Member::stored("b", &whole)];
        let bytes = archive(&members);
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.npz");
        fs::write(&path, &bytes).unwrap();
        let is_over = AtomicBool::new(false);
        let load = || {
            let npz = Npz::open(Source::file(&path).unwrap()).unwrap();
            let arrays = npz.each(&[0, 1], 2, |member| member.load(&Options::new())).unwrap();
            assert_eq!(arrays[1].shape(), [9 << 20]);
            let npy = Npy::open(Source::bytes(&whole)).unwrap();
            assert_eq!(npy.load(&Options::new()).unwrap().shape(), [9 << 20]);
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        load();
                    }
                });
            }
            for round in 0..30 {
                wait_for(format!("child {round}"));
                fork(load).ended();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}
