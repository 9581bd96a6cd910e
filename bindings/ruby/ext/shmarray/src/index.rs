//! What stands between the brackets of `array[…]`.
//!
//! | argument | chooses |
//! |---|---|
//! | Integer | one index; the dimension goes away; negative counts from the end |
//! | Range, also without an end | the elements from one to the other, cut to the dimension as Ruby's arrays do |
//! | `(0..).step(2)`, `(-1..0) % -1` | every so many of them, forwards or backwards |
//! | `nil`, `true` | the whole dimension |
//!
//! Dimensions that are not named are whole. An Integer for every dimension is one element.

use magnus::value::ReprValue;
use magnus::{Error, Integer, RClass, Range, Ruby, Value};
use shmarray::Array;

use crate::errors::{OrRaise, type_error};

/// What an index chooses.
pub(crate) enum Selected {
    Element(Vec<u64>),
    View(Array),
}

/// Part of an index: what one argument chooses along its dimension.
enum Part {
    At(i64),
    Whole,
    Steps { start: Option<i64>, stop: Option<i64>, step: i64 },
}

/// The element or the view that an index chooses.
pub(crate) fn select(ruby: &Ruby, array: &Array, index: &[Value]) -> Result<Selected, Error> {
    let ndim = array.shape().len();
    if index.len() > ndim {
        let text = format!("{} indices for {ndim} dimensions", index.len());
        return Err(Error::new(ruby.exception_index_error(), text));
    }
    let parts = index.iter().map(|&value| part(ruby, value)).collect::<Result<Vec<_>, _>>()?;
    match element_index(array, &parts) {
        Some(index) => Ok(Selected::Element(index)),
        None => view(ruby, array, &parts).map(Selected::View),
    }
}

/// The element's index if every dimension has an Integer that can be one.
fn element_index(array: &Array, parts: &[Part]) -> Option<Vec<u64>> {
    if parts.len() != array.shape().len() {
        return None;
    }
    let wrapped = parts.iter().zip(array.shape()).map(|(part, &count)| match part {
        Part::At(at) if *at < 0 => count.checked_sub(at.unsigned_abs()),
        Part::At(at) => Some(at.unsigned_abs()).filter(|&at| at < count),
        _ => None,
    });
    wrapped.collect()
}

fn view(ruby: &Ruby, array: &Array, parts: &[Part]) -> Result<Array, Error> {
    let mut view = array.clone();
    let mut dim = 0;
    for part in parts {
        view = match *part {
            Part::At(at) => view.select(dim, at).or_raise_index(ruby)?,
            Part::Whole => view,
            Part::Steps { start, stop, step } => view.slice(dim, start, stop, step).or_raise_index(ruby)?,
        };
        dim += usize::from(!matches!(part, Part::At(_)));
    }
    Ok(view)
}

fn part(ruby: &Ruby, value: Value) -> Result<Part, Error> {
    if value.is_nil() || value.is_kind_of(ruby.class_true_class()) {
        return Ok(Part::Whole);
    }
    if let Some(range) = Range::from_value(value) {
        return steps(range.beg()?, range.end()?, range.excl(), 1);
    }
    if value.is_kind_of(arithmetic_sequence(ruby)?) {
        let [begin, end] = [value.funcall("begin", ())?, value.funcall("end", ())?];
        return steps(begin, end, value.funcall("exclude_end?", ())?, value.funcall("step", ())?);
    }
    let wrong = || {
        let text = format!("an index is an Integer, a Range, its steps, nil or true, not {}", value.inspect());
        type_error(ruby, text)
    };
    let at = Integer::from_value(value).ok_or_else(wrong)?;
    Ok(Part::At(at.to_i64()?))
}

fn arithmetic_sequence(ruby: &Ruby) -> Result<RClass, Error> {
    ruby.class_object().funcall("const_get", ("Enumerator::ArithmeticSequence",))
}

/// Core's slice has an exclusive stop, and none at either end of the dimension.
fn steps(start: Option<i64>, end: Option<i64>, exclusive: bool, step: i64) -> Result<Part, Error> {
    let stop = match (end, step < 0) {
        (end, _) if exclusive => end,
        (Some(-1), false) | (Some(0), true) => None, // inclusive up to the last, or down to the first
        (end, false) => end.map(|end| end.saturating_add(1)),
        (end, true) => end.map(|end| end.saturating_sub(1)),
    };
    Ok(Part::Steps { start, stop, step })
}

/// Every index of a shape, in C order.
pub(crate) fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let first = (!shape.contains(&0)).then(|| vec![0; shape.len()]);
    std::iter::successors(first, |index| {
        let mut next = index.clone();
        let dim = (0..shape.len()).rev().find(|&dim| next[dim] + 1 < shape[dim])?;
        next[dim] += 1;
        next[dim + 1..].fill(0);
        Some(next)
    })
}
