//! The index between the brackets of `array[…]`.
//!
//! | argument | selects |
//! |---|---|
//! | Integer | one index; the dimension is dropped; negative ones count from the end |
//! | Range, also endless | the elements in between, cut to the dimension as in Ruby's Array |
//! | `(0..).step(2)`, `(-1..0) % -1` | every n-th of them, forwards or backwards |
//! | `nil`, `true` | the whole dimension |
//!
//! Dimensions that are not named are whole. An Integer for every dimension selects one element.

use magnus::value::ReprValue;
use magnus::{Error, Integer, RClass, Range, Ruby, TryConvert, Value};
use shmarray::Array;

use crate::error::{OrRaise, type_error};

/// The selection of an index.
pub(crate) enum Selected {
    /// One element, as an array without dimensions.
    Element(Array),
    View(Array),
}

/// One argument of an index: what it selects along its dimension.
enum Part {
    At(i64),
    Whole,
    Steps { start: Option<i64>, stop: Option<i64>, step: i64 },
}

/// Returns the element or the view that an index selects.
pub(crate) fn select(ruby: &Ruby, array: &Array, index: &[Value]) -> Result<Selected, Error> {
    let ndim = array.shape().len();
    if index.len() > ndim {
        let text = format!("{} indices for {ndim} dimensions", index.len());
        return Err(Error::new(ruby.exception_index_error(), text));
    }
    let parts = index.iter().map(|&value| part(ruby, value)).collect::<Result<Vec<_>, _>>()?;
    let is_element = parts.len() == ndim && parts.iter().all(|part| matches!(part, Part::At(_)));
    let view = view(ruby, array, &parts)?;
    Ok(if is_element { Selected::Element(view) } else { Selected::View(view) })
}

fn view(ruby: &Ruby, array: &Array, parts: &[Part]) -> Result<Array, Error> {
    let mut view = array.clone();
    let mut dim = 0;
    for part in parts {
        view = match *part {
            Part::At(at) => view.select(dim, at).or_raise_index(ruby)?,
            Part::Whole => view,
            Part::Steps { start, stop, step } => {
                view.slice(dim, start, stop, step).or_raise_index(ruby)?
            }
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
        return Ok(steps(bound(range.beg()?)?, bound(range.end()?)?, range.excl(), 1));
    }
    if value.is_kind_of(arithmetic_sequence(ruby)?) {
        let [begin, end]: [Value; 2] = [value.funcall("begin", ())?, value.funcall("end", ())?];
        return Ok(steps(
            bound(begin)?,
            bound(end)?,
            value.funcall("exclude_end?", ())?,
            value.funcall("step", ())?,
        ));
    }
    let wrong = || {
        let text = format!(
            "an index is an Integer, a Range, its steps, nil or true, not {}",
            value.inspect()
        );
        type_error(ruby, text)
    };
    let at = Integer::from_value(value).ok_or_else(wrong)?;
    let outside = |_| {
        Error::new(ruby.exception_index_error(), format!("invalid index: {at} is out of range"))
    };
    at.to_i64().map(Part::At).map_err(outside)
}

/// Returns the class of `(0..) % 2`.
pub(crate) fn arithmetic_sequence(ruby: &Ruby) -> Result<RClass, Error> {
    ruby.class_object().funcall("const_get", ("Enumerator::ArithmeticSequence",))
}

/// Converts one end of a range. It is cut to the dimension, so a number beyond `i64` is as good as
/// the nearest one.
fn bound(value: Value) -> Result<Option<i64>, Error> {
    match Integer::from_value(value) {
        _ if value.is_nil() => Ok(None),
        Some(far) => match far.to_i64() {
            Ok(near) => Ok(Some(near)),
            Err(_) => Ok(Some(if value.funcall("negative?", ())? { i64::MIN } else { i64::MAX })),
        },
        None => i64::try_convert(value).map(Some), // as Ruby's Arrays do
    }
}

/// Converts to core's slice, whose stop is exclusive, and `None` at either end of the dimension.
fn steps(start: Option<i64>, end: Option<i64>, exclusive: bool, step: i64) -> Part {
    let stop = match (end, step < 0) {
        (end, _) if exclusive => end,
        // Inclusive up to the last element, or down to the first.
        (Some(-1), false) | (Some(0), true) => None,
        (end, false) => end.map(|end| end.saturating_add(1)),
        (end, true) => end.map(|end| end.saturating_sub(1)),
    };
    Part::Steps { start, stop, step }
}
