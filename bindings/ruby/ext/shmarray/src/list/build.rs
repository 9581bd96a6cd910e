//! The private class `Shmarray::List::Builder`: items are added one after another, and then they
//! are a list.
//!
//! The first item of a column that is not nil says what all are: until then, the column is one of
//! nothing. The items lie in private memory until the list is made, so a failure leaves nothing.
#![allow(unsafe_code)] // reads Ruby's objects without a wrapper

use std::cell::RefCell;
use std::fmt::Write as _;

use magnus::encoding::EncodingCapable as _;
use magnus::error::ErrorType;
use magnus::r_hash::ForEach;
use magnus::rb_sys::{AsRawValue, FromRawValue};
use magnus::value::ReprValue;
use magnus::{
    Class, DataTypeFunctions, Error, ExceptionClass, Module, Object, RArray, RClass, RHash,
    RString, Ruby, Symbol, TryConvert, TypedData, Value, function, method,
};
use rb_sys::{
    FIXNUM_P, FLONUM_P, Qfalse, Qtrue, RB_BUILTIN_TYPE, SPECIAL_CONST_P, VALUE, rb_sym2str,
    ruby_value_type,
};
use shmarray::{ColumnBuilder, ColumnKind, DType, ItemType, List, Number, Options, TypeCode};

use super::{ListObject, let_interrupts_in, read_only, shared_array};
use crate::arguments;
use crate::array::{ArrayObject, array_of};
use crate::element;
use crate::error::{OrRaise, argument_error, made_room, type_error};
use crate::gvl::{look_up_class, stoppable};
use crate::npy::Maker;
use crate::numo_shared;

/// The items so far; `None` after they became a list.
#[derive(TypedData)]
#[magnus(class = "Shmarray::List::Builder", free_immediately, size)]
struct BuilderObject {
    items: RefCell<Option<ColumnBuilder>>,
    options: Options,
}

impl DataTypeFunctions for BuilderObject {
    fn size(&self) -> usize {
        let items = self.items.try_borrow();
        let bytes = items.ok().and_then(|items| items.as_ref().map(ColumnBuilder::size_bytes));
        size_of::<Self>() + bytes.map_or(0, |bytes| bytes as usize)
    }
}

pub(super) fn define(ruby: &Ruby, list: RClass) -> Result<(), Error> {
    let class = list.define_class("Builder", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", function!(begin, 1))?;
    class.define_method("push", method!(BuilderObject::push, 1))?;
    class.define_method("finish", method!(BuilderObject::finish, 2))?;
    look_up_class::<BuilderObject>(ruby)
}

fn begin(ruby: &Ruby, keywords: RHash) -> Result<Value, Error> {
    let options = arguments::options(ruby, keywords)?;
    let items = RefCell::new(Some(ColumnBuilder::nothing()));
    Ok(ruby.obj_wrap(BuilderObject { items, options }).as_value())
}

impl BuilderObject {
    /// Adds an item.
    fn push(ruby: &Ruby, this: &Self, item: Value) -> Result<(), Error> {
        let Ok(mut items) = this.items.try_borrow_mut() else { return Err(is_over(ruby)) };
        let items = items.as_mut().ok_or_else(|| is_over(ruby))?;
        let index = items.len();
        push(ruby, items, item, 1).map_err(|failure| failure.of_item(index).into_error())
    }

    /// Makes a list of the items, as an object of a class.
    fn finish(ruby: &Ruby, this: &Self, class: RClass, is_numo: bool) -> Result<Value, Error> {
        let maker = Maker::new(ruby, is_numo)?;
        let items = this.items.take().ok_or_else(|| is_over(ruby))?;
        let options = &this.options;
        let list = created(items.size_bytes(), |make_room| {
            List::create_with_room(items, options, make_room)
        })?;
        let array = read_only(ruby, shared_array(ruby, &list.or_raise(ruby)?)?)?;
        ListObject::whole(ruby, class, List::of(array).or_raise(ruby)?, maker)
    }
}

/// Calls a function of core that creates a list of so many bytes, and makes room while it may help.
pub(super) fn created<T: Send>(
    size_bytes: u64,
    create: impl FnOnce(&mut dyn FnMut(&shmarray::Error) -> bool) -> T + Send,
) -> Result<T, Error> {
    stoppable(usize::try_from(size_bytes).unwrap_or(usize::MAX), |caller| {
        let mut attempt = 0;
        create(&mut |error| {
            attempt += 1;
            let make = || Ruby::get().map_or(Ok(false), |ruby| made_room(&ruby, error, attempt));
            caller.call(make).unwrap_or(false)
        })
    })
}

pub(super) fn is_over(ruby: &Ruby) -> Error {
    argument_error(ruby, "the items are a list already")
}

/// Why an item was refused, and where it is within the items above it; or an exception of Ruby.
pub(super) enum Failure {
    Refused { class: ExceptionClass, reason: String, within: Vec<String> },
    Raised(Error),
}

impl Failure {
    fn of_item(self, index: u64) -> Self {
        self.of(format!("item {index}"))
    }

    pub(super) fn of(mut self, what: String) -> Self {
        if let Self::Refused { within, .. } = &mut self {
            within.push(what);
        }
        self
    }

    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Refused { class, reason, within } => {
                let mut text = String::new();
                for what in within.iter().rev() {
                    let _ = write!(text, "{what}: ");
                }
                Error::new(class, text + &reason)
            }
            Self::Raised(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.error_type() {
            ErrorType::Error(class, reason) => {
                Self::Refused { class: *class, reason: reason.to_string(), within: Vec::new() }
            }
            _ => Self::Raised(error),
        }
    }
}

/// What an object is as an item.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number(TypeCode),
    String,
    Bytes,
    Array,
    Record,
    List,
}

fn kind_of(ruby: &Ruby, item: Value) -> Result<Kind, Error> {
    let object = item.as_raw();
    if FIXNUM_P(object) {
        return Ok(Kind::Number(TypeCode::Int64));
    }
    if FLONUM_P(object) {
        return Ok(Kind::Number(TypeCode::Float64));
    }
    if object == Qtrue as VALUE || object == Qfalse as VALUE {
        return Ok(Kind::Number(TypeCode::Bool));
    }
    let refused = || {
        // SAFETY: the name is copied before any Ruby code runs.
        let class = unsafe { item.classname() }.into_owned();
        Err(type_error(ruby, format!("{class} cannot be in a list")))
    };
    if SPECIAL_CONST_P(object) {
        return refused();
    }
    // SAFETY: `SPECIAL_CONST_P` was false above, so `object` is a heap object, which has a built-in
    // type.
    match unsafe { RB_BUILTIN_TYPE(object) } {
        ruby_value_type::RUBY_T_BIGNUM => Ok(Kind::Number(TypeCode::Int64)),
        ruby_value_type::RUBY_T_FLOAT => Ok(Kind::Number(TypeCode::Float64)),
        ruby_value_type::RUBY_T_COMPLEX => Ok(Kind::Number(TypeCode::Complex128)),
        ruby_value_type::RUBY_T_HASH => Ok(Kind::Record),
        ruby_value_type::RUBY_T_ARRAY => Ok(Kind::List),
        ruby_value_type::RUBY_T_STRING => kind_of_string(ruby, item),
        ruby_value_type::RUBY_T_DATA
            if numo_shared::is_numo(ruby, item) || array_of(ruby, item).is_some() =>
        {
            Ok(Kind::Array)
        }
        _ => refused(),
    }
}

fn kind_of_string(ruby: &Ruby, item: Value) -> Result<Kind, Error> {
    match RString::from_value(item) {
        Some(string) if string.is_utf8_compatible_encoding() => Ok(Kind::String),
        Some(string) if string.enc_get() == ruby.ascii8bit_encindex() => Ok(Kind::Bytes),
        _ => {
            let encoding: Value = item.funcall("encoding", ())?;
            let text = format!("it is a String in {encoding}: encode it in UTF-8, or as binary");
            Err(type_error(ruby, text))
        }
    }
}

/// Returns the words for an item of a column.
fn words(column: &ColumnBuilder) -> String {
    let dtype = column.dtype().map_or("", DType::name);
    match column.kind() {
        ColumnKind::Numbers => match column.dtype().map(DType::code) {
            Some(TypeCode::Int64) => "an Integer",
            Some(TypeCode::Float64) => "a Float",
            Some(TypeCode::Complex128) => "a Complex",
            _ => "true or false",
        }
        .into(),
        ColumnKind::Strings => "a String in UTF-8".into(),
        ColumnKind::Bytes => "a binary String".into(),
        ColumnKind::Records => "a Hash".into(),
        ColumnKind::Lists => "an Array".into(),
        _ => {
            let ndim = column.ndim();
            let dimensions = if ndim == 1 { "dimension" } else { "dimensions" };
            format!("an array of {dtype} with {ndim} {dimensions}")
        }
    }
}

/// Returns a result of core, or why it refuses the item.
fn accepted<T>(ruby: &Ruby, result: shmarray::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| argument_error(ruby, error.to_string()).into())
}

/// Adds an item to a column at this depth.
pub(super) fn push(
    ruby: &Ruby,
    column: &mut ColumnBuilder,
    item: Value,
    depth: usize,
) -> Result<(), Failure> {
    if item.is_nil() {
        return accepted(ruby, column.push_none());
    }
    let kind = kind_of(ruby, item)?;
    if matches!(kind, Kind::Record | Kind::List) && depth == ColumnBuilder::MAX_DEPTH {
        let text = format!("Hashes and Arrays lie more than {depth} deep");
        return Err(argument_error(ruby, text).into());
    }
    match kind {
        Kind::Number(code) => push_number(ruby, column, item, code),
        Kind::String => push_string(ruby, column, RString::try_convert(item)?),
        Kind::Bytes => push_bytes(ruby, column, RString::try_convert(item)?),
        Kind::Array => push_array(ruby, column, item),
        Kind::Record => push_record(ruby, column, RHash::try_convert(item)?, depth),
        Kind::List => push_list(ruby, column, RArray::try_convert(item)?, depth),
    }
}

/// Makes the column one of such items if nothing has said yet what its items are. Refuses the item
/// if they are others.
fn settle(
    ruby: &Ruby,
    column: &mut ColumnBuilder,
    is_such: impl FnOnce(&ColumnBuilder) -> bool,
    such: impl FnOnce() -> shmarray::Result<ColumnBuilder>,
) -> Result<(), Failure> {
    if is_such(column) {
        return Ok(());
    }
    let mut made = accepted(ruby, such())?;
    if column.kind() != ColumnKind::Nothing {
        let text = format!("it is {}, not {} as those before it", words(&made), words(column));
        return Err(type_error(ruby, text).into());
    }
    for _ in 0..column.len() {
        accepted(ruby, made.push_none())?;
    }
    *column = made;
    Ok(())
}

fn push_number(
    ruby: &Ruby,
    column: &mut ColumnBuilder,
    item: Value,
    code: TypeCode,
) -> Result<(), Failure> {
    let is_such = |column: &ColumnBuilder| {
        column.kind() == ColumnKind::Numbers && column.dtype().map(DType::code) == Some(code)
    };
    let dtype = || DType::from_code(code).ok_or(shmarray::Error::UNKNOWN_OUTCOME);
    let such = || {
        let mut numbers = ColumnBuilder::numbers(dtype()?)?;
        numbers.set_item_type(ItemType::Scalar)?; // Python's own numbers, as these are Ruby's
        Ok(numbers)
    };
    settle(ruby, column, is_such, such)?;
    let number = match element::immediate(code, item.as_raw()) {
        Some(number) => number,
        None => element::convert(ruby, &accepted(ruby, dtype())?, item)?,
    };
    let pushed = match number {
        Number::Bool(truth) => column.push_number(&[u8::from(truth)]),
        Number::Integer(whole) => column.push_number(&(whole as i64).to_le_bytes()),
        Number::Float(float) => column.push_number(&float.to_le_bytes()),
        Number::Complex(re, im) => {
            column.push_number([re, im].map(f64::to_le_bytes).as_flattened())
        }
    };
    accepted(ruby, pushed)
}

fn push_string(ruby: &Ruby, column: &mut ColumnBuilder, item: RString) -> Result<(), Failure> {
    let is_such = |column: &ColumnBuilder| column.kind() == ColumnKind::Strings;
    settle(ruby, column, is_such, || Ok(ColumnBuilder::strings()))?;
    // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
    let bytes = unsafe { item.as_slice() };
    match str::from_utf8(bytes) {
        Ok(text) => accepted(ruby, column.push_string(text)),
        Err(error) => {
            let text = format!("it is no UTF-8 from byte {} on", error.valid_up_to());
            Err(argument_error(ruby, text).into())
        }
    }
}

fn push_bytes(ruby: &Ruby, column: &mut ColumnBuilder, item: RString) -> Result<(), Failure> {
    let is_such = |column: &ColumnBuilder| column.kind() == ColumnKind::Bytes;
    settle(ruby, column, is_such, || Ok(ColumnBuilder::bytes()))?;
    // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
    accepted(ruby, column.push_bytes(unsafe { item.as_slice() }))
}

fn push_array(ruby: &Ruby, column: &mut ColumnBuilder, item: Value) -> Result<(), Failure> {
    let mut push = |dtype: &DType, shape: &[u64], bytes: &[u8]| {
        let is_such = |column: &ColumnBuilder| {
            let is_array = column.kind() == ColumnKind::Arrays && column.ndim() == shape.len();
            is_array && column.dtype() == Some(dtype)
        };
        let such = || ColumnBuilder::arrays(dtype.clone(), shape.len());
        settle(ruby, column, is_such, such)?;
        accepted(ruby, column.push_array(shape, bytes))
    };
    if numo_shared::is_numo(ruby, item) {
        return numo_shared::with_elements(ruby, item, push)?;
    }
    let array = ArrayObject::array(<&ArrayObject>::try_convert(item)?, ruby)?;
    let bytes = accepted(ruby, array.to_bytes())?;
    push(array.dtype(), array.shape(), &bytes)
}

fn push_record(
    ruby: &Ruby,
    column: &mut ColumnBuilder,
    item: RHash,
    depth: usize,
) -> Result<(), Failure> {
    if column.kind() != ColumnKind::Records {
        let fields = names_of(ruby, item)?.into_iter().map(|name| (name, ColumnBuilder::nothing()));
        settle(ruby, column, |_| false, || ColumnBuilder::records(fields))?;
    }
    let mut next = 0;
    let mut differs = item.len() != column.field_names().len();
    each_pair(item, |key, value| {
        let name = name_of(ruby, key)?;
        let number = number_of(column, name, next);
        let field = number.and_then(|number| column.field_mut(number));
        let (Some(field), false) = (field, differs) else {
            differs = true;
            return Ok(());
        };
        next = number.map_or(0, |number| number + 1);
        push(ruby, field, value, depth + 1).map_err(|failure| failure.of(format!("field {name}")))
    })?;
    if differs || column.push_records(1).is_err() {
        let before = column.field_names().collect::<Vec<_>>().join(", ");
        let names = names_of(ruby, item)?.join(", ");
        let text = format!("its fields are {names}, not {before} as those before it");
        return Err(argument_error(ruby, text).into());
    }
    Ok(())
}

/// Calls a closure with each key and value, until it fails. An error of Rust that went through
/// Ruby's loop would come out as an exception.
fn each_pair(
    record: RHash,
    mut act: impl FnMut(Value, Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut done = Ok(());
    record.foreach(|key: Value, value: Value| {
        done = act(key, value);
        Ok(if done.is_ok() { ForEach::Continue } else { ForEach::Stop })
    })?;
    done
}

/// Returns the number of a field, which is probably this one.
fn number_of(column: &ColumnBuilder, name: RString, probable: usize) -> Option<usize> {
    // SAFETY: no Ruby code runs that could change the String while the slice is borrowed.
    let name = unsafe { name.as_slice() };
    let mut names = column.field_names();
    match names.nth(probable) {
        Some(found) if found.as_bytes() == name => Some(probable),
        _ => column.field_names().position(|found| found.as_bytes() == name),
    }
}

fn names_of(ruby: &Ruby, record: RHash) -> Result<Vec<String>, Failure> {
    let mut names = Vec::with_capacity(record.len());
    each_pair(record, |key, _| {
        names.push(name_of(ruby, key)?.to_string()?);
        Ok(())
    })?;
    Ok(names)
}

/// Returns the String of a Symbol, and any other object as it is.
pub(super) fn text_of(key: Value) -> Value {
    match Symbol::from_value(key) {
        Some(key) => {
            // SAFETY: `from_value` found that the key is a Symbol, which has a String.
            let text = unsafe { rb_sym2str(key.as_raw()) };
            // SAFETY: `rb_sym2str` returned the String, a Ruby object.
            unsafe { Value::from_raw(text) }
        }
        None => key,
    }
}

/// Returns the text of a key: a Symbol or a String in UTF-8.
fn name_of(ruby: &Ruby, key: Value) -> Result<RString, Error> {
    let text = RString::from_value(text_of(key)).filter(|text| text.is_utf8_compatible_encoding());
    text.ok_or_else(|| {
        let text = format!("the name of a field is a Symbol or a String in UTF-8, not {key:?}");
        type_error(ruby, text)
    })
}

fn push_list(
    ruby: &Ruby,
    column: &mut ColumnBuilder,
    item: RArray,
    depth: usize,
) -> Result<(), Failure> {
    let is_such = |column: &ColumnBuilder| column.kind() == ColumnKind::Lists;
    settle(ruby, column, is_such, || Ok(ColumnBuilder::lists(ColumnBuilder::nothing())))?;
    let mut index = 0;
    while index < item.len() {
        let one: Value = item.entry(index as isize)?;
        if let Some(items) = column.field_mut(0) {
            push(ruby, items, one, depth + 1).map_err(|failure| failure.of_item(index as u64))?;
        }
        index += 1;
        let_interrupts_in(index)?;
    }
    accepted(ruby, column.push_list())
}
