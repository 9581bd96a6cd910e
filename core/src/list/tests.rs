//! What was put into a list comes out of it, and broken bytes are refused.

use proptest::prelude::*;

use super::bytes::HEADER_BYTES;
use super::format::COLUMN_BYTES;
use super::{AllItems, Column, ColumnBuilder, ColumnKind, Dict, ItemType, Key, List, Written};
use crate::{Array, DType, Error, Number, Options};

/// Miri is a thousand times slower.
const MOST_ITEMS: usize = if cfg!(miri) { 4 } else { 100 };
const STEP: usize = if cfg!(miri) { 5 } else { 1 };

fn dtype(text: &str) -> DType {
    DType::parse(text).expect("it is a dtype")
}

fn array_of(list: &List) -> &Array {
    list.array().expect("it is in shared memory")
}

fn list(column: ColumnBuilder) -> List {
    let made = List::create(column, &Options::default()).expect("there is room");
    List::attach(&array_of(&made).handle()).expect("it is there")
}

fn numbers(values: &[Option<i32>]) -> ColumnBuilder {
    let mut column = ColumnBuilder::numbers(dtype("<i4")).expect("it can be shared");
    for value in values {
        match value {
            Some(value) => column.push_number(&value.to_le_bytes()),
            None => column.push_none(),
        }
        .expect("it is a number");
    }
    column
}

fn read_numbers(column: Column<'_>) -> Vec<Option<i32>> {
    let integer = |number| match number {
        Number::Integer(value) => i32::try_from(value).expect("it was one"),
        other => panic!("no integer: {other:?}"),
    };
    (0..column.len()).map(|at| column.number(at).expect("it is there").map(integer)).collect()
}

/// A column with something of each kind.
fn everything() -> ColumnBuilder {
    let mut arrays = ColumnBuilder::arrays(dtype("<u2"), 2).expect("it can be shared");
    arrays.push_array(&[1, 2], &[1, 0, 2, 0]).expect("it fits");
    arrays.push_none().expect("anything may be None");
    arrays.push_array(&[3, 1], &[5, 0, 6, 0, 7, 0]).expect("it fits");
    let mut same = ColumnBuilder::arrays(dtype("|u1"), 1).expect("it can be shared");
    let mut texts = ColumnBuilder::strings();
    let mut bytes = ColumnBuilder::bytes();
    let mut nothing = ColumnBuilder::nothing();
    for number in 0..3u8 {
        same.push_array(&[2], &[number, number + 1]).expect("it fits");
        texts.push_string(["", "ä", "text"][usize::from(number)]).expect("it is a text");
        bytes.push_bytes(&vec![number; usize::from(number)]).expect("they are bytes");
        nothing.push_none().expect("it is None");
    }
    let mut lists = ColumnBuilder::lists(ColumnBuilder::strings());
    for words in [&["a", "b"][..], &[], &["c"]] {
        for word in words {
            lists.field_mut(0).expect("there is one").push_string(word).expect("it is a text");
        }
        lists.push_list().expect("it is a list");
    }
    let mut records = ColumnBuilder::records([
        ("number", numbers(&[Some(1), None, Some(-3)])),
        ("array", arrays),
        ("same", same),
        ("text", texts),
        ("bytes", bytes),
        ("nothing", nothing),
        ("words", lists),
    ])
    .expect("the names differ");
    records.push_records(3).expect("each has three");
    records
}

#[test]
fn each_kind_comes_out_as_it_was_put_in() {
    let list = list(everything());
    assert_eq!((list.len(), list.items().kind()), (3, ColumnKind::Records));
    let field = |name| list.items().field(name).expect("it is a field");
    assert_eq!(read_numbers(field("number")), [Some(1), None, Some(-3)]);
    let array = field("array").array(2).expect("it is an array");
    assert_eq!((array.shape(), array.get::<u16>(&[2, 0]).ok()), (&[3, 1][..], Some(7)));
    assert_eq!(field("array").is_none(1).ok(), Some(true));
    assert_eq!(field("array").array(1).expect("it has no elements").shape(), [0, 0]);
    let same = field("same");
    assert!(matches!(same.offsets(), Err(Error::InvalidArgument { .. })), "all have one shape");
    assert_eq!(same.values().expect("they have").to_bytes().ok(), Some(vec![0, 1, 1, 2, 2, 3]));
    assert_eq!(same.array(1).expect("it is there").to_bytes().ok(), Some(vec![1, 2]));
    let texts: Vec<_> = (0..3).map(|at| field("text").string(at).expect("UTF-8")).collect();
    assert_eq!(texts, ["", "ä", "text"]);
    assert_eq!(field("bytes").bytes(2).ok(), Some(vec![2, 2]));
    assert_eq!((field("nothing").nulls(), field("nothing").is_none(0).ok()), (3, Some(true)));
    let words = field("words");
    let items = words.children().next().expect("it has items");
    assert_eq!(
        (words.list(0).ok(), words.list(1).ok(), words.list(2).ok()),
        (Some(0..2), Some(2..2), Some(2..3))
    );
    assert_eq!(items.string(2).ok().as_deref(), Some("c"));
    assert!(matches!(field("text").string(3), Err(Error::IndexOutOfBounds { index: 3, count: 3 })));
    assert!(matches!(field("text").number(0), Err(Error::InvalidArgument { .. })));
    assert!(list.items().field("other").is_none());
}

#[test]
fn a_list_without_items_has_the_kind_that_it_was_given() {
    for column in [numbers(&[]), ColumnBuilder::strings(), ColumnBuilder::nothing()] {
        let kind = column.kind;
        let list = list(column);
        assert_eq!((list.len(), list.is_empty(), list.items().kind()), (0, true, kind));
    }
    let arrays = list(ColumnBuilder::arrays(dtype("<f4"), 3).expect("it can be shared"));
    assert_eq!(
        (arrays.items().ndim(), arrays.items().values().expect("none").shape()),
        (3, &[0][..])
    );
}

#[test]
fn what_does_not_agree_is_refused_and_nothing_is_added() {
    let mut column = numbers(&[Some(1)]);
    assert!(column.push_number(&[1]).is_err());
    assert!(column.push_string("text").is_err());
    let mut arrays = ColumnBuilder::arrays(dtype("<f4"), 1).expect("it can be shared");
    assert!(arrays.push_array(&[1, 1], &[0; 4]).is_err());
    assert!(arrays.push_array(&[2], &[0; 4]).is_err());
    assert_eq!((column.len(), arrays.len()), (1, 0));
    let mut records =
        ColumnBuilder::records([("a", column), ("b", arrays)]).expect("the names differ");
    let refused = records.push_records(1).expect_err("b has none").to_string();
    assert!(refused.contains("\"b\" has 0 items of 1"), "{refused}");
    let twice = ColumnBuilder::records([("a", numbers(&[])), ("a", numbers(&[]))]);
    assert!(twice.is_err_and(|error| error.to_string().contains("\"a\"")));
    let deep = (0..16).fold(ColumnBuilder::strings(), |items, _| ColumnBuilder::lists(items));
    assert!(matches!(
        List::create(deep, &Options::default()),
        Err(Error::InvalidArgument { argument: "columns", .. })
    ));
}

#[test]
fn an_array_of_another_dtype_is_no_list() {
    let array = Array::create(dtype("|u1"), &[1000], &Options::default()).expect("there is room");
    assert!(matches!(List::of(array), Err(Error::DTypeMismatch { .. })));
    let list_dtype = DType::by_name("list", 1).expect("it is a name");
    let zeros = Array::create(list_dtype, &[1000], &Options::default()).expect("there is room");
    assert_eq!(fault_of(List::of(zeros)), "magic");
}

fn fault_of(list: crate::Result<List>) -> String {
    match list.map(drop) {
        Err(Error::InvalidList { field, .. }) => field,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// A copy of a list with other bytes from a place on.
#[allow(unsafe_code)]
fn changed(list: &List, at: u64, bytes: &[u8]) -> Array {
    let all = array_of(list).to_bytes().expect("there is memory");
    let made =
        Array::create(array_of(list).dtype().clone(), &[all.len() as u64], &Options::default())
            .expect("there is room");
    for (at, bytes) in [(0, &all[..]), (at, bytes)] {
        // SAFETY: neither the vector nor the argument has elements of a new array.
        unsafe { made.write_bytes(at, bytes) }.expect("it fits");
    }
    made
}

#[test]
fn a_broken_header_or_column_is_refused_by_the_name_of_its_field() {
    let list = list(everything());
    let column = |number: u64, at: u64| HEADER_BYTES + number * COLUMN_BYTES + at;
    let far = (1u64 << 40).to_le_bytes();
    for (at, bytes, field) in [
        (0, &b"x"[..], "magic"),
        (8, &[2], "version"),
        (12, &[0], "columns"),
        (12, &[0xff, 0xff], "columns"),
        (16, &far, "bytes"),
        (24, &[4], "length"),
        (32, &far, "texts_offset"),
        (40, &far, "texts_bytes"),
        (column(0, 0), &[77], "column 0: kind"),
        (column(0, 4), &[6], "children"),
        (column(0, 4), &[8], "children"),
        (column(1, 2), &[1], "column 1: ndim"),
        (column(1, 8), &[2], "column 1: values_bytes"),
        (column(1, 16), &[4], "column 1: nulls"),
        (column(1, 16), &[0], "column 1: validity_offset"),
        (column(1, 24), &[1], "column 1: validity_offset"),
        (column(1, 32), &far, "column 1: values_offset"),
        (column(1, 40), &[1], "column 1: values_bytes"),
        (column(1, 64), &far, "column 1: name_offset"),
        (column(1, 76), &[2], "column 1: dtype_offset"),
        (column(2, 2), &[0], "column 2: ndim"),
        (column(2, 48), &far, "column 2: offsets_offset"),
        (column(2, 56), &far, "column 2: shapes_offset"),
        (column(3, 8), &[4], "column 3: values_bytes"),
        (column(4, 56), &[64], "column 4: shapes_offset"),
        (column(6, 16), &[1], "column 6: nulls"),
        (column(7, 4), &[0], "column 7: children"),
    ]
    .into_iter()
    .step_by(STEP)
    {
        assert_eq!(fault_of(List::of(changed(&list, at, bytes))), field, "byte {at}");
    }
}

#[test]
fn broken_offsets_shapes_and_texts_are_found_when_an_item_is_read() {
    let list = list(everything());
    let described = |number: usize| &list.layout.columns[number];
    let read = |at, bytes: &[u8], read: fn(&List) -> Option<Error>| {
        let broken = List::of(changed(&list, at, bytes)).expect("opening reads no offsets");
        assert!(matches!(read(&broken), Some(Error::InvalidList { .. })), "byte {at}");
    };
    let text = |list: &List| list.items().field("text").and_then(|column| column.string(1).err());
    let array = |list: &List| list.items().field("array").and_then(|column| column.array(2).err());
    read(described(4).offsets + 8, &[0xff; 8], text);
    read(described(4).offsets + 16, &[9], text);
    read(described(4).values, &[0xff], text);
    read(described(2).offsets + 16, &[9], array);
    read(described(2).shapes + 32, &[9], array);
    read(described(2).shapes + 32, &[0xff; 8], array);
}

proptest! {
    #[test]
    fn any_numbers_and_texts_come_out_as_they_were_put_in(
        values in proptest::collection::vec(proptest::option::of(any::<i32>()), 0..MOST_ITEMS),
        words in proptest::collection::vec(proptest::option::of(".{0,9}"), 0..MOST_ITEMS),
    ) {
        let made = list(numbers(&values));
        prop_assert_eq!(read_numbers(made.items()), values);
        let mut texts = ColumnBuilder::strings();
        for word in &words {
            match word {
                Some(word) => texts.push_string(word).expect("it is a text"),
                None => texts.push_none().expect("anything may be None"),
            }
        }
        let made = list(texts);
        for (at, word) in words.iter().enumerate() {
            let at = at as u64;
            prop_assert_eq!(made.items().is_none(at).expect("it is there"), word.is_none());
            let found = made.items().string(at).expect("it is a text");
            prop_assert_eq!(&found, word.as_deref().unwrap_or(""));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "each case takes it ten seconds, and the fuzzer does the same")]
    fn no_bytes_make_a_reader_panic_or_leave_the_list(
        at in 0u64..3000, bytes in proptest::collection::vec(any::<u8>(), 1..9),
    ) {
        let made = list(everything());
        let at = at.min(made.size_bytes() - bytes.len() as u64);
        if let Ok(broken) = List::of(changed(&made, at, &bytes)) {
            read_all(broken.items());
        }
    }
}

/// Reads every item in every way. What they are does not matter.
fn read_all(column: Column<'_>) {
    let _ = (column.values(), column.offsets());
    for at in 0..column.len().min(10) {
        let _ = (column.is_none(at), column.number(at), column.string(at), column.bytes(at));
        let _ = (column.array(at).and_then(|array| array.to_bytes()), column.list(at));
    }
    column.children().for_each(read_all);
}

#[test]
fn a_pickle_has_its_stream_and_its_buffers_at_multiples_of_64() {
    let mut column = ColumnBuilder::pickles();
    column.push_pickle(b"stream", &[b"buffer", &[7; 100]]).expect("it is a pickle");
    column.push_none().expect("anything may be None");
    column.push_pickle(b"", &[]).expect("it is a pickle");
    let list = list(column);
    let pickles = list.items();
    let read = |range: std::ops::Range<u64>| {
        list.copied(range.start, range.end - range.start).expect("it lies in the list")
    };
    let (stream, buffers) = pickles.pickle(0).expect("it is there");
    assert_eq!(read(stream), b"stream");
    assert!(buffers.iter().all(|buffer| buffer.start.is_multiple_of(64)));
    let buffers: Vec<_> = buffers.into_iter().map(read).collect();
    assert_eq!(buffers, [b"buffer".to_vec(), vec![7; 100]]);
    assert!(pickles.is_none(1).expect("it is in range"));
    let (stream, buffers) = pickles.pickle(2).expect("it is there");
    assert!(stream.is_empty() && buffers.is_empty());
}

#[test]
fn a_column_says_what_python_makes_of_its_items() {
    let mut numbers = numbers(&[Some(1)]);
    numbers.set_item_type(ItemType::Scalar).expect("they are numbers");
    assert!(numbers.set_item_type(ItemType::Tuple).is_err());
    let mut records = ColumnBuilder::records([("number", numbers)]).expect("it has one name");
    records.set_item_type(ItemType::Class("module\nName".into())).expect("they are records");
    records.push_records(1).expect("each has one");
    let list = list(records);
    assert_eq!(*list.items().item_type(), ItemType::Class("module\nName".into()));
    let number = list.items().field("number").expect("it is a field");
    assert_eq!(*number.item_type(), ItemType::Scalar);
}

#[test]
fn an_item_lies_where_its_bytes_are() {
    let list = list(everything());
    let bytes = |name: &str, at: u64| -> Vec<u8> {
        let column = list.items().field(name).expect("it is a field");
        let (start, bytes) = column.item_ptr(at).expect("it has bytes");
        let first = list.as_ptr() as usize;
        list.copied((start as usize - first) as u64, bytes).expect("it lies in the list")
    };
    assert_eq!(bytes("number", 2), (-3_i32).to_le_bytes());
    assert_eq!(bytes("array", 2), [5, 0, 6, 0, 7, 0]);
    assert!(bytes("array", 1).is_empty());
    assert_eq!(bytes("same", 2), [2, 3]);
    assert_eq!(bytes("text", 1), "ä".as_bytes());
    assert_eq!(bytes("bytes", 2), [2, 2]);
    let mut shape = [9; 2];
    let arrays = list.items().field("array").expect("it is a field");
    arrays.read_shape(2, &mut shape).expect("it has two dimensions");
    assert_eq!(shape, [3, 1]);
    assert!(arrays.read_shape(2, &mut [0]).is_err());
    assert!(list.items().item_ptr(0).is_err());
}

#[test]
fn numbers_are_added_together() {
    let mut column = numbers(&[]);
    column.push_numbers(2, &[1, 0, 0, 0, 2, 0, 0, 0]).expect("they are two");
    column.push_none().expect("anything may be None");
    column.push_numbers(1, &[4, 0, 0, 0]).expect("it is one");
    assert!(column.push_numbers(2, &[4, 0, 0, 0]).is_err());
    assert_eq!(column.dtype(), Some(&dtype("<i4")));
    assert_eq!(read_numbers(list(column).items()), [Some(1), Some(2), None, Some(4)]);
}

#[test]
fn a_negative_count_in_the_shape_of_all_arrays_is_refused() {
    let mut arrays = ColumnBuilder::arrays(dtype("<f4"), 2).expect("it can be shared");
    arrays.push_array(&[0, 3], &[]).expect("it has no elements");
    let list = list(arrays);
    let broken = changed(&list, list.layout.columns[0].shapes + 8, &[0xff; 8]);
    assert_eq!(fault_of(List::of(broken)), "column 0: shapes_offset");
}

#[test]
fn a_column_says_what_was_added_so_far() {
    let texts = ColumnBuilder::strings();
    let images = ColumnBuilder::arrays(dtype("<u2"), 3).expect("it can be shared");
    assert_eq!((images.dtype(), images.ndim()), (Some(&dtype("<u2")), 3));
    let records = ColumnBuilder::records([("text", texts), ("image", images)]).expect("two names");
    assert_eq!(records.field_names().collect::<Vec<_>>(), ["text", "image"]);
    assert_eq!((records.dtype(), records.ndim()), (None, 0));
}

#[test]
fn creating_asks_for_room_until_there_is_none() {
    let broken = Options::new().name("no/name");
    let mut asked = 0;
    let refused = List::create_with_room(numbers(&[Some(2)]), &broken, |_| {
        asked += 1;
        asked < 3
    });
    assert!(matches!(refused, Err(Error::InvalidName { .. })) && asked == 3);
}

/// A folder for a test's files.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room")
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no mapped files")]
fn a_list_in_a_file_is_the_same_one() {
    let folder = folder();
    let path = folder.path().join("items");
    let made = list(everything());
    made.save(&path).expect("there is room");
    for is_checked in [false, true] {
        let opened = List::open(&path, is_checked).expect("it is a list");
        let all = |list: &List| list.copied(0, list.size_bytes()).expect("it is there");
        assert_eq!(all(&opened), all(&made));
        let texts = opened.items().field("text").expect("it is a field");
        assert_eq!(texts.string(1).expect("it is a string"), "ä");
        assert!(opened.array().is_none());
        assert!(texts.values().is_err());
        opened.save(&path).expect("it may be saved over itself");
        assert_eq!(texts.string(2).expect("its pages stay"), "text");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no mapped files")]
fn a_file_that_is_cut_or_changed_is_refused_where_it_is_looked_at() {
    let folder = folder();
    let path = folder.path().join("items");
    list(everything()).save(&path).expect("there is room");
    let whole = std::fs::read(&path).expect("it is there");
    let open = |bytes: &[u8], is_checked| {
        std::fs::write(&path, bytes).expect("there is room");
        List::open(&path, is_checked)
    };
    let is_refused = |opened: crate::value::error::Result<List>| {
        matches!(opened, Err(Error::InvalidFile { field: "list", .. }))
    };
    for size in (0..whole.len()).step_by(13).chain(whole.len() - 17..whole.len()) {
        let is_cut = size < whole.len() - 16;
        assert_eq!(is_refused(open(&whole[..size], false)), is_cut, "{size}");
        assert!(is_refused(open(&whole[..size], true)), "{size}");
    }
    for at in (0..whole.len()).step_by(13) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(is_refused(open(&changed, true)), "{at}");
    }
    assert!(matches!(
        List::open(folder.path().join("none"), false),
        Err(Error::FileNotFound { .. })
    ));
}

fn written(bytes: &'static [u8]) -> Written {
    Written::new(bytes.len() as u64, |to| to.copy_from_slice(bytes))
}

#[test]
fn all_items_are_added_together() {
    let mut texts = ColumnBuilder::strings();
    let items = AllItems::new(3).validity(vec![0b101]).values(written("äb".as_bytes()));
    texts.add_all(items.offsets(vec![0, 2, 2, 3])).expect("they agree");
    assert!(texts.push_string("c").is_err());
    assert!(texts.push_none().is_err());
    let mut same = ColumnBuilder::arrays(dtype("|u1"), 2).expect("it can be shared");
    let items = AllItems::new(3).values(written(&[1, 2, 3, 4, 5, 6]));
    same.add_all(items.shapes(vec![1, 2])).expect("they agree");
    let mut boxes = ColumnBuilder::arrays(dtype("|u1"), 2).expect("it can be shared");
    let items = AllItems::new(3).values(written(&[1, 2, 3])).offsets(vec![0, 2, 3, 3]);
    boxes.add_all(items.shapes(vec![1, 2, 1, 1, 5, 0])).expect("they agree");
    let mut numbers = ColumnBuilder::numbers(dtype("<i2")).expect("it can be shared");
    numbers.add_all(AllItems::new(2).values(written(&[7, 0, 8, 0]))).expect("they agree");
    let mut lists = ColumnBuilder::lists(numbers);
    lists.add_all(AllItems::new(3).offsets(vec![0, 0, 2, 2])).expect("they agree");
    let mut nothing = ColumnBuilder::nothing();
    nothing.add_all(AllItems::new(3)).expect("there are none");
    let fields = [("t", texts), ("s", same), ("b", boxes), ("l", lists), ("n", nothing)];
    let mut records = ColumnBuilder::records(fields).expect("their names differ");
    records.add_all(AllItems::new(3).validity(vec![0b011])).expect("all have three");
    assert_eq!(records.size_bytes(), 154);
    let list = list(records);
    let field = |name| list.items().field(name).expect("it is there");
    assert_eq!((list.len(), list.items().nulls()), (3, 1));
    assert!(list.items().is_none(2).expect("it is an item"));
    assert_eq!(field("t").string(0).expect("it is a text"), "ä");
    assert!(field("t").is_none(1).expect("it is an item"));
    assert_eq!(field("t").validity_range().map(|bits| bits.end - bits.start), Some(1));
    assert_eq!(field("s").validity_range(), None);
    assert_eq!(field("s").common_shape(), Some(&[1, 2][..]));
    assert_eq!(
        field("s").array(2).expect("it is an array").get::<u8>(&[0, 1]).expect("it is there"),
        6
    );
    assert_eq!(field("b").array(2).expect("it is an array").shape(), [5, 0]);
    let shapes = field("b").shapes_range().expect("they differ");
    assert_eq!(shapes.end - shapes.start, 48);
    assert!(field("s").shapes_range().is_err());
    assert!(field("t").shapes_range().is_err());
    assert_eq!(field("l").list(1).expect("it is a list"), 0..2);
    assert_eq!(field("n").nulls(), 3);
}

#[test]
fn all_items_that_do_not_agree_are_refused() {
    let texts = || ColumnBuilder::strings();
    let numbers = || ColumnBuilder::numbers(dtype("<i2")).expect("it can be shared");
    let boxes = || ColumnBuilder::arrays(dtype("|u1"), 2).expect("it can be shared");
    let lists = || ColumnBuilder::lists(numbers());
    let one = || AllItems::new(1);
    let three = || written(&[1, 2, 3]);
    for (mut column, items) in [
        (texts(), one()),
        (texts(), one().values(three())),
        (texts(), one().values(three()).offsets(vec![0])),
        (texts(), one().values(three()).offsets(vec![1, 3])),
        (texts(), one().values(three()).offsets(vec![0, 2])),
        (texts(), AllItems::new(2).values(three()).offsets(vec![0, 4, 3])),
        (texts(), one().values(three()).offsets(vec![0, 3]).shapes(vec![3])),
        (texts(), one().values(three()).offsets(vec![0, 3]).validity(vec![1, 1])),
        (numbers(), one().values(three())),
        (numbers(), one()),
        (numbers(), one().values(written(&[1, 2])).offsets(vec![0, 1])),
        (boxes(), one().values(three()).shapes(vec![1, 2])),
        (boxes(), one().values(three()).shapes(vec![3])),
        (boxes(), one().values(three()).shapes(vec![-1, -3])),
        (boxes(), one().values(three()).shapes(vec![1, 3]).validity(vec![0])),
        (boxes(), AllItems::new(0).values(written(&[])).shapes(vec![1, 3])),
        (boxes(), one().values(three()).offsets(vec![0, 3]).shapes(vec![1, 2])),
        (boxes(), one().values(three()).offsets(vec![0, 3]).shapes(vec![1, 3, 1])),
        (lists(), one().offsets(vec![0, 1])),
        (lists(), one().offsets(vec![0, 0]).values(three())),
        (ColumnBuilder::pickles(), one().values(three()).offsets(vec![0, 3])),
        (ColumnBuilder::nothing(), one().values(three())),
        (ColumnBuilder::records([("a", texts())]).expect("it is one"), one()),
        (self::numbers(&[Some(1)]), AllItems::new(0).values(written(&[]))),
    ] {
        let kind = column.kind();
        let found = column.add_all(items);
        assert!(matches!(found, Err(Error::InvalidArgument { .. })), "{kind:?}: {found:?}");
    }
}

/// A dictionary of texts and their lengths.
fn lengths(words: &[&str]) -> crate::value::error::Result<Dict> {
    let mut keys = ColumnBuilder::strings();
    let mut values = numbers(&[]);
    for word in words {
        keys.push_string(word)?;
        values.push_number(&(word.len() as i32).to_le_bytes())?;
    }
    Dict::create(keys, values, &Options::default())
}

#[test]
fn a_dictionary_finds_its_keys_and_no_others() {
    let words: Vec<_> = (0..10 * MOST_ITEMS).map(|number| format!("word {number}")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let made = lengths(&words).expect("there is room");
    let handle = made.as_list().array().expect("it is in shared memory").handle();
    let dict = Dict::attach(&handle).expect("it is there");
    for (number, word) in words.iter().enumerate() {
        assert_eq!(dict.find(Key::String(word)).ok(), Some(Some(number as u64)));
        assert_eq!(dict.find(Key::Bytes(word.as_bytes())).ok(), Some(None));
    }
    assert_eq!(dict.find(Key::String("word")).ok(), Some(None));
    assert_eq!(dict.find(Key::Integer(1)).ok(), Some(None));
    assert!(matches!(List::attach(&handle), Err(Error::DTypeMismatch { .. })));
    let empty = lengths(&[]).expect("there is room");
    assert_eq!((empty.len(), empty.find(Key::String("")).ok()), (0, Some(None)));
}

#[test]
fn a_key_is_there_once() {
    let twice = lengths(&["a", "b", "a"]).map(|dict| dict.len());
    let expected = "invalid keys: number 0 and number 2 are the same";
    assert_eq!(twice.expect_err("it is there twice").to_string(), expected);
    let mut keys = numbers(&[Some(1)]);
    assert!(Dict::create(numbers(&[Some(1)]), numbers(&[]), &Options::default()).is_err());
    assert!(Dict::create(numbers(&[Some(1)]), numbers(&[Some(1)]), &Options::default()).is_err());
    keys.push_none().expect("anything may be None");
    assert!(Dict::create(keys, numbers(&[None, None]), &Options::default()).is_err());
}

#[test]
fn the_integers_of_a_dictionary_may_be_any() {
    let integers = [i64::MIN, -1, 0, 1, i64::MAX];
    let mut keys = ColumnBuilder::numbers(dtype("<i8")).expect("it can be shared");
    for number in integers {
        keys.push_number(&number.to_le_bytes()).expect("it is one");
    }
    let values = numbers(&[Some(1), None, Some(3), Some(4), Some(5)]);
    let dict = Dict::create(keys, values, &Options::default()).expect("there is room");
    for (number, key) in integers.into_iter().enumerate() {
        assert_eq!(dict.find(Key::Integer(key)).ok(), Some(Some(number as u64)));
    }
    assert_eq!(dict.find(Key::Integer(2)).ok(), Some(None));
    assert!(dict.values().is_none(1).expect("it is there"));
}

#[test]
fn a_broken_hash_table_is_an_error_or_finds_nothing() {
    let dict = lengths(&["a", "b", "c"]).expect("there is room");
    let list = dict.as_list();
    let (table, _) = list.items().values_range().expect("it has one");
    for word in [0, 1, u64::MAX, 1 << 39] {
        let mut all = array_of(list).to_bytes().expect("there is memory");
        for place in all[table.start as usize..table.end as usize].chunks_mut(8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let array =
            Array::create(array_of(list).dtype().clone(), &[all.len() as u64], &Options::default())
                .expect("there is room");
        // SAFETY: the bytes are of a vector, and not of the new array.
        #[allow(unsafe_code)]
        unsafe { array.write_bytes(0, &all) }.expect("they fit");
        let broken = Dict::of(array).expect("the table is read when a key is sought");
        let found = broken.find(Key::String("b"));
        assert!(matches!(found, Ok(None) | Err(Error::InvalidList { .. })), "{word}: {found:?}");
    }
}
