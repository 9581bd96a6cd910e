//! `shma_list_*`: the C functions that make, attach and close lists.

use std::ffi::c_char;
use std::sync::Arc;

use shmarray::List;

use crate::arguments::{Object, needed, path as path_of, produce, text as text_of};
use crate::array::shma_array;
use crate::column::shma_column;
use crate::column_builder::shma_column_builder;
use crate::error::{Failure, guard, shma_error, shma_status};
use crate::options::{Chosen, shma_options};

/// A list: an immutable sequence of numbers, arrays, strings, bytes, records or lists in shared
/// memory, in Arrow's layout. Its bytes are an array, which has its handle and its name.
///
/// A process that writes to those bytes breaks it: functions then return other items or
/// SHMA_ERROR_INVALID_SEGMENT, and never read outside the list.
pub struct shma_list {
    /// `None` for a list in a file.
    array: Option<Arc<shma_array>>,
    items: shma_column,
}

impl Object for shma_list {}

impl shma_list {
    fn new(list: &List) -> Self {
        let array = list.array().map(|array| Arc::new(shma_array(array.clone())));
        Self { array, items: shma_column::new(list, list.items()) }
    }
}

/// Creates a list of the items of a column. All its memory is reserved by this call.
///
/// The call takes the builder, also if it fails: it is not used or closed any more. options may be
/// NULL; its order, uninitialized, itemsize and dtype_text are not used. Fails with
/// SHMA_ERROR_NO_SPACE, SHMA_ERROR_EXISTS and, for options that only Linux has,
/// SHMA_ERROR_UNSUPPORTED; with SHMA_ERROR_INVALID_ARGUMENT for more than 65536 columns, or more
/// than 16 that lie in one another.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_list_create(
    items: Option<Box<shma_column_builder>>,
    options: *const shma_options,
    list_out: *mut *mut shma_list,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let items = items.ok_or(Failure::Null("items"))?.into_column()?;
        // SAFETY: `Chosen::read` needs NULL or a struct with its size and texts: P1 and P2 of the
        // crate, which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        let make = || Ok(shma_list::new(&List::create(items, chosen.of_list())?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `list_out`.
        unsafe { produce("list_out", list_out, make) }
    })
}

/// Attaches the list that has this handle or this name, read-only.
///
/// Fails like shma_array_attach, with SHMA_ERROR_DTYPE_MISMATCH if it is an array of another dtype,
/// and with SHMA_ERROR_INVALID_SEGMENT if its bytes are not a list's; the message names the field.
/// The items are checked when they are read.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_list_attach(
    handle_or_name: *const c_char,
    list_out: *mut *mut shma_list,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `handle_or_name`.
        let handle_or_name = unsafe { text_of("handle_or_name", handle_or_name) }?;
        let make = || Ok(shma_list::new(&List::attach(handle_or_name)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `list_out`.
        unsafe { produce("list_out", list_out, make) }
    })
}

/// Makes a list of the array of its bytes, such as one that was received. The array may be closed
/// before the list. Fails like shma_list_attach.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_list_of_array(
    array: Option<&shma_array>,
    list_out: *mut *mut shma_list,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let array = &needed("array", array)?.0;
        let make = || Ok(shma_list::new(&List::of(array.clone())?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `list_out`.
        unsafe { produce("list_out", list_out, make) }
    })
}

/// Saves a list to a file, with a checksum. The file appears under its path when it is complete;
/// shma_npy_save says what becomes of an older one. Fails with SHMA_ERROR_OS and
/// SHMA_ERROR_NOT_FOUND.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_list_save(
    path: *const c_char,
    list: Option<&shma_list>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `path`.
        let path = unsafe { path_of("path", path) }?;
        needed("list", list)?.items.list().save(path).map_err(Failure::from)
    })
}

/// Opens a list in a file, which is mapped: its pages are read when they are needed. If checked is
/// not 0, all of it is read now, and compared with its checksum. The functions that return arrays
/// of it fail with SHMA_ERROR_INVALID_ARGUMENT; shma_column_item gives the same bytes.
///
/// Fails with SHMA_ERROR_INVALID_FILE, whose message names the field, SHMA_ERROR_NOT_FOUND and
/// SHMA_ERROR_OS. If another program makes the file shorter meanwhile, reading the lost pages is a
/// bus error, as of any mapping.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_list_open(
    path: *const c_char,
    checked: i32,
    list_out: *mut *mut shma_list,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `path`.
        let path = unsafe { path_of("path", path) }?;
        let make = || Ok(shma_list::new(&List::open(path, checked != 0)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `list_out`.
        unsafe { produce("list_out", list_out, make) }
    })
}

/// Returns the array of the list's bytes, for its handle and for messages. The list owns it: it is
/// valid until the list is closed, and longer only for who retains it. Returns NULL for a list in a
/// file, which others open by its path.
#[unsafe(no_mangle)]
pub extern "C" fn shma_list_array(list: Option<&shma_list>) -> *const shma_array {
    let array = list.and_then(|list| list.array.as_ref());
    array.map_or(std::ptr::null(), Arc::as_ptr)
}

/// Returns the number of items.
#[unsafe(no_mangle)]
pub extern "C" fn shma_list_count(list: Option<&shma_list>) -> usize {
    crate::column::shma_column_count(list.map(|list| &list.items))
}

/// Returns the column of the items. The list owns it: it is valid until the list is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_list_items(list: Option<&shma_list>) -> *const shma_column {
    list.map_or(std::ptr::null(), |list| std::ptr::from_ref(&list.items))
}

/// Closes a list. Its memory is given back when no process holds it any more; arrays that were made
/// of its items hold it, too.
#[unsafe(no_mangle)]
pub extern "C" fn shma_list_close(list: Option<Box<shma_list>>) {
    guard(None, || {
        drop(list);
        Ok(())
    });
}
