//! `Shmarray::Array#sum`, `#mean`, `#min`, `#max` and `#bincount`.
//!
//! `lib/shmarray/reductions.rb` defines and documents them, and passes other calls on to
//! Enumerable.

use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, RComplex, Ruby, Symbol, TypedData, Value, method};
use shmarray::{Array, ErrorKind, Number, Reduced, Reduction};

use crate::arguments;
use crate::array::{ArrayObject, bytes_of};
use crate::error::{OrRaise, argument_error, make_room};
use crate::gvl::stoppable;

/// Defines the private `Shmarray::Array#reduction`.
pub(crate) fn define(ruby: &Ruby) -> Result<(), Error> {
    ArrayObject::class(ruby).define_private_method("reduction", method!(reduce, 3))
}

/// Returns a number, or a new array. If there is no room for the array, unreferenced arrays are
/// collected, and it tries again.
fn reduce(
    ruby: &Ruby,
    this: &ArrayObject,
    name: Symbol,
    axis: Value,
    min_length: Value,
) -> Result<Value, Error> {
    let array = &*this.array(ruby)?;
    let axes = arguments::axes(ruby, axis, array.shape().len())?;
    let reduction = named(ruby, &name.name()?, arguments::min_length(ruby, min_length)?)?;
    let mut reduced = reduced(array, reduction, axes.as_deref())?;
    if reduced.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace) {
        make_room(ruby)?;
        reduced = self::reduced(array, reduction, axes.as_deref())?;
    }
    match reduced.or_raise(ruby)? {
        Some(Reduced::Number(number)) => Ok(to_ruby(ruby, number)),
        Some(Reduced::Array(results)) => Ok(ArrayObject::holding(ruby, results)),
        None => unreachable!("an exception stopped it, and was raised"),
    }
}

fn named(ruby: &Ruby, name: &str, min_length: u64) -> Result<Reduction, Error> {
    match name {
        "sum" => Ok(Reduction::Sum),
        "mean" => Ok(Reduction::Mean),
        "min" => Ok(Reduction::Min),
        "max" => Ok(Reduction::Max),
        "bincount" => Ok(Reduction::Bincount { min_length }),
        _ => Err(argument_error(ruby, format!("{name} is not a reduction"))),
    }
}

fn reduced(
    array: &Array,
    reduction: Reduction,
    axes: Option<&[usize]>,
) -> Result<shmarray::Result<Option<Reduced>>, Error> {
    let bytes = bytes_of(array) as usize;
    stoppable(bytes, |caller| array.reduce(reduction, axes, &mut || caller.goes_on()))
}

fn to_ruby(ruby: &Ruby, number: Number) -> Value {
    match number {
        Number::Bool(truth) => truth.into_value_with(ruby),
        Number::Integer(whole) => ruby.integer_from_i128(whole).as_value(),
        Number::Float(number) => number.into_value_with(ruby),
        Number::Complex(re, im) => {
            RComplex::new(ruby.float_from_f64(re), ruby.float_from_f64(im)).as_value()
        }
    }
}
