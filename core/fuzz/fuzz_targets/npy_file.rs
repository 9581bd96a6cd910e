//! Any bytes as an NPY file: refused by an error that names the field, or read as a slow, obvious
//! model reads them, and written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shmarray::npy::{Elements, Npy, NpyHeader, Source, write_npy};
use shmarray::{Array, Error, Options, Order};

/// The most bytes that are loaded.
const MOST_BYTES: u64 = 1 << 20;

/// Checks what a header says of sizes, without the library's own arithmetic.
fn check_sizes(header: &NpyHeader, bytes: &[u8]) {
    let Ok(dtype) = header.dtype() else { return assert!(header.has_objects()) };
    let numbers = header.shape().iter().map(|count| u128::from(*count));
    let size = numbers.fold(u128::from(dtype.itemsize()), |size, count| size.saturating_mul(count));
    assert_eq!(u128::from(header.data_bytes()), size);
    let length = match bytes[6] {
        1 => 10 + u64::from(u16::from_le_bytes([bytes[8], bytes[9]])),
        _ => 12 + u64::from(u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]])),
    };
    assert_eq!(
        (header.data_offset(), NpyHeader::size_bytes(&bytes[..12.min(bytes.len())]).unwrap()),
        (length, length)
    );
    assert!(header.layout().is_contiguous(dtype.itemsize(), header.order()));
}

/// What was read is written, and reads back to the same.
fn reads_back(header: &NpyHeader) {
    let Ok(dtype) = header.dtype() else { return };
    let again =
        match NpyHeader::new(dtype.clone(), header.shape(), header.order()).unwrap().to_bytes() {
            Ok(written) => NpyHeader::parse(&written).unwrap(),
            Err(error) => panic!("{} was read and cannot be written: {error}", dtype.text()),
        };
    assert_eq!(again.dtype().unwrap(), dtype);
    assert_eq!((again.shape(), again.order()), (header.shape(), header.order()));
    assert_eq!((again.layout(), again.data_bytes()), (header.layout(), header.data_bytes()));
}

/// Returns the elements by rows: those of the file, each copied to its place.
fn in_rows(header: &NpyHeader, stored: &[u8]) -> Vec<u8> {
    let itemsize = header.dtype().unwrap().itemsize() as usize;
    let shape: Vec<usize> = header.shape().iter().map(|count| *count as usize).collect();
    if header.order() == Order::C || itemsize == 0 {
        return stored.to_vec();
    }
    let count = stored.len() / itemsize;
    let mut rows = vec![0; stored.len()];
    for at in 0..count {
        let mut rest = at;
        let mut row = 0;
        let mut step = count;
        for count in &shape {
            step /= count;
            row += rest % count * step;
            rest /= count;
        }
        rows[row * itemsize..][..itemsize].copy_from_slice(&stored[at * itemsize..][..itemsize]);
    }
    rows
}

fn check_loaded(npy: &Npy<'_>, bytes: &[u8]) {
    let header = npy.header();
    if header.data_bytes() > MOST_BYTES {
        return;
    }
    let stored = &bytes[header.data_offset() as usize..][..header.data_bytes() as usize];
    let array = npy.load(&Options::new()).unwrap();
    assert_eq!(array.to_bytes().unwrap(), in_rows(header, stored));
    let mut read = vec![0; stored.len()];
    npy.read_into(&mut read).unwrap();
    assert_eq!(read, stored);
    check_written(&array);
}

fn check_written(array: &Array) {
    let mut written = Vec::new();
    write_npy(&mut written, &Elements::of(array).unwrap()).unwrap();
    let again = Npy::open(Source::bytes(&written)).unwrap().load(&Options::new()).unwrap();
    assert_eq!((again.shape(), again.dtype()), (array.shape(), array.dtype()));
    assert_eq!(again.to_bytes().unwrap(), array.to_bytes().unwrap());
}

fuzz_target!(|bytes: &[u8]| {
    let parsed = NpyHeader::parse(bytes);
    match (&parsed, Npy::open(Source::bytes(bytes))) {
        (Ok(header), Ok(npy)) => {
            assert_eq!(npy.header(), header);
            check_sizes(header, bytes);
            reads_back(header);
            match npy.dtype() {
                Ok(_) => check_loaded(&npy, bytes),
                Err(_) => drop(npy.load(&Options::new()).unwrap_err()),
            }
        }
        (Ok(header), Err(Error::InvalidFile { field, .. })) => {
            assert_eq!(field, "data");
            check_sizes(header, bytes);
            reads_back(header);
        }
        (Err(Error::InvalidFile { field, reason, .. }), Err(_)) => {
            assert!(!field.is_empty() && reason.len() < 1000, "{field}: {reason}");
        }
        (parsed, opened) => panic!("{parsed:?}, and {:?}", opened.err()),
    }
});
