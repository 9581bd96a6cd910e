//! Of any dtype, shape and strides, in any number of threads: what is read is what was written.
#![allow(unsafe_code)]
#![cfg(not(miri))] // it has too many cases

use std::io::Cursor;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use shmarray::npy::{
    Contents, Elements, Npy, NpyHeader, Npz, NpzOptions, Source, write_npy, write_npz,
};
use shmarray::{Array, DType, Options, Order};

use crate::support::scenario;

/// Checks a property with cases of a strategy. `PROPTEST_CASES` says how many.
fn holds<S: Strategy>(strategy: &S, check: impl Fn(S::Value)) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let passed = runner.run(strategy, |value| {
        check(value);
        Ok(())
    });
    passed.unwrap();
}

/// Text of any field or title.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[ -~]{1,4}",
        "\\PC{1,3}",
        Just("it's \"\\\n\u{85}\u{2028}".to_owned())
    ]
}

fn type_string() -> impl Strategy<Value = String> {
    let of_numpy = DType::ALL.iter().filter(|dtype| !dtype.is_by_name());
    let plain: Vec<String> = of_numpy.map(|dtype| dtype.text().to_owned()).collect();
    let other = [">i4", ">f8", "|S5", "<U3", "|V7", "<M8[ns]", "<m8[25s]", ">c8", "|S0", "|V0"];
    select([plain, other.map(str::to_owned).to_vec()].concat())
}

/// Returns a field as JSON. Its place in the list makes its names its own.
fn json_of(
    (at, (name, title, format, shape)): (usize, (String, Option<String>, Value, Vec<u64>)),
) -> Value {
    let name = format!("{at}{name}");
    let name = match title {
        Some(title) => json!([format!("{at} {title}"), name]),
        None => name.into(),
    };
    if shape.is_empty() { json!([name, format]) } else { json!([name, format, shape]) }
}

/// A `descr` as JSON, with fields in fields, titles, sub-arrays and padding.
fn descr() -> impl Strategy<Value = Value> {
    let leaf = type_string().prop_map(Value::from);
    leaf.prop_recursive(3, 12, 4, |format| {
        let field = (name(), proptest::option::of(name()), format, vec(1u64..4, 0..3));
        vec(field, 1..4).prop_map(|fields| fields.into_iter().enumerate().map(json_of).collect())
    })
}

fn bytes_of(format: &Value) -> u64 {
    let Some(fields) = format.as_array() else {
        return DType::parse(format.as_str().unwrap()).unwrap().itemsize();
    };
    let field = |field: &Value| {
        let shape = field.get(2).and_then(|shape| shape.as_array());
        let counts = shape.into_iter().flatten().map(|count| count.as_u64().unwrap());
        bytes_of(&field[1]) * counts.product::<u64>()
    };
    fields.iter().map(field).sum()
}

fn dtype() -> impl Strategy<Value = DType> {
    descr().prop_filter_map("it is too long", |descr| {
        let text = match descr.as_str() {
            Some(text) => text.to_owned(),
            None => format!(r#"{{"descr":{descr},"itemsize":{}}}"#, bytes_of(&descr)),
        };
        DType::parse(&text).ok()
    })
}

fn order() -> impl Strategy<Value = Order> {
    select(vec![Order::C, Order::F])
}

/// A view: of each dimension where it begins, its step, and whether it is the other way round; and
/// in which order the dimensions stand.
#[derive(Debug, Clone)]
struct View {
    steps: Vec<(i64, bool)>,
    turns: u64,
}

fn array() -> impl Strategy<Value = Array> {
    let view = (vec((1i64..4, any::<bool>()), 5), any::<u64>());
    let view = view.prop_map(|(steps, turns)| View { steps, turns });
    (dtype(), vec(0u64..7, 0..5), order(), view, any::<u8>()).prop_map(
        |(dtype, shape, order, view, seed)| viewed(&filled(dtype, &shape, order, seed), &view),
    )
}

/// Returns an array of which each byte differs from its neighbours.
fn filled(dtype: DType, shape: &[u64], order: Order, seed: u8) -> Array {
    let array = Array::create(dtype, shape, &Options::new().order(order)).unwrap();
    let size = array.whole().shape()[0];
    let bytes: Vec<u8> = (0..size).map(|at| (at * 7 % 251) as u8 ^ seed).collect();
    // SAFETY: the bytes can be read during the call, since the vector is private memory.
    unsafe { array.whole().write_bytes(0, &bytes) }.unwrap();
    array
}

fn viewed(array: &Array, view: &View) -> Array {
    let mut axes: Vec<usize> = (0..array.shape().len()).collect();
    for (at, turn) in (1..axes.len()).zip(2..) {
        axes.swap(at, (view.turns / turn) as usize % (at + 1));
    }
    let mut array = array.permute(&axes).unwrap();
    for (dim, (step, is_reversed)) in (0..array.shape().len()).zip(&view.steps) {
        let step = if *is_reversed { -step } else { *step };
        array = array.slice(dim, None, None, step).unwrap();
    }
    array
}

fn is_same(read: &Array, written: &Array) {
    assert_eq!((read.dtype(), read.shape()), (written.dtype(), written.shape()));
    let [read, written] = [read, written].map(|array| array.to_bytes().unwrap());
    let differs = read.iter().zip(&written).position(|(read, written)| read != written);
    assert_eq!((read.len(), differs), (written.len(), None));
}

fn npy_of(array: &Array) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_npy(&mut bytes, &Elements::of(array).unwrap()).unwrap();
    bytes
}

#[test]
fn an_npy_file_reads_as_what_was_written() {
    scenario(|| {
        holds(&array(), |array| {
            let bytes = npy_of(&array);
            let npy = Npy::open(Source::bytes(&bytes)).unwrap();
            is_same(&npy.load(&Options::new()).unwrap(), &array);
            assert_eq!(bytes.len() as u64, npy.header().data_offset() + npy.header().data_bytes());
            assert_eq!(npy.header().data_offset() % 64, 0);
            // What was read is written as the same bytes.
            assert_eq!(npy_of(&npy.load(&Options::new()).unwrap()), bytes);
        });
    });
}

#[test]
fn an_npz_file_reads_as_what_was_written() {
    scenario(|| {
        let members = vec((name(), array()), 0..5);
        holds(
            &(members, any::<bool>(), 0usize..5, 0usize..5),
            |(members, is_deflated, to, from)| {
                let name = |(at, (name, _)): (usize, &(String, Array))| format!("{at}{name}.npy");
                let names: Vec<_> = members.iter().enumerate().map(name).collect();
                let contents = |(_, array)| Contents::Elements(Elements::of(array).unwrap());
                let all = members.iter().map(|(name, array)| (name, array)).map(contents);
                let all: Vec<_> = names.iter().map(|name| &**name).zip(all).collect();
                let mut file = Cursor::new(Vec::new());
                let options = NpzOptions { is_deflated, threads: to, align: 64 };
                write_npz(&mut file, &all, options).unwrap();
                let npz = Npz::open(Source::bytes(file.get_ref())).unwrap();
                let indices: Vec<_> = names.iter().map(|name| npz.find(name).unwrap()).collect();
                let read = npz.each(&indices, from, |member| member.load(&Options::new())).unwrap();
                assert_eq!(read.len(), members.len());
                read.iter().zip(&members).for_each(|(read, (_, array))| is_same(read, array));
            },
        );
    });
}

/// Returns views that are saved in more than one piece, cut along each of their dimensions.
fn large_views() -> Vec<Array> {
    let array = |shape: &[u64]| filled(DType::parse("<u2").unwrap(), shape, Order::C, 5);
    let reversed = |array: &Array| array.slice(array.shape().len() - 1, None, None, -1).unwrap();
    vec![
        reversed(&array(&[3, 700_001])),
        reversed(&array(&[2, 3, 400_000])),
        reversed(&array(&[2, 5, 3, 90_000])),
        reversed(&array(&[1_500_000])),
        reversed(&array(&[1, 1, 1_100_000, 1])).transpose(),
        array(&[1300, 1000]).slice(1, None, None, 2).unwrap(),
        array(&[900, 1300, 2]).permute(&[1, 0, 2]).unwrap(),
    ]
}

#[test]
fn views_that_take_many_pieces_read_as_what_was_written() {
    scenario(|| {
        for array in large_views() {
            is_same(
                &Npy::open(Source::bytes(&npy_of(&array))).unwrap().load(&Options::new()).unwrap(),
                &array,
            );
            for (is_deflated, threads) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
                let elements = Contents::Elements(Elements::of(&array).unwrap());
                let mut file = Cursor::new(Vec::new());
                let options = NpzOptions { is_deflated, threads, align: 0 };
                write_npz(&mut file, &[("a", elements)], options).unwrap();
                let npz = Npz::open(Source::bytes(file.get_ref())).unwrap();
                is_same(&npz.load(0, &Options::new()).unwrap(), &array);
            }
        }
    });
}

#[test]
fn a_header_reads_as_what_was_written() {
    let count = prop_oneof![0u64..9, any::<u64>(), Just(i64::MAX as u64)];
    holds(&(dtype(), vec(count, 0..66), order()), |(dtype, shape, order)| {
        let Ok(header) = NpyHeader::new(dtype.clone(), &shape, order) else { return };
        let bytes = header.to_bytes().unwrap();
        assert_eq!(bytes.len() as u64, NpyHeader::size_bytes(&bytes[..12]).unwrap());
        let read = NpyHeader::parse(&bytes).unwrap();
        assert_eq!(
            (read.dtype().unwrap(), read.shape(), read.order()),
            (&dtype, &shape[..], order)
        );
        assert_eq!((read.layout(), read.data_bytes()), (header.layout(), header.data_bytes()));
        assert_eq!(read.data_offset(), bytes.len() as u64);
        assert_eq!(read.to_bytes().unwrap(), bytes);
    });
}

/// Text made of the parts of headers.
fn like_a_header() -> impl Strategy<Value = String> {
    let parts = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        ":",
        "'",
        "\"",
        "\\",
        "u",
        "b",
        " ",
        "\n",
        "L",
        "1",
        "0",
        "9223372036854775807",
        "True",
        "False",
        "'descr'",
        "'fortran_order'",
        "'shape'",
        "'<i4'",
        "'|O'",
        "[('a', '<f8')]",
        "(2,)",
        "{'descr': '<f8', ",
        "'fortran_order': False, ",
        "'shape': (1,)}",
        "\\x41",
        "é",
    ];
    vec(select(parts.to_vec()), 0..24).prop_map(|parts| parts.concat())
}

#[test]
fn any_bytes_are_a_header_or_an_error() {
    let text = prop_oneof![like_a_header().prop_map(String::into_bytes), vec(any::<u8>(), 0..100)];
    let length = prop_oneof![Just(None), any::<[u8; 4]>().prop_map(Some)];
    holds(&(0u8..5, 0u8..2, length, text), |(major, minor, length, text)| {
        let size = length.map_or(text.len() as u32, u32::from_le_bytes).to_le_bytes();
        let size = if major == 1 { &size[..2] } else { &size };
        let bytes = [b"\x93NUMPY", &[major, minor][..], size, &text].concat();
        for bytes in [&bytes[..], &text] {
            match NpyHeader::parse(bytes) {
                Ok(header) => assert!(header.data_offset() <= bytes.len() as u64),
                Err(error) => assert!(error.to_string().starts_with("invalid file in memory: ")),
            }
        }
    });
}
