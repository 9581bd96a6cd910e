//! Lists as arrays of Arrow and back, by Arrow's C data interface and its capsules.

mod abi;
mod types;
mod export;
mod import;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::{Column, ColumnBuilder};

use crate::error::{expected, value_error};
use crate::first_use::interned;
use abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned, in_capsule};
use types::Type;

/// The keys of the metadata of fields, and the extension types that are known here.
const EXTENSION: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
const BOOL8: &str = "arrow.bool8";
const FIXED_SHAPE: &str = "arrow.fixed_shape_tensor";
const VARIABLE_SHAPE: &str = "arrow.variable_shape_tensor";
/// Says of a child that the items above it are "list" and no array, or "tuple"; or that it is the
/// "shape" of arrays.
const MARK: &str = "shmarray";

/// The formats of numbers and their dtypes. Behind the colon there may be a time zone.
const NUMBERS: [(&str, &str); 19] = [
    ("c", "|i1"),
    ("C", "|u1"),
    ("s", "<i2"),
    ("S", "<u2"),
    ("i", "<i4"),
    ("I", "<u4"),
    ("l", "<i8"),
    ("L", "<u8"),
    ("e", "<f2"),
    ("f", "<f4"),
    ("g", "<f8"),
    ("tss:", "<M8[s]"),
    ("tsm:", "<M8[ms]"),
    ("tsu:", "<M8[us]"),
    ("tsn:", "<M8[ns]"),
    ("tDs", "<m8[s]"),
    ("tDm", "<m8[ms]"),
    ("tDu", "<m8[us]"),
    ("tDn", "<m8[ns]"),
];

/// Returns the format of a dtype's numbers, if Arrow has one.
fn format_of(dtype: &str) -> Option<&'static str> {
    if dtype == "|b1" {
        return Some("c");
    }
    NUMBERS.iter().find(|(_, text)| *text == dtype).map(|(format, _)| *format)
}

/// The place of column 0, for errors.
const ITEMS: &str = "the items";

fn field_path(path: &str, name: &str) -> String {
    match path {
        ITEMS => format!("field {name:?}"),
        _ => format!("{path}, field {name:?}"),
    }
}

fn items_path(path: &str) -> String {
    format!("{path}, the items of each")
}

/// Returns a schema of Arrow in a capsule, and an array if one is asked for: the items of a column
/// from `first` on.
pub(super) fn capsules<'py>(
    py: Python<'py>,
    list: &shmarray::List,
    column: Column<'_>,
    part: (u64, u64),
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let mut exported = export::column(column, ITEMS)?;
    let (first, length) = part;
    if (first, length) != (0, column.len()) {
        exported.offset = first;
        exported.length = length;
        exported.nulls = if exported.nulls == 0 { 0 } else { -1 }; // to be counted
    }
    let array = exported.array(list);
    Ok((exported.schema()?.into_capsule(py)?, array.into_capsule(py)?))
}

/// Returns the schema alone.
pub(super) fn schema<'py>(py: Python<'py>, column: Column<'_>) -> PyResult<Bound<'py, PyAny>> {
    export::column(column, ITEMS)?.schema()?.into_capsule(py)
}

/// Returns a column of the items of an object with one of Arrow's methods.
pub(super) fn column(object: &Bound<'_, PyAny>) -> PyResult<ColumnBuilder> {
    let py = object.py();
    let capsules = match (
        object.getattr_opt(interned!(py, "__arrow_c_array__"))?,
        object.getattr_opt(interned!(py, "__arrow_c_stream__"))?,
    ) {
        (Some(array), _) => array.call0()?,
        (None, Some(stream)) => stream.call0()?,
        (None, None) => {
            let wanted = "an object with __arrow_c_array__ or __arrow_c_stream__";
            return Err(expected(wanted, object));
        }
    };
    match of_capsules(&capsules)? {
        Some(column) => Ok(column),
        None => {
            let decoded = super::helper(py, "decoded")?.call1((capsules,))?;
            of_capsules(&decoded.call_method0(interned!(py, "__arrow_c_stream__"))?)?
                .ok_or_else(|| value_error("pyarrow has not decoded all items"))
        }
    }
}

/// Returns the column of a stream, or of a schema and an array. Returns `None`, and takes nothing
/// out of the capsules, for items that have to be decoded.
fn of_capsules(capsules: &Bound<'_, PyAny>) -> PyResult<Option<ColumnBuilder>> {
    if let Ok(pair) = capsules.cast::<PyTuple>() {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        let pointer = in_capsule::<ArrowSchema>(&schema)?;
        let Some(items) = Type::in_capsule(&schema, pointer)? else { return Ok(None) };
        let arrays = vec![Owned::<ArrowArray>::taken(&array)?];
        return import::column(&items, arrays).map(Some);
    }
    let pointer = in_capsule::<ArrowArrayStream>(capsules)?;
    let schema = import::schema(capsules, pointer)?;
    let Some(items) = Type::of(capsules.py(), &schema)? else { return Ok(None) };
    let stream = Owned::<ArrowArrayStream>::taken(capsules)?;
    import::column(&items, import::arrays(capsules.py(), &stream)?).map(Some)
}
