//! Tests of layouts.

use super::*;
use proptest::prelude::*;

/// Returns the offsets of all elements in C order, by counting.
fn offsets(layout: &Layout) -> Vec<i128> {
    let mut all = vec![i128::from(layout.offset)];
    for (&count, &stride) in layout.shape.iter().zip(&layout.strides) {
        let step = |base: &i128| {
            (0..count).map(|i| base + i128::from(i) * i128::from(stride)).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(step).collect();
    }
    all
}

fn layouts() -> impl Strategy<Value = Layout> {
    (proptest::collection::vec(0u64..5, 0..4), any::<bool>()).prop_map(|(shape, f)| {
        let order = if f { Order::F } else { Order::C };
        Layout::contiguous(&shape, 4, order).unwrap()
    })
}

#[test]
fn a_view_without_elements_stays_where_it_is() {
    let layout = Layout::contiguous(&[6, 0], 4, Order::F).unwrap();
    for view in [layout.slice(0, None, None, -2).unwrap(), layout.select(0, 5).unwrap()] {
        assert_eq!(view.offset, 0);
        view.check(4, 0).unwrap();
    }
}

/// Whether two elements have a byte in common, by counting.
fn have_bytes_in_common(mut starts: Vec<i128>, itemsize: u64) -> bool {
    starts.sort_unstable();
    starts.windows(2).any(|two| two[1] - two[0] < i128::from(itemsize))
}

proptest! {
    /// The strides are any, so elements repeat, and lie between and within one another.
    #[test]
    fn without_gaps_each_element_keeps_its_rank(
        dims in proptest::collection::vec((0u64..5, -40i64..41), 0..4),
        itemsize in 1u64..9,
    ) {
        let (shape, strides) = dims.into_iter().unzip();
        let layout = Layout { shape, strides, offset: 1000 };
        let sparse = offsets(&layout);
        match layout.without_gaps(itemsize) {
            None => prop_assert!(!layout.is_empty()),
            Some(dense) => {
                prop_assert!(!have_bytes_in_common(sparse.clone(), itemsize));
                let mut ranks: Vec<usize> = (0..sparse.len()).collect();
                ranks.sort_by_key(|index| sparse[*index]);
                let found = offsets(&dense);
                for (rank, index) in ranks.into_iter().enumerate() {
                    prop_assert_eq!(found[index], rank as i128 * i128::from(itemsize));
                }
            }
        }
    }

    /// Dimensions that are nested, as those of every slice and transpose are.
    #[test]
    fn views_of_elements_side_by_side_have_a_layout_without_gaps(
        layout in layouts(),
        flip in 0usize..3,
        step in -3i64..4,
    ) {
        prop_assume!(flip < layout.ndim() && step != 0);
        let view = layout.slice(flip, None, None, step).unwrap().transpose();
        let dense = view.without_gaps(4).expect("no elements overlap");
        prop_assert_eq!(dense.check(4, 4 * view.len()).ok(), Some(()));
    }

    #[test]
    fn the_span_is_that_of_the_elements(
        layout in layouts(),
        flip in 0usize..3,
        step in -3i64..4,
    ) {
        let mut layout = layout;
        if flip < layout.ndim() && step != 0 {
            layout = layout.slice(flip, None, None, step).unwrap();
        }
        let all = offsets(&layout);
        let span = layout.span(4).unwrap();
        match (all.iter().min(), all.iter().max()) {
            (Some(low), Some(high)) => prop_assert_eq!(span, (*low, high + 4)),
            _ => prop_assert_eq!(span.0, span.1),
        }
        prop_assert!(layout.check(4, 4 * 125).is_ok());
    }

    #[test]
    fn a_slice_takes_what_python_takes(
        count in 0u64..9,
        start in -12i64..12,
        stop in -12i64..12,
        step in -4i64..5,
    ) {
        prop_assume!(step != 0);
        let layout = Layout::contiguous(&[count], 1, Order::C).unwrap();
        let sliced = offsets(&layout.slice(0, Some(start), Some(stop), step).unwrap());
        let n = count as i64;
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let clip = |at: i64| if at < 0 { (at + n).max(low) } else { at.min(high) };
        let mut at = clip(start);
        let end = clip(stop);
        let mut expected = vec![];
        while (step > 0 && at < end) || (step < 0 && at > end) {
            expected.push(i128::from(at));
            at += step;
        }
        prop_assert_eq!(sliced, expected);
    }

    #[test]
    fn a_reshape_has_the_same_elements_in_the_same_order(
        layout in layouts(),
        step in -2i64..3,
        is_turned in any::<bool>(),
        split in 1u64..5,
    ) {
        let dim = layout.ndim().saturating_sub(1);
        let sliced = layout.slice(dim, None, None, step).unwrap_or_else(|_| layout.clone());
        let layout = if is_turned { sliced.transpose() } else { sliced };
        let mut parted = layout.shape.clone();
        if let Some(last) = parted.last_mut().filter(|last| **last % split == 0) {
            *last /= split;
            parted.push(split);
            let parted = layout.reshape(4, &parted).unwrap();
            prop_assert_eq!(offsets(&parted), offsets(&layout));
        }
        match layout.reshape(4, &[layout.len()]) {
            Ok(flat) => prop_assert_eq!(offsets(&flat), offsets(&layout)),
            Err(_) => prop_assert!(!layout.is_contiguous(4, Order::C)),
        }
        prop_assert!(layout.reshape(4, &[layout.len() + 1]).is_err());
    }

    #[test]
    fn transposing_twice_changes_nothing(layout in layouts()) {
        prop_assert_eq!(&layout.transpose().transpose(), &layout);
        prop_assert_eq!(
            layout.is_contiguous(4, Order::C),
            layout.transpose().is_contiguous(4, Order::F)
        );
    }
}

#[test]
fn sizes_that_overflow_are_refused_even_beside_a_zero() {
    for shape in [&[u64::MAX, 2][..], &[1 << 62, 1 << 62, 0], &[1 << 61, 4]] {
        assert!(Layout::contiguous(shape, 8, Order::C).is_err(), "{shape:?}");
    }
    assert_eq!(size_bytes(&[0, 5], 8).unwrap(), 0);
    assert_eq!(size_bytes(&[], 8).unwrap(), 8);
    assert!(size_bytes(&[1; 65], 1).is_err());
}

#[test]
fn strides_that_overflow_are_refused() {
    let wild = Layout { shape: vec![1 << 20; 3], strides: vec![i64::MAX; 3], offset: 0 };
    assert!(wild.check(1, 1 << 40).is_err());
    let below = Layout { shape: vec![3], strides: vec![-8], offset: 8 };
    assert!(matches!(below.check(8, 64), Err(Error::OutOfBounds { low: -8, .. })));
    let after = Layout { shape: vec![0], strides: vec![8], offset: 65 };
    assert!(after.check(8, 64).is_err());
}

#[test]
fn zero_strides_repeat_an_element() {
    let broadcast = Layout { shape: vec![1000], strides: vec![0], offset: 56 };
    broadcast.check(8, 64).unwrap();
    assert_eq!(broadcast.span(8).unwrap(), (56, 64));
    assert!(!broadcast.is_contiguous(8, Order::C));
}

#[test]
fn an_index_outside_its_dimension_is_refused() {
    let layout = Layout::contiguous(&[2, 3], 4, Order::C).unwrap();
    assert_eq!(layout.element_offset(&[1, 2]).unwrap(), 20);
    assert_eq!(layout.select(0, -1).unwrap().offset, 12);
    assert!(
        layout.select(0, 2).is_err()
            && layout.select(0, -3).is_err()
            && layout.select(2, 0).is_err()
    );
    assert!(layout.element_offset(&[0, 3]).is_err() && layout.element_offset(&[0]).is_err());
    assert!(layout.permute(&[0, 0]).is_err() && layout.permute(&[0]).is_err());
}
