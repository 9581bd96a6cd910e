//! The class `Shmarray::Dict`, a dictionary, and its private class `Builder`, which takes entries
//! one after another.
//!
//! Its keys and its values are objects of a class of lists, over the same memory.
//! `lib/shmarray/dict.rb` makes it a collection.
#![allow(unsafe_code)] // what the derives write, and reading Strings in place

use std::cell::RefCell;
use std::hint::black_box;

use magnus::encoding::{Coderange, EncodingCapable as _};
use magnus::gc::Marker;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Integer, Module, Object, RClass, RHash, RModule, RString,
    Ruby, TryConvert, TypedData, Value, function, method,
};
use shmarray::{Array, ColumnBuilder, ColumnKind, DType, Dict, Key, Options};

use super::build::{Failure, created, is_over, push, text_of};
use super::{ListObject, copied, items, opened, read_only, shared_array};
use crate::arguments;
use crate::collector::Counted;
use crate::error::{OrRaise, type_error};
use crate::gvl::{copying, look_up_class};
use crate::npy::Maker;

/// The Rust value of a `Shmarray::Dict`.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Dict", free_immediately, size, mark, frozen_shareable)]
struct DictObject {
    dict: Dict,
    keys: Opaque<Obj<ListObject>>,
    values: Opaque<Obj<ListObject>>,
    /// What the collector was told of.
    counted: Option<Counted>,
}

impl DataTypeFunctions for DictObject {
    fn size(&self) -> usize {
        size_of::<Self>() + self.counted.as_ref().map_or(0, Counted::bytes)
    }

    fn mark(&self, marker: &Marker) {
        marker.mark(self.keys);
        marker.mark(self.values);
    }
}

/// Defines the classes.
pub(super) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let class = shmarray.define_class("Dict", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("open", method!(open, 3))?;
    class.define_singleton_method("open_file", method!(open_file, 4))?;
    class.define_method("size", method!(DictObject::count, 0))?;
    class.define_method("[]", method!(DictObject::get, 1))?;
    class.define_method("key?", method!(DictObject::contains, 1))?;
    class.define_method("keys", method!(DictObject::keys, 0))?;
    class.define_method("values", method!(DictObject::values, 0))?;
    class.define_method("nbytes", method!(DictObject::bytes, 0))?;
    class.define_method("handle", method!(DictObject::handle, 0))?;
    class.define_method("handle_to_send", method!(DictObject::handle_to_send, 0))?;
    class.define_private_method("index_of", method!(DictObject::find, 1))?;
    class.define_private_method("save_to", method!(DictObject::save, 1))?;
    look_up_class::<DictObject>(ruby)?;
    define_builder(ruby, class)
}

/// The dtype of a dictionary's bytes.
pub(super) fn dtype(ruby: &Ruby) -> Result<DType, Error> {
    DType::by_name("dict", 1).or_raise(ruby)
}

/// Attaches a dictionary by its handle or its name, or returns the one that an array is.
fn open(
    ruby: &Ruby,
    class: RClass,
    value: Value,
    lists: RClass,
    is_numo: bool,
) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let dict = Dict::of(opened(ruby, value)?).or_raise(ruby)?;
    DictObject::of(ruby, class, dict, lists, maker)
}

/// Copies the dictionary of a file to shared memory.
fn open_file(
    ruby: &Ruby,
    class: RClass,
    path: String,
    keywords: RHash,
    lists: RClass,
    is_numo: bool,
) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let options = arguments::options(ruby, keywords)?;
    let file = copying(usize::MAX, || Dict::open(&path, true)).or_raise(ruby)?;
    let array = copied(ruby, file.as_list(), &dtype(ruby)?, &options)?;
    let dict = Dict::of(array).or_raise(ruby)?;
    DictObject::of(ruby, class, dict, lists, maker)
}

/// Returns the array of a dictionary.
pub(super) fn dict_array(ruby: &Ruby, value: Value) -> Option<Result<Array, Error>> {
    let object = <&DictObject>::try_convert(value).ok()?;
    Some(shared_array(ruby, object.dict.as_list()).cloned())
}

impl DictObject {
    /// Makes the object of a dictionary that this process has just attached.
    fn of(
        ruby: &Ruby,
        class: RClass,
        dict: Dict,
        lists: RClass,
        maker: Maker,
    ) -> Result<Value, Error> {
        let list = |number| {
            ListObject::of_column(ruby, lists, dict.as_list().clone(), maker, number, None)
        };
        let keys = list(dict.keys().column_number())?;
        let values = list(dict.values().column_number())?;
        let counted = dict.as_list().array().map(Counted::array);
        let object = Self { dict, keys: keys.into(), values: values.into(), counted };
        let made = ruby.obj_wrap_as(object, class).as_value();
        made.freeze();
        black_box((keys, values)); // keeps the lists on the stack until the object marks them
        Ok(made)
    }

    fn count(&self) -> u64 {
        self.dict.len()
    }

    fn bytes(&self) -> u64 {
        self.dict.as_list().size_bytes()
    }

    fn keys(ruby: &Ruby, this: &Self) -> Value {
        ruby.get_inner(this.keys).as_value()
    }

    fn values(ruby: &Ruby, this: &Self) -> Value {
        ruby.get_inner(this.values).as_value()
    }

    fn handle(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        shared_array(ruby, this.dict.as_list()).map(Array::handle)
    }

    fn handle_to_send(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        shared_array(ruby, this.dict.as_list())?.handle_to_send().or_raise(ruby)
    }

    fn save(ruby: &Ruby, this: &Self, path: String) -> Result<(), Error> {
        let dict = &this.dict;
        copying(usize::MAX, || dict.save(&path)).or_raise(ruby)
    }

    fn get(ruby: &Ruby, this: &Self, key: Value) -> Result<Option<Value>, Error> {
        let Some(index) = Self::find(ruby, this, key)? else { return Ok(None) };
        items::item(ruby, &ruby.get_inner(this.values), this.dict.values(), index).map(Some)
    }

    fn contains(ruby: &Ruby, this: &Self, key: Value) -> Result<bool, Error> {
        Self::find(ruby, this, key).map(|index| index.is_some())
    }

    /// Returns the index of a key, or nil. As in a Hash, any object may be sought.
    fn find(ruby: &Ruby, this: &Self, key: Value) -> Result<Option<u64>, Error> {
        if let Some(integer) = Integer::from_value(key) {
            let number = integer.to_i64().ok();
            return number.map_or(Ok(None), |it| this.dict.find(Key::Integer(it)).or_raise(ruby));
        }
        let are_bytes = this.dict.keys().kind() == ColumnKind::Bytes;
        let text = RString::from_value(text_of(key)).filter(|it| is_equal_to(ruby, *it, are_bytes));
        let Some(text) = text else { return Ok(None) };
        // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
        let bytes = unsafe { text.as_slice() };
        let found = match str::from_utf8(bytes) {
            _ if are_bytes => this.dict.find(Key::Bytes(bytes)),
            Ok(text) => this.dict.find(Key::String(text)),
            Err(_) => Ok(None),
        };
        found.or_raise(ruby)
    }
}

/// Returns whether a String can be equal to one in UTF-8, or to a binary one. If it has ASCII alone
/// it may be in another encoding.
fn is_equal_to(ruby: &Ruby, text: RString, is_binary: bool) -> bool {
    let is_of_encoding = if is_binary {
        text.enc_get() == ruby.ascii8bit_encindex()
    } else {
        text.is_utf8_compatible_encoding()
    };
    is_of_encoding || text.enc_coderange_scan() == Coderange::SevenBit
}

/// The keys and the values so far; `None` after they became a dictionary.
#[derive(TypedData)]
#[magnus(class = "Shmarray::Dict::Builder", free_immediately, size)]
struct DictBuilderObject {
    entries: RefCell<Option<(ColumnBuilder, ColumnBuilder)>>,
    options: Options,
}

impl DataTypeFunctions for DictBuilderObject {
    fn size(&self) -> usize {
        let entries = self.entries.try_borrow();
        let bytes = entries.ok().and_then(|entries| entries.as_ref().map(size_bytes));
        size_of::<Self>() + bytes.map_or(0, |bytes| bytes as usize)
    }
}

fn size_bytes((keys, values): &(ColumnBuilder, ColumnBuilder)) -> u64 {
    keys.size_bytes().saturating_add(values.size_bytes())
}

fn define_builder(ruby: &Ruby, dict: RClass) -> Result<(), Error> {
    let class = dict.define_class("Builder", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", function!(begin, 1))?;
    class.define_method("push", method!(DictBuilderObject::push, 2))?;
    class.define_method("finish", method!(DictBuilderObject::finish, 3))?;
    look_up_class::<DictBuilderObject>(ruby)
}

fn begin(ruby: &Ruby, keywords: RHash) -> Result<Value, Error> {
    let options = arguments::options(ruby, keywords)?;
    let entries = RefCell::new(Some((ColumnBuilder::nothing(), ColumnBuilder::nothing())));
    Ok(ruby.obj_wrap(DictBuilderObject { entries, options }).as_value())
}

impl DictBuilderObject {
    /// Adds an entry.
    fn push(ruby: &Ruby, this: &Self, key: Value, value: Value) -> Result<(), Error> {
        let Ok(mut entries) = this.entries.try_borrow_mut() else { return Err(is_over(ruby)) };
        let (keys, values) = entries.as_mut().ok_or_else(|| is_over(ruby))?;
        let of_key = |failure: Failure| failure.of(format!("key {key:?}")).into_error();
        let text = text_of(key);
        if RString::from_value(text).is_none() && Integer::from_value(text).is_none() {
            let reason = "it is no String, Symbol or Integer";
            return Err(of_key(type_error(ruby, reason).into()));
        }
        push(ruby, keys, text, 1).map_err(of_key)?;
        push(ruby, values, value, 1).map_err(|failure| of_key(failure.of("its value".into())))
    }

    /// Makes a dictionary of the entries, as an object of a class.
    fn finish(
        ruby: &Ruby,
        this: &Self,
        class: RClass,
        lists: RClass,
        is_numo: bool,
    ) -> Result<Value, Error> {
        let maker = Maker::new(ruby, is_numo)?;
        let entries = this.entries.take().ok_or_else(|| is_over(ruby))?;
        let options = &this.options;
        let dict = created(size_bytes(&entries), |make_room| {
            let (keys, values) = entries;
            Dict::create_with_room(keys, values, options, make_room)
        })?;
        let array = read_only(ruby, shared_array(ruby, dict.or_raise(ruby)?.as_list())?)?;
        DictObject::of(ruby, class, Dict::of(array).or_raise(ruby)?, lists, maker)
    }
}
