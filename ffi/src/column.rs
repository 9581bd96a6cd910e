//! `shma_column_*`: the C functions that read the columns of lists.

use std::ffi::{CString, c_char, c_void};

use shmarray::{Column, ColumnKind, DType, List, MAX_NDIM};

use crate::arguments::{invalid, needed, optional_text, produce};
use crate::array::shma_array;
use crate::dtype::{SHMA_OPAQUE, shma_dtype};
use crate::error::{Failure, guard, shma_error, shma_status};

/// What the items of a column are: one of the numbers below. Later versions may have more.
pub type shma_item_kind = i32;
/// A number, or another item of the column's dtype.
pub const SHMA_ITEM_NUMBER: shma_item_kind = 1;
/// An array. All of the column have one dtype and one number of dimensions.
pub const SHMA_ITEM_ARRAY: shma_item_kind = 2;
/// A string: UTF-8 without a zero byte behind it.
pub const SHMA_ITEM_STRING: shma_item_kind = 3;
/// Bytes.
pub const SHMA_ITEM_BYTES: shma_item_kind = 4;
/// A record, which has an item of each field's column.
pub const SHMA_ITEM_RECORD: shma_item_kind = 5;
/// A list of items that are in a column of their own.
pub const SHMA_ITEM_LIST: shma_item_kind = 6;
/// An object of Python, which only Python reads.
pub const SHMA_ITEM_PICKLE: shma_item_kind = 7;
/// Nothing: every item is None, or there is no item.
pub const SHMA_ITEM_NOTHING: shma_item_kind = 8;

const _: () = assert!(ColumnKind::Numbers as i32 == SHMA_ITEM_NUMBER);
const _: () = assert!(ColumnKind::Arrays as i32 == SHMA_ITEM_ARRAY);
const _: () = assert!(ColumnKind::Strings as i32 == SHMA_ITEM_STRING);
const _: () = assert!(ColumnKind::Bytes as i32 == SHMA_ITEM_BYTES);
const _: () = assert!(ColumnKind::Records as i32 == SHMA_ITEM_RECORD);
const _: () = assert!(ColumnKind::Lists as i32 == SHMA_ITEM_LIST);
const _: () = assert!(ColumnKind::Pickles as i32 == SHMA_ITEM_PICKLE);
const _: () = assert!(ColumnKind::Nothing as i32 == SHMA_ITEM_NOTHING);

/// One column of a list: its items, those of a field, or those of the lists in it. The list owns
/// it: it is valid until the list is closed, and nobody closes it.
pub struct shma_column {
    list: List,
    number: usize,
    name: CString,
    dtype: CString,
    children: Vec<shma_column>,
}

impl shma_column {
    /// Returns a column of a list, which has it, with its children.
    pub(crate) fn new(list: &List, column: Column<'_>) -> Self {
        Self {
            list: list.clone(),
            number: column.column_number(),
            name: c_text(column.name()),
            dtype: c_text(column.dtype().map_or("", DType::text)),
            children: column.children().map(|child| Self::new(list, child)).collect(),
        }
    }

    /// Returns the list that it is of.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    fn column(&self) -> Column<'_> {
        self.list.column(self.number).unwrap_or_else(|| self.list.items())
    }
}

/// Returns a text for C, for which it ends at the first zero byte.
fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// Returns the column of readable items.
fn readable<'a>(column: Option<&'a shma_column>) -> Result<Column<'a>, Failure> {
    let column = needed("column", column)?.column();
    if column.kind() == ColumnKind::Pickles {
        return Err(only_for_python());
    }
    Ok(column)
}

#[cold]
fn only_for_python() -> Failure {
    invalid("column", "its items are pickles, which only Python reads".to_owned())
}

/// Returns what the items are; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_kind(column: Option<&shma_column>) -> shma_item_kind {
    column.map_or(0, |column| column.column().kind() as i32)
}

/// Returns the number of items.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_count(column: Option<&shma_column>) -> usize {
    column.map_or(0, |column| column.column().len() as usize)
}

/// Returns the number of items that are None.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_nulls(column: Option<&shma_column>) -> usize {
    column.map_or(0, |column| column.column().nulls() as usize)
}

/// Returns the name of a field; a text of no length for the other columns. It is valid until the
/// list is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_name(column: Option<&shma_column>) -> *const c_char {
    column.map_or(std::ptr::null(), |column| column.name.as_ptr())
}

/// Returns the dtype of numbers and of the elements of arrays; SHMA_OPAQUE if C has no type for it,
/// and for other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_dtype(column: Option<&shma_column>) -> shma_dtype {
    let dtype = column.and_then(|column| column.column().dtype());
    dtype.map_or(SHMA_OPAQUE, |dtype| dtype.code() as i32)
}

/// Returns the dtype as it stands in a handle; a text of no length for kinds without one. It is
/// valid until the list is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_dtype_text(column: Option<&shma_column>) -> *const c_char {
    column.map_or(std::ptr::null(), |column| column.dtype.as_ptr())
}

/// Returns the size of a number, or of an element of an array, in bytes; 0 for other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_itemsize(column: Option<&shma_column>) -> usize {
    let dtype = column.and_then(|column| column.column().dtype());
    dtype.map_or(0, |dtype| dtype.itemsize() as usize)
}

/// Returns the number of dimensions of arrays; 0 for other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_ndim(column: Option<&shma_column>) -> usize {
    column.map_or(0, |column| column.column().ndim())
}

/// Returns the number of fields of records; 1 for lists, whose items are in one column; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_child_count(column: Option<&shma_column>) -> usize {
    column.map_or(0, |column| column.children.len())
}

/// Returns a field of records, or the column of the items of lists; NULL if there is none of that
/// index. It is valid until the list is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_child(
    column: Option<&shma_column>,
    index: usize,
) -> *const shma_column {
    let child = column.and_then(|column| column.children.get(index));
    child.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Returns the field of records that has a name, or NULL. It is valid until the list is closed.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_field(
    column: Option<&shma_column>,
    name: *const c_char,
) -> *const shma_column {
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text: P2 of the crate, which the
    // C caller guarantees for `name`.
    let name = unsafe { optional_text("name", name) }.ok().flatten();
    let found = column.zip(name).and_then(|(column, name)| {
        let number = column.column().field(name)?.column_number();
        column.children.iter().find(|child| child.number == number)
    });
    found.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Returns 1 if an item is None, else 0, also if there is none of that index.
#[unsafe(no_mangle)]
pub extern "C" fn shma_column_is_none(column: Option<&shma_column>, index: usize) -> i32 {
    let is_none = column.and_then(|column| column.column().is_none(index as u64).ok());
    is_none.unwrap_or(false).into()
}

/// Writes where the bytes of an item lie to data_out, and how many they are to size_bytes_out: of a
/// number, of an array's elements in C order, of a string, or of bytes. They are valid until the
/// list is closed. An item that is None has no bytes, and data_out gets NULL; it gets another
/// pointer for an item of no length. Nothing is copied or allocated.
///
/// Numbers and elements are aligned, unless the list is a view of an array of bytes that is not.
/// Fails with SHMA_ERROR_OUT_OF_BOUNDS if there is no item of that index,
/// SHMA_ERROR_INVALID_SEGMENT if the bytes of the list are broken, and SHMA_ERROR_INVALID_ARGUMENT
/// for records and lists, which have no bytes of their own, and for pickles. Whether a string is
/// UTF-8 is not checked.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_item(
    column: Option<&shma_column>,
    index: usize,
    data_out: Option<&mut *const c_void>,
    size_bytes_out: Option<&mut usize>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = readable(column)?;
        let data_out = data_out.ok_or(Failure::Null("data_out"))?;
        let size_bytes_out = size_bytes_out.ok_or(Failure::Null("size_bytes_out"))?;
        let index = index as u64;
        let has_bytes = !matches!(column.kind(), ColumnKind::Records | ColumnKind::Lists);
        let (data, size_bytes) = if has_bytes && column.is_none(index)? {
            (std::ptr::null(), 0)
        } else {
            column.item_ptr(index)?
        };
        *data_out = data.cast();
        *size_bytes_out = size_bytes as usize;
        Ok(())
    })
}

/// Writes the shape of an array to shape_out, which has room for the column's ndim numbers. An
/// array that is None has no elements. Fails like shma_column_item. If a process breaks its promise
/// and writes to the list between two calls, the shape may say more elements than that function
/// found; shma_column_array makes both of one reading.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `shape_out` is valid for writes of `ndim`
/// numbers.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_shape(
    column: Option<&shma_column>,
    index: usize,
    ndim: usize,
    shape_out: *mut i64,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = readable(column)?;
        if shape_out.is_null() {
            return Err(Failure::Null("shape_out"));
        }
        let mut shape = [0; MAX_NDIM];
        let most = || invalid("ndim", format!("{ndim} dimensions, at most {MAX_NDIM}"));
        let shape = shape.get_mut(..ndim).ok_or_else(most)?;
        column.read_shape(index as u64, shape)?;
        // Core has checked that each is at most INT64_MAX, so u64 and i64 have the same bits.
        // SAFETY: `shape_out` must have room for `ndim` numbers, which the C caller guarantees by
        // the `# Safety` section. It is not NULL (checked above), and `shape` is this function's.
        unsafe { std::ptr::copy_nonoverlapping(shape.as_ptr().cast(), shape_out, ndim) };
        Ok(())
    })
}

/// Writes where the items of a list begin in the column of its items, shma_column_child(column, 0),
/// to first_out, and how many they are to count_out. Fails like shma_column_item, and with
/// SHMA_ERROR_INVALID_ARGUMENT for other kinds.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_range(
    column: Option<&shma_column>,
    index: usize,
    first_out: Option<&mut usize>,
    count_out: Option<&mut usize>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = readable(column)?;
        let first_out = first_out.ok_or(Failure::Null("first_out"))?;
        let count_out = count_out.ok_or(Failure::Null("count_out"))?;
        let range = column.list(index as u64)?;
        *first_out = range.start as usize;
        *count_out = (range.end - range.start) as usize;
        Ok(())
    })
}

/// Makes an array of an item that is one: a view of the list's memory, which stays valid after the
/// list is closed. An array that is None has no elements. Fails like shma_column_item, and with
/// SHMA_ERROR_INVALID_ARGUMENT for other kinds.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_array(
    column: Option<&shma_column>,
    index: usize,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = readable(column)?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || Ok(shma_array(column.array(index as u64)?))) }
    })
}

/// Makes an array of one dimension of the values of all items, one after another: the numbers, the
/// elements of all arrays, or the bytes. It is a view like that of shma_column_array. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT for kinds without values, and for pickles.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_values(
    column: Option<&shma_column>,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = readable(column)?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || Ok(shma_array(column.values()?))) }
    })
}

/// Makes an array of SHMA_INT64 of the offsets: where each item begins in the values, or in the
/// column of the items of lists, and last where they end. They are in elements, bytes or items, and
/// are not checked. It is a view like that of shma_column_array. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT for kinds without offsets, for arrays of one shape, which have none,
/// and for pickles.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_column_offsets(
    column: Option<&shma_column>,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let column = readable(column)?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || Ok(shma_array(column.offsets()?))) }
    })
}
