//! Small arrays in cells, and the tickets that hold them: reuse, refusal and giving back.
#![cfg(any(linux_backend, miri))]

use std::sync::{Barrier, Mutex};
use std::thread;

use shmarray::{Access, Array, DType, Error, Options, discard};

use crate::support::scenario;

/// Miri is slow.
const MANY: u64 = if cfg!(miri) { 16 } else { 700 };
const ROUNDS: u64 = if cfg!(miri) { 4 } else { 300 };
const TICKETS: usize = if cfg!(miri) { 21 } else { 200 };

fn numbers(count: u64) -> Array {
    Array::create(DType::parse("<u8").unwrap(), &[count], &Options::default()).unwrap()
}

fn marked(mark: u64) -> Array {
    let array = numbers(3);
    array.set(&[0], mark).unwrap();
    array.set(&[2], mark + 1).unwrap();
    array
}

fn marks(array: &Array) -> [u64; 3] {
    [0, 1, 2].map(|index| array.get(&[index]).unwrap())
}

fn attach(handle: &str) -> Result<Array, Error> {
    Array::attach(handle, Access::ReadWrite)
}

fn is_refused(handle: &str) -> bool {
    matches!(attach(handle), Err(Error::SegmentNotFound { .. } | Error::StaleHandle { .. }))
}

#[test]
fn each_of_many_arrays_has_memory_of_its_own() {
    scenario(|| {
        let arrays: Vec<_> = (0..MANY).map(marked).collect();
        let again: Vec<_> = arrays.iter().map(|array| attach(&array.handle()).unwrap()).collect();
        for (mark, (array, again)) in (0..).zip(arrays.iter().zip(&again)) {
            assert_eq!((marks(array), again.handle()), ([mark, 0, mark + 1], array.handle()));
        }
        drop(arrays);
        assert_eq!(marks(&again[MANY as usize / 2])[0], MANY / 2);
    });
}

#[test]
fn a_cell_that_is_used_again_is_zero_and_refuses_its_old_handles() {
    scenario(|| {
        let kept = marked(7);
        for round in 0..3 {
            let (odd, even): (Vec<_>, Vec<_>) = (0..MANY / 2)
                .map(|mark| marked(mark + round))
                .enumerate()
                .partition(|(at, _)| at % 2 == 1);
            let handles: Vec<_> = odd.iter().map(|(_, array)| array.handle()).collect();
            drop(odd);
            if round == 1 {
                shmarray::sweep().unwrap(); // free cells have no memory now
            }
            let next: Vec<_> = handles
                .iter()
                .map(|_| numbers(500))
                .chain(handles.iter().map(|_| numbers(3)))
                .collect();
            assert!(
                next.iter().all(
                    |array| array.to_bytes().unwrap() == vec![0; 8 * array.shape()[0] as usize]
                )
            );
            assert!(handles.iter().all(|handle| is_refused(handle)));
            assert!(even.iter().all(|(at, array)| marks(array)[0] == *at as u64 + round));
        }
        assert_eq!(marks(&kept), [7, 0, 8]);
    });
}

#[test]
fn cells_of_all_sizes_are_told_by_their_addresses() {
    scenario(|| {
        let counts = [0, 1, 511, 512, 1023, 1024, 4000, 9000];
        let arrays: Vec<_> = counts.iter().chain(&counts).map(|count| numbers(*count)).collect();
        for array in &arrays {
            let count = array.shape()[0];
            let end = array.slice(0, Some(count as i64), None, 1).unwrap();
            let dtype = array.dtype();
            for view in [array, &end] {
                let found =
                    Array::over_memory(view.as_ptr() as usize, dtype.clone(), view.shape(), &[8])
                        .unwrap();
                assert_eq!(found.handle(), view.handle());
            }
            if count > 0 {
                array.set(&[count - 1], count).unwrap();
            }
        }
        assert!(
            arrays.iter().all(|array| array.shape()[0] < 2 || array.get::<u64>(&[0]).unwrap() == 0)
        );
    });
}

#[test]
fn tickets_hold_a_small_array_in_its_entries_and_beyond_them() {
    scenario(|| {
        let array = marked(5);
        let plain = array.handle();
        let mut tickets: Vec<_> = (0..TICKETS).map(|_| array.handle_to_send().unwrap()).collect();
        drop(array);
        let received = tickets.pop().unwrap();
        let unwanted = tickets.split_off(TICKETS / 2);
        for ticket in &tickets {
            discard(ticket).unwrap();
            discard(ticket).unwrap(); // a second time has no effect
        }
        let array = attach(&received).unwrap();
        assert_eq!(marks(&array), [5, 0, 6]);
        unwanted.iter().for_each(|ticket| discard(ticket).unwrap());
        assert_eq!(shmarray::segments().unwrap()[0].tickets, 0);
        drop(array);
        assert!(is_refused(&plain));
    });
}

#[test]
fn a_large_array_is_held_by_its_ticket_alone() {
    scenario(|| {
        let array = numbers(20_000);
        array.set(&[19_999], 3u64).unwrap();
        let first = array.handle_to_send().unwrap();
        let second = array.handle_to_send().unwrap();
        drop(array);
        shmarray::sweep().unwrap();
        discard(&second).unwrap();
        let array = attach(&first).unwrap();
        assert_eq!(array.get::<u64>(&[19_999]).unwrap(), 3);
        drop(array);
        assert!(is_refused(&first));
        discard(&first).unwrap(); // there is nothing to give back
    });
}

#[test]
fn the_list_tells_of_arrays_in_cells_and_of_named_ones() {
    scenario(|| {
        let named = Options::new().name("camera");
        let small = marked(1);
        let camera = Array::create(DType::parse("<f4").unwrap(), &[20, 10], &named).unwrap();
        let again = attach(&small.handle()).unwrap();
        let ticket = camera.handle_to_send().unwrap();
        let mut listed = shmarray::segments().unwrap();
        // The rest of their segment is listed as well.
        listed.retain(|info| info.kind == shmarray::SegmentKind::Array);
        listed.sort_by_key(|info| info.segment_bytes);
        let told = |info: &shmarray::SegmentInfo| {
            assert!(
                info.creator_pid == std::process::id() && info.created_ns > 0 && !info.persists
            );
            assert!(
                !info.holders.is_empty()
                    && info.holders.iter().all(|pid| *pid == std::process::id())
            );
            (info.segment, info.name.clone(), info.dtype.clone(), info.shape.clone(), info.tickets)
        };
        let expected = [
            (small.descriptor().segment, None, small.dtype().clone(), vec![3], 0),
            (
                camera.descriptor().segment,
                Some("camera".to_owned()),
                camera.dtype().clone(),
                vec![20, 10],
                1,
            ),
        ];
        assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), expected);
        drop((small, again));
        discard(&ticket).unwrap();
        assert_eq!(shmarray::segments().unwrap().len(), 1);
    });
}

/// The stand-in for shared memory has a limit; tests/linux.rs sets one of its own.
#[cfg(miri)]
#[test]
fn an_array_that_does_not_fit_is_refused_with_the_free_bytes() {
    scenario(|| {
        let kept = marked(1);
        let asked = 1 << 30;
        match crate::support::create(asked, &Options::default()) {
            Err(Error::NoSpace { asked_bytes, free_bytes, .. }) => {
                assert!(asked_bytes > asked && free_bytes < asked)
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(marks(&kept), [1, 0, 2]);
    });
}

/// One thread makes and drops small arrays. The others attach handles that may be old.
#[test]
fn an_old_handle_finds_its_array_or_none() {
    scenario(|| {
        let handle = Mutex::new(String::new());
        let start = Barrier::new(3);
        let make = || {
            for round in 0..ROUNDS {
                let array = marked(round * 10);
                *handle.lock().unwrap() = format!("{} {}", round * 10, array.handle());
                start.wait();
                drop(array);
                drop(marked(1)); // the cell's next life
                start.wait();
            }
        };
        let attach = || {
            for _ in 0..ROUNDS {
                start.wait();
                let text = handle.lock().unwrap().clone();
                let (mark, text) = text.split_once(' ').unwrap();
                match Array::attach(text, Access::ReadOnly) {
                    Ok(array) => assert_eq!(marks(&array)[0], mark.parse::<u64>().unwrap()),
                    Err(error) => assert!(is_refused(text), "{error}"),
                }
                start.wait();
            }
        };
        thread::scope(|scope| {
            scope.spawn(attach);
            scope.spawn(attach);
            make();
        });
        assert!(shmarray::segments().unwrap().is_empty());
    });
}

#[test]
fn many_threads_send_and_discard_what_one_of_them_receives() {
    scenario(|| {
        for round in 0..ROUNDS {
            let array = marked(round);
            let tickets: Vec<_> = (0..3).map(|_| array.handle_to_send().unwrap()).collect();
            thread::scope(|scope| {
                scope.spawn(|| discard(&tickets[0]).unwrap());
                scope.spawn(|| discard(&tickets[0]).unwrap());
                scope.spawn(|| assert_eq!(marks(&attach(&tickets[1]).unwrap())[0], round));
                drop(array);
            });
            assert_eq!(marks(&attach(&tickets[2]).unwrap()), [round, 0, round + 1]);
            assert!(is_refused(&tickets[2]));
        }
    });
}
