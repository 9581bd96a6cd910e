//! `shma_dict_*`: the C functions that make, attach, search and close dictionaries.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use shmarray::{Dict, Key};

use crate::arguments::{
    Object, invalid, list as list_of, needed, path as path_of, produce, text as text_of,
};
use crate::array::shma_array;
use crate::column::shma_column;
use crate::column_builder::shma_column_builder;
use crate::error::{Failure, SHMA_ABSENT, SHMA_OK, guard, guard_outcome, shma_error, shma_status};
use crate::options::{Chosen, shma_options};

/// A dictionary: a frozen mapping in shared memory. Its keys are strings, bytes or integers, its
/// values what the items of a list are. Both are columns: the value of the key of an index is the
/// item of that index. Its bytes are an array, as those of a list.
///
/// A key is found by a hash table in the shared memory, so attaching takes no longer for more
/// entries.
pub struct shma_dict {
    /// `None` for a dictionary in a file.
    array: Option<Arc<shma_array>>,
    dict: Dict,
    keys: shma_column,
    values: shma_column,
}

impl Object for shma_dict {}

impl shma_dict {
    fn new(dict: Dict) -> Self {
        let list = dict.as_list();
        let array = list.array().map(|array| Arc::new(shma_array(array.clone())));
        let keys = shma_column::new(list, dict.keys());
        let values = shma_column::new(list, dict.values());
        Self { array, dict, keys, values }
    }
}

/// Creates a dictionary of the keys of a column and as many values of another. All its memory is
/// reserved by this call.
///
/// The call takes both builders, also if it fails, as shma_list_create does, whose options and
/// failures it has. Fails with SHMA_ERROR_INVALID_ARGUMENT also if a key is there twice or is None,
/// if the keys are no strings, bytes or SHMA_INT64, if there are more or fewer values, or if both
/// are one builder.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; the caller owns `keys` and `values`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_create(
    keys: *mut shma_column_builder,
    values: *mut shma_column_builder,
    options: *const shma_options,
    dict_out: *mut *mut shma_dict,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `taken` needs NULL or a builder that C owns, which the `# Safety` section says.
        let key_column = unsafe { taken(keys) };
        // SAFETY: the same, and the builder of the keys is not taken again.
        let value_column = if values == keys { None } else { unsafe { taken(values) } };
        let keys = key_column.ok_or(Failure::Null("keys"))?.into_column()?;
        let none = || invalid("values", "it is NULL, or the keys".to_owned());
        let values = value_column.ok_or_else(none)?.into_column()?;
        // SAFETY: `Chosen::read` needs NULL or a struct with its size and texts: P1 and P2 of the
        // crate, which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        let make = || Ok(shma_dict::new(Dict::create(keys, values, chosen.of_list())?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `dict_out`.
        unsafe { produce("dict_out", dict_out, make) }
    })
}

/// Takes a builder from C.
///
/// # Safety
/// `builder` is NULL, or C owns it and does not use it any more.
unsafe fn taken(builder: *mut shma_column_builder) -> Option<Box<shma_column_builder>> {
    // SAFETY: `from_raw` needs the pointer of a box that nobody else has: `into_pointer` made it,
    // and the caller of this function guarantees the rest by its own `# Safety` section.
    (!builder.is_null()).then(|| unsafe { Box::from_raw(builder) })
}

/// Attaches the dictionary that has this handle or this name, read-only. Fails like
/// shma_list_attach. The entries are checked when they are read.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_attach(
    handle_or_name: *const c_char,
    dict_out: *mut *mut shma_dict,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `handle_or_name`.
        let handle_or_name = unsafe { text_of("handle_or_name", handle_or_name) }?;
        let make = || Ok(shma_dict::new(Dict::attach(handle_or_name)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `dict_out`.
        unsafe { produce("dict_out", dict_out, make) }
    })
}

/// Makes a dictionary of the array of its bytes, such as one that was received. The array may be
/// closed before the dictionary. Fails like shma_list_attach.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_of_array(
    array: Option<&shma_array>,
    dict_out: *mut *mut shma_dict,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let array = &needed("array", array)?.0;
        let make = || Ok(shma_dict::new(Dict::of(array.clone())?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `dict_out`.
        unsafe { produce("dict_out", dict_out, make) }
    })
}

/// Saves a dictionary to a file, as shma_list_save does.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_save(
    path: *const c_char,
    dict: Option<&shma_dict>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `path`.
        let path = unsafe { path_of("path", path) }?;
        needed("dict", dict)?.dict.save(path).map_err(Failure::from)
    })
}

/// Opens a dictionary in a file, which is mapped, as shma_list_open does. A file that has a list is
/// refused with SHMA_ERROR_INVALID_FILE.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_open(
    path: *const c_char,
    checked: i32,
    dict_out: *mut *mut shma_dict,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `path`.
        let path = unsafe { path_of("path", path) }?;
        let make = || Ok(shma_dict::new(Dict::open(path, checked != 0)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `dict_out`.
        unsafe { produce("dict_out", dict_out, make) }
    })
}

/// Returns the array of the dictionary's bytes, for its handle and for messages. The dictionary
/// owns it: it is valid until the dictionary is closed, and longer only for who retains it. Returns
/// NULL for a dictionary in a file.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dict_array(dict: Option<&shma_dict>) -> *const shma_array {
    let array = dict.and_then(|dict| dict.array.as_ref());
    array.map_or(std::ptr::null(), Arc::as_ptr)
}

/// Returns the number of entries.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dict_count(dict: Option<&shma_dict>) -> usize {
    dict.map_or(0, |dict| dict.dict.len() as usize)
}

/// Returns the column of the keys, in the order in which they were added: SHMA_ITEM_STRING,
/// SHMA_ITEM_BYTES, or SHMA_ITEM_NUMBER of SHMA_INT64; of a dictionary without entries any. The
/// dictionary owns it: it is valid until the dictionary is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dict_keys(dict: Option<&shma_dict>) -> *const shma_column {
    dict.map_or(std::ptr::null(), |dict| std::ptr::from_ref(&dict.keys))
}

/// Returns the column of the values, in the order of the keys. It is valid as that of
/// shma_dict_keys.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dict_values(dict: Option<&shma_dict>) -> *const shma_column {
    dict.map_or(std::ptr::null(), |dict| std::ptr::from_ref(&dict.values))
}

/// Writes the index of a key, a string of size_bytes bytes, to index_out: that of its value in
/// shma_dict_values. Returns SHMA_ABSENT if there is no such key, also if the keys are of another
/// kind, or if the bytes are not UTF-8, which no key is. Fails with SHMA_ERROR_INVALID_SEGMENT if
/// the bytes of the dictionary are broken.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_find_string(
    dict: Option<&shma_dict>,
    key: *const c_char,
    size_bytes: usize,
    index_out: Option<&mut usize>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        // SAFETY: `list_of` needs NULL or `size_bytes` bytes that do not change during the call: P3
        // of the crate, which the C caller guarantees.
        let bytes = unsafe { list_of("key", key.cast::<u8>(), size_bytes) }?;
        find(dict, std::str::from_utf8(bytes).ok().map(Key::String), index_out)
    })
}

/// Does the same as shma_dict_find_string for a key of bytes, which may be any.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_dict_find_bytes(
    dict: Option<&shma_dict>,
    key: *const c_void,
    size_bytes: usize,
    index_out: Option<&mut usize>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        // SAFETY: `list_of` needs NULL or `size_bytes` bytes that do not change during the call: P3
        // of the crate, which the C caller guarantees.
        let bytes = unsafe { list_of("key", key.cast::<u8>(), size_bytes) }?;
        find(dict, Some(Key::Bytes(bytes)), index_out)
    })
}

/// Does the same as shma_dict_find_string for an integer.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn shma_dict_find_integer(
    dict: Option<&shma_dict>,
    key: i64,
    index_out: Option<&mut usize>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || find(dict, Some(Key::Integer(key)), index_out))
}

/// Finds a key; `None` is one that no dictionary has.
fn find(
    dict: Option<&shma_dict>,
    key: Option<Key<'_>>,
    index_out: Option<&mut usize>,
) -> Result<shma_status, Failure> {
    let dict = &needed("dict", dict)?.dict;
    let index_out = index_out.ok_or(Failure::Null("index_out"))?;
    let found = key.map_or(Ok(None), |key| dict.find(key))?;
    let Some(index) = found else { return Ok(SHMA_ABSENT) };
    *index_out = index as usize;
    Ok(SHMA_OK)
}

/// Closes a dictionary. Its memory is given back when no process holds it any more; arrays that
/// were made of its values hold it, too.
#[unsafe(no_mangle)]
pub extern "C" fn shma_dict_close(dict: Option<Box<shma_dict>>) {
    guard(None, || {
        drop(dict);
        Ok(())
    });
}
