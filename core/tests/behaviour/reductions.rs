//! Sums, means, extremes and counts of arrays: dtypes, axes, refusals, and concurrent writers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use shmarray::{
    Access, Array, DType, DTypeKind, Error, ErrorKind, Number, Options, Order, Reduced, Reduction,
};

use crate::support::{Peer, scenario, serve};

const COUNTS: Reduction = Reduction::Bincount { min_length: 0 };
const ALL: [Reduction; 5] =
    [Reduction::Sum, Reduction::Mean, Reduction::Min, Reduction::Max, COUNTS];

fn array(dtype: &str, shape: &[u64], order: Order) -> Array {
    let options = Options::new().order(order);
    Array::create(DType::parse(dtype).unwrap(), shape, &options).unwrap()
}

/// Makes an array of 0, 1, 2 … in C order.
fn bytes(shape: &[u64], order: Order) -> Array {
    let array = array("|u1", shape, order);
    let numbers: Vec<u8> = (0..array.layout().len() as u8).collect();
    let layout = shmarray::Layout::contiguous(shape, 1, Order::C).unwrap();
    // SAFETY: every element can be read, because the private vector has all the elements that the
    // layout describes.
    #[allow(unsafe_code)]
    unsafe {
        array.fill_from(numbers.as_ptr(), &layout).unwrap();
    }
    array
}

fn numbers(array: &Array) -> Vec<u64> {
    let bytes = array.to_bytes().unwrap();
    let itemsize = array.dtype().itemsize() as usize;
    let number =
        |item: &[u8]| item.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    bytes.chunks(itemsize).map(number).collect()
}

fn along(array: &Array, reduction: Reduction, axes: &[usize]) -> Array {
    match array.reduce(reduction, Some(axes), &mut || true).unwrap() {
        Some(Reduced::Array(array)) => array,
        other => panic!("{other:?} is no array"),
    }
}

#[test]
fn axes_are_reduced_in_every_order_of_memory() {
    scenario(|| {
        for order in [Order::C, Order::F] {
            let a = bytes(&[2, 3, 4], order);
            assert_eq!(a.sum().unwrap(), Number::Integer(276));
            assert_eq!(
                (a.min().unwrap(), a.max().unwrap()),
                (Number::Integer(0), Number::Integer(23))
            );
            assert_eq!(a.mean().unwrap(), Number::Float(11.5));
            assert_eq!(numbers(&a.sum_along(&[2]).unwrap()), [6, 22, 38, 54, 70, 86]);
            assert_eq!(numbers(&a.sum_along(&[0, 1]).unwrap()), [60, 66, 72, 78]);
            assert_eq!(numbers(&a.transpose().sum_along(&[1, 2]).unwrap()), [60, 66, 72, 78]);
            let max = a.max_along(&[1]).unwrap();
            assert_eq!(
                (max.shape(), numbers(&max)),
                (&[2, 4][..], vec![8, 9, 10, 11, 20, 21, 22, 23])
            );
            let backwards = a.slice(0, None, None, -1).unwrap().slice(2, None, None, -2).unwrap();
            assert_eq!(numbers(&backwards.min_along(&[1]).unwrap()), [15, 13, 3, 1]);
            assert_eq!(numbers(&a.min_along(&[]).unwrap()), (0..24).collect::<Vec<_>>());
        }
    });
}

#[test]
fn one_element_without_dimensions_is_its_own_sum() {
    scenario(|| {
        let a = array("<f4", &[], Order::C);
        a.set(&[], 2.5f32).unwrap();
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Min, Reduction::Max] {
            let found = a.reduce(reduction, None, &mut || true).unwrap();
            assert!(matches!(found, Some(Reduced::Number(Number::Float(2.5)))), "{reduction}");
        }
        assert_eq!(a.sum_along(&[]).unwrap().shape(), [0u64; 0]);
    });
}

#[test]
fn an_element_that_repeats_counts_as_often() {
    scenario(|| {
        let a = bytes(&[5], Order::C);
        let repeated = a.view(&[1000, 2], &[0, 1], 3).unwrap();
        assert_eq!(repeated.sum().unwrap(), Number::Integer(7000));
        assert_eq!(
            numbers(&repeated.bincount_along(&[0], 6).unwrap()),
            [0, 0, 0, 1000, 0, 0, 0, 0, 0, 0, 1000, 0]
        );
    });
}

#[test]
fn every_dtype_gives_what_numpy_gives_or_says_why_not() {
    scenario(|| {
        for dtype in DType::ALL {
            let a = array(dtype.text(), &[2, 3], Order::C);
            let complex = dtype.kind() == Some(DTypeKind::Complex);
            let float = dtype.kind() == Some(DTypeKind::Float);
            let sum = match dtype.kind() {
                Some(DTypeKind::Bool | DTypeKind::Signed) => "<i8",
                Some(DTypeKind::Unsigned) => "<u8",
                _ => dtype.text(),
            };
            let mean = if complex { "<c16" } else { "<f8" };
            assert_eq!(along(&a, Reduction::Sum, &[0]).dtype().text(), sum);
            assert_eq!(along(&a, Reduction::Mean, &[0]).dtype().text(), mean);
            for reduction in [Reduction::Min, Reduction::Max] {
                if complex {
                    assert_refused(&a, reduction, "not one of numbers that have an order, which m")
                } else {
                    assert_eq!(along(&a, reduction, &[0]).dtype(), dtype)
                }
            }
            if complex || float {
                assert_refused(&a, COUNTS, "not one of integers, which bincount needs")
            } else {
                assert_eq!(along(&a, COUNTS, &[0]).dtype().text(), "<u8")
            }
        }
        for dtype in [">i4", "<M8[s]", "|S3", r#"{"descr":[["a","<i4"]],"itemsize":4}"#] {
            let a = array(dtype, &[2], Order::C);
            ALL.iter()
                .for_each(|&reduction| assert_refused(&a, reduction, "not one of numbers, which"));
        }
    });
}

fn assert_refused(array: &Array, reduction: Reduction, why: &str) {
    for axes in [None, Some(&[0][..])] {
        let error = array.reduce(reduction, axes, &mut || true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DTypeMismatch);
        assert!(
            error.to_string().contains(why) && error.to_string().contains(array.dtype().name()),
            "{error}"
        );
    }
}

#[test]
fn truths_are_counted_and_stay_truths() {
    scenario(|| {
        let a = array("|b1", &[2, 4], Order::C);
        a.set(&[0, 1], true).unwrap();
        a.whole().set(&[6], 200u8).unwrap(); // as other processes may write it
        assert_eq!(
            (a.sum().unwrap(), a.mean().unwrap()),
            (Number::Integer(2), Number::Float(0.25))
        );
        assert_eq!((a.min().unwrap(), a.max().unwrap()), (Number::Bool(false), Number::Bool(true)));
        assert_eq!(numbers(&a.max_along(&[0]).unwrap()), [0, 1, 1, 0]);
        assert_eq!(numbers(&a.bincount(0).unwrap()), [6, 2]);
    });
}

#[test]
fn results_are_rounded_to_their_dtype_only_along_axes() {
    scenario(|| {
        let a = array("<f4", &[3], Order::C);
        for (at, value) in [16_777_216f32, 1.0, 0.0].into_iter().enumerate() {
            a.set(&[at as u64], value).unwrap();
        }
        assert_eq!(a.sum().unwrap(), Number::Float(16_777_217.0));
        assert_eq!(a.sum_along(&[0]).unwrap().get::<f32>(&[]).unwrap(), 16_777_216.0);
        let half = array("<f2", &[2], Order::C);
        for at in [1, 3] {
            half.whole().set(&[at], 0x7bu8).unwrap(); // 57,344
        }
        assert_eq!(half.sum().unwrap(), Number::Float(114_688.0));
        assert_eq!(numbers(&half.sum_along(&[0]).unwrap()), [0x7c00]);
        assert_eq!(half.mean_along(&[0]).unwrap().get::<f64>(&[]).unwrap(), 57_344.0);
    });
}

#[test]
fn complex_numbers_are_added_up_by_their_parts() {
    scenario(|| {
        let a = array("<c8", &[2, 2], Order::F);
        for (at, part) in [1.5f32, -2.0, 4.0, 0.5, 0.25, 8.0, -1.0, 3.0].into_iter().enumerate() {
            let bytes = part.to_le_bytes();
            (0..4).for_each(|byte| {
                a.whole().set(&[at as u64 * 4 + byte], bytes[byte as usize]).unwrap()
            });
        }
        assert_eq!(a.sum().unwrap(), Number::Complex(4.75, 9.5));
        assert_eq!(a.mean().unwrap(), Number::Complex(1.1875, 2.375));
        let floats = |array: Array| -> Vec<f64> {
            array
                .to_bytes()
                .unwrap()
                .chunks(8)
                .map(|part| f64::from_le_bytes(part.try_into().unwrap()))
                .collect()
        };
        assert_eq!(floats(a.mean_along(&[0]).unwrap()), [2.75, -0.75, -0.375, 5.5]);
    });
}

#[test]
fn no_elements_have_a_sum_and_counts_but_no_mean_and_no_extremes() {
    scenario(|| {
        let a = array("<i4", &[0, 3], Order::C);
        assert_eq!(a.sum().unwrap(), Number::Integer(0));
        assert_eq!(numbers(&a.sum_along(&[0]).unwrap()), [0, 0, 0]);
        assert_eq!(a.bincount(0).unwrap().shape(), [0]);
        assert_eq!(numbers(&a.bincount(2).unwrap()), [0, 0]);
        assert_eq!(a.bincount_along(&[0], 2).unwrap().shape(), [3, 2]);
        for reduction in [Reduction::Min, Reduction::Max, Reduction::Mean] {
            for axes in [None, Some(&[0][..])] {
                let error = a.reduce(reduction, axes, &mut || true).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(
                    error.to_string().contains(&format!("no elements to take the {reduction} of")),
                    "{error}"
                );
            }
            assert_eq!(along(&a, reduction, &[1]).shape(), [0], "no results, so none is missing");
        }
    });
}

#[test]
fn an_axis_that_is_not_there_or_stands_twice_is_refused() {
    scenario(|| {
        let a = bytes(&[2, 3], Order::C);
        for (axes, why) in [
            (&[2][..], "invalid axis: 2 is not below 2"),
            (&[1, 1], "invalid axis: 1 is named twice"),
        ] {
            assert_eq!(a.sum_along(axes).unwrap_err().to_string(), why);
        }
    });
}

#[test]
fn negative_numbers_are_not_counted() {
    scenario(|| {
        let a = array("<i8", &[3], Order::C);
        a.set(&[1], -5i64).unwrap();
        let error = a.bincount(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(
            error.to_string(),
            "invalid elements: -5 is negative, and bincount counts numbers from 0 on"
        );
    });
}

#[test]
fn a_sum_that_its_dtype_cannot_hold_is_refused_and_exact_without_axes() {
    scenario(|| {
        let a = array("<i8", &[3], Order::C);
        (0..3).for_each(|at| a.set(&[at], i64::MAX).unwrap());
        assert_eq!(a.sum().unwrap(), Number::Integer(3 * i128::from(i64::MAX)));
        let error = a.sum_along(&[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("27670116110564327421 does not fit int64"), "{error}");
        let a = array("<u8", &[2], Order::C);
        (0..2).for_each(|at| a.set(&[at], u64::MAX).unwrap());
        assert!(a.sum_along(&[0]).unwrap_err().to_string().contains("does not fit uint64"));
    });
}

#[test]
fn results_are_arrays_that_can_be_handed_over_and_a_readonly_one_is_read() {
    scenario(|| {
        let a = bytes(&[4, 5], Order::C);
        let copied = shmarray::copied_bytes();
        let readonly = Array::attach(&a.handle(), Access::ReadOnly).unwrap();
        let sums = readonly.sum_along(&[1]).unwrap();
        let again = Array::attach(&sums.handle(), Access::ReadOnly).unwrap();
        assert_eq!(
            (0..4).map(|at| again.get::<u64>(&[at]).unwrap()).collect::<Vec<_>>(),
            [10, 35, 60, 85]
        );
        assert!(!sums.is_readonly());
        assert_eq!(shmarray::copied_bytes(), copied, "what a reduction reads is not copied");
    });
}

#[test]
fn results_for_which_there_is_no_room_are_refused_before_anything_is_read() {
    scenario(|| {
        let a = bytes(&[1], Order::C).view(&[1 << 50], &[0], 0).unwrap();
        let asked = a.reduce(Reduction::Sum, Some(&[]), &mut || panic!("it reads"));
        assert!(matches!(asked, Err(Error::NoSpace { .. } | Error::Os { .. })), "{asked:?}");
    });
}

/// Writes to an array as long as it is asked to.
#[test]
#[ignore = "it is another process of the tests"]
fn writer() {
    serve(|handle| {
        let a = Array::attach(handle, Access::ReadWrite).unwrap();
        for round in 0..200u64 {
            (0..a.shape()[0]).for_each(|at| a.set(&[at], (at + round) % 7 * 1000 + 1).unwrap());
        }
        "written".to_owned()
    });
}

#[test]
#[cfg_attr(miri, ignore = "it needs another process")]
fn elements_that_another_process_writes_meanwhile_are_read_once_each() {
    scenario(|| {
        let a = array("<u8", &[20_000], Order::C);
        let mut peer = Peer::start(writer);
        let written = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                peer.ask(&a.handle());
                written.store(true, Ordering::Relaxed);
            });
            while !written.load(Ordering::Relaxed) {
                let counts = a.bincount(0).unwrap();
                assert_eq!(counts.sum().unwrap(), Number::Integer(20_000));
                assert!(matches!(a.max().unwrap(), Number::Integer(0..=6001)));
            }
        });
        assert_eq!(a.min().unwrap(), Number::Integer(1));
        peer.end();
    });
}
