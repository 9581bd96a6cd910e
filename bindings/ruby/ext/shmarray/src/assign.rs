//! `Shmarray::Array#[]=` and `#fill`: assign one element to all, or Arrays, Ranges, and arrays of
//! this library or of Numo.

use magnus::value::ReprValue;
use magnus::{Error, Integer, Module, RArray, Range, Ruby, TryConvert, TypedData, Value, method};
use shmarray::{Array, Layout};

use crate::array::{
    ArrayObject, Elements, Self_, array_of, bytes_of, check_writable, dense, write_number,
};
use crate::element;
use crate::error::{OrRaise, argument_error};
use crate::gvl::copying;
use crate::index::{Selected, arithmetic_sequence, select};
use crate::numo_shared::{self, NumoSource};

/// Defines the methods.
pub(crate) fn define(ruby: &Ruby) -> Result<(), Error> {
    let class = ArrayObject::class(ruby);
    class.define_method("[]=", method!(set, -1))?;
    class.define_method("fill", method!(fill, 1))
}

/// Runs `array[…] = value`: the last argument is the value.
fn set(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<(), Error> {
    let Some((&value, index)) = arguments.split_last() else {
        return Err(argument_error(ruby, "no value"));
    };
    if write_number(this, index, value) {
        Ok(())
    } else {
        set_any(ruby, Self_::try_convert(this)?, index, value)
    }
}

fn set_any(ruby: &Ruby, this: Self_, index: &[Value], value: Value) -> Result<(), Error> {
    let array = this.array(ruby)?;
    check_writable(ruby, this, &array)?;
    match select(ruby, &array, index)? {
        Selected::Element(element) => fill_with(ruby, &element, value),
        Selected::View(view) => assign(ruby, &view, value),
    }
}

/// Assigns one element to all.
fn fill(ruby: &Ruby, this: Self_, value: Value) -> Result<Self_, Error> {
    let array = this.array(ruby)?;
    check_writable(ruby, this, &array)?;
    fill_with(ruby, &array, value)?;
    Ok(this)
}

fn fill_with(ruby: &Ruby, array: &Array, value: Value) -> Result<(), Error> {
    let bytes = element::to_bytes(ruby, array.dtype(), value)?;
    let layout =
        Layout { shape: array.shape().to_vec(), strides: vec![0; array.shape().len()], offset: 0 };
    // SAFETY: all strides of `layout` are 0, so every element is the one in `bytes`, which
    // `to_bytes` made private to this function.
    #[allow(unsafe_code)]
    let filled =
        copying(bytes_of(array) as usize, || unsafe { array.fill_from(bytes.as_ptr(), &layout) });
    filled.or_raise(ruby)
}

/// Assigns an array of the same shape and dtype, nested Arrays or a Range of the same shape, or one
/// element to all.
fn assign(ruby: &Ruby, view: &Array, value: Value) -> Result<(), Error> {
    if let Some(source) = array_of(ruby, value) {
        return copy(ruby, view, &*source?);
    }
    if numo_shared::is_numo(ruby, value) {
        return match numo_shared::source(ruby, value)? {
            NumoSource::Shared(source) => copy(ruby, view, &source),
            NumoSource::Private(source) => source.copy_to(ruby, view),
            NumoSource::Objects(rows) => assign(ruby, view, rows),
        };
    }
    if let Some(rows) = RArray::from_value(value) {
        return assign_rows(ruby, view, rows, view.shape());
    }
    if Range::from_value(value).is_some() || value.is_kind_of(arithmetic_sequence(ruby)?) {
        assign_rows(ruby, view, steps(ruby, view, value)?, view.shape())
    } else {
        fill_with(ruby, view, value)
    }
}

/// Returns the values of a Range or of its steps if there are as many as elements. The Range may be
/// endless.
fn steps(ruby: &Ruby, view: &Array, range: Value) -> Result<RArray, Error> {
    let count = range.funcall::<_, _, Value>("size", ())?;
    let is_whole = Integer::from_value(count)
        .is_some_and(|count| count.to_u64().ok().as_ref() == view.shape().first());
    if is_whole {
        range.funcall("to_a", ())
    } else {
        Err(misfit(ruby, &count.inspect(), view.shape(), 0))
    }
}

fn misfit(ruby: &Ruby, count: &str, shape: &[u64], dim: usize) -> Error {
    argument_error(
        ruby,
        format!("{count} elements do not fit dimension {dim} of the shape {shape:?}"),
    )
}

fn copy(ruby: &Ruby, to: &Array, from: &Array) -> Result<(), Error> {
    to.expect_dtype(from.dtype().clone()).or_raise(ruby)?;
    // Copied first, since source and target may be the same memory.
    let bytes = copying(bytes_of(from) as usize, || from.to_bytes()).or_raise(ruby)?;
    let layout = dense(ruby, from)?;
    // SAFETY: `dense` gives the layout in which `to_bytes` wrote the elements, and `bytes` is
    // private to this function.
    #[allow(unsafe_code)]
    let copied = copying(bytes.len(), || unsafe { to.fill_from(bytes.as_ptr(), &layout) });
    copied.or_raise(ruby)
}

/// Assigns rows to a part of an array with the shape `shape`. The part begins at one of its
/// dimensions.
fn assign_rows(ruby: &Ruby, part: &Array, rows: RArray, shape: &[u64]) -> Result<(), Error> {
    let dim = shape.len() - part.shape().len();
    if part.shape().first() != Some(&(rows.len() as u64)) {
        return Err(misfit(ruby, &rows.len().to_string(), shape, dim));
    }
    if part.shape().len() == 1 {
        return assign_row(ruby, part, rows, shape);
    }
    for (at, row) in rows.into_iter().enumerate() {
        let none = || {
            argument_error(
                ruby,
                format!("{row} is no Array for dimension {} of the shape {shape:?}", dim + 1),
            )
        };
        let rows = RArray::from_value(row).ok_or_else(none)?;
        assign_rows(ruby, &part.select(0, at as i64).or_raise_index(ruby)?, rows, shape)?;
    }
    Ok(())
}

/// Assigns one row. Converting an element may call Ruby code, which may change the row, so each
/// entry is read anew.
fn assign_row(ruby: &Ruby, part: &Array, row: RArray, shape: &[u64]) -> Result<(), Error> {
    let mut at = 0;
    let mut result = Ok(());
    Elements::of(part).walk(&mut |address| {
        result = row.entry::<Value>(at).and_then(|value| match RArray::from_value(value) {
            Some(deeper) => Err(misfit(ruby, &deeper.len().to_string(), shape, shape.len())),
            // SAFETY: `walk` passes addresses of elements of `part`, whose dtype this is;
            // `check_writable` found it writable, and the caller holds it.
            #[allow(unsafe_code)]
            None => unsafe { element::write(ruby, part.dtype(), address, value) },
        });
        at += 1;
        result.is_ok()
    });
    result
}
