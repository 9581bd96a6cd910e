//! Copies between layouts, by one thread and by two, beside a plain copy of as many bytes.
//!
//! The measured functions are private to the library, so its source is a module here.
#![allow(missing_docs, unsafe_code)]

use divan::{Bencher, counter::BytesCount};

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/element"]
pub(crate) mod element {
    #[path = "copy/mod.rs"]
    pub(crate) mod copy;
    #[path = "per_byte/mod.rs"]
    pub(crate) mod per_byte;
}
/// The part of the crate that `copy` uses.
pub(crate) mod value {
    pub(crate) mod shape {
        pub(crate) use shmarray::{Layout, Order};
    }
}

use element::copy::{Strided, copy_in_parts};
use value::shape::{Layout, Order};

/// Elements of eight bytes, 32 MB.
const SHAPE: [u64; 2] = [2000, 2000];
const ITEM: u64 = 8;
const BYTES: usize = 32_000_000;
const SOURCES: [&str; 5] = ["dense", "transposed", "every second", "backwards", "one row for all"];

fn main() {
    divan::main();
}

fn layout(source: &str) -> Layout {
    let [rows, columns] = SHAPE;
    let dense = Layout::contiguous(&SHAPE, ITEM, Order::C).unwrap();
    match source {
        "dense" => dense,
        "transposed" => dense.transpose(),
        "every second" => {
            let wide = Layout::contiguous(&[rows, 2 * columns], ITEM, Order::C).unwrap();
            wide.slice(1, None, None, 2).unwrap()
        }
        "backwards" => dense.slice(0, None, None, -1).unwrap().slice(1, None, None, -1).unwrap(),
        _ => Layout { strides: vec![0, ITEM as i64], ..dense },
    }
}

#[divan::bench(args = SOURCES, consts = [1, 2])]
fn copied<const PARTS: usize>(bencher: Bencher<'_, '_>, source: &str) {
    let from = layout(source);
    let to = layout("dense");
    let memory = vec![1u8; 2 * BYTES];
    let mut target = vec![1u8; BYTES];
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
        let from = Strided { start: memory.as_ptr().cast_mut(), layout: &from };
        let to = Strided { start: target.as_mut_ptr(), layout: &to };
        // SAFETY: the copy needs mapped memory at both ends: each vector has all the bytes that its
        // layout describes, and they do not overlap.
        unsafe { copy_in_parts(to, from, ITEM, PARTS) };
    });
}

/// Elements of 16 bytes, 1000 × 1000, transposed: by the library, and row by row, as NumPy does.
mod wide {
    use super::*;

    const SHAPE: [u64; 2] = [1000, 1000];
    const ITEM: u64 = 16;
    const BYTES: usize = 16_000_000;

    #[divan::bench(consts = [1, 2])]
    fn transposed<const PARTS: usize>(bencher: Bencher<'_, '_>) {
        let dense = Layout::contiguous(&SHAPE, ITEM, Order::C).unwrap();
        let turned = dense.transpose();
        let memory = vec![1u8; BYTES];
        let mut target = vec![1u8; BYTES];
        bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
            let from = Strided { start: memory.as_ptr().cast_mut(), layout: &turned };
            let to = Strided { start: target.as_mut_ptr(), layout: &dense };
            // SAFETY: the copy needs mapped memory at both ends: each vector has all the bytes that
            // its layout describes, and they do not overlap.
            unsafe { copy_in_parts(to, from, ITEM, PARTS) };
        });
    }

    #[divan::bench]
    fn row_by_row(bencher: Bencher<'_, '_>) {
        let [rows, columns] = SHAPE.map(|count| count as usize);
        let memory = vec![[1u64; 2]; rows * columns];
        let mut target = vec![[1u64; 2]; rows * columns];
        bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
            for (row, target) in target.chunks_exact_mut(rows).enumerate() {
                for (column, item) in target.iter_mut().enumerate() {
                    *item = memory[column * columns + row];
                }
            }
        });
    }
}

#[divan::bench]
fn plain(bencher: Bencher<'_, '_>) {
    let memory = vec![1u8; BYTES];
    let mut target = vec![1u8; BYTES];
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
        // SAFETY: both pointers are valid for the copy, because each vector was made with `BYTES`
        // bytes and they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(memory.as_ptr(), target.as_mut_ptr(), BYTES) };
    });
}

#[cfg(unix)]
mod files {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::{
        BYTES, Bencher, BytesCount, ITEM, Layout, SOURCES, Strided, element::copy, layout,
    };

    fn new_file() -> File {
        let memory =
            if cfg!(target_os = "linux") { "/dev/shm".into() } else { std::env::temp_dir() };
        tempfile::tempfile_in(memory).unwrap()
    }

    fn write(from: &Layout, memory: &[u8], file: &File, parts: usize) {
        let from = Strided { start: memory.as_ptr().cast_mut(), layout: from };
        let write = |offset, start, bytes| {
            // SAFETY: the piece can be read, as `write_in_parts` promises, and no thread of this
            // program writes to it.
            file.write_all_at(unsafe { std::slice::from_raw_parts(start, bytes) }, offset)
        };
        // SAFETY: every element can be read, because the memory has all the bytes that the layout
        // describes.
        unsafe { copy::write_in_parts(from, ITEM, parts, write) }.unwrap();
    }

    /// Writes to a file that has no pages yet.
    #[divan::bench(args = SOURCES, consts = [1, 2], sample_count = 20)]
    fn written<const PARTS: usize>(bencher: Bencher<'_, '_>, source: &str) {
        let from = layout(source);
        let memory = vec![1u8; 2 * BYTES];
        let bencher = bencher.counter(BytesCount::new(BYTES)).with_inputs(new_file);
        bencher.bench_local_values(|file| {
            write(&from, &memory, &file, PARTS);
            file
        });
    }
}
