//! What the items of a schema of Arrow are in a list.
#![allow(unsafe_code)] // structs of C

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use shmarray::DType;

use super::abi::{ArrowSchema, Owned, pointers};
use super::{
    BOOL8, EXTENSION, EXTENSION_METADATA, FIXED_SHAPE, ITEMS, MARK, NUMBERS, VARIABLE_SHAPE,
};
use crate::error::{to_py, value_error};

/// No type that is read is as deep: a list has 16 columns above one another, and such a type may
/// have a list of fixed size in each.
const MAX_DEPTH: usize = 64;
/// The metadata of one field, at most.
const MAX_METADATA_BYTES: usize = 16 << 20;

/// A type of Arrow that lists have.
pub(super) struct Type {
    /// Where it is, for errors.
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) children: Vec<Type>,
    /// What the field says of the items above it.
    pub(super) mark: Option<String>,
    name: String,
}

pub(super) enum Kind {
    Nothing,
    Numbers(Element),
    /// Strings or bytes between offsets.
    Texts {
        is_text: bool,
        is_wide: bool,
    },
    /// Strings or bytes that lie anywhere.
    Views {
        is_text: bool,
    },
    /// Bytes, as many for each item.
    FixedBytes(u64),
    Lists {
        is_wide: bool,
    },
    /// Pairs of a key and a value.
    Maps,
    /// As many items for each, and the shape that they are said to have.
    FixedLists {
        count: u64,
        shape: Option<Vec<u64>>,
    },
    Records,
    /// Arrays of so many dimensions: a struct of their elements and their shapes.
    Tensors(usize),
}

/// How a number lies in a buffer, and its dtype in the list.
#[derive(Clone)]
pub(super) struct Element {
    pub(super) dtype: DType,
    pub(super) from: Encoding,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As in the list.
    Same,
    /// A bit for each.
    Bits,
    /// A byte for each, which is true unless it is 0.
    Bytes,
    /// Days in int32, which the list has in int64.
    Days,
}

impl Type {
    /// Returns the type of a schema, or `None` if its items have to be decoded.
    pub(super) fn of(py: Python<'_>, schema: &Owned<ArrowSchema>) -> PyResult<Option<Self>> {
        Self::read(py, schema.get(), ITEMS.to_owned(), 1)
    }

    /// The same for a schema that stays in a capsule.
    pub(super) fn in_capsule(
        capsule: &Bound<'_, PyAny>,
        schema: NonNull<ArrowSchema>,
    ) -> PyResult<Option<Self>> {
        // SAFETY: the capsule has the schema, and nobody takes it while the reference lives.
        let schema = unsafe { schema.as_ref() };
        Self::read(capsule.py(), schema, ITEMS.to_owned(), 1)
    }

    fn read(
        py: Python<'_>,
        schema: &ArrowSchema,
        path: String,
        depth: usize,
    ) -> PyResult<Option<Self>> {
        let broken = |what: &str| value_error(format!("{path}: a schema of Arrow with {what}"));
        if depth > MAX_DEPTH {
            return Err(broken("too many types inside of one another"));
        }
        let Some(format) =
            text(schema, schema.format).map_err(|()| broken("a text that is not UTF-8"))?
        else {
            return Err(broken("no format"));
        };
        let name = text(schema, schema.name).map_err(|()| broken("a name that is not UTF-8"))?;
        if !schema.dictionary.is_null() || matches!(format, "+r" | "+vl" | "+vL") {
            return Ok(None);
        }
        let metadata = metadata(schema).ok_or_else(|| broken("metadata that are none"))?;
        // SAFETY: by the interface a schema that was not released has so many pointers to children.
        let found = unsafe { pointers(schema.children, schema.n_children) };
        let found = found.ok_or_else(|| broken("no children"))?;
        let mut children = Vec::with_capacity(found.len());
        for child in found {
            let Some(child) = child else { return Err(broken("no child")) };
            // SAFETY: by the interface a child lives as long as its schema.
            let child = unsafe { child.as_ref() };
            let path = if format == "+s" {
                let name = text(child, child.name).ok().flatten().unwrap_or_default();
                super::field_path(&path, name)
            } else {
                super::items_path(&path)
            };
            let Some(child) = Self::read(py, child, path, depth + 1)? else { return Ok(None) };
            children.push(child);
        }
        let kind = kind(py, format, &metadata, &children, &path)?;
        let expected = match kind {
            Kind::Lists { .. } | Kind::Maps | Kind::FixedLists { .. } => Some(1),
            Kind::Records | Kind::Tensors(_) => None,
            _ => Some(0),
        };
        if expected.is_some_and(|expected| expected != children.len()) {
            return Err(broken(&format!("{} children of {format:?}", children.len())));
        }
        if matches!(kind, Kind::Maps)
            && let Some(pairs) = children.first_mut()
        {
            pairs.mark = Some("map".to_owned());
        }
        let mark = value_of(&metadata, MARK).map(str::to_owned);
        let name = name.unwrap_or_default().to_owned();
        Ok(Some(Self { path, kind, children, mark, name }))
    }

    /// The name of the field.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the items are the pairs of a map.
    pub(super) fn is_of_map(&self) -> bool {
        self.mark.as_deref() == Some("map")
    }

    /// Returns what the children say of the items of this type.
    pub(super) fn mark_of_items(&self) -> Option<&str> {
        self.children.first().and_then(|child| child.mark.as_deref())
    }
}

fn kind(
    py: Python<'_>,
    format: &str,
    metadata: &[(String, String)],
    children: &[Type],
    path: &str,
) -> PyResult<Kind> {
    let number = |text: &str, from| {
        let dtype = DType::parse(text).map_err(to_py)?;
        Ok(Kind::Numbers(Element { dtype, from }))
    };
    let extension = value_of(metadata, EXTENSION);
    let size = |text: &str| {
        text.parse::<i32>().ok().and_then(|size| u64::try_from(size).ok()).ok_or_else(|| {
            value_error(format!("{path}: a schema of Arrow with the format {format:?}"))
        })
    };
    let known = NUMBERS
        .iter()
        .find(|(known, _)| format == *known || (known.ends_with(':') && format.starts_with(known)));
    match (format, known) {
        ("c", _) if extension == Some(BOOL8) => number("|b1", Encoding::Bytes),
        (_, Some((_, dtype))) => number(dtype, Encoding::Same),
        ("b", _) => number("|b1", Encoding::Bits),
        ("tdD", _) => number("<M8[D]", Encoding::Days),
        ("tdm", _) => number("<M8[ms]", Encoding::Same),
        ("n", _) => Ok(Kind::Nothing),
        ("u" | "U", _) => Ok(Kind::Texts { is_text: true, is_wide: format == "U" }),
        ("z" | "Z", _) => Ok(Kind::Texts { is_text: false, is_wide: format == "Z" }),
        ("vu" | "vz", _) => Ok(Kind::Views { is_text: format == "vu" }),
        ("+l" | "+L", _) => Ok(Kind::Lists { is_wide: format == "+L" }),
        ("+m", _) => Ok(Kind::Maps),
        ("+s", _) => {
            let is_tensor = extension == Some(VARIABLE_SHAPE)
                || matches!(children, [_, shape] if shape.mark.as_deref() == Some("shape"));
            match tensor_ndim(children) {
                Some(ndim) if is_tensor => {
                    refuse_permutation(py, metadata, path)?;
                    Ok(Kind::Tensors(ndim))
                }
                _ => Ok(Kind::Records),
            }
        }
        _ if format.starts_with("w:") => Ok(Kind::FixedBytes(size(&format[2..])?)),
        _ if format.starts_with("+w:") => {
            let count = size(&format[3..])?;
            let shape = match extension {
                Some(FIXED_SHAPE) => Some(fixed_shape(py, metadata, count, path)?),
                _ => None,
            };
            Ok(Kind::FixedLists { count, shape })
        }
        _ => {
            let reason = format!("a list has no items of Arrow's format {format:?}");
            Err(PyTypeError::new_err(format!("{path}: {reason}")))
        }
    }
}

/// Returns how many dimensions arrays have whose elements and shapes are these columns.
fn tensor_ndim(children: &[Type]) -> Option<usize> {
    let [data, shape] = children else { return None };
    let (Kind::Lists { .. }, Kind::FixedLists { count, .. }) = (&data.kind, &shape.kind) else {
        return None;
    };
    let is_number = |column: &Type| match column.children.first().map(|child| &child.kind) {
        Some(Kind::Numbers(element)) => Some(element.dtype.text().to_owned()),
        _ => None,
    };
    let has_shapes = matches!(is_number(shape).as_deref(), Some("<i4" | "<i8"));
    let ndim = usize::try_from(*count).ok()?;
    let is_one = (data.name(), shape.name()) == ("data", "shape") && is_number(data).is_some();
    (is_one && has_shapes && (1..=shmarray::MAX_NDIM).contains(&ndim)).then_some(ndim)
}

/// Returns the shape of `arrow.fixed_shape_tensor`.
fn fixed_shape(
    py: Python<'_>,
    metadata: &[(String, String)],
    count: u64,
    path: &str,
) -> PyResult<Vec<u64>> {
    refuse_permutation(py, metadata, path)?;
    let shape = parameter(py, metadata, "shape").ok().flatten();
    let shape: Option<Vec<u64>> = shape.and_then(|shape| shape.extract().ok());
    let product = shape.as_ref().and_then(|shape| {
        shape.iter().try_fold(1u64, |product, count| product.checked_mul(*count))
    });
    match shape {
        Some(shape) if product == Some(count) && !shape.is_empty() => Ok(shape),
        _ => Err(value_error(format!("{path}: {FIXED_SHAPE} of {count} elements has no shape"))),
    }
}

/// Refuses arrays whose dimensions are in another order than their elements.
fn refuse_permutation(py: Python<'_>, metadata: &[(String, String)], path: &str) -> PyResult<()> {
    let broken = |_| value_error(format!("{path}: {EXTENSION_METADATA} is no object of JSON"));
    let Some(order) = parameter(py, metadata, "permutation").map_err(broken)? else {
        return Ok(());
    };
    let order: Vec<usize> = order.extract()?;
    if order.iter().copied().eq(0..order.len()) {
        return Ok(());
    }
    let reason = format!("arrays whose dimensions are permuted to {order:?} are not read");
    Err(PyTypeError::new_err(format!("{path}: {reason}")))
}

/// Returns a parameter of an extension type, which has them in JSON.
fn parameter<'py>(
    py: Python<'py>,
    metadata: &[(String, String)],
    key: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let json = value_of(metadata, EXTENSION_METADATA).unwrap_or_default();
    if json.is_empty() {
        return Ok(None);
    }
    let all = py.import("json")?.call_method1("loads", (json,))?;
    let value = all.call_method1("get", (key,))?;
    Ok((!value.is_none()).then_some(value))
}

fn value_of<'a>(metadata: &'a [(String, String)], key: &str) -> Option<&'a str> {
    metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// Returns a text of a schema, if there is one.
fn text(_schema: &ArrowSchema, start: *const c_char) -> Result<Option<&str>, ()> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: by the interface a pointer of a schema that is not null leads to a text that ends in
    // zero, and lives as long as the schema.
    let text = unsafe { CStr::from_ptr(start) };
    text.to_str().map(Some).map_err(|_| ())
}

/// Reads the metadata of a field: how many pairs, and each with its two lengths. Texts that are not
/// UTF-8 are left out.
fn metadata(schema: &ArrowSchema) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    if schema.metadata.is_null() {
        return Some(pairs);
    }
    let mut rest = Metadata { schema, at: 0 };
    for _ in 0..rest.size()? {
        let (key, value) = (rest.text()?, rest.text()?);
        if let (Ok(key), Ok(value)) = (String::from_utf8(key), String::from_utf8(value)) {
            pairs.push((key, value));
        }
    }
    Some(pairs)
}

/// The metadata of a schema from some byte on.
struct Metadata<'a> {
    schema: &'a ArrowSchema,
    at: usize,
}

impl Metadata<'_> {
    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let start = self.schema.metadata.cast::<u8>().wrapping_add(self.at);
        self.at += count;
        // SAFETY: by the interface so many bytes lie there as the numbers before them say, for as
        // long as the schema lives.
        (self.at <= MAX_METADATA_BYTES).then(|| unsafe { std::slice::from_raw_parts(start, count) })
    }

    fn size(&mut self) -> Option<usize> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        usize::try_from(i32::from_ne_bytes(bytes)).ok()
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let count = self.size()?;
        self.bytes(count).map(<[u8]>::to_vec)
    }
}
