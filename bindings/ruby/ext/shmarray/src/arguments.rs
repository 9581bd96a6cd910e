//! Converts Ruby arguments to the types that core takes.

use magnus::scan_args::get_kwargs;
use magnus::value::ReprValue;
use magnus::{Error, Integer, RArray, RHash, RString, Ruby, Symbol, TryConvert, Value};
use shmarray::{Access, DType, Options, Order};

use crate::error::{argument_error, type_error};
use crate::suggest::suggestion;

/// Converts a shape: an Integer, or an Array of them.
pub(crate) fn shape(ruby: &Ruby, value: Value) -> Result<Vec<u64>, Error> {
    each(value, |count| size(ruby, count))
}

/// Converts each value of an Array, or the only one.
fn each<T>(value: Value, convert: impl Fn(Value) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    match RArray::from_value(value) {
        Some(values) => values.into_iter().map(convert).collect(),
        None => Ok(vec![convert(value)?]),
    }
}

/// Converts a shape as [`shape`] takes it, or given as separate Integers: `2, 3`.
pub(crate) fn splat_shape(ruby: &Ruby, first: Value, rest: RArray) -> Result<Vec<u64>, Error> {
    if rest.is_empty() {
        return shape(ruby, first);
    }
    std::iter::once(first).chain(rest).map(|count| size(ruby, count)).collect()
}

/// Converts a shape for `len` elements. One dimension may be left open: nil or true as in Numo, -1
/// as in NumPy.
pub(crate) fn new_shape(ruby: &Ruby, arguments: &[Value], len: u64) -> Result<Vec<u64>, Error> {
    let counts = match arguments {
        [only] if RArray::from_value(*only).is_some() => {
            RArray::try_convert(*only)?.into_iter().collect()
        }
        counts => counts.to_vec(),
    };
    let is_open = |count: &Value| {
        let number = Integer::from_value(*count).and_then(|count| count.to_i64().ok());
        count.is_nil() || count.is_kind_of(ruby.class_true_class()) || number == Some(-1)
    };
    let sizes = counts.iter().filter(|count| !is_open(count)).map(|count| size(ruby, *count));
    let product = sizes.collect::<Result<Vec<_>, _>>()?.into_iter().try_fold(1, u64::checked_mul);
    let open = match (counts.iter().filter(|count| is_open(count)).count(), product) {
        (0, Some(product)) if product == len => Some(1),
        (1, Some(product)) if product > 0 && len.is_multiple_of(product) => Some(len / product),
        _ => None,
    };
    let wanted = || counts.iter().map(|count| count.inspect()).collect::<Vec<_>>().join(", ");
    let open = open.ok_or_else(|| {
        argument_error(ruby, format!("invalid shape: {len} elements do not fill [{}]", wanted()))
    })?;
    counts.iter().map(|count| if is_open(count) { Ok(open) } else { size(ruby, *count) }).collect()
}

/// Converts an offset in bytes.
pub(crate) fn offset(ruby: &Ruby, value: Value) -> Result<i64, Error> {
    number(ruby, "offset", value, "is too large", |number| number.to_i64().ok())
}

fn size(ruby: &Ruby, value: Value) -> Result<u64, Error> {
    number(ruby, "shape", value, "is negative or too large", |number| number.to_u64().ok())
}

/// Converts strides in bytes: given like a shape, and negative ones are allowed.
pub(crate) fn strides(ruby: &Ruby, value: Value) -> Result<Vec<i64>, Error> {
    each(value, |stride| {
        number(ruby, "strides", stride, "is too large", |number| number.to_i64().ok())
    })
}

/// Converts axes of an array with `ndim` dimensions: an Integer, or an Array of them; negative ones
/// count from the last. nil gives `None`.
pub(crate) fn axes(ruby: &Ruby, value: Value, ndim: usize) -> Result<Option<Vec<usize>>, Error> {
    if value.is_nil() {
        return Ok(None);
    }
    let there = |number: Integer| {
        let axis = number.to_i64().ok()?;
        let from_first = if axis < 0 { axis.saturating_add(ndim as i64) } else { axis };
        usize::try_from(from_first).ok().filter(|&axis| axis < ndim)
    };
    let wrong = format!("of {ndim} dimensions");
    each(value, |axis| number(ruby, "axis", axis, &wrong, there)).map(Some)
}

/// Converts the least number of counts.
pub(crate) fn min_length(ruby: &Ruby, value: Value) -> Result<u64, Error> {
    number(ruby, "minlength", value, "is negative or too large", |number| number.to_u64().ok())
}

/// Converts a number of threads. nil gives 0, which is one for each core.
pub(crate) fn threads(ruby: &Ruby, value: Value) -> Result<usize, Error> {
    if value.is_nil() {
        return Ok(0);
    }
    number(ruby, "threads", value, "is no count of them", |number| {
        let count = number.to_u64().ok().filter(|count| *count > 0)?;
        usize::try_from(count).ok()
    })
}

/// Converts a limit in bytes. nil gives `None`.
pub(crate) fn max_bytes(ruby: &Ruby, value: Value) -> Result<Option<u64>, Error> {
    if value.is_nil() {
        return Ok(None);
    }
    let wrong = "is negative or too large";
    number(ruby, "max_bytes", value, wrong, |number| number.to_u64().ok()).map(Some)
}

/// Converts an Integer. `wrong` is said of one that cannot be converted.
fn number<T>(
    ruby: &Ruby,
    argument: &str,
    value: Value,
    wrong: &str,
    convert: impl FnOnce(Integer) -> Option<T>,
) -> Result<T, Error> {
    let Some(number) = Integer::from_value(value) else {
        let text = format!("invalid {argument}: {} is not an Integer", value.inspect());
        return Err(type_error(ruby, text));
    };
    convert(number)
        .ok_or_else(|| argument_error(ruby, format!("invalid {argument}: {value} {wrong}")))
}

/// Converts a dtype: its name (`:int32`) or its type string (`"<i4"`).
pub(crate) fn dtype(ruby: &Ruby, value: Value) -> Result<DType, Error> {
    let Some(text) = text(value)? else {
        return Err(no_dtype(ruby, value, |inspected| {
            format!("dtype {inspected} is not a name such as :int32 or \"<i4\"")
        }));
    };
    if let Some(row) = DType::ALL.iter().find(|dtype| dtype.name() == text) {
        return Ok(row.clone());
    }
    let is_type_string = text.trim_start().starts_with(['<', '>', '|', '{']);
    DType::parse(&text).map_err(|error| {
        no_dtype(ruby, value, |inspected| {
            if is_type_string {
                error.to_string()
            } else {
                format!(
                    "dtype {inspected} is neither a name such as :int32 nor a type string such as \
                     \"<i4\""
                )
            }
        })
    })
}

/// Returns the error for a dtype that does not exist. Only errors call `inspect`: it runs Ruby
/// code, in which the thread may be killed while this function appears to go on.
fn no_dtype(ruby: &Ruby, value: Value, text: impl FnOnce(&str) -> String) -> Error {
    let inspected = value.inspect();
    type_error(ruby, text(&inspected) + &suggestion(&inspected))
}

/// Returns the text of a Symbol or a String. It does not call Ruby: if the thread were killed
/// there, the text would appear to be missing.
fn text(value: Value) -> Result<Option<String>, Error> {
    if let Some(symbol) = Symbol::from_value(value) {
        return symbol.name().map(|name| Some(name.into_owned()));
    }
    RString::from_value(value).map(RString::to_string).transpose()
}

/// Converts the keywords `name:`, `persist:`, `order:`, `mode:` and `uninitialized:`.
pub(crate) fn options(ruby: &Ruby, keywords: RHash) -> Result<Options, Error> {
    type Optional =
        (Option<Option<String>>, Option<bool>, Option<Value>, Option<Value>, Option<bool>);
    let names = ["name", "persist", "order", "mode", "uninitialized"];
    let found = get_kwargs::<_, (), Optional, ()>(keywords, &[], &names)?;
    let (name, persist, order, mode, uninitialized) = found.optional;
    let order = order.map(|order| order_of(ruby, order)).transpose()?;
    let mode = mode.map(|mode| mode_of(ruby, mode)).transpose()?;
    let options = name.flatten().into_iter().fold(Options::new(), Options::name);
    let options = persist.into_iter().fold(options, Options::persist);
    let options = order.into_iter().fold(options, Options::order);
    let options = mode.into_iter().fold(options, Options::mode);
    Ok(uninitialized.into_iter().fold(options, Options::uninitialized))
}

fn order_of(ruby: &Ruby, value: Value) -> Result<Order, Error> {
    match text(value)?.as_deref() {
        Some("C") => Ok(Order::C),
        Some("F") => Ok(Order::F),
        _ => Err(argument_error(
            ruby,
            format!("invalid order: {} is neither :C nor :F", value.inspect()),
        )),
    }
}

fn mode_of(ruby: &Ruby, value: Value) -> Result<u32, Error> {
    let wrong = "is not between 0600 and 0777 with the owner's 0600";
    number(ruby, "mode", value, wrong, |number| u32::try_from(number.to_i64().ok()?).ok())
}

/// Converts the keyword `readonly:`.
pub(crate) fn access(keywords: RHash) -> Result<Access, Error> {
    let (readonly,) =
        get_kwargs::<_, (), (Option<bool>,), ()>(keywords, &[], &["readonly"])?.optional;
    if readonly.unwrap_or(false) { Ok(Access::ReadOnly) } else { Ok(Access::ReadWrite) }
}

/// Converts a handle or a name.
pub(crate) fn handle_or_name(ruby: &Ruby, value: Value) -> Result<String, Error> {
    match RString::from_value(value) {
        Some(text) => String::try_convert(text.as_value()),
        None => Err(type_error(
            ruby,
            format!("{} is not a handle or a name: a String", value.inspect()),
        )),
    }
}
