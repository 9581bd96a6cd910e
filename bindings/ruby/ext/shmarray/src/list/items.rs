//! The Ruby object of an item.
//!
//! A number, a string and bytes are copied; an array is a view of the list's memory. All are
//! frozen. Nothing here is to be dropped when Ruby jumps for lack of memory.
#![allow(unsafe_code)] // makes Ruby's objects of memory

use magnus::encoding::Coderange;
use magnus::rb_sys::{FromRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, RString, Ruby, Value};
use rb_sys::{rb_str_new, rb_utf8_str_new};
use shmarray::{Column, ColumnKind, TypeCode};

use super::{ListObject, let_interrupts_in};
use crate::element::{read, to_value};
use crate::error::{OrRaise, type_error};

/// Returns an item of a column, by its number there.
pub(super) fn item(
    ruby: &Ruby,
    list: &ListObject,
    column: Column<'_>,
    number: u64,
) -> Result<Value, Error> {
    if column.is_none(number).or_raise(ruby)? {
        return Ok(ruby.qnil().as_value());
    }
    match column.kind() {
        ColumnKind::Numbers => number_at(ruby, column, number),
        ColumnKind::Arrays => list.made(ruby, column.array(number).or_raise(ruby)?),
        ColumnKind::Strings => string(ruby, column, number),
        ColumnKind::Bytes => {
            let (start, bytes) = column.item_ptr(number).or_raise(ruby)?;
            // SAFETY: `item_ptr` returned the bytes of this item, which the list's mapping has.
            let made = protect(|| unsafe { rb_str_new(start.cast(), bytes as i64) })?;
            // SAFETY: `protect` returned the String that Ruby made.
            Ok(frozen(unsafe { Value::from_raw(made) }))
        }
        ColumnKind::Records => {
            let record = ruby.hash_new();
            let keys = list.keys(ruby);
            for field in column.children() {
                let key: Value = keys.entry(field.column_number() as isize)?;
                record.aset(key, item(ruby, list, field, number)?)?;
            }
            Ok(frozen(record.as_value()))
        }
        ColumnKind::Lists => {
            let made = ruby.ary_new();
            let range = column.list(number).or_raise(ruby)?;
            for items in column.children() {
                for number in range.clone() {
                    made.push(item(ruby, list, items, number)?)?;
                    let_interrupts_in(made.len())?;
                }
            }
            Ok(frozen(made.as_value()))
        }
        ColumnKind::Pickles => {
            let text = format!("item {number} is a pickle of Python, which only Python reads");
            Err(type_error(ruby, text))
        }
        _ => Ok(ruby.qnil().as_value()),
    }
}

fn frozen(object: Value) -> Value {
    object.freeze();
    object
}

fn number_at(ruby: &Ruby, column: Column<'_>, number: u64) -> Result<Value, Error> {
    let (start, bytes) = column.item_ptr(number).or_raise(ruby)?;
    let code = column.dtype().map_or(TypeCode::Opaque, |dtype| dtype.code());
    // SAFETY: `item_ptr` returned the address of an item of this dtype, and Ruby called the method
    // with its lock.
    let object = unsafe { read(code, bytes, start) };
    // SAFETY: `read` returns a Ruby object.
    Ok(frozen(unsafe { to_value(object) }))
}

fn string(ruby: &Ruby, column: Column<'_>, number: u64) -> Result<Value, Error> {
    let (start, bytes) = column.item_ptr(number).or_raise(ruby)?;
    // SAFETY: `item_ptr` returned the bytes of this item, which the list's mapping has.
    let made = protect(|| unsafe { rb_utf8_str_new(start.cast(), bytes as i64) })?;
    // SAFETY: `protect` returned the String that Ruby made.
    let string = RString::from_value(unsafe { Value::from_raw(made) });
    let is_valid = |string: &RString| {
        matches!(string.enc_coderange_scan(), Coderange::SevenBit | Coderange::Valid)
    };
    match string.filter(is_valid) {
        Some(string) => Ok(frozen(string.as_value())),
        None => {
            let text = column.string(number).or_raise(ruby)?; // or the error that says why
            Ok(frozen(ruby.str_new(&text).as_value()))
        }
    }
}
