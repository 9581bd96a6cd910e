//! The class `Shmarray::List`: a list, the column of a field, or a part of either.
//!
//! * `items`: the Ruby object of an item.
//! * `build`: the private class `Shmarray::List::Builder`, which takes items one after another.
//! * `dict`: the class `Shmarray::Dict`, and its private builder.
//!
//! An object of the class is frozen, and the memory under it is mapped read-only, so Ractors share
//! it. `lib/shmarray/list.rb` makes it a collection.
#![allow(unsafe_code)] // what the derives write, and Ruby's ranges

mod build;
mod dict;
mod items;

use std::ffi::c_long;
use std::hint::black_box;
use std::ops::Range;

use magnus::gc::Marker;
use magnus::rb_sys::{AsRawValue, protect};
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Integer, Module, Object, RArray, RClass, RHash, RModule,
    RString, Ruby, Symbol, TryConvert, TypedData, Value, method,
};
use rb_sys::{Qfalse, Qnil, VALUE, rb_arithmetic_sequence_beg_len_step};
use shmarray::{
    Access, Array, Column, ColumnKind, DType, Dict, Element, Layout, List, Options, Order,
};

use crate::arguments;
use crate::array::array_of;
use crate::collector::Counted;
use crate::error::{OrRaise, argument_error, with_room};
use crate::gvl::{check_interrupts, copying, look_up_class};
use crate::npy::Maker;

/// The Rust value of a `Shmarray::List`.
#[derive(TypedData)]
#[magnus(class = "Shmarray::List", free_immediately, size, mark, frozen_shareable)]
pub(crate) struct ListObject {
    list: List,
    maker: Maker,
    /// The Symbol of each column's name, in a frozen Array.
    keys: Opaque<RArray>,
    place: Place,
    /// What the collector was told of. A field and a part count nothing.
    counted: Option<Counted>,
}

/// The items of an object: those of a column from a start on, each so many after the one before.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    column: usize,
    start: u64,
    step: i64,
    count: u64,
}

impl DataTypeFunctions for ListObject {
    fn size(&self) -> usize {
        size_of::<Self>() + self.counted.as_ref().map_or(0, Counted::bytes)
    }

    fn mark(&self, marker: &Marker) {
        marker.mark(self.keys);
    }
}

type Self_ = Obj<ListObject>;

/// Defines the classes.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let class = shmarray.define_class("List", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("open", method!(open, 2))?;
    class.define_singleton_method("open_file", method!(open_file, 3))?;
    class.define_singleton_method("open_dumped", method!(open_dumped, 2))?;
    class.define_method("size", method!(ListObject::count, 0))?;
    class.define_method("[]", method!(ListObject::get, -1))?;
    class.define_method("kind", method!(ListObject::kind, 0))?;
    class.define_method("dtype", method!(ListObject::dtype, 0))?;
    class.define_method("values", method!(ListObject::values, 0))?;
    class.define_method("offsets", method!(ListObject::offsets, 0))?;
    class.define_method("fields", method!(ListObject::fields, 0))?;
    class.define_method("nbytes", method!(ListObject::bytes, 0))?;
    class.define_method("handle", method!(ListObject::handle, 0))?;
    class.define_method("handle_to_send", method!(ListObject::handle_to_send, 0))?;
    class.define_private_method("save_to", method!(ListObject::save, 1))?;
    class.define_private_method("field_of", method!(ListObject::field, 1))?;
    class.define_private_method("place", method!(ListObject::place, 0))?;
    class.define_private_method("at_place", method!(ListObject::at_place, 4))?;
    build::define(ruby, class)?;
    look_up_class::<ListObject>(ruby)?;
    dict::define(ruby, shmarray)
}

/// Attaches a list by its handle or its name, or returns the list that an array is.
fn open(ruby: &Ruby, class: RClass, value: Value, is_numo: bool) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let list = List::of(opened(ruby, value)?).or_raise(ruby)?;
    ListObject::whole(ruby, class, list, maker)
}

/// Attaches what a dump holds: a list, or the dictionary whose keys or values were dumped.
fn open_dumped(ruby: &Ruby, class: RClass, handle: Value, is_numo: bool) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let array = opened(ruby, handle)?;
    let list = if *array.dtype() == dict::dtype(ruby)? {
        Dict::of(array).map(|dict| dict.as_list().clone())
    } else {
        List::of(array)
    };
    ListObject::whole(ruby, class, list.or_raise(ruby)?, maker)
}

/// Attaches an array by its handle or its name, read-only, or returns the one that an object is.
fn opened(ruby: &Ruby, value: Value) -> Result<Array, Error> {
    let is_text = RString::from_value(value).is_some();
    let found = if is_text { None } else { array_of(ruby, value).transpose()? };
    match found {
        Some(found) if found.is_in_slot() => {
            Err(argument_error(ruby, "a list in a slot of a channel ends with its block"))
        }
        Some(found) if found.is_readonly() => Ok(Array::clone(&found)),
        Some(found) => read_only(ruby, &found),
        None => {
            let text = arguments::handle_or_name(ruby, value)?;
            with_room(ruby, || Array::attach(&text, Access::ReadOnly))
        }
    }
}

/// Copies the list of a file to shared memory.
fn open_file(
    ruby: &Ruby,
    class: RClass,
    path: String,
    keywords: RHash,
    is_numo: bool,
) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let options = arguments::options(ruby, keywords)?;
    let file = copying(usize::MAX, || List::open(&path, true)).or_raise(ruby)?;
    let dtype = DType::by_name("list", 1).or_raise(ruby)?;
    let list = List::of(copied(ruby, &file, &dtype, &options)?).or_raise(ruby)?;
    ListObject::whole(ruby, class, list, maker)
}

/// Copies the bytes of a file to a new array of shared memory, and attaches that read-only.
fn copied(ruby: &Ruby, file: &List, dtype: &DType, options: &Options) -> Result<Array, Error> {
    let layout = Layout::contiguous(&[file.size_bytes()], 1, Order::C).or_raise(ruby)?;
    let share = || {
        // SAFETY: a list has so many bytes from its first on, and `file` keeps them mapped.
        unsafe { Array::share(file.as_ptr(), dtype.clone(), &layout, options) }
    };
    let array = with_room(ruby, || copying(usize::MAX, share))?;
    read_only(ruby, &array)
}

/// Attaches an array once more, with its memory protected against writes.
fn read_only(ruby: &Ruby, array: &Array) -> Result<Array, Error> {
    with_room(ruby, || Array::attach_descriptor(&array.descriptor(), Access::ReadOnly))
}

/// Returns the array of a list's bytes.
fn shared_array<'a>(ruby: &Ruby, list: &'a List) -> Result<&'a Array, Error> {
    list.array().ok_or_else(|| argument_error(ruby, "the list is in a file, and has no handle"))
}

/// Returns the array of a list that is whole, or of a dictionary.
pub(crate) fn list_array(ruby: &Ruby, value: Value) -> Option<Result<Array, Error>> {
    match <&ListObject>::try_convert(value) {
        Ok(list) => Some(list.array(ruby).cloned()),
        Err(_) => dict::dict_array(ruby, value),
    }
}

impl ListObject {
    /// Makes the object of a list that this process has just attached.
    fn whole(ruby: &Ruby, class: RClass, list: List, maker: Maker) -> Result<Value, Error> {
        let counted = list.array().map(Counted::array);
        let made = Self::of_column(ruby, class, list, maker, 0, counted)?;
        Ok(made.as_value())
    }

    /// Makes an object of all items of a column.
    fn of_column(
        ruby: &Ruby,
        class: RClass,
        list: List,
        maker: Maker,
        column: usize,
        counted: Option<Counted>,
    ) -> Result<Self_, Error> {
        let keys = ruby.ary_new();
        for column in (0..).map_while(|number| list.column(number)) {
            keys.push(ruby.to_symbol(column.name()))?;
        }
        keys.freeze();
        let count = list.column(column).map_or(0, |column| column.len());
        let place = Place { column, start: 0, step: 1, count };
        let made = ruby.obj_wrap_as(Self { list, maker, keys: keys.into(), place, counted }, class);
        made.freeze();
        black_box(keys); // keeps the Array on the stack until the object marks it
        Ok(made)
    }

    /// Makes an object of other items of the same list.
    fn other(ruby: &Ruby, this: Self_, place: Place) -> Value {
        let object = Self {
            list: this.list.clone(),
            maker: this.maker,
            keys: this.keys,
            place,
            counted: None,
        };
        frozen(ruby, object, this.class())
    }

    fn column(&self) -> Column<'_> {
        self.list.column(self.place.column).unwrap_or_else(|| self.list.items())
    }

    fn count(&self) -> u64 {
        self.place.count
    }

    fn kind(ruby: &Ruby, this: &Self) -> Symbol {
        ruby.to_symbol(format!("{:?}", this.column().kind()).to_lowercase())
    }

    fn dtype(&self) -> Option<String> {
        self.column().dtype().map(|dtype| dtype.text().to_owned())
    }

    fn bytes(&self) -> u64 {
        self.list.size_bytes()
    }

    /// Returns the array of all bytes, which has the handle.
    fn array(&self, ruby: &Ruby) -> Result<&Array, Error> {
        let whole = Place { column: 0, start: 0, step: 1, count: self.list.len() };
        if self.place == whole {
            return shared_array(ruby, &self.list);
        }
        Err(argument_error(
            ruby,
            "a field or a part of a list has no handle and no file: the list has",
        ))
    }

    /// Saves the list, which is whole, to a file.
    fn save(ruby: &Ruby, this: &Self, path: String) -> Result<(), Error> {
        this.array(ruby)?;
        let list = &this.list;
        copying(usize::MAX, || list.save(&path)).or_raise(ruby)
    }

    fn handle(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        this.array(ruby).map(Array::handle)
    }

    /// Returns a handle that holds the list, also for a field or a part, which has a place there.
    fn handle_to_send(ruby: &Ruby, this: &Self) -> Result<String, Error> {
        shared_array(ruby, &this.list)?.handle_to_send().or_raise(ruby)
    }

    fn place(&self) -> (usize, u64, i64, u64) {
        let Place { column, start, step, count } = self.place;
        (column, start, step, count)
    }

    /// Returns the items at a place that was dumped.
    fn at_place(
        ruby: &Ruby,
        this: Self_,
        column: usize,
        start: u64,
        step: i64,
        count: u64,
    ) -> Result<Value, Error> {
        let column_there = this.list.column(column);
        // The entries of a dictionary are no items.
        let column_there = column_there.filter(|there| there.kind() != ColumnKind::Entries);
        let there = column_there.map(|column| i128::from(column.len()));
        let last = i128::from(start) + i128::from(step) * (i128::from(count) - 1);
        let is_there = |len: i128| {
            let start = i128::from(start);
            start <= len && (count == 0 || (start < len && (0..len).contains(&last)))
        };
        if !there.is_some_and(is_there) {
            return Err(argument_error(ruby, "the list has no such items"));
        }
        Ok(Self::other(ruby, this, Place { column, start, step, count }))
    }

    /// Returns an item, or a part: `[index]`, `[range]`, `[start, length]`; nil if it is not there.
    fn get(ruby: &Ruby, this: Self_, arguments: &[Value]) -> Result<Option<Value>, Error> {
        let count = this.place.count;
        match *arguments {
            [index] => match selected(index, count)? {
                Some(Selected::Item(at)) => {
                    let number = this.number(at);
                    items::item(ruby, &this, this.column(), number).map(Some)
                }
                Some(Selected::Part { start, step, count }) => {
                    Ok(Some(Self::part(ruby, this, start, step, count)))
                }
                None => Ok(None),
            },
            [start, length] => {
                let start = from_end(i64::try_convert(start)?, count).filter(|at| *at <= count);
                let length = u64::try_from(i64::try_convert(length)?).ok();
                let part = start.zip(length);
                Ok(part.map(|(start, length)| {
                    Self::part(ruby, this, start, 1, length.min(count - start))
                }))
            }
            _ => {
                let given = arguments.len();
                let text = format!("wrong number of arguments (given {given}, expected 1..2)");
                Err(argument_error(ruby, text))
            }
        }
    }

    /// Makes an object of a part of the items of another.
    fn part(ruby: &Ruby, this: Self_, start: u64, step: i64, count: u64) -> Value {
        let Place { column, step: each, .. } = this.place;
        let step = each.saturating_mul(step); // of two items or more it is in the column
        Self::other(ruby, this, Place { column, start: this.number(start), step, count })
    }

    /// Returns where an item of this object is in the column.
    fn number(&self, index: u64) -> u64 {
        self.place.start.wrapping_add_signed(self.place.step.wrapping_mul(index as i64))
    }

    /// Returns the values of all items; of lists the list of their items.
    fn values(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
        let column = this.column();
        let Place { step, count, .. } = this.place;
        match column.kind() {
            ColumnKind::Lists => {
                let items = column.children().next().unwrap_or(column);
                let (column, count) = (items.column_number(), items.len());
                Ok(Self::other(ruby, this, Place { column, start: 0, step: 1, count }))
            }
            ColumnKind::Numbers => {
                let values = column.values().or_raise(ruby)?;
                let itemsize = values.dtype().itemsize() as i64;
                let start = if count == 0 { 0 } else { this.number(0) as i64 * itemsize };
                let values = values.view(&[count], &[step.saturating_mul(itemsize)], start);
                this.made(ruby, values.or_raise(ruby)?)
            }
            _ => this.made(ruby, column.values().or_raise(ruby)?),
        }
    }

    /// Returns where each item begins in the values, and last where they end.
    fn offsets(ruby: &Ruby, this: Self_) -> Result<Value, Error> {
        let column = this.column();
        let Range { start, end } = this.range(ruby)?;
        if let Some(shape) = column.common_shape() {
            let each = shape.iter().product::<u64>();
            return this.made(ruby, offsets_of(ruby, each, start..end)?);
        }
        let offsets = column.offsets().or_raise(ruby)?;
        let part = offsets
            .view(&[(end - start).saturating_add(1)], &[8], start as i64 * 8)
            .or_raise(ruby)?;
        this.made(ruby, part)
    }

    /// Returns where its items are in the column, if they are one after another.
    fn range(&self, ruby: &Ruby) -> Result<Range<u64>, Error> {
        let Place { start, step, count, .. } = self.place;
        if step == 1 || count == 0 {
            return Ok(start..start + count);
        }
        Err(argument_error(ruby, "items that are not one after another have no offsets"))
    }

    /// Returns the array of a part of the list, as an object that nobody can write to.
    fn made(&self, ruby: &Ruby, array: Array) -> Result<Value, Error> {
        self.maker.check(ruby, array.dtype(), "Shmarray::List.attach")?;
        let made = self.maker.make(ruby, array)?;
        made.freeze();
        Ok(made)
    }

    fn keys(&self, ruby: &Ruby) -> RArray {
        ruby.get_inner(self.keys)
    }

    fn fields(ruby: &Ruby, this: &Self) -> Result<RArray, Error> {
        let names = ruby.ary_new();
        for field in records_of(this.column()) {
            names.push(this.keys(ruby).entry::<Value>(field.column_number() as isize)?)?;
        }
        Ok(names)
    }

    /// Returns the items of a field, or nil if there is no such field.
    fn field(ruby: &Ruby, this: Self_, name: String) -> Option<Value> {
        let column = this.column().field(&name)?.column_number();
        Some(Self::other(ruby, this, Place { column, ..this.place }))
    }
}

/// Returns the fields of records.
fn records_of(column: Column<'_>) -> impl Iterator<Item = Column<'_>> {
    column.children().filter(move |_| column.kind() == ColumnKind::Records)
}

/// What the argument of `list[…]` selects.
enum Selected {
    Item(u64),
    Part { start: u64, step: i64, count: u64 },
}

/// Returns what an Integer, a Range or its steps select of so many items, as of a Ruby Array.
/// `None` is outside.
fn selected(index: Value, count: u64) -> Result<Option<Selected>, Error> {
    if Integer::from_value(index).is_some() {
        let at = from_end(i64::try_convert(index)?, count).filter(|at| *at < count);
        return Ok(at.map(Selected::Item));
    }
    let [mut start, mut length, mut step]: [c_long; 3] = [0; 3];
    let most = c_long::try_from(count).unwrap_or(c_long::MAX);
    let found = protect(|| {
        // SAFETY: the function takes any object, the outputs are valid locals, and `protect`
        // catches what it raises for the ends of a Range that are no Integers.
        unsafe {
            rb_arithmetic_sequence_beg_len_step(
                index.as_raw(),
                &raw mut start,
                &raw mut length,
                &raw mut step,
                most,
                0,
            )
        }
    })?;
    if found == Qfalse as VALUE {
        let at = from_end(i64::try_convert(index)?, count).filter(|at| *at < count);
        return Ok(at.map(Selected::Item));
    }
    if found == Qnil as VALUE {
        return Ok(None);
    }
    let first = if step < 0 { start + (length - 1).max(0) } else { start };
    let count = (length as u64).div_ceil(step.unsigned_abs().max(1));
    Ok(Some(Selected::Part { start: first as u64, step, count }))
}

/// Returns an index that counts from the end if it is negative. `None` is before the first item.
fn from_end(index: i64, count: u64) -> Option<u64> {
    let at = i128::from(index) + if index < 0 { i128::from(count) } else { 0 };
    u64::try_from(at).ok()
}

/// Returns the offsets of items that are all of one size, which a list does not have.
fn offsets_of(ruby: &Ruby, each: u64, items: Range<u64>) -> Result<Array, Error> {
    let count = (items.end - items.start).saturating_add(1);
    let options = Options::new();
    let array = with_room(ruby, || Array::create(i64::dtype(), &[count], &options))?;
    for (at, item) in (items.start..=items.end).enumerate() {
        array.set(&[at as u64], (item * each) as i64).or_raise(ruby)?;
    }
    Ok(array)
}

/// Lets interrupts in now and then, after so many items of one item.
fn let_interrupts_in(count: usize) -> Result<(), Error> {
    if count.is_multiple_of(4096) { check_interrupts() } else { Ok(()) }
}

fn frozen(ruby: &Ruby, object: ListObject, class: RClass) -> Value {
    let object = ruby.obj_wrap_as(object, class).as_value();
    object.freeze();
    object
}
