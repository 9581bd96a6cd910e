//! Copies compared with a plain copy, element by element.
#![allow(unsafe_code)]

use std::io::{Error, ErrorKind};
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::plan::Inner;
use super::*;

/// The dimensions of both ends: the elements, the gaps between them, whether the strides are
/// negative, and the nesting order in the memory of each end.
type Dims = Vec<(u64, [u64; 2], [bool; 2], [u8; 2])>;

/// The most elements of a dimension, by the number of dimensions.
const MOST: [u64; 6] = if cfg!(miri) { [1, 9, 9, 4, 3, 2] } else { [1, 400, 80, 24, 9, 6] };
const CASES: u32 = if cfg!(miri) { 10 } else { 300 };

fn dims() -> impl Strategy<Value = Dims> {
    (0..MOST.len()).prop_flat_map(|ndim| {
        let count = prop_oneof![16 => 1..=MOST[ndim], 2 => Just(1), 1 => Just(0)];
        let gap = || prop_oneof![3 => Just(0u64), 1 => 1..3u64];
        let dim = (count, [gap(), gap()], any::<[bool; 2]>(), any::<[u8; 2]>());
        proptest::collection::vec(dim, ndim)
    })
}

/// Returns the layout of one end and the bytes of memory it needs. Dimensions are nested in their
/// order.
fn end_of(dims: &Dims, end: usize, itemsize: u64) -> (Layout, usize) {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|&dim| dims[dim].3[end]);
    let mut layout = Layout {
        shape: dims.iter().map(|dim| dim.0).collect(),
        strides: vec![0; dims.len()],
        offset: 0,
    };
    let mut extent = itemsize;
    for dim in order {
        let (count, gaps, back, _) = dims[dim];
        let step = extent + gaps[end] * if gaps[end] == 1 { 1 } else { itemsize };
        layout.strides[dim] = if back[end] { -(step as i64) } else { step as i64 };
        layout.offset += if back[end] { step * count.saturating_sub(1) } else { 0 };
        extent = step * count.max(1);
    }
    (layout, extent as usize)
}

/// Returns the offsets of all elements in C order.
fn offsets(layout: &Layout) -> Vec<usize> {
    let mut all = vec![layout.offset as i64];
    for (&count, &stride) in layout.shape.iter().zip(&layout.strides) {
        all = all
            .iter()
            .flat_map(|base| (0..count as i64).map(move |index| base + index * stride))
            .collect();
    }
    all.into_iter().map(|offset| offset as usize).collect()
}

fn bytes_of(size: usize) -> Vec<u8> {
    (0..size as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect()
}

fn copied(
    to: &Layout,
    to_size: usize,
    from: &Layout,
    source: &[u8],
    itemsize: u64,
    parts: usize,
) -> Vec<u8> {
    let mut target = vec![0; to_size];
    let to = Strided { start: target.as_mut_ptr(), layout: to };
    let from = Strided { start: source.as_ptr().cast_mut(), layout: from };
    // SAFETY: `copy_in_parts` needs mapped memory for both layouts: each vector has the bytes that
    // its layout describes, and they do not overlap.
    unsafe { copy_in_parts(to, from, itemsize, parts) };
    target
}

fn written(from: &Layout, source: &[u8], itemsize: u64, parts: usize) -> Vec<u8> {
    let target = Mutex::new(vec![0u8; (from.len() * itemsize) as usize]);
    let write = |offset, start, bytes| {
        // SAFETY: the piece can be read, as `write_in_parts` promises, and no thread writes to it
        // in this test.
        let piece = unsafe { std::slice::from_raw_parts(start, bytes) };
        target.lock().unwrap()[offset as usize..][..bytes].copy_from_slice(piece);
        Ok(())
    };
    let from = Strided { start: source.as_ptr().cast_mut(), layout: from };
    // SAFETY: `write_in_parts` needs mapped memory for the layout: the vector has all the bytes
    // that it describes.
    unsafe { write_in_parts(from, itemsize, parts, write) }.unwrap();
    target.into_inner().unwrap()
}

fn check(to: (Layout, usize), from: (Layout, usize), itemsize: u64, parts: usize) {
    let source = bytes_of(from.1);
    let item_at = |at: usize| &source[at..at + itemsize as usize];
    let items: Vec<&[u8]> = offsets(&from.0).into_iter().map(item_at).collect();
    let mut expected = vec![0; to.1];
    for (at, item) in offsets(&to.0).into_iter().zip(&items) {
        expected[at..at + item.len()].copy_from_slice(item);
    }
    let facts = format!("{to:?} from {from:?}, items of {itemsize}, {parts} parts");
    assert_eq!(copied(&to.0, to.1, &from.0, &source, itemsize, parts), expected, "{facts}");
    assert_eq!(written(&from.0, &source, itemsize, parts), items.concat(), "{facts}");
}

fn cases() -> Config {
    Config { cases: CASES, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_layout_is_copied_to_any_other(dims in dims(), itemsize in 1u64..18, parts in 1usize..4) {
        check(end_of(&dims, 0, itemsize), end_of(&dims, 1, itemsize), itemsize, parts);
    }

    #[test]
    fn one_element_of_a_dimension_may_stand_for_all(
        dims in dims(),
        zeros in any::<[[bool; 2]; 5]>(),
        parts in 1usize..4,
    ) {
        let [mut to, mut from] = [0, 1].map(|end| end_of(&dims, end, 4));
        for (dim, &[to_zero, from_zero]) in (0..dims.len()).zip(&zeros) {
            for (end, zero) in [(&mut to.0, to_zero && dims.len() < 3), (&mut from.0, from_zero)] {
                // The dimension's first element stays where it was, inside the memory.
                end.strides[dim] = if zero { 0 } else { end.strides[dim] };
            }
        }
        check(to, from, 4, parts);
    }
}

/// The shapes give whole tiles and tiles that are cut.
#[test]
fn transposed_arrays_arrive_in_order() {
    let shapes: &[[u64; 3]] = &[
        [130, 70, 1],
        [300, 5, 9],
        [3, 700, 2],
        [17, 65, 33],
        [800, 3, 3],
        [260, 270, 1],
        [70, 300, 40],
    ];
    let (shapes, sizes): (_, &[u64]) = if cfg!(miri) {
        (&[[9, 11, 1]][..], &[1, 12, 40])
    } else {
        (shapes, &[1, 2, 3, 4, 8, 12, 16, 24, 40])
    };
    for shape in shapes {
        for &itemsize in sizes {
            let c = Layout::contiguous(shape, itemsize, Order::C).unwrap();
            let f = Layout::contiguous(shape, itemsize, Order::F).unwrap();
            let size = (c.len() * itemsize) as usize;
            check((c.clone(), size), (f.clone(), size), itemsize, 1);
            check((f, size), (c, size), itemsize, 2);
        }
    }
}

#[test]
fn a_transposed_and_reversed_source_arrives_in_order() {
    let source: Vec<u16> = (0..24).collect();
    let from = Layout::contiguous(&[4, 3, 2], 2, Order::C).unwrap();
    let from = from.permute(&[1, 0, 2]).unwrap().slice(0, None, None, -1).unwrap();
    let to = Layout::contiguous(&from.shape, 2, Order::C).unwrap();
    let mut copied = vec![0u16; 24];
    let before = copied_bytes();
    let ends = [copied.as_mut_ptr().cast(), source.as_ptr().cast_mut().cast::<u8>()];
    // SAFETY: `copy_elements` needs mapped memory for both layouts: each vector holds the 48 bytes
    // that its layout describes.
    unsafe {
        copy_elements(
            Strided { start: ends[0], layout: &to },
            Strided { start: ends[1], layout: &from },
            2,
        )
    };
    let expected: Vec<u16> = (0..3)
        .rev()
        .flat_map(|j| (0..4).flat_map(move |i| [i * 6 + j * 2, i * 6 + j * 2 + 1]))
        .collect();
    assert_eq!(copied, expected);
    assert!(copied_bytes() >= before + 48);
}

/// A tile copies each item once more. Few large items share a cache line, so tiles save nothing for
/// them.
#[test]
fn small_items_are_transposed_in_tiles_and_large_ones_are_not() {
    for (itemsize, expected) in
        [(4, Inner::Tiles), (8, Inner::Tiles), (16, Inner::Streams), (32, Inner::Streams)]
    {
        let to = Layout::contiguous(&[1000, 1000], itemsize, Order::C).unwrap();
        let from = to.transpose();
        let [to, from] = [&to, &from].map(|layout| Strided { start: std::ptr::null_mut(), layout });
        assert_eq!(Plan::new(to, from, itemsize as usize).arrange(), expected, "{itemsize} bytes");
    }
}

#[test]
fn dense_ends_are_one_run_in_whatever_order() {
    let shape = [4, 3, 2];
    for order in [Order::C, Order::F] {
        let dense = Layout::contiguous(&shape, 2, order).unwrap();
        let mut memory = [0u8; 96];
        let [to, from] =
            [0, 48].map(|at| Strided { start: memory[at..].as_mut_ptr(), layout: &dense });
        let plan = Plan::new(to, from, 2);
        assert_eq!((plan.dims.len(), plan.run_bytes), (0, 48), "{order:?}");
    }
}

#[test]
fn the_first_error_of_a_write_ends_it() {
    let source = bytes_of(4096);
    let from = Layout::contiguous(&[64, 64], 1, Order::F).unwrap();
    let from = Strided { start: source.as_ptr().cast_mut(), layout: &from };
    let before = copied_bytes();
    // SAFETY: `write_elements` needs mapped memory for the layout: the vector has all the bytes
    // that it describes.
    let failed =
        unsafe { write_elements(from, 1, |_, _, _| Err(Error::from(ErrorKind::StorageFull))) };
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(copied_bytes() >= before);
}

#[test]
fn large_copies_are_counted_once() {
    let bytes: u64 = if cfg!(miri) { 1 << 10 } else { 40 << 20 };
    let source = bytes_of(bytes as usize);
    let mut target = vec![0u8; bytes as usize];
    let layout = Layout::contiguous(&[bytes / 8], 8, Order::C).unwrap();
    let backwards = layout.slice(0, None, None, -1).unwrap();
    let before = copied_bytes();
    for from in [&layout, &backwards] {
        let from = Strided { start: source.as_ptr().cast_mut(), layout: from };
        // SAFETY: `copy_elements` needs mapped memory for both layouts: each vector has the bytes
        // that its layout describes.
        unsafe { copy_elements(Strided { start: target.as_mut_ptr(), layout: &layout }, from, 8) };
    }
    assert!(copied_bytes() >= before + 2 * bytes);
    assert!(source.chunks(8).rev().eq(target.chunks(8)));
}
