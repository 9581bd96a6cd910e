//! `shma_column_builder_*`: the C functions that add items to the column of a new list.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use shmarray::{ColumnBuilder, DType};

use crate::arguments::{
    Object, invalid, list, needed, produce, shape as shape_of, text as text_of,
};
use crate::column::{SHMA_ITEM_BYTES, SHMA_ITEM_NOTHING, SHMA_ITEM_STRING, shma_item_kind};
use crate::dtype::shma_dtype;
use crate::error::{Failure, guard, shma_error, shma_status};
use crate::options::{read_options, shma_options};

/// A column to which items are added, before there is a list of them. They are in private memory.
///
/// Close it with shma_column_builder_close, unless it was given to a list or to another builder.
pub struct shma_column_builder {
    root: Arc<Root>,
    /// The numbers of the fields by which this one is reached from the root.
    path: Vec<usize>,
    fields: Vec<shma_column_builder>,
}

impl Object for shma_column_builder {}

/// A column that is not in another one.
struct Root {
    column: Mutex<ColumnBuilder>,
    /// The process that made it. In one that was forked from it a thread may be missing that had
    /// the lock.
    pid: u32,
}

impl Root {
    /// Core checks an item before it adds it, so a panic leaves a column as it was.
    fn locked(&self) -> Result<MutexGuard<'_, ColumnBuilder>, Failure> {
        match self.column.try_lock() {
            Ok(column) => Ok(column),
            Err(TryLockError::Poisoned(column)) => Ok(column.into_inner()),
            Err(TryLockError::WouldBlock) if self.pid == std::process::id() => {
                Ok(self.column.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Err(TryLockError::WouldBlock) => {
                let reason = "it was made before a fork, during which another thread added to it";
                Err(invalid("builder", reason.to_owned()))
            }
        }
    }
}

impl shma_column_builder {
    fn new(column: ColumnBuilder) -> Result<Self, Failure> {
        let root = Arc::new(Root { column: Mutex::new(column), pid: std::process::id() });
        Ok(Self::reached(&mut *root.locked()?, &root, Vec::new()))
    }

    /// Returns the builder of a column that is reached by a path, with those of its fields.
    fn reached(column: &mut ColumnBuilder, root: &Arc<Root>, path: Vec<usize>) -> Self {
        let mut fields = Vec::new();
        while let Some(field) = column.field_mut(fields.len()) {
            fields.push(Self::reached(field, root, [&path[..], &[fields.len()]].concat()));
        }
        Self { root: Arc::clone(root), path, fields }
    }

    /// Returns the column, of which C has no pointer any more.
    pub(crate) fn into_column(self) -> Result<ColumnBuilder, Failure> {
        Ok(std::mem::replace(&mut *self.root.locked()?, ColumnBuilder::nothing()))
    }

    /// Calls a function with the column.
    fn with<T>(&self, call: impl FnOnce(&mut ColumnBuilder) -> T) -> Result<T, Failure> {
        let mut root = self.root.locked()?;
        let mut column = &mut *root;
        for number in &self.path {
            let field = column.field_mut(*number);
            column = field.ok_or_else(|| invalid("builder", "it was closed".to_owned()))?;
        }
        Ok(call(column))
    }
}

/// Calls a function with the column of a builder, to add to it.
fn add(
    builder: Option<&shma_column_builder>,
    call: impl FnOnce(&mut ColumnBuilder) -> Result<(), Failure>,
) -> Result<(), Failure> {
    needed("builder", builder)?.with(call)?
}

/// Returns how many bytes so many items of a column's dtype have.
fn bytes_of(column: &ColumnBuilder, count: Option<u64>) -> Result<usize, Failure> {
    let itemsize = column.dtype().map_or(0, DType::itemsize);
    let bytes = count.and_then(|count| count.checked_mul(itemsize));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| invalid("shape", "there is no memory of that size".to_owned()))
}

/// Makes a builder of a column of SHMA_ITEM_STRING, SHMA_ITEM_BYTES or SHMA_ITEM_NOTHING.
/// Fails with SHMA_ERROR_INVALID_ARGUMENT for another kind.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_create(
    kind: shma_item_kind,
    builder_out: *mut *mut shma_column_builder,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = match kind {
            SHMA_ITEM_STRING => ColumnBuilder::strings(),
            SHMA_ITEM_BYTES => ColumnBuilder::bytes(),
            SHMA_ITEM_NOTHING => ColumnBuilder::nothing(),
            _ => {
                let reason = "it is none of SHMA_ITEM_STRING, SHMA_ITEM_BYTES, SHMA_ITEM_NOTHING";
                return Err(invalid("kind", format!("{kind}: {reason}")));
            }
        };
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `builder_out`.
        unsafe { produce("builder_out", builder_out, || shma_column_builder::new(column)) }
    })
}

/// Makes a builder of a column of numbers, or other items of one dtype.
///
/// element is NULL, or for SHMA_OPAQUE has the dtype_text or the itemsize; its other fields are
/// not used. Fails with SHMA_ERROR_INVALID_DTYPE.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_create_numbers(
    dtype: shma_dtype,
    element: *const shma_options,
    builder_out: *mut *mut shma_column_builder,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `read_options` needs NULL or a struct with its size and texts: P1 and P2 of the
        // crate, which the C caller guarantees.
        let (dtype, _) = unsafe { read_options(dtype, element) }?;
        let make = || shma_column_builder::new(ColumnBuilder::numbers(dtype)?);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `builder_out`.
        unsafe { produce("builder_out", builder_out, make) }
    })
}

/// Makes a builder of a column of arrays of one dtype and of ndim dimensions, 1 to 64. Their shapes
/// may differ.
///
/// dtype, element and errors are as for shma_column_builder_create_numbers.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_create_arrays(
    dtype: shma_dtype,
    element: *const shma_options,
    ndim: usize,
    builder_out: *mut *mut shma_column_builder,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `read_options` needs NULL or a struct with its size and texts: P1 and P2 of the
        // crate, which the C caller guarantees.
        let (dtype, _) = unsafe { read_options(dtype, element) }?;
        let make = || shma_column_builder::new(ColumnBuilder::arrays(dtype, ndim)?);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `builder_out`.
        unsafe { produce("builder_out", builder_out, make) }
    })
}

/// Makes a builder of a column of records. Items are added to its fields, and then so many records
/// by shma_column_builder_push_records.
///
/// names and fields have count elements. The call takes the fields, also if it fails: they are not
/// used or closed any more, and shma_column_builder_field returns those of the records. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if two fields have one name or are one builder.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; the caller owns each of `fields`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_create_records(
    count: usize,
    names: *const *const c_char,
    fields: *const *mut shma_column_builder,
    builder_out: *mut *mut shma_column_builder,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `list` needs NULL or `count` pointers: P3 of the crate, which the C caller
        // guarantees for `fields`.
        let given = unsafe { list("fields", fields, count) }?;
        let mut seen = BTreeSet::new();
        let taken = given.iter().map(|&field| {
            let is_new = !field.is_null() && seen.insert(field);
            // SAFETY: `from_raw` needs the pointer of a box that nobody else has: `into_pointer`
            // made it, C owns it by the `# Safety` section, and the set has each pointer once.
            is_new.then(|| unsafe { Box::from_raw(field) })
        });
        let taken: Vec<_> = taken.collect();
        // SAFETY: `list` needs NULL or `count` pointers: P3 of the crate, which the C caller
        // guarantees for `names`.
        let names = unsafe { list("names", names, count) }?;
        let fields = names.iter().zip(taken).map(|(name, field)| {
            // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which
            // the C caller guarantees for each of `names`.
            let name = unsafe { text_of("names", *name) }?;
            let none = || invalid("fields", format!("{name:?} is NULL, or is there twice"));
            Ok((name, field.ok_or_else(none)?.into_column()?))
        });
        let fields = fields.collect::<Result<Vec<_>, Failure>>()?;
        let make = || shma_column_builder::new(ColumnBuilder::records(fields)?);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `builder_out`.
        unsafe { produce("builder_out", builder_out, make) }
    })
}

/// Makes a builder of a column of lists. Items are added to shma_column_builder_field(builder, 0),
/// and then a list of them by shma_column_builder_push_list.
///
/// items says what the items of the lists are. The call takes it, also if it fails, as
/// shma_column_builder_create_records does.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_create_lists(
    items: Option<Box<shma_column_builder>>,
    builder_out: *mut *mut shma_column_builder,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let items = items.ok_or(Failure::Null("items"))?.into_column()?;
        let make = || shma_column_builder::new(ColumnBuilder::lists(items));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `builder_out`.
        unsafe { produce("builder_out", builder_out, make) }
    })
}

/// Returns the builder of a field, or with index 0 that of the items of lists; NULL if there is
/// none of that index. It is valid as long as the builder, which owns it.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_builder_field(
    builder: Option<&shma_column_builder>,
    index: usize,
) -> *const shma_column_builder {
    let field = builder.and_then(|builder| builder.fields.get(index));
    field.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Returns the number of items so far.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_builder_count(builder: Option<&shma_column_builder>) -> usize {
    let count = builder.and_then(|builder| builder.with(|column| column.len()).ok());
    count.unwrap_or(0) as usize
}

/// Adds numbers, or other items of the dtype, which data points to.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `data` has `count` items of the dtype.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_push_numbers(
    builder: Option<&shma_column_builder>,
    data: *const c_void,
    count: usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        add(builder, |column| {
            let size_bytes = bytes_of(column, Some(count as u64))?;
            // SAFETY: `list` needs NULL or so many bytes: P3 of the crate, and the `# Safety`
            // section, which says that they are `count` items of the dtype.
            let bytes = unsafe { list("data", data.cast::<u8>(), size_bytes) }?;
            Ok(column.push_numbers(count as u64, bytes)?)
        })
    })
}

/// Adds an array. data points to its elements, in C order without gaps. ndim is that of the column.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `data` has as many elements as the shape.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_push_array(
    builder: Option<&shma_column_builder>,
    ndim: usize,
    shape: *const i64,
    data: *const c_void,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller guarantees.
        let shape = unsafe { shape_of(shape, ndim) }?;
        add(builder, |column| {
            let count = shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim));
            let size_bytes = bytes_of(column, count)?;
            // SAFETY: `list` needs NULL or so many bytes: P3 of the crate, and the `# Safety`
            // section, which says that they are the elements of the shape.
            let bytes = unsafe { list("data", data.cast::<u8>(), size_bytes) }?;
            Ok(column.push_array(&shape, bytes)?)
        })
    })
}

/// Adds a string: size_bytes bytes of UTF-8, without a zero byte behind them. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT also if they are not UTF-8.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_push_string(
    builder: Option<&shma_column_builder>,
    data: *const c_char,
    size_bytes: usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `list` needs NULL or `size_bytes` bytes that do not change during the call: P3 of
        // the crate, which the C caller guarantees.
        let bytes = unsafe { list("data", data.cast::<u8>(), size_bytes) }?;
        let string =
            std::str::from_utf8(bytes).map_err(|error| invalid("data", error.to_string()))?;
        add(builder, |column| Ok(column.push_string(string)?))
    })
}

/// Adds an item of bytes.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_builder_push_bytes(
    builder: Option<&shma_column_builder>,
    data: *const c_void,
    size_bytes: usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `list` needs NULL or `size_bytes` bytes that do not change during the call: P3 of
        // the crate, which the C caller guarantees.
        let bytes = unsafe { list("data", data.cast::<u8>(), size_bytes) }?;
        add(builder, |column| Ok(column.push_bytes(bytes)?))
    })
}

/// Adds so many records, of which each field has the items already. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if a field has more or fewer.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_builder_push_records(
    builder: Option<&shma_column_builder>,
    count: usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || add(builder, |column| Ok(column.push_records(count as u64)?)))
}

/// Adds a list of the items that were added to the column of its items since the list before.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_builder_push_list(
    builder: Option<&shma_column_builder>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || add(builder, |column| Ok(column.push_list()?)))
}

/// Adds None; of records it adds None to each field, too. Fails with SHMA_ERROR_INVALID_ARGUMENT
/// if items were added that no list has.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_builder_push_none(
    builder: Option<&shma_column_builder>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || add(builder, |column| Ok(column.push_none()?)))
}

/// Frees a builder, with its fields and what was added.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_builder_close(builder: Option<Box<shma_column_builder>>) {
    guard(None, || {
        drop(builder);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have() {
        let of_parent = Root { column: Mutex::new(ColumnBuilder::strings()), pid: 0 };
        let held = of_parent.locked();
        assert!(held.is_ok());
        assert!(of_parent.locked().is_err_and(|failure| failure.message().contains("fork")));
        drop(held);
        assert!(of_parent.locked().is_ok());
    }
}
