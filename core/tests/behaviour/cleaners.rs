//! Processes recover when a cleaner removes their files: logind's RemoveIPC, or a program that
//! removes temporary files.
#![cfg(linux_backend)] // it needs the kernel

use std::fs;

use shmarray::{Access, Array, DType, Error, Options, Pipe, Received};

use crate::exchange::receive;
use crate::support::{Peer, directory, fork, segments_in, serve};
use crate::watched::{Pool, end_abruptly, wait_for, watched};

/// Sizes of cells, and one that is too large for a cell in a shared slab.
const SIZES: [u64; 4] = [10, 5_000, 200_000, 1 << 20];
const WARM: Pool = Pool::Bytes(1 << 28);

fn create(count: u64, mark: u8, options: &Options) -> Result<Array, Error> {
    let array = Array::create(DType::parse("|u1").unwrap(), &[count], options)?;
    array.set(&[0], mark)?;
    array.set(&[count - 1], mark)?;
    Ok(array)
}

fn marked(count: u64, mark: u8) -> Array {
    create(count, mark, &Options::default()).unwrap()
}

fn named(name: &str, mark: u8) -> Array {
    create(100, mark, &Options::new().name(name)).unwrap()
}

fn marks(array: &Array) -> String {
    let mark = |index| array.get::<u8>(&[index]).unwrap();
    format!("{} {}", mark(0), mark(array.shape()[0] - 1))
}

/// Another process, which reads, holds, makes and sweeps as it is told.
#[test]
#[ignore = "it is another process of the tests"]
fn another() {
    let mut held = Vec::new();
    serve(|line| {
        let (command, what) = line.split_once(' ').unwrap_or((line, ""));
        let attach = || Array::attach(what, Access::ReadWrite);
        match command {
            "read" => attach().map_or_else(|error| error.to_string(), |array| marks(&array)),
            "hold" => {
                held.push(attach().unwrap());
                marks(&held[held.len() - 1])
            }
            "make" => {
                held.push(marked(what.parse().unwrap(), 5));
                held[held.len() - 1].handle()
            }
            "held" => held.iter().map(marks).collect::<Vec<_>>().join(", "),
            "drop" => {
                held.clear();
                "dropped".to_owned()
            }
            _ => shmarray::sweep().map_or_else(
                |error| error.to_string(),
                |swept| format!("swept {}", swept.segments),
            ),
        }
    });
}

/// What the cleaner removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    All,
    AllButTheRegistry,
}

fn clean(takes: Takes) {
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if takes == Takes::All || !path.to_string_lossy().contains("shmarray-registry-") {
            fs::remove_file(path).unwrap();
        }
    }
}

/// Returns arrays that are held, after others were dropped, so that the pool is warm, if there is
/// one.
fn warm_up() -> Vec<Array> {
    let held: Vec<_> = SIZES.iter().map(|size| marked(*size, 1)).collect();
    let gone: Vec<_> = SIZES.iter().flat_map(|size| (0..20).map(|_| marked(*size, 2))).collect();
    drop(gone);
    held
}

/// The most arrays that may be made before a process notices that its files are gone. It need not
/// ask the kernel in each create; another process looks for each of these arrays.
const UNNOTICED_MOST: usize = 3;

/// Checks that arrays made afterwards are found by others, and that no create fails meanwhile.
fn notices(another: &mut Peer) {
    for size in SIZES {
        let made: Vec<_> = (0..=UNNOTICED_MOST)
            .map(|_| {
                let array = marked(size, 3);
                read_by(another, &array)
            })
            .collect();
        assert!(made.iter().any(|said| said == "3 3"), "none of these was found: {made:?}");
    }
}

const CREATES: usize = 1_000;

/// Checks that every create succeeds, and that another process finds each new array at once.
fn all_creates_succeed(another: &mut Peer, round: usize) {
    let mut failed = 0;
    let mut lost = 0;
    let mut why = String::new();
    let mut kept = Vec::new();
    for number in 0..CREATES {
        match create(SIZES[number % SIZES.len()], 3, &Options::default()) {
            Ok(array) => {
                // Each of the first arrays, which lie where others lay, and some of the rest.
                let said = if number < 100 || number % 50 == 0 {
                    read_by(another, &array)
                } else {
                    "3 3".to_owned()
                };
                if said != "3 3" {
                    (lost, why) = (lost + 1, said);
                }
                kept.extend((number % 40 == 0).then_some(array)); // the others' memory is reused
            }
            Err(error) => (failed, why) = (failed + 1, error.to_string()),
        }
    }
    assert_eq!(
        (failed, lost),
        (0, 0),
        "so many of {CREATES} creates after cleaning {round}; the last because {why}"
    );
    let swept = another.ask("sweep");
    let said: Vec<_> =
        kept.iter().map(|array| read_by(another, array)).filter(|said| said != "3 3").collect();
    assert!(
        said.is_empty(),
        "after cleaning {round} another process {swept} of a living one: {said:?}"
    );
}

fn read_by(another: &mut Peer, array: &Array) -> String {
    another.ask(&format!("read {}", array.handle()))
}

/// Checks that the processes that hold arrays read and write them as before.
fn old_ones_stay(held: &[Array], another: &mut Peer, mark: u8) {
    for array in held {
        array.set(&[0], mark).unwrap();
    }
    let expected = vec![format!("{mark} 1"); held.len()].join(", ");
    assert_eq!(another.ask("held"), expected);
    fork(|| {
        assert!(
            held.iter().all(|array| array.get::<u8>(&[0]).unwrap() == mark),
            "a child has them, too"
        );
        end_abruptly()
    })
    .ended();
}

/// Checks that arrays arrive which a process and its children send after a cleaning.
fn new_ones_arrive(another: &mut Peer) {
    let (here, there) = Pipe::pair().unwrap();
    fork(|| {
        let array = marked(5_000, 4);
        there.send(&[4; 50_000], &[&array], None).unwrap();
    })
    .ended();
    let message = receive(&here);
    let array = message.array(0, Access::ReadOnly).unwrap();
    assert_eq!((marks(&array).as_str(), message.payload().len()), ("4 4", 50_000));
    assert_eq!(read_by(another, &array), "4 4");
    let name = format!("new.{}", std::process::id());
    let by_name = named(&name, 6);
    assert_eq!(another.ask(&format!("read {name}")), "6 6");
    drop(by_name);
    let handle = array.handle_to_send().unwrap();
    assert_eq!(another.ask(&format!("read {handle}")), "4 4");
}

const CLEANINGS: usize = 3;

fn a_cleaned_process_heals(pool: Pool, takes: Takes) {
    watched(pool, || {
        let held = warm_up();
        let mut another = Peer::start(another);
        for array in &held {
            another.ask(&format!("hold {}", array.handle()));
        }
        for round in 1..=CLEANINGS {
            clean(takes);
            wait_for(format!("creates after cleaning {round}"));
            notices(&mut another);
            all_creates_succeed(&mut another, round);
            wait_for(format!("old arrays and messages after cleaning {round}"));
            old_ones_stay(&held, &mut another, 10 + round as u8);
            new_ones_arrive(&mut another);
        }
        drop(held);
        another.ask("drop");
        another.end();
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new());
    });
}

#[test]
fn a_process_with_a_warm_pool_heals_when_all_files_are_removed() {
    a_cleaned_process_heals(WARM, Takes::All);
}

#[test]
fn a_process_with_a_warm_pool_heals_when_all_files_but_the_registry_are_removed() {
    a_cleaned_process_heals(WARM, Takes::AllButTheRegistry);
}

#[test]
fn a_process_without_a_pool_heals_when_all_files_are_removed() {
    a_cleaned_process_heals(Pool::Off, Takes::All);
}

#[test]
fn a_process_without_a_pool_heals_when_all_files_but_the_registry_are_removed() {
    a_cleaned_process_heals(Pool::Off, Takes::AllButTheRegistry);
}

/// Covers the moment right after a cleaning, also where memory was decommitted and must be reserved
/// again.
#[test]
fn a_create_right_after_a_cleaning_is_no_error() {
    for (pool, takes) in
        [(WARM, Takes::All), (WARM, Takes::AllButTheRegistry), (Pool::Off, Takes::All)]
    {
        watched(pool, || {
            let mut another = Peer::start(another);
            for round in 0..50 {
                wait_for(format!("creates right after cleaning {round}"));
                let held = warm_up();
                another.ask("sweep");
                clean(takes);
                for size in SIZES {
                    let made = create(size, 3, &Options::default());
                    assert!(
                        made.is_ok(),
                        "{pool:?}, {takes:?}, {size} bytes: {}",
                        made.err().unwrap()
                    );
                }
                drop(held);
            }
            another.end();
            shmarray::sweep().unwrap();
        });
    }
}

/// The process is killed. What it made after the cleaning must not stay, whichever registry it
/// knew.
fn arrays_of_a_cleaned_process_are_swept(pool: Pool, takes: Takes) {
    let mut another = Peer::start(another);
    let make_all = |another: &mut Peer| SIZES.map(|size| another.ask(&format!("make {size}")));
    make_all(&mut another);
    drop(warm_up());
    clean(takes);
    wait_for("arrays of a process that is killed then");
    let made = make_all(&mut another);
    for handle in &made {
        let array = Array::attach(handle, Access::ReadOnly);
        assert!(array.is_ok(), "{pool:?}, {takes:?}: {}", array.err().unwrap());
    }
    shmarray::sweep().unwrap();
    another.kill();
    wait_for("a sweep");
    shmarray::sweep().unwrap();
    assert_eq!(
        segments_in(&directory()),
        Vec::<String>::new(),
        "{pool:?}, {takes:?}: segments were left"
    );
}

#[test]
fn arrays_that_a_process_made_after_a_cleaning_go_when_it_is_killed() {
    watched(WARM, || {
        arrays_of_a_cleaned_process_are_swept(WARM, Takes::AllButTheRegistry);
        arrays_of_a_cleaned_process_are_swept(WARM, Takes::All);
    });
}

#[test]
fn arrays_that_a_process_without_a_pool_made_after_a_cleaning_go_when_it_is_killed() {
    watched(Pool::Off, || {
        arrays_of_a_cleaned_process_are_swept(Pool::Off, Takes::AllButTheRegistry);
        arrays_of_a_cleaned_process_are_swept(Pool::Off, Takes::All);
    });
}

/// A message in the pipe when the cleaner comes holds an array that has no file any more: its
/// receiver gets an error.
#[test]
fn a_message_whose_array_a_cleaner_took_is_an_error_and_the_next_one_arrives() {
    watched(WARM, || {
        let (here, there) = Pipe::pair().unwrap();
        let [taken, made] = [Takes::All, Takes::AllButTheRegistry].map(|takes| {
            fork(|| {
                there.send(b"", &[&marked(5_000, 7)], None).unwrap();
                end_abruptly()
            })
            .ended();
            clean(takes);
            let array = marked(5_000, 8);
            there.send(b"", &[&array], None).unwrap();
            drop(array);
            [&here; 2].map(|here| match here.receive(None).unwrap() {
                Received::Message(message) => {
                    message.array(0, Access::ReadOnly).map(|array| marks(&array)).ok()
                }
                other => panic!("{other:?}"),
            })
        });
        let expected = [None, Some("8 8".to_owned())];
        assert_eq!((taken, made), (expected.clone(), expected));
    });
}
