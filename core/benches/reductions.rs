//! Reductions of arrays that fit the cache, that do not, and that are strided, in bytes and time.
#![allow(missing_docs)]

use divan::{Bencher, black_box, counter::BytesCount};
use shmarray::{Array, DType, Options, Reduction};

const SMALL_BYTES: u64 = 256 << 10;
const LARGE_BYTES: u64 = 64 << 20;
const DTYPES: [&str; 6] = ["|u1", "<i4", "<i8", "<f2", "<f4", "<f8"];

fn main() {
    divan::main();
}

fn array(dtype: &str, bytes: u64) -> Array {
    let dtype = DType::parse(dtype).unwrap();
    let count = bytes / dtype.itemsize();
    Array::create(dtype, &[count / 1024, 1024], &Options::default()).unwrap()
}

fn reduced(bencher: Bencher<'_, '_>, array: &Array, reduction: Reduction, axes: Option<&[usize]>) {
    let bytes = array.layout().len() * array.dtype().itemsize();
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| black_box(array.reduce(reduction, axes, &mut || true)));
}

#[divan::bench(args = DTYPES, consts = [SMALL_BYTES, LARGE_BYTES])]
fn sum<const BYTES: u64>(bencher: Bencher<'_, '_>, dtype: &str) {
    reduced(bencher, &array(dtype, BYTES), Reduction::Sum, None);
}

#[divan::bench(args = DTYPES, consts = [SMALL_BYTES, LARGE_BYTES])]
fn min<const BYTES: u64>(bencher: Bencher<'_, '_>, dtype: &str) {
    reduced(bencher, &array(dtype, BYTES), Reduction::Min, None);
}

#[divan::bench(args = ["|u1", "<u2"], consts = [SMALL_BYTES, LARGE_BYTES])]
fn bincount<const BYTES: u64>(bencher: Bencher<'_, '_>, dtype: &str) {
    reduced(bencher, &array(dtype, BYTES), Reduction::Bincount { min_length: 0 }, None);
}

#[divan::bench(args = DTYPES, consts = [0, 1])]
fn sum_along<const AXIS: usize>(bencher: Bencher<'_, '_>, dtype: &str) {
    reduced(bencher, &array(dtype, LARGE_BYTES), Reduction::Sum, Some(&[AXIS]));
}

#[divan::bench(args = DTYPES, consts = [0, 1])]
fn max_along<const AXIS: usize>(bencher: Bencher<'_, '_>, dtype: &str) {
    reduced(bencher, &array(dtype, LARGE_BYTES), Reduction::Max, Some(&[AXIS]));
}

#[divan::bench(args = ["|u1", "<f4"])]
fn sum_transposed(bencher: Bencher<'_, '_>, dtype: &str) {
    reduced(bencher, &array(dtype, LARGE_BYTES).transpose(), Reduction::Sum, None);
}
