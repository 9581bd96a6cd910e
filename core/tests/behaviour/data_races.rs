//! Safe code in threads that read and write the same elements at once: every byte is one that some
//! thread wrote. Miri runs these tests and sees each data race that the library would make of them.
#![forbid(unsafe_code)]

use std::thread;

use shmarray::{Array, DType, Element, Number, Options, Reduction};

const COUNT: u64 = if cfg!(miri) { 5 } else { 1000 };
const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };

fn array(dtype: &str) -> Array {
    Array::create(DType::parse(dtype).unwrap(), &[2, COUNT], &Options::default()).unwrap()
}

/// Runs both in threads of their own, each so many times.
fn beside(one: impl Fn() + Sync, other: impl Fn() + Sync) {
    thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|_| one()));
        scope.spawn(|| (0..ROUNDS).for_each(|_| other()));
    });
}

/// Writes `value` to every element.
fn fill<T: Element>(array: &Array, value: T) {
    for index in 0..2 * COUNT {
        array.set(&[index / COUNT, index % COUNT], value).unwrap();
    }
}

/// Reads every element beside a thread that writes it, and returns what was read.
fn read_beside_writes<T: Element + Send + Sync>(dtype: &str, written: T, is_whole: fn(T) -> bool) {
    let array = array(dtype);
    let read = || {
        for index in 0..2 * COUNT {
            assert!(is_whole(array.get(&[index / COUNT, index % COUNT]).unwrap()), "{dtype}");
        }
    };
    beside(|| fill(&array, written), read);
}

#[test]
fn an_element_can_be_read_beside_a_thread_that_writes_it() {
    read_beside_writes("|u1", 7u8, |found| found == 0 || found == 7);
    read_beside_writes("|b1", true, |_| true);
    read_beside_writes("<i2", 0x0505i16, |found| {
        found.to_le_bytes().iter().all(|b| [0, 5].contains(b))
    });
    read_beside_writes("<f4", f32::from_bits(0x4141_4141), |found| {
        found.to_le_bytes().iter().all(|byte| [0, 0x41].contains(byte))
    });
    read_beside_writes("<u8", 0x0909_0909_0909_0909u64, |found| {
        found.to_le_bytes().iter().all(|byte| [0, 9].contains(byte))
    });
}

#[test]
fn elements_can_be_written_by_two_threads_at_once() {
    for dtype in ["|u1", "<u2", "<f4", "<i8", "<c8", "<c16"] {
        let array = array(dtype);
        let number =
            if dtype.contains('c') { Number::Complex(1.5, 2.5) } else { Number::Float(2.0) };
        let number = if dtype.contains(['u', 'i']) { Number::Integer(2) } else { number };
        let write = || {
            for index in 0..2 * COUNT {
                array.set_number(&[index / COUNT, index % COUNT], number).unwrap();
            }
        };
        beside(write, write);
        assert_eq!(array.get_number(&[1, COUNT - 1]).unwrap(), number, "{dtype}");
    }
}

/// The copies go through each loop: dense, reversed, every second element, transposed, repeated.
#[test]
fn elements_can_be_copied_beside_a_thread_that_writes_them() {
    let array = array("<u2");
    let row = array.select(0, 0).unwrap();
    let views = [
        array.view(&[2, COUNT], &[2 * COUNT as i64, 2], 0).unwrap(),
        array.transpose(),
        row.view(&[COUNT], &[-2], 2 * (COUNT as i64 - 1)).unwrap(),
        row.view(&[COUNT / 2], &[4], 0).unwrap(),
        row.view(&[COUNT, 3], &[2, 0], 0).unwrap(),
    ];
    let copy = || {
        for view in &views {
            let bytes = view.to_bytes().unwrap();
            assert!(bytes.iter().all(|byte| [0, 5].contains(byte)), "{view:?}");
        }
    };
    beside(|| fill(&array, 0x0505u16), copy);
}

#[test]
fn elements_can_be_reduced_beside_a_thread_that_writes_them() {
    for along in [None, Some(&[0][..])] {
        let array = array("<u4");
        let reduce = || {
            for reduction in [Reduction::Sum, Reduction::Max, Reduction::Bincount { min_length: 1 }]
            {
                array.reduce(reduction, along, &mut || true).unwrap();
            }
        };
        beside(|| fill(&array, 3u32), reduce);
    }
}

/// A view at any byte has elements that lie across those of its array.
#[test]
fn views_that_overlap_in_part_can_be_read_and_written_at_once() {
    let array = array("<u4");
    let across = array.view(&[COUNT], &[4], 2).unwrap();
    let read = || {
        for index in 0..COUNT {
            let found: u32 = across.get(&[index]).unwrap();
            assert!(found.to_le_bytes().iter().all(|byte| [0, 6].contains(byte)));
        }
    };
    beside(|| fill(&array, 0x0606_0606u32), read);
}
