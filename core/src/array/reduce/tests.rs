//! Reductions compared with plain ones, which read every element by its own offset.
#![allow(unsafe_code)]

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::request::ReductionRequest;
use super::sums::ERROR_BOUND;
use super::*;
use crate::element::copy::Strided;
use crate::value::dtype::{DTypeKind, TypeCode};
use crate::value::shape::Layout;

/// Dimensions: the elements, the gap between them, whether the stride is negative, the nesting
/// order in memory, and whether the dimension is kept.
type Dims = Vec<(u64, u64, bool, u8, bool)>;

/// The most elements of a dimension, by the number of dimensions.
const MOST: [u64; 6] = if cfg!(miri) { [1, 40, 9, 4, 3, 2] } else { [1, 9000, 150, 30, 9, 6] };
const CASES: u32 = if cfg!(miri) { 4 } else { 400 };

fn dims() -> impl Strategy<Value = Dims> {
    (0..MOST.len()).prop_flat_map(|ndim| {
        let count = prop_oneof![16 => 1..=MOST[ndim], 2 => Just(1), 1 => Just(0)];
        let gap = prop_oneof![6 => Just(0u64), 2 => 1..3u64, 1 => Just(NOT_MOVING)];
        proptest::collection::vec((count, gap, any::<bool>(), any::<u8>(), any::<bool>()), ndim)
    })
}

/// A gap that stands for a stride of zero.
const NOT_MOVING: u64 = 9;

/// Returns a layout, and the bytes of memory that it needs. Dimensions are nested in their order.
fn layout_of(dims: &Dims, itemsize: u64) -> (Layout, usize) {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|&dim| dims[dim].3);
    let mut layout = Layout {
        shape: dims.iter().map(|dim| dim.0).collect(),
        strides: vec![0; dims.len()],
        offset: 0,
    };
    let mut extent = itemsize;
    for dim in order {
        let (count, gap, back, ..) = dims[dim];
        if gap == NOT_MOVING {
            continue;
        }
        let step = extent + gap * if gap == 1 { 1 } else { itemsize };
        layout.strides[dim] = if back { -(step as i64) } else { step as i64 };
        layout.offset += if back { step * count.saturating_sub(1) } else { 0 };
        extent = step * count.max(1);
    }
    (layout, extent as usize)
}

/// Returns the offsets of the elements of each result, in C order.
fn offsets(layout: &Layout, kept_dims: &[bool]) -> Vec<Vec<usize>> {
    let along = |chosen: bool, start: Vec<i64>| {
        let dims = layout
            .shape
            .iter()
            .zip(&layout.strides)
            .zip(kept_dims)
            .filter(|(_, is_kept)| **is_kept == chosen);
        dims.fold(start, |all, ((&count, &stride), _)| {
            all.iter()
                .flat_map(|base| (0..count as i64).map(move |index| base + index * stride))
                .collect()
        })
    };
    let of_one = along(false, vec![0]);
    let results = along(true, vec![layout.offset as i64]);
    results
        .iter()
        .map(|first| of_one.iter().map(|offset| (first + offset) as usize).collect())
        .collect()
}

fn axes(dims: &Dims) -> Vec<usize> {
    (0..dims.len()).filter(|&dim| !dims[dim].4).collect()
}

/// Returns pseudo-random bytes.
fn bytes_of(size: usize, seed: u64) -> Vec<u8> {
    let mix = |at: u64| {
        (at ^ seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    (0..size as u64).map(|at| (mix(at) >> 56) as u8).collect()
}

/// Reduces the elements that lie in these bytes.
fn reduced(
    bytes: &[u8],
    layout: &Layout,
    code: TypeCode,
    reduction: Reduction,
    axes: &[usize],
) -> Result<Vec<Number>> {
    let from = Strided { start: bytes.as_ptr().cast_mut(), layout };
    // SAFETY: `ReductionRequest::new` needs readable elements: the bytes hold all that the layout
    // describes, and any bytes are elements.
    let request = unsafe { ReductionRequest::new(from, code, reduction, Some(axes))? };
    let mut results = vec![];
    let ended = request.fold(&mut || true, &mut |numbers| {
        results.extend_from_slice(numbers);
        Ok(())
    });
    match ended {
        Err(Stop::Failed(error)) => Err(error),
        ended => Ok(ended.map(|()| results).expect("nobody asked it to stop")),
    }
}

fn counted(
    bytes: &[u8],
    layout: &Layout,
    code: TypeCode,
    min_length: u64,
    axes: &[usize],
) -> Result<(usize, Vec<u64>)> {
    let from = Strided { start: bytes.as_ptr().cast_mut(), layout };
    // SAFETY: `ReductionRequest::new` needs readable elements: the bytes hold all that the layout
    // describes, and any bytes are elements.
    let request = unsafe {
        ReductionRequest::new(from, code, Reduction::Bincount { min_length }, Some(axes))?
    };
    match request.count(min_length, &mut || true) {
        Err(Stop::Failed(error)) => Err(error),
        ended => {
            let counts = ended.expect("nobody asked it to stop");
            let numbers = counts.numbers().flatten().map(|count| whole(count) as u64);
            Ok((counts.columns(), numbers.collect()))
        }
    }
}

/// Returns a function that reads the element at an offset, as the format document specifies it.
fn reader(bytes: &[u8], code: TypeCode) -> impl Fn(&usize) -> Number {
    let itemsize = DType::from_code(code).unwrap().itemsize() as usize;
    move |&at| {
        let item = &bytes[at..][..itemsize];
        // SAFETY: an element of the dtype can be read at the address, since the slice has as many
        // bytes as an item.
        unsafe { Number::read(code, item.as_ptr()) }.unwrap()
    }
}

fn float(number: Number) -> f64 {
    match number {
        Number::Float(float) => float,
        Number::Integer(whole) => whole as f64,
        other => unreachable!("{other:?}"),
    }
}

fn whole(number: Number) -> i128 {
    match number {
        Number::Bool(truth) => truth.into(),
        Number::Integer(whole) => whole,
        other => unreachable!("{other:?}"),
    }
}

/// Returns the exact sum of finite numbers, rounded once more than needed: Shewchuk's expansions,
/// as in Python's `fsum`.
fn exact_sum(numbers: &[f64]) -> f64 {
    let mut partials: Vec<f64> = vec![];
    for &number in numbers {
        let mut rest = number;
        let mut next_partials = vec![];
        for &partial in &partials {
            let (large, small) =
                if rest.abs() < partial.abs() { (partial, rest) } else { (rest, partial) };
            let high = large + small;
            let low = small - (high - large);
            if low != 0.0 {
                next_partials.push(low);
            }
            rest = high;
        }
        next_partials.push(rest);
        partials = next_partials;
    }
    partials.iter().sum()
}

fn close(found: f64, numbers: &[f64], of: f64) -> bool {
    let magnitude = exact_sum(&numbers.iter().map(|number| number.abs()).collect::<Vec<_>>());
    let has = |wanted: f64| numbers.contains(&wanted);
    let infinite = [has(f64::INFINITY), has(f64::NEG_INFINITY)];
    match (numbers.iter().any(|number| number.is_nan()), infinite) {
        (true, _) | (_, [true, true]) => found.is_nan(),
        (_, [true, _]) => found == f64::INFINITY,
        (_, [_, true]) => found == f64::NEG_INFINITY,
        _ if !magnitude.is_finite() => true, // where it overflows depends on the order
        _ => (found - exact_sum(numbers) / of).abs() <= ERROR_BOUND * magnitude / of,
    }
}

fn assert_sums(
    found: &[Number],
    elements: &[Vec<Number>],
    mean: bool,
) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), elements.len());
    for (found, numbers) in found.iter().zip(elements) {
        let of = if mean { numbers.len() as f64 } else { 1.0 };
        let parts = |part: fn(&Number) -> f64| numbers.iter().map(part).collect::<Vec<_>>();
        match *found {
            Number::Complex(re, im) => {
                let real = parts(
                    |number| if let Number::Complex(re, _) = number { *re } else { f64::NAN },
                );
                let imaginary =
                    parts(
                        |number| if let Number::Complex(_, im) = number { *im } else { f64::NAN },
                    );
                prop_assert!(close(re, &real, of) && close(im, &imaginary, of), "{found:?}");
            }
            Number::Integer(sum) => {
                prop_assert_eq!(sum, numbers.iter().copied().map(whole).sum::<i128>())
            }
            Number::Float(found)
                if matches!(numbers.first(), Some(Number::Integer(_) | Number::Bool(_))) =>
            {
                prop_assert_eq!(
                    found,
                    numbers.iter().copied().map(whole).sum::<i128>() as f64 / of
                );
            }
            Number::Float(found) => {
                let floats = parts(|number| float(*number));
                prop_assert!(close(found, &floats, of), "{found}");
            }
            other => prop_assert!(false, "a sum is no {other:?}"),
        }
    }
    Ok(())
}

/// Returns the least or the greatest number, found one after the other.
fn extreme(numbers: &[Number], least: bool) -> Number {
    let mut found = numbers[0];
    for &number in numbers {
        found = match (found, number) {
            (Number::Float(a), Number::Float(b)) if a.is_nan() || b.is_nan() => {
                Number::Float(f64::NAN)
            }
            (Number::Float(a), Number::Float(b)) => {
                if (b < a) == least && a != b {
                    number
                } else {
                    found
                }
            }
            (Number::Bool(a), Number::Bool(b)) => Number::Bool(if least { a && b } else { a || b }),
            (a, b) => {
                if (whole(b) < whole(a)) == least {
                    b
                } else {
                    a
                }
            }
        };
    }
    found
}

fn same(a: Number, b: Number) -> bool {
    a == b || matches!((a, b), (Number::Float(a), Number::Float(b)) if a.is_nan() && b.is_nan())
}

fn numeric() -> impl Strategy<Value = TypeCode> {
    (0..DType::ALL.len()).prop_map(|row| DType::ALL[row].code())
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn sums_and_means_are_those_of_the_elements(
        dims in dims(),
        code in numeric(),
        seed: u64,
        mean: bool,
    ) {
        let itemsize = DType::from_code(code).unwrap().itemsize();
        let (layout, size) = layout_of(&dims, itemsize);
        let bytes = bytes_of(size, seed);
        let kept_dims: Vec<_> = dims.iter().map(|dim| dim.4).collect();
        let element = reader(&bytes, code);
        let elements: Vec<Vec<_>> = offsets(&layout, &kept_dims).iter()
            .map(|of_one| of_one.iter().map(&element).collect())
            .collect();
        let reduction = if mean { Reduction::Mean } else { Reduction::Sum };
        let found = reduced(&bytes, &layout, code, reduction, &axes(&dims));
        if mean && elements.first().is_some_and(Vec::is_empty) {
            let error = found.unwrap_err().to_string();
            prop_assert!(error.contains("no elements to take the mean of"));
        } else {
            assert_sums(&found.unwrap(), &elements, mean)?;
        }
    }

    #[test]
    fn extremes_are_those_of_the_elements(
        dims in dims(),
        code in numeric(),
        seed: u64,
        least: bool,
    ) {
        prop_assume!(code.kind() != Some(DTypeKind::Complex));
        let itemsize = DType::from_code(code).unwrap().itemsize();
        let (layout, size) = layout_of(&dims, itemsize);
        let bytes = bytes_of(size, seed);
        let kept_dims: Vec<_> = dims.iter().map(|dim| dim.4).collect();
        let elements = offsets(&layout, &kept_dims);
        let reduction = if least { Reduction::Min } else { Reduction::Max };
        let found = reduced(&bytes, &layout, code, reduction, &axes(&dims));
        if elements.first().is_some_and(Vec::is_empty) {
            prop_assert!(found.unwrap_err().to_string().contains("no elements to take the m"));
            return Ok(());
        }
        let found = found.unwrap();
        prop_assert_eq!(found.len(), elements.len());
        let element = reader(&bytes, code);
        for (found, of_one) in found.into_iter().zip(elements) {
            let numbers: Vec<_> = of_one.iter().map(&element).collect();
            prop_assert!(same(found, extreme(&numbers, least)), "{found:?}");
        }
    }

    #[test]
    fn counts_are_those_of_the_elements(
        dims in dims(),
        row in 0..9usize,
        seed: u64,
        greatest in 1..400u64,
        least in 0..9u64,
    ) {
        let code = DType::ALL[row].code();
        let itemsize = DType::ALL[row].itemsize();
        let (layout, size) = layout_of(&dims, itemsize);
        let kept_dims: Vec<_> = dims.iter().map(|dim| dim.4).collect();
        let elements = offsets(&layout, &kept_dims);
        let mut bytes = vec![0; size];
        let item = itemsize as usize;
        let noise = bytes_of(elements.iter().map(Vec::len).sum(), seed);
        for (at, noise) in elements.iter().flatten().zip(noise) {
            let number = u64::from(noise) * greatest / 256;
            bytes[*at..][..item].copy_from_slice(&number.to_le_bytes()[..item]);
        }
        let element = reader(&bytes, code);
        let number = |at: &usize| whole(element(at));
        let numbers: Vec<Vec<_>> =
            elements.iter().map(|of_one| of_one.iter().map(number).collect()).collect();
        let found = counted(&bytes, &layout, code, least, &axes(&dims));
        if let Some(negative) = numbers.iter().flatten().find(|number| **number < 0) {
            prop_assert!(found.unwrap_err().to_string().contains("is negative"), "{negative}");
            return Ok(());
        }
        let used = numbers.iter().flatten().max().map_or(0, |greatest| *greatest as usize + 1);
        let columns = used.max(least as usize);
        let mut expected = vec![0; columns * numbers.len()];
        for (row, all) in numbers.iter().enumerate() {
            all.iter().for_each(|number| expected[row * columns + *number as usize] += 1);
        }
        prop_assert_eq!(found.unwrap(), (columns, expected));
    }
}

fn row(count: usize, itemsize: u64) -> Layout {
    Layout { shape: vec![count as u64], strides: vec![itemsize as i64], offset: 0 }
}

#[test]
fn many_floats_are_added_up_as_well_as_few() {
    let count = if cfg!(miri) { 180 } else { 2_000_000 };
    let numbers: Vec<f64> =
        (0..count).map(|at| if at % 3 == 1 { 0.1 } else { 1e9 * f64::from(at % 3 - 1) }).collect();
    let bytes: Vec<u8> = numbers.iter().copied().flat_map(f64::to_le_bytes).collect();
    for axes in [&[0][..], &[0, 1]] {
        // In rows of one element, each result is added to one by one.
        let mut layout = row(numbers.len(), 8);
        if axes.len() == 1 {
            layout = Layout {
                shape: vec![numbers.len() as u64 / 9, 9],
                strides: vec![72, 8],
                offset: 0,
            };
        } else {
            layout.shape.push(1);
            layout.strides.push(8);
        }
        let kept_dims = [false, axes.len() == 1];
        let found = reduced(&bytes, &layout, TypeCode::Float64, Reduction::Sum, axes).unwrap();
        for (found, of_one) in found.iter().zip(offsets(&layout, &kept_dims)) {
            let numbers: Vec<_> = of_one.iter().map(|at| numbers[at / 8]).collect();
            assert!(close(float(*found), &numbers, 1.0), "{found:?}");
        }
    }
}

#[test]
fn sums_that_no_element_could_be_are_exact() {
    let count: usize = if cfg!(miri) { 100 } else { 3000 };
    for (code, number) in
        [(TypeCode::Int64, i128::from(i64::MIN)), (TypeCode::UInt64, i128::from(u64::MAX))]
    {
        let bytes = number.to_le_bytes()[..8].repeat(count);
        let sum = number * count as i128;
        let found = reduced(&bytes, &row(count, 8), code, Reduction::Sum, &[0]).unwrap();
        assert_eq!(found, [Number::Integer(sum)]);
        let mean = reduced(&bytes, &row(count, 8), code, Reduction::Mean, &[0]).unwrap();
        assert_eq!(mean, [Number::Float(sum as f64 / count as f64)]);
    }
}

#[test]
fn a_row_of_counts_grows_without_losing_any() {
    let count: u32 = if cfg!(miri) { 20 } else { 600 };
    let numbers: Vec<u32> = (0..count).map(|at| at * at).collect();
    let bytes: Vec<u8> = numbers.iter().copied().flat_map(u32::to_le_bytes).collect();
    let layout = Layout { shape: vec![u64::from(count) / 2, 2], strides: vec![8, 4], offset: 0 };
    let (columns, counts) = counted(&bytes, &layout, TypeCode::UInt32, 0, &[0]).unwrap();
    let greatest = (count as usize - 1).pow(2);
    assert_eq!((columns, counts.len()), (greatest + 1, 2 * (greatest + 1)));
    for (at, number) in numbers.iter().enumerate() {
        assert_eq!(counts[at % 2 * columns + *number as usize], 1);
    }
    assert_eq!(counts.iter().sum::<u64>(), u64::from(count));
}

#[test]
fn a_number_too_great_to_be_counted_is_refused() {
    for number in [u64::MAX, 1 << 60] {
        let error = counted(&number.to_le_bytes(), &row(1, 8), TypeCode::UInt64, 0, &[0])
            .unwrap_err()
            .to_string();
        assert!(error.contains("are more than there is memory for"), "{error}");
    }
    let error = counted(&[0], &row(1, 1), TypeCode::UInt8, u64::MAX, &[0]).unwrap_err().to_string();
    assert!(error.contains("are more than there is memory for"), "{error}");
}

#[test]
fn a_reduction_can_be_stopped_before_each_block() {
    let bytes = vec![1; 10 * walk::BLOCK_BYTES];
    let layout = row(bytes.len(), 1);
    let from = Strided { start: bytes.as_ptr().cast_mut(), layout: &layout };
    // SAFETY: `ReductionRequest::new` needs readable elements: the bytes hold all that the layout
    // describes.
    let request =
        unsafe { ReductionRequest::new(from, TypeCode::UInt8, Reduction::Sum, None) }.unwrap();
    let mut asked = 0;
    let stopped = request.one(&mut || {
        asked += 1;
        asked < 4
    });
    assert!(matches!(stopped, Err(Stop::Asked)) && asked == 4);
    assert_eq!(request.one(&mut || true).unwrap(), Number::Integer(bytes.len() as i128));
}

#[test]
fn an_infinity_stays_one_and_two_that_differ_are_no_number() {
    let sum = |numbers: [f64; 3]| {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(f64::to_le_bytes).collect();
        let layout = Layout { shape: vec![3, 1], strides: vec![8, 8], offset: 0 };
        float(reduced(&bytes, &layout, TypeCode::Float64, Reduction::Sum, &[0]).unwrap()[0])
    };
    assert_eq!(sum([1.0, f64::INFINITY, 1.0]), f64::INFINITY);
    assert_eq!(sum([f64::MAX, f64::MAX, 1.0]), f64::INFINITY);
    assert_eq!(sum([f64::NEG_INFINITY, f64::MAX, f64::NEG_INFINITY]), f64::NEG_INFINITY);
    assert!(
        sum([f64::INFINITY, 1.0, f64::NEG_INFINITY]).is_nan() && sum([1.0, f64::NAN, 1.0]).is_nan()
    );
}

#[test]
fn a_whole_block_of_bytes_is_summed() {
    let bytes = vec![0x3C; 3 * walk::BLOCK_BYTES + 5]; // 1.0 of float8_e5m2
    let layout = row(bytes.len(), 1);
    let sum = reduced(&bytes, &layout, TypeCode::Float8E5M2, Reduction::Sum, &[0]).unwrap();
    assert_eq!(sum, [Number::Float(bytes.len() as f64)]);
}
