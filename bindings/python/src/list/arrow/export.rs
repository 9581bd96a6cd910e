//! A column of a list as Arrow's structs, which describe its memory without a copy.
//!
//! | kind | format of Arrow |
//! |---|---|
//! | numbers | the number; bool `arrow.bool8`, which has a byte for each; datetime64 and timedelta64 of s, ms, us, ns timestamp and duration |
//! | arrays of one shape | `fixed_size_list`; of several dimensions `arrow.fixed_shape_tensor` |
//! | arrays of one dimension | `large_list` |
//! | other arrays | a struct of `data`, a `large_list`, and `shape`, a `fixed_size_list` of int64 |
//! | strings, bytes | `large_string`, `large_binary` |
//! | records, lists, nothing | struct, `large_list`, null |
//!
//! `arrow.variable_shape_tensor` has such a struct, too, but with shapes of int32. Dtypes of other
//! kinds have no type in Arrow. `fixed_size_binary` would hold their bytes, and its reader would
//! take them for bytes.
//!
//! Some fields have [`MARK`] in their metadata, so that the way back gives the same items.
#![allow(unsafe_code)] // structs of C

use std::ffi::{CString, c_void};
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use shmarray::{Column, ColumnKind, ItemType, List};

use super::abi::{ArrowArray, ArrowSchema, NULLABLE, Owned};
use super::{BOOL8, EXTENSION, EXTENSION_METADATA, FIXED_SHAPE, MARK};
use crate::error::{to_py, value_error};
use crate::segment_memory::SegmentMemory;

/// Items as Arrow describes them.
pub(super) struct Exported {
    format: String,
    name: String,
    metadata: Vec<(&'static str, String)>,
    pub(super) length: u64,
    pub(super) nulls: i64,
    pub(super) offset: u64,
    /// Where they lie in the list.
    buffers: Vec<Option<u64>>,
    children: Vec<Exported>,
}

/// Returns all items of a column. `path` says where it is, for errors.
pub(super) fn column(column: Column<'_>, path: &str) -> PyResult<Exported> {
    let mut all = Exported {
        nulls: column.nulls() as i64,
        buffers: vec![column.validity_range().map(|range| range.start)],
        ..Exported::of("", column.len())
    };
    match column.kind() {
        ColumnKind::Numbers => numbers(column, path, &mut all)?,
        ColumnKind::Arrays => arrays(column, path, &mut all)?,
        ColumnKind::Strings | ColumnKind::Bytes => {
            let is_text = column.kind() == ColumnKind::Strings;
            all.format = if is_text { "U" } else { "Z" }.to_owned();
            all.buffers.push(offsets_of(column)?);
            all.buffers.push(values_of(column)?.0);
        }
        ColumnKind::Records => {
            all.format = "+s".to_owned();
            for field in column.children() {
                let path = super::field_path(path, field.name());
                all.children.push(self::column(field, &path)?.named(field.name()));
            }
        }
        ColumnKind::Lists => {
            all.format = "+L".to_owned();
            all.buffers.push(offsets_of(column)?);
            for items in column.children() {
                let items = self::column(items, &super::items_path(path))?;
                all.children.push(items.named("item"));
            }
        }
        ColumnKind::Nothing => {
            all.format = "n".to_owned();
            all.buffers.clear();
        }
        _ => {
            let reason = "items that only Python reads are pickles, which Arrow has no type for";
            return Err(PyTypeError::new_err(format!("{path}: {reason}")));
        }
    }
    let mark = match (column.item_type(), column.kind()) {
        (ItemType::Tuple, _) => Some("tuple"),
        (_, ColumnKind::Lists) => Some("list"),
        _ => None,
    };
    for child in &mut all.children {
        child.metadata.extend(mark.map(|mark| (MARK, mark.to_owned())));
    }
    Ok(all)
}

fn numbers(column: Column<'_>, path: &str, all: &mut Exported) -> PyResult<()> {
    let element = Exported::elements(column, path, column.len())?;
    all.format = element.format;
    all.metadata = element.metadata;
    all.buffers.extend(&element.buffers[1..]);
    Ok(())
}

fn arrays(column: Column<'_>, path: &str, all: &mut Exported) -> PyResult<()> {
    let (_, count) = values_of(column)?;
    let data = Exported::elements(column, path, count)?.named("item");
    if let Some(shape) = column.common_shape() {
        let count = shape.iter().product::<u64>();
        if i32::try_from(count).is_err() {
            let reason = format!("Arrow's arrays of one shape have no {count} elements");
            return Err(value_error(format!("{path}: {reason}")));
        }
        all.format = format!("+w:{count}");
        if shape.len() > 1 {
            all.metadata.push((EXTENSION, FIXED_SHAPE.to_owned()));
            all.metadata.push((EXTENSION_METADATA, format!("{{\"shape\":{shape:?}}}")));
        }
        all.children.push(data);
        return Ok(());
    }
    let offsets = offsets_of(column)?;
    if column.ndim() == 1 {
        all.format = "+L".to_owned();
        all.buffers.push(offsets);
        all.children.push(data);
        return Ok(());
    }
    all.format = "+s".to_owned();
    let mut lists = Exported::of("+L", column.len()).named("data");
    lists.buffers.push(offsets);
    lists.children.push(data);
    let mut numbers = Exported::of("l", column.len() * column.ndim() as u64).named("item");
    numbers.buffers.push(Some(column.shapes_range().map_err(to_py)?.start));
    let format = format!("+w:{}", column.ndim());
    let mut shapes = Exported::of(&format, column.len()).named("shape");
    shapes.children.push(numbers);
    shapes.metadata.push((MARK, "shape".to_owned()));
    all.children = vec![lists, shapes];
    Ok(())
}

fn values_of(column: Column<'_>) -> PyResult<(Option<u64>, u64)> {
    let (range, count) = column.values_range().map_err(to_py)?;
    Ok((Some(range.start), count))
}

/// Returns where the offsets lie. Arrow's readers trust them.
fn offsets_of(column: Column<'_>) -> PyResult<Option<u64>> {
    column.check_offsets().map_err(to_py)?;
    column.offsets_range().map(|range| Some(range.start)).map_err(to_py)
}

impl Exported {
    fn of(format: &str, length: u64) -> Self {
        Self {
            format: format.to_owned(),
            name: String::new(),
            metadata: Vec::new(),
            length,
            nulls: 0,
            offset: 0,
            buffers: vec![None],
            children: Vec::new(),
        }
    }

    fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// The values of a column, of its dtype.
    fn elements(column: Column<'_>, path: &str, count: u64) -> PyResult<Self> {
        let text = column.dtype().map_or("", |dtype| dtype.text());
        let Some(format) = super::format_of(text) else {
            let reason = format!("Arrow has no numbers of the dtype {text}");
            return Err(PyTypeError::new_err(format!("{path}: {reason}")));
        };
        let mut elements = Self::of(format, count);
        if text == "|b1" {
            elements.metadata.push((EXTENSION, BOOL8.to_owned()));
            elements.metadata.push((EXTENSION_METADATA, String::new()));
        }
        elements.buffers.push(values_of(column)?.0);
        Ok(elements)
    }

    pub(super) fn schema(&self) -> PyResult<Owned<ArrowSchema>> {
        let children = self.children.iter().map(Self::schema).collect::<PyResult<Vec<_>>>()?;
        let text = |text: &str| {
            CString::new(text).map_err(|_| value_error(format!("a zero byte in {text:?}")))
        };
        let mut parts = Box::new(SchemaParts {
            format: text(&self.format)?,
            name: text(&self.name)?,
            metadata: metadata_bytes(&self.metadata),
            children,
        });
        Ok(Owned::new(ArrowSchema {
            format: parts.format.as_ptr(),
            name: parts.name.as_ptr(),
            metadata: match self.metadata.len() {
                0 => ptr::null(),
                _ => parts.metadata.as_ptr().cast(),
            },
            flags: NULLABLE,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr().cast(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }))
    }

    /// The items, which keep the memory of their list.
    pub(super) fn array(&self, list: &List) -> Owned<ArrowArray> {
        let address = |start: &Option<u64>| match start {
            Some(start) => list.as_ptr().wrapping_add(*start as usize).cast_const().cast(),
            None => ptr::null(),
        };
        let mut parts = Box::new(ArrayParts {
            buffers: self.buffers.iter().map(address).collect(),
            children: self.children.iter().map(|child| child.array(list)).collect(),
            _list: list.clone(),
            _segment: list.array().cloned().map(SegmentMemory::new),
        });
        Owned::new(ArrowArray {
            length: self.length as i64,
            null_count: self.nulls,
            offset: self.offset as i64,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr().cast(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        })
    }
}

/// Pairs as Arrow writes them: how many, and each with its two lengths.
fn metadata_bytes(pairs: &[(&str, String)]) -> Vec<u8> {
    let mut bytes = (pairs.len() as i32).to_ne_bytes().to_vec();
    for text in pairs.iter().flat_map(|(key, value)| [*key, value.as_str()]) {
        bytes.extend((text.len() as i32).to_ne_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// What a schema of ours leads to.
struct SchemaParts {
    format: CString,
    name: CString,
    metadata: Vec<u8>,
    children: Vec<Owned<ArrowSchema>>,
}

/// What an array of ours leads to. A child that was moved out keeps the memory by itself.
///
/// No object of Python is in it, so any thread releases it, with or without the GIL, and also
/// after the interpreter.
struct ArrayParts {
    buffers: Vec<*const c_void>,
    children: Vec<Owned<ArrowArray>>,
    _list: List,
    /// Dropped last: it may unmap the segment. `None` for a list in a file.
    _segment: Option<SegmentMemory>,
}

/// Releases a schema of ours.
///
/// # Safety
/// The schema was made by [`Exported::schema`], and was not released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller promises a schema, which nobody else uses.
    let schema = unsafe { &mut *schema };
    schema.release = None;
    // SAFETY: `Exported::schema` made it of such a box, once.
    drop(unsafe { Box::from_raw(schema.private_data.cast::<SchemaParts>()) });
}

/// Releases an array of ours.
///
/// # Safety
/// The array was made by [`Exported::array`], and was not released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller promises an array, which nobody else uses.
    let array = unsafe { &mut *array };
    array.release = None;
    // SAFETY: `Exported::array` made it of such a box, once.
    drop(unsafe { Box::from_raw(array.private_data.cast::<ArrayParts>()) });
}
