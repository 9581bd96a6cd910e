//! Lists that another implementation of LISTS.md wrote, and lists under a name.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use shmarray::{
    Array, Column, ColumnBuilder, ColumnKind, DType, Dict, Error, Key, List, Number, Options,
    unlink,
};

use crate::support::scenario;
#[cfg(linux_backend)]
use crate::support::{directory, segments_in};
#[cfg(linux_backend)]
use crate::watched::in_mounted;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/checks/golden/lists").join(name)
}

#[allow(unsafe_code)]
fn list_of(bytes: &[u8]) -> List {
    let dtype = DType::by_name("list", 1).unwrap();
    let array = Array::create(dtype, &[bytes.len() as u64], &Options::default()).unwrap();
    // SAFETY: the bytes are of a file, and not of the new array.
    unsafe { array.write_bytes(0, bytes) }.unwrap();
    List::of(array).unwrap()
}

/// An item as the golden index writes it.
fn item(column: Column<'_>, at: u64) -> Value {
    if column.is_none(at).unwrap() {
        return Value::Null;
    }
    match column.kind() {
        ColumnKind::Numbers => number(column.number(at).unwrap().unwrap()),
        ColumnKind::Arrays => {
            let array = column.array(at).unwrap();
            let count = array.shape().iter().product();
            let flat = array.reshape(&[count]).unwrap();
            let elements = (0..count).map(|at| number(flat.get_number(&[at]).unwrap()));
            json!({"shape": array.shape(), "elements": elements.collect::<Vec<_>>()})
        }
        ColumnKind::Strings => column.string(at).unwrap().into(),
        ColumnKind::Bytes => {
            let bytes = column.bytes(at).unwrap();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
        ColumnKind::Records => {
            let fields = column.children().map(|child| (child.name().to_owned(), item(child, at)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        ColumnKind::Lists => {
            let items = column.children().next().unwrap();
            column.list(at).unwrap().map(|at| item(items, at)).collect()
        }
        other => panic!("no golden list has {other:?}"),
    }
}

fn number(number: Number) -> Value {
    match number {
        Number::Integer(integer) => i64::try_from(integer).unwrap().into(),
        Number::Float(float) => float.into(),
        other => panic!("no golden list has {other:?}"),
    }
}

#[test]
fn golden_lists_are_read_as_what_they_were() {
    scenario(|| {
        let index: Map<String, Value> =
            serde_json::from_slice(&fs::read(golden("index.json")).unwrap()).unwrap();
        assert!(index.len() > 9, "{index:?}");
        for (name, expected) in index {
            let list = list_of(&fs::read(golden(&name)).unwrap());
            let found: Value = (0..list.len()).map(|at| item(list.items(), at)).collect();
            assert_eq!(found, expected, "{name}");
        }
        let pickles = list_of(&fs::read(golden("pickles")).unwrap());
        assert_eq!((pickles.items().kind(), pickles.len()), (ColumnKind::Pickles, 2));
        assert!(matches!(pickles.items().bytes(0), Err(Error::InvalidArgument { .. })));
    });
}

#[test]
fn a_golden_dictionary_finds_its_keys() {
    let dict = Dict::open(golden("dictionary"), false).unwrap();
    assert_eq!(dict.len(), 22);
    assert_eq!(dict.find(Key::String("")).unwrap(), Some(0));
    assert_eq!(dict.find(Key::String("ä")).unwrap(), Some(1));
    for number in 0..20 {
        let found = dict.find(Key::String(&format!("key {number}"))).unwrap();
        assert_eq!(found, Some(number + 2));
    }
    assert_eq!(dict.find(Key::String("key 20")).unwrap(), None);
    assert!(dict.values().is_none(21).unwrap());
    assert!(List::open(golden("dictionary"), false).is_err());
}

#[test]
fn a_list_has_a_name_and_is_given_back_as_an_array_is() {
    scenario(|| {
        let mut texts = ColumnBuilder::strings();
        texts.push_string("one").unwrap();
        let persist = cfg!(linux_backend); // the portable backend has nothing that persists
        let made = List::create(texts, &Options::new().name("words").persist(persist)).unwrap();
        let kept = Some(made).filter(|_| !persist);
        let words = List::attach("words").unwrap();
        assert_eq!(words.items().string(0).unwrap(), "one");
        assert!(words.array().is_some_and(Array::is_readonly));
        drop((words, kept));
        if persist {
            unlink("words").unwrap();
        }
        assert!(matches!(List::attach("words"), Err(Error::NameNotFound { .. })));
    });
}

/// Records of a ragged array, a string that may be None, and a number: 2.4 KB on average.
#[cfg(linux_backend)]
fn large(count: u64) -> ColumnBuilder {
    let mut samples = ColumnBuilder::arrays(DType::parse("<u2").unwrap(), 2).unwrap();
    let mut names = ColumnBuilder::strings();
    let mut labels = ColumnBuilder::numbers(DType::parse("<i8").unwrap()).unwrap();
    for number in 0..count {
        let row = 1 + number % 7;
        let element = (number as u16).to_le_bytes();
        samples.push_array(&[row, 250], &element.repeat(row as usize * 250)).unwrap();
        match number % 5 {
            0 => names.push_none().unwrap(),
            _ => names.push_string(&format!("{number} ").repeat(100)).unwrap(),
        }
        labels.push_number(&(number as i64).to_le_bytes()).unwrap();
    }
    let fields = [("sample", samples), ("name", names), ("label", labels)];
    let mut records = ColumnBuilder::records(fields).unwrap();
    records.push_records(count).unwrap();
    records
}

#[cfg(linux_backend)]
fn is_large(list: &List, count: u64) {
    assert_eq!(list.len(), count);
    let field = |name| list.items().field(name).unwrap();
    let (samples, names, labels) = (field("sample"), field("name"), field("label"));
    for number in 0..count {
        let sample = samples.array(number).unwrap();
        assert_eq!(sample.shape(), [1 + number % 7, 250]);
        let last = sample.get::<u16>(&[number % 7, 249]).unwrap();
        assert_eq!((last, sample.get(&[0, 0]).unwrap()), (number as u16, number as u16));
        assert_eq!(labels.number(number).unwrap(), Some(Number::Integer(number.into())));
        if number % 5 == 0 {
            assert!(names.is_none(number).unwrap());
        } else {
            assert_eq!(names.string(number).unwrap(), format!("{number} ").repeat(100));
        }
    }
}

/// Lets this process have so much more private memory than it has.
#[cfg(linux_backend)]
#[allow(unsafe_code)]
fn limit_private_memory(more: u64) {
    let statm = fs::read_to_string("/proc/self/status").unwrap();
    let line = statm.lines().find(|line| line.starts_with("VmData")).unwrap();
    let has = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    let limit = libc::rlimit { rlim_cur: has + more, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it and
    // is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
}

#[test]
#[cfg(linux_backend)]
fn a_list_is_larger_than_the_private_memory() {
    scenario(|| {
        limit_private_memory(40 << 20);
        assert!(Vec::<u8>::new().try_reserve(60 << 20).is_err(), "the limit is none");
        let list = List::create(large(60_000), &Options::default()).unwrap();
        assert!(list.size_bytes() > 120 << 20, "{}", list.size_bytes());
        is_large(&list, 60_000);
    });
}

#[test]
#[cfg(linux_backend)]
fn a_list_fits_that_takes_nearly_all_of_the_shared_memory() {
    in_mounted(["-t", "tmpfs", "-o", "size=64m", "tmpfs"], "0", || {
        let before = segments_in(&directory()).len();
        // Of 49 MiB and of 61: for the second, the last pieces must move to private memory.
        for count in [20_500, 25_500] {
            let list = List::create(large(count), &Options::default()).unwrap();
            assert!(list.size_bytes() > 2_400 * count, "{}", list.size_bytes());
            is_large(&list, count);
            drop(list);
            assert_eq!(segments_in(&directory()).len(), before);
        }
        let error = List::create(large(30_000), &Options::default()).err().unwrap();
        assert_eq!(error.kind(), shmarray::ErrorKind::NoSpace, "{error}");
        assert_eq!(segments_in(&directory()).len(), before);
    });
}

#[test]
fn keys_of_a_large_dictionary_are_found() {
    let mut keys = ColumnBuilder::strings();
    let mut values = ColumnBuilder::numbers(DType::parse("<i8").unwrap()).unwrap();
    let key = |number: i64| format!("{number:0100}");
    for number in 0..30_000i64 {
        keys.push_string(&key(number)).unwrap();
        values.push_number(&number.to_le_bytes()).unwrap();
    }
    scenario(|| {
        let dict = Dict::create(keys, values, &Options::default()).unwrap();
        for number in 0..30_000 {
            let found = dict.find(Key::String(&key(number))).unwrap();
            assert_eq!(found, Some(number as u64));
        }
        assert_eq!(dict.find(Key::String(&key(30_000))).unwrap(), None);
    });
}
