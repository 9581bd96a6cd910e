//! The costs of an array: creating, finding, passing on and filling it.
#![allow(missing_docs, unsafe_code)]

use divan::{Bencher, black_box, counter::BytesCount};
use shmarray::{Access, Array, DType, Layout, Options, Order, unlink};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn main() {
    let memory = if cfg!(target_os = "linux") { "/dev/shm".into() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("shmbench-").tempdir_in(memory).unwrap();
    // SAFETY: changing the environment needs a process in which nothing reads it, and no other
    // thread runs before `main` starts one.
    unsafe { std::env::set_var("SHMARRAY_DIR", directory.path()) };
    divan::main();
}

fn bytes_dtype() -> DType {
    DType::parse("|u1").unwrap()
}

fn create(bytes: u64) -> Array {
    Array::create(bytes_dtype(), &[bytes], &Options::default()).unwrap()
}

#[divan::bench(args = [80, 64 * KIB, MIB, 4 * MIB])]
fn create_and_drop(bytes: u64) {
    drop(create(black_box(bytes)));
}

/// No array of this process has it: each time it is opened and mapped.
#[divan::bench(args = [64 * KIB, 4 * MIB])]
fn attach_and_drop_cold(bencher: Bencher<'_, '_>, bytes: u64) {
    let options = Options::new().name("cold").persist(true);
    let handle = Array::create(bytes_dtype(), &[bytes], &options).unwrap().handle();
    bencher.bench_local(|| drop(Array::attach(black_box(&handle), Access::ReadWrite).unwrap()));
    unlink("cold").unwrap();
}

#[divan::bench(args = [80, 4 * MIB])]
fn attach_and_drop_what_is_mapped(bencher: Bencher<'_, '_>, bytes: u64) {
    let array = create(bytes);
    let handle = array.handle();
    bencher.bench_local(|| drop(Array::attach(black_box(&handle), Access::ReadWrite).unwrap()));
}

#[divan::bench]
fn handle_to_text(bencher: Bencher<'_, '_>) {
    let array = create(80);
    bencher.bench_local(|| black_box(&array).handle());
}

#[divan::bench]
fn handle_from_text(bencher: Bencher<'_, '_>) {
    let text = create(80).handle();
    bencher.bench_local(|| shmarray::Descriptor::parse(black_box(&text)).unwrap());
}

/// Copies to memory that no array had before. Giving it back is not counted.
#[divan::bench(args = [64 * KIB, 4 * MIB, 64 * MIB])]
fn share(bencher: Bencher<'_, '_>, bytes: u64) {
    let private = vec![1u8; bytes as usize];
    let layout = Layout::contiguous(&[bytes], 1, Order::C).unwrap();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        // SAFETY: every element can be read, because the private vector has all the bytes that the
        // layout describes.
        unsafe { Array::share(private.as_ptr(), bytes_dtype(), &layout, &Options::default()) }
            .unwrap()
    });
}
