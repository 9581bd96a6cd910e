//! The `descr` of an NPY header: a dtype as a Python literal.
//!
//! It is a type string, or a list of fields for a structured dtype: `(name, descr)` or `(name,
//! descr, shape)`, where a name may be a pair `(title, name)`, and a field without a name is
//! padding. A format may also be a pair `(format, shape)`. A handle has the same in JSON, so this
//! module converts one into the other, and counts the item size, which a handle states and a file
//! does not.
//!
//! Source: NumPy, `numpy.lib.format`, `descr_to_dtype` and `dtype_to_descr`.

use rustc_hash::FxHashSet;
use serde_json::{Map, Value};

use super::fault::{Fault, short};
use super::literal::{Literal, write_text};
use super::spelling::{self, Spelled, SpelledItem};
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};

/// The items of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Items {
    Of(DType),
    /// Items with Python objects, which only Python can read: their type string, for people.
    Objects(String),
}

/// Returns the items that a `descr` describes.
pub(super) fn read(descr: &Literal<'_>) -> std::result::Result<Items, Fault> {
    let mut has_objects = false;
    if let Literal::Text(text) = descr {
        // Most files have these: nothing is allocated for them.
        if let Some(dtype) = DType::ALL.iter().find(|dtype| dtype.text() == text) {
            return Ok(Items::Of(dtype.clone()));
        }
        match spelled(text)? {
            Spelled::One(SpelledItem { text, is_object: true, .. }) => {
                return Ok(Items::Objects(text));
            }
            Spelled::One(SpelledItem { text, shape: None, .. }) => {
                return DType::parse(&text).map(Items::Of).map_err(refused);
            }
            _ => {}
        }
    }
    let (json, itemsize) = read_format(descr, &mut has_objects)?;
    if has_objects {
        return Ok(Items::Objects("a structured dtype with objects".to_owned()));
    }
    let text = format!(r#"{{"descr":{json},"itemsize":{itemsize}}}"#);
    DType::of_file(text, itemsize, depth_of(&json)).map(Items::Of).map_err(refused)
}

/// Returns how many lists lie in one another.
fn depth_of(json: &Value) -> usize {
    json.as_array().map_or(0, |list| 1 + list.iter().map(depth_of).max().unwrap_or(0))
}

/// Returns the fault of a dtype that was refused.
fn refused(error: Error) -> Fault {
    match error {
        Error::InvalidDType { dtype, reason } => {
            fault(format!("{}: {}", short(&dtype), short(&reason)))
        }
        other => fault(other.to_string()),
    }
}

fn fault(reason: impl Into<String>) -> Fault {
    Fault::new("descr", reason)
}

/// Returns what a type string describes.
fn spelled(text: &str) -> std::result::Result<Spelled, Fault> {
    spelling::read(text).ok_or_else(|| fault(format!("{:?} is no type string", short(text))))
}

/// Returns an item as JSON, and its size.
fn read_item(
    item: SpelledItem,
    has_objects: &mut bool,
) -> std::result::Result<(Value, u64), Fault> {
    *has_objects |= item.is_object;
    let itemsize =
        if item.is_object { 8 } else { DType::parse(&item.text).map_err(refused)?.itemsize() };
    let Some(shape) = item.shape else { return Ok((Value::String(item.text), itemsize)) };
    let bytes = sub_array_bytes(itemsize, &shape)?;
    Ok((vec![Value::String(item.text), shape.into()].into(), bytes))
}

/// Returns a format as JSON, and the size of its items.
fn read_format(
    format: &Literal<'_>,
    has_objects: &mut bool,
) -> std::result::Result<(Value, u64), Fault> {
    match format {
        Literal::Text(text) => {
            let items = match spelled(text)? {
                Spelled::One(item) => return read_item(item, has_objects),
                Spelled::Fields(items) => items,
            };
            let mut list = Vec::new();
            let mut total = 0;
            for (number, item) in items.into_iter().enumerate() {
                let (format, bytes) = read_item(item, has_objects)?;
                list.push(vec![format!("f{number}").into(), format].into());
                total = add(total, bytes)?;
            }
            Ok((Value::Array(list), total))
        }
        Literal::List(fields) if !fields.is_empty() => {
            let mut list = Vec::with_capacity(fields.len());
            let mut total = 0;
            let mut names = FxHashSet::default();
            for field in fields {
                check_names(field, &mut names)?;
                let (field, bytes) = read_field(field, has_objects)?;
                list.push(field);
                total = add(total, bytes)?;
            }
            Ok((Value::Array(list), total))
        }
        Literal::Tuple(pair) => match &pair[..] {
            [base, shape @ Literal::Tuple(_)] => {
                let (base, itemsize) = read_format(base, has_objects)?;
                let counts = read_shape(shape)?;
                let bytes = sub_array_bytes(itemsize, &counts)?;
                Ok((vec![base, counts.into()].into(), bytes))
            }
            _ => Err(fault("a pair is not a format and its shape")),
        },
        _ => Err(fault("it is neither a type string nor a list of fields")),
    }
}

fn sub_array_bytes(itemsize: u64, counts: &[u64]) -> std::result::Result<u64, Fault> {
    counts.iter().try_fold(itemsize, |bytes, count| bytes.checked_mul(*count)).ok_or_else(too_large)
}

fn read_field(
    field: &Literal<'_>,
    has_objects: &mut bool,
) -> std::result::Result<(Value, u64), Fault> {
    let Literal::Tuple(parts) = field else { return Err(fault("a field is not a tuple")) };
    let (name, format, shape) = match &parts[..] {
        [name, format] => (name, format, None),
        [name, format, shape] => (name, format, Some(shape)),
        _ => return Err(fault("a field has neither two nor three parts")),
    };
    let (format, itemsize) = read_format(format, has_objects)?;
    let mut list = vec![read_name(name)?, format];
    let mut bytes = itemsize;
    if let Some(shape) = shape {
        let counts = read_shape(shape)?;
        bytes = sub_array_bytes(bytes, &counts)?;
        list.push(counts.into());
    }
    Ok((Value::Array(list), bytes))
}

/// Checks that no field before this one has its name or its title.
fn check_names<'a>(
    field: &'a Literal<'_>,
    names: &mut FxHashSet<&'a str>,
) -> std::result::Result<(), Fault> {
    let Literal::Tuple(parts) = field else { return Ok(()) };
    let (name, title) = match parts.first() {
        Some(Literal::Text(name)) => (Some(&**name), None),
        Some(Literal::Tuple(pair)) => (text_of(pair.get(1)), text_of(pair.first())),
        _ => (None, None),
    };
    let mut own = [name.filter(|name| !name.is_empty()), title].into_iter().flatten();
    match own.find(|name| !names.insert(name)) {
        Some(name) => Err(fault(format!("two fields have the name {:?}", short(name)))),
        None => Ok(()),
    }
}

fn text_of<'a>(literal: Option<&'a Literal<'_>>) -> Option<&'a str> {
    match literal {
        Some(Literal::Text(text)) => Some(text),
        _ => None,
    }
}

fn read_name(name: &Literal<'_>) -> std::result::Result<Value, Fault> {
    match name {
        Literal::Text(name) => Ok(name.as_ref().into()),
        Literal::Tuple(pair) => match &pair[..] {
            [Literal::Text(title), Literal::Text(name)] => Ok([&**title, &**name][..].into()),
            _ => Err(fault("a name is not a pair of texts")),
        },
        _ => Err(fault("a name is not text")),
    }
}

/// Returns the shape of a sub-array: a tuple, or the number of elements of one dimension.
fn read_shape(shape: &Literal<'_>) -> std::result::Result<Vec<u64>, Fault> {
    let count = |literal: &Literal<'_>| match literal {
        Literal::Number(count) => Ok(*count),
        _ => Err(fault("the shape of a field is not made of numbers")),
    };
    match shape {
        Literal::Tuple(counts) => counts.iter().map(count).collect(),
        other => count(other).map(|count| vec![count]),
    }
}

fn add(total: u64, bytes: u64) -> std::result::Result<u64, Fault> {
    total.checked_add(bytes).ok_or_else(too_large)
}

fn too_large() -> Fault {
    fault("the size of an item overflows")
}

/// Appends the `descr` of a dtype, as NumPy writes it. That of a dtype by name is its bytes, `<V2`,
/// because NumPy reads no name unless the package that has it is imported.
///
/// # Errors
/// [`Error::InvalidDType`] for a structured dtype whose fields overlap or are out of order.
pub(super) fn write(dtype: &DType, to: &mut String) -> Result<()> {
    if dtype.is_by_name() || !dtype.text().starts_with('{') {
        write_plain(dtype, to);
        return Ok(());
    }
    let described: Value = serde_json::from_str(dtype.text()).unwrap_or_default();
    write_format(&described, to).ok_or_else(|| Error::InvalidDType {
        dtype: dtype.text().chars().take(80).collect(),
        reason: "an NPY file cannot describe fields that overlap or are out of order".to_owned(),
    })
}

fn write_plain(dtype: &DType, to: &mut String) {
    if dtype.is_by_name() {
        write_text(&format!("<V{}", dtype.itemsize()), to);
    } else {
        write_text(dtype.text(), to);
    }
}

/// Appends a format: text, `[format, shape]`, or an object of `descr` and `itemsize`.
fn write_format(format: &Value, to: &mut String) -> Option<()> {
    match format {
        Value::String(text) => write_plain(&DType::parse(text).ok()?, to),
        Value::Object(described) => match described.get("descr")? {
            Value::String(_) => write_plain(&DType::parse(&format.to_string()).ok()?, to),
            Value::Array(fields) => write_fields(fields, to)?,
            Value::Object(fields) => {
                let itemsize = described.get("itemsize")?.as_u64()?;
                write_fields(&in_order(fields, itemsize)?, to)?;
            }
            _ => return None,
        },
        Value::Array(pair) if is_sub_array(pair) => {
            to.push('(');
            write_format(&pair[0], to)?;
            to.push_str(", ");
            write_shape(&pair[1], to)?;
            to.push(')');
        }
        Value::Array(fields) => write_fields(fields, to)?,
        _ => return None,
    }
    Some(())
}

/// Whether a list is a format and its shape, and not fields: those are lists that begin with names.
fn is_sub_array(list: &[Value]) -> bool {
    matches!(list, [_, Value::Array(shape)] if shape.iter().all(Value::is_u64))
}

fn write_shape(shape: &Value, to: &mut String) -> Option<()> {
    let counts = shape.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
    write_tuple(&counts, to);
    Some(())
}

/// Appends fields: `[('a', '<i4'), (('title', 'b'), '<f8', (3,))]`.
fn write_fields(fields: &[Value], to: &mut String) -> Option<()> {
    to.push('[');
    for (index, field) in fields.iter().enumerate() {
        to.push_str(if index == 0 { "(" } else { ", (" });
        let (name, format, shape) = match &field.as_array()?[..] {
            [name, format] => (name, format, None),
            [name, format, shape] => (name, format, Some(shape)),
            _ => return None,
        };
        write_name(name, to)?;
        to.push_str(", ");
        write_format(format, to)?;
        if let Some(shape) = shape {
            to.push_str(", ");
            write_shape(shape, to)?;
        }
        to.push(')');
    }
    to.push(']');
    Some(())
}

fn write_name(name: &Value, to: &mut String) -> Option<()> {
    match name {
        Value::String(name) => write_text(name, to),
        Value::Array(pair) => match &pair[..] {
            [Value::String(title), Value::String(name)] => {
                to.push('(');
                write_text(title, to);
                to.push_str(", ");
                write_text(name, to);
                to.push(')');
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

/// Appends numbers as a tuple: `()`, `(3,)`, `(3, 4)`.
pub(super) fn write_tuple(numbers: &[u64], to: &mut String) {
    let texts: Vec<_> = numbers.iter().map(u64::to_string).collect();
    let comma = if numbers.len() == 1 { "," } else { "" };
    to.extend(["(", &texts.join(", "), comma, ")"]);
}

/// Returns an object of `names`, `formats` and `offsets` as a list of fields with padding between
/// them. `None` if they overlap or are out of order.
fn in_order(fields: &Map<String, Value>, itemsize: u64) -> Option<Vec<Value>> {
    let part = |name: &str| fields.get(name)?.as_array();
    let names = part("names")?;
    let formats = part("formats")?;
    let offsets = part("offsets")?;
    let mut list = Vec::new();
    let mut end = 0;
    for (index, (name, format)) in names.iter().zip(formats).enumerate() {
        let offset = offsets.get(index)?.as_u64()?;
        pad(&mut list, offset.checked_sub(end)?);
        let title = part("titles").and_then(|titles| titles.get(index)?.as_str());
        let name = title.map_or(name.clone(), |title| vec![title.into(), name.clone()].into());
        let (format, shape) = match format {
            Value::Array(pair) if is_sub_array(pair) => (&pair[0], Some(&pair[1])),
            _ => (format, None),
        };
        end = offset.checked_add(format_bytes(format, shape)?)?;
        let format = plain_format(format)?;
        list.push([name, format].into_iter().chain(shape.cloned()).collect());
    }
    pad(&mut list, itemsize.checked_sub(end)?);
    Some(list)
}

fn pad(list: &mut Vec<Value>, bytes: u64) {
    if bytes > 0 {
        list.push(vec![Value::from(""), format!("|V{bytes}").into()].into());
    }
}

/// Returns a format without the object around its fields.
fn plain_format(format: &Value) -> Option<Value> {
    let described = match format {
        Value::Object(described) => described,
        Value::Array(pair) if is_sub_array(pair) => {
            return Some(vec![plain_format(&pair[0])?, pair[1].clone()].into());
        }
        _ => return Some(format.clone()),
    };
    match described.get("descr")? {
        Value::String(_) => Some(format.clone()),
        Value::Object(fields) => {
            in_order(fields, described.get("itemsize")?.as_u64()?).map(Value::Array)
        }
        list => Some(list.clone()),
    }
}

fn format_bytes(format: &Value, shape: Option<&Value>) -> Option<u64> {
    let one = match format {
        Value::Object(described) => described.get("itemsize")?.as_u64()?,
        Value::Array(pair) if is_sub_array(pair) => format_bytes(&pair[0], Some(&pair[1]))?,
        other => DType::parse(other.as_str()?).ok()?.itemsize(),
    };
    let Some(shape) = shape else { return Some(one) };
    shape.as_array()?.iter().try_fold(one, |bytes, count| bytes.checked_mul(count.as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(descr: &str) -> std::result::Result<Items, Fault> {
        read(&Literal::parse(descr, false).unwrap())
    }

    #[test]
    fn a_type_string_of_any_writer_becomes_numpys() {
        for (written, text) in [
            ("'<i4'", "<i4"),
            ("'>f8'", ">f8"),
            ("'=u2'", "<u2"),
            ("'|i4'", "<i4"),
            ("'i4'", "<i4"),
            ("'float64'", "<f8"),
            ("'bool'", "|b1"),
            ("'<u1'", "|u1"),
            ("'<b1'", "|b1"),
            ("'|?'", "|b1"),
            ("'<S5'", "|S5"),
            ("'<U5'", "<U5"),
            ("'<M8[ns]'", "<M8[ns]"),
            ("'|V7'", "|V7"),
            ("'bfloat16'", "bfloat16"),
            ("'int4'", "int4"),
        ] {
            assert_eq!(
                items(written).unwrap(),
                Items::Of(DType::parse(text).unwrap()),
                "{written}"
            );
        }
    }

    #[test]
    fn fields_are_those_of_a_handle() {
        let descr =
            "[('a', '<i4'), ('', '|V4'), (('t', 'b'), '>f8', (2, 3)), ('c', [('d', 'u1')])]";
        let Items::Of(dtype) = items(descr).unwrap() else { panic!("it has no objects") };
        let fields = r#"["a","<i4"],["","|V4"],[["t","b"],">f8",[2,3]],["c",[["d","|u1"]]]"#;
        let text = format!(r#"{{"descr":[{fields}],"itemsize":57}}"#);
        assert_eq!(dtype.text(), text);
        let mut written = String::new();
        write(&dtype, &mut written).unwrap();
        assert_eq!(written, descr.replace("'u1'", "'|u1'"));
    }

    #[test]
    fn offsets_become_padding() {
        let aligned = r#"{"descr":{"names":["a","b"],"formats":["|u1",["<f8",[2]]],
            "offsets":[0,8],"aligned":true},"itemsize":32}"#;
        let mut written = String::new();
        write(&DType::parse(aligned).unwrap(), &mut written).unwrap();
        assert_eq!(written, "[('a', '|u1'), ('', '|V7'), ('b', '<f8', (2,)), ('', '|V8')]");
        let named = r#"{"descr":{"names":["a","b"],"formats":["bfloat16",["int4",[2]]],
            "offsets":[0,2]},"itemsize":4}"#;
        written.clear();
        write(&DType::parse(named).unwrap(), &mut written).unwrap();
        assert_eq!(written, "[('a', '<V2'), ('b', '<V1', (2,))]");
        let overlapping = aligned.replace("[0,8]", "[8,8]");
        assert!(write(&DType::parse(&overlapping).unwrap(), &mut written).is_err());
    }

    #[test]
    fn objects_are_told_apart_and_everything_else_is_refused() {
        for descr in ["'|O'", "'O'", "'|O8'", "[('a', '<i4'), ('b', '|O')]"] {
            assert!(matches!(items(descr), Ok(Items::Objects(_))), "{descr}");
        }
        for descr in [
            "'<i3'",
            "''",
            "'<'",
            "'<i4;<i4'",
            "'(2'",
            "1",
            "[]",
            "()",
            "[('a',)]",
            "[1]",
            "[('a', '<i4', 'b')]",
            "[(1, '<i4')]",
            "[('a', '<f8', (9223372036854775807, 9))]",
            "{'names': ['a']}",
            "True",
            "[('a', '<i4', (-1,))]",
            "[('a', '<i4'), ('a', '<i4')]",
            "[(('a', 'b'), '<i4'), ('a', '<i4')]",
        ] {
            let parsed = Literal::parse(descr, false);
            assert!(parsed.is_err() || read(&parsed.unwrap()).is_err(), "{descr}");
        }
    }
}
