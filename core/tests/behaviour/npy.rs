//! NPY and NPZ files: what is read back is what was saved, in every form.
#![cfg(not(miri))] // real files

use std::io::Cursor;

use shmarray::npy::{
    Batch, Contents, Elements, Npy, NpyHeader, Npz, NpzOptions, Source, save, save_npz, write_npy,
    write_npz,
};
use shmarray::{Array, DType, ErrorKind, Options, Order};

use crate::support::scenario;

fn counted(dtype: &str, shape: &[u64], order: Order) -> Array {
    let dtype = DType::parse(dtype).unwrap();
    let array = Array::create(dtype, shape, &Options::new().order(order)).unwrap();
    let bytes: Vec<u8> = (0..array.whole().shape()[0]).map(|at| (at * 7 % 251) as u8).collect();
    // SAFETY: the bytes can be read during the call, since the vector is private memory.
    #[allow(unsafe_code)]
    unsafe { array.whole().write_bytes(0, &bytes) }.unwrap();
    array
}

fn npy_bytes(array: &Array) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_npy(&mut bytes, &Elements::of(array).unwrap()).unwrap();
    bytes
}

fn contents(array: &Array) -> Contents<'_> {
    Contents::Elements(Elements::of(array).unwrap())
}

fn npz_bytes(members: &[(&str, &Array)], options: NpzOptions) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let members: Vec<_> = members.iter().map(|(name, array)| (*name, contents(array))).collect();
    write_npz(&mut file, &members, options).unwrap();
    file.into_inner()
}

fn loaded(bytes: &[u8]) -> Array {
    Npy::open(Source::bytes(bytes)).unwrap().load(&Options::new()).unwrap()
}

#[test]
fn an_array_of_any_dtype_shape_and_order_reads_back() {
    scenario(|| {
        let structured = r#"{"descr":[["a","<i4"],["","|V4"],["b",">f8",[2]]],"itemsize":24}"#;
        let plain = DType::ALL.iter().filter(|dtype| !dtype.is_by_name()).map(DType::text);
        for dtype in plain.chain([">i4", "|S5", "<U3", structured]) {
            for shape in [&[][..], &[0], &[5], &[3, 4], &[2, 0, 3], &[2, 3, 4, 5]] {
                for order in [Order::C, Order::F] {
                    let array = counted(dtype, shape, order);
                    let read = loaded(&npy_bytes(&array));
                    assert_eq!(read.dtype(), array.dtype());
                    assert_eq!(read.shape(), array.shape());
                    assert_eq!(read.to_bytes().unwrap(), array.to_bytes().unwrap());
                }
            }
        }
    });
}

#[test]
fn an_array_of_a_dtype_by_name_reads_back_as_its_bytes() {
    scenario(|| {
        let beyond_the_table = r#"{"descr":"float9_e4m4","itemsize":2}"#;
        let by_name = DType::ALL.iter().filter(|dtype| dtype.is_by_name()).map(DType::text);
        for dtype in by_name.chain([beyond_the_table]) {
            let array = counted(dtype, &[3, 4], Order::C);
            let read = loaded(&npy_bytes(&array));
            assert_eq!(read.dtype(), &DType::opaque(array.dtype().itemsize()).unwrap());
            assert_eq!(read.to_bytes().unwrap(), array.to_bytes().unwrap());
        }
    });
}

#[test]
fn views_are_saved_as_what_they_show() {
    scenario(|| {
        let array = counted("<i4", &[300, 1000, 3], Order::C);
        for view in [
            array.slice(1, None, None, -2).unwrap(),
            array.transpose(),
            array.permute(&[1, 0, 2]).unwrap(),
            array.select(0, 7).unwrap().slice(0, Some(1), Some(9), 1).unwrap(),
        ] {
            let read = loaded(&npy_bytes(&view));
            assert_eq!(read.shape(), view.shape());
            assert_eq!(read.to_bytes().unwrap(), view.to_bytes().unwrap());
        }
    });
}

#[test]
fn a_saved_file_is_complete_and_replaces_an_older_one() {
    scenario(|| {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.npy");
        for count in [3, 2_000_000] {
            let array = counted("<f8", &[count], Order::C);
            save(&path, &array).unwrap();
            let npy = Npy::open(Source::file(&path).unwrap()).unwrap();
            let read = npy.load(&Options::new()).unwrap();
            assert_eq!(read.to_bytes().unwrap(), array.to_bytes().unwrap());
            let map = npy.source().map().unwrap().unwrap();
            assert_eq!(map.size_bytes() as u64, npy.source().size_bytes());
        }
        let hidden = std::fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().file_name());
        let hidden: Vec<_> =
            hidden.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
        let error = Source::file(place.path().join("none.npy")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn members_read_back_stored_and_deflated_in_any_number_of_threads() {
    scenario(|| {
        let image = counted("|u1", &[3, 1200, 900], Order::C);
        let labels = counted("<i8", &[], Order::C);
        let turned = counted("<f4", &[50, 70], Order::F);
        let members = [("image.npy", &image), ("labels.npy", &labels), ("turned.npy", &turned)];
        let mut sizes = Vec::new();
        for (is_deflated, threads) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
            let bytes = npz_bytes(&members, NpzOptions { is_deflated, threads, align: 0 });
            sizes.push(bytes.clone());
            let npz = Npz::open(Source::bytes(&bytes)).unwrap();
            assert_eq!(
                (npz.len(), npz.find("labels"), npz.find("image.npy")),
                (3, Some(1), Some(0))
            );
            let read =
                npz.each(&[2, 0, 1], threads, |member| member.load(&Options::new())).unwrap();
            for (read, (_, saved)) in read.iter().zip([members[2], members[0], members[1]]) {
                assert_eq!((read.shape(), read.dtype()), (saved.shape(), saved.dtype()));
                assert_eq!(read.to_bytes().unwrap(), saved.to_bytes().unwrap());
            }
            npz.member(0).unwrap().verify().unwrap();
        }
        assert_eq!((&sizes[0], &sizes[2]), (&sizes[1], &sizes[3]), "threads change nothing");
        assert!(sizes[2].len() < sizes[0].len() / 2);
    });
}

#[test]
fn a_member_that_is_no_array_is_its_bytes() {
    scenario(|| {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.npz");
        let text = b"{\"made\": \"by hand\"}";
        save_npz(&path, &[("metadata.json", Contents::Bytes(text))], NpzOptions::default())
            .unwrap();
        let npz = Npz::open(Source::file(&path).unwrap()).unwrap();
        let member = npz.member(0).unwrap();
        assert_eq!((member.header(), member.read().unwrap()), (None, text.to_vec()));
        assert_eq!(member.load(&Options::new()).unwrap().to_bytes().unwrap(), text);
    });
}

#[test]
fn a_batch_has_the_arrays_of_all_files_in_their_order() {
    scenario(|| {
        let place = tempfile::tempdir().unwrap();
        let arrays: Vec<_> = (0..20).map(|n| counted("<i2", &[n % 2 + 3, 5], Order::C)).collect();
        let even = |n: usize| place.path().join(format!("{n}.npy"));
        for (n, array) in arrays.iter().enumerate() {
            array.set(&[0, 0], n as i16).unwrap();
            let array = if n == 4 { array.slice(1, None, None, 1).unwrap() } else { array.clone() };
            save(even(n), &array).unwrap();
        }
        let batch = Batch::open(10, |index| Source::file(even(index * 2))).unwrap();
        let read = batch.load(&Options::new(), 3, &|_| Ok(())).unwrap();
        assert_eq!(read.shape(), [10, 3, 5]);
        for n in 0..10u64 {
            assert_eq!(read.get::<i16>(&[n, 0, 0]).unwrap(), 2 * n as i16);
            let item = read.select(0, n as i64).unwrap();
            assert_eq!(item.to_bytes().unwrap(), arrays[2 * n as usize].to_bytes().unwrap());
        }
        let mixed = Batch::open(20, |index| Source::file(even(index))).unwrap();
        let error = mixed.load(&Options::new(), 2, &|_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile);
    });
}

#[test]
fn a_header_is_the_bytes_that_numpy_writes() {
    let header = NpyHeader::new(DType::parse("<f8").unwrap(), &[3, 4], Order::C).unwrap();
    let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
    let bytes = header.to_bytes().unwrap();
    assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
    assert_eq!(std::str::from_utf8(&bytes[10..]).unwrap().trim_end(), text);
    assert_eq!((bytes.len(), bytes.last()), (128, Some(&b'\n')));
}
