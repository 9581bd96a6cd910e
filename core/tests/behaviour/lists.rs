//! Lists that another implementation of LISTS.md wrote, and lists under a name.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use shmarray::{
    Array, Column, ColumnBuilder, ColumnKind, DType, Dict, Error, Key, List, Number, Options,
    unlink,
};

use crate::support::scenario;

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
        let made = List::create(texts, &Options::new().name("words").persist(true)).unwrap();
        drop(made);
        let words = List::attach("words").unwrap();
        assert_eq!(words.items().string(0).unwrap(), "one");
        assert!(words.array().is_some_and(Array::is_readonly));
        drop(words);
        unlink("words").unwrap();
        assert!(matches!(List::attach("words"), Err(Error::NameNotFound { .. })));
    });
}
