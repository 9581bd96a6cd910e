//! `shma_options`: the choices of a creation, in a struct that grows.

use std::ffi::c_char;

use shmarray::{DType, Options, Order};

use crate::arguments::{invalid, optional_text};
use crate::dtype::{resolve, shma_dtype};
use crate::error::Failure;

/// The order of elements in memory: SHMA_ORDER_C or SHMA_ORDER_F.
pub type shma_order = i32;
/// The last dimension varies fastest.
pub const SHMA_ORDER_C: shma_order = 0;
/// The first dimension varies fastest.
pub const SHMA_ORDER_F: shma_order = 1;

/// Creation options. Initialize them with SHMA_OPTIONS_INIT and set what differs from the defaults.
///
/// Later versions add fields at the end. A library refuses a field that it does not know unless
/// that field is zero, and takes fields that the caller does not know for zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct shma_options {
    /// sizeof(shma_options), by which the library knows which fields the caller has.
    pub struct_bytes: usize,
    /// A name for the array, 1 to 64 characters of A-Z a-z 0-9 . _ -, or NULL.
    pub name: *const c_char,
    /// If not 0, the array lives until its name is unlinked, even without a holder. Needs a name.
    /// Only on Linux.
    pub persist: i32,
    /// The permission bits of the segment; 0 stands for 0600. Another mode only on Linux.
    pub mode: u32,
    /// SHMA_ORDER_C or SHMA_ORDER_F.
    pub order: shma_order,
    /// If not 0, the memory is not zeroed and may have bytes of this user's earlier arrays.
    pub uninitialized: u32,
    /// The size of one element in bytes, for SHMA_OPAQUE without dtype_text. Otherwise 0, or the
    /// size that the dtype has.
    pub itemsize: u64,
    /// The dtype's text as in a handle, for SHMA_OPAQUE; NULL for plain bytes of that itemsize.
    /// Otherwise NULL, or the text that the dtype has.
    pub dtype_text: *const c_char,
}

/// The sizes that the struct has had, of the first version and of each that added fields. It has no
/// padding, so each size is the end of a field.
const SIZES: [usize; 1] = [48];

const _: () = assert!(SIZES[SIZES.len() - 1] == size_of::<shma_options>());

/// Larger sizes are those of an uninitialized struct.
const LARGEST_SIZE: usize = 4096;

/// Checks that a struct of that size is one of these versions, or may be of a later one.
fn check_size(struct_bytes: usize, sizes: &[usize]) -> Result<(), Failure> {
    let later = sizes.last().is_some_and(|last| struct_bytes > *last)
        && struct_bytes <= LARGEST_SIZE
        && struct_bytes.next_multiple_of(align_of::<shma_options>()) == struct_bytes;
    match later || sizes.contains(&struct_bytes) {
        true => Ok(()),
        false => Err(invalid(
            "struct_bytes",
            format!("{struct_bytes} is no version's size: initialize with SHMA_OPTIONS_INIT"),
        )),
    }
}

/// Returns this version's fields of the caller's struct, which another version may have compiled.
///
/// # Safety
/// `options` points to a struct that begins with a `usize`, which is the struct's size in bytes.
unsafe fn copied(options: *const shma_options) -> Result<shma_options, Failure> {
    // SAFETY: a read needs a live aligned `usize`: every version of the struct begins with
    // `struct_bytes`, and the caller of this function guarantees the struct.
    let struct_bytes = unsafe { options.cast::<usize>().read() };
    check_size(struct_bytes, &SIZES)?;
    // SAFETY: `from_raw_parts` needs that many initialized bytes, which the caller guarantees by
    // the `# Safety` section; `check_size` has refused the sizes of uninitialized structs.
    let bytes = unsafe { std::slice::from_raw_parts(options.cast::<u8>(), struct_bytes) };
    let (known, later) = bytes.split_at(struct_bytes.min(size_of::<shma_options>()));
    if let Some(position) = later.iter().position(|byte| *byte != 0) {
        let at = known.len() + position;
        let reason = format!("a field of a later version is set: byte {at} of {struct_bytes}");
        return Err(invalid("options", reason));
    }
    let mut copy = std::mem::MaybeUninit::<shma_options>::zeroed();
    // SAFETY: `known` has at most the bytes of the struct (`min` above), and `copy` is a local of
    // this function, so the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(known.as_ptr(), copy.as_mut_ptr().cast(), known.len()) };
    // SAFETY: every bit pattern is a value of the struct's fields, which are numbers and raw
    // pointers, and `zeroed` has initialized the bytes that were not copied.
    Ok(unsafe { copy.assume_init() })
}

/// Converts a dtype and options to those of core.
///
/// # Safety
/// `options` is NULL or points to a struct as `copied` requires, and its texts are as P2 of the
/// crate requires.
pub(crate) unsafe fn read_options(
    dtype: shma_dtype,
    options: *const shma_options,
) -> Result<(DType, Options), Failure> {
    if options.is_null() {
        return Ok((resolve(dtype, None, 0)?, Options::default()));
    }
    // SAFETY: `copied` needs a struct that begins with its size, which the caller of this function
    // guarantees by the `# Safety` section. It is not NULL (checked above).
    let options = unsafe { copied(options) }?;
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of this
    // function guarantees for `options.name` by the `# Safety` section.
    let name = unsafe { optional_text("name", options.name) }?;
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of this
    // function guarantees for `options.dtype_text` by the `# Safety` section.
    let dtype_text = unsafe { optional_text("dtype_text", options.dtype_text) }?;
    let read = Options::new()
        .order(order_of(options.order)?)
        .persist(options.persist != 0)
        .mode(if options.mode == 0 { 0o600 } else { options.mode })
        .uninitialized(options.uninitialized != 0);
    let read = name.into_iter().fold(read, Options::name);
    Ok((resolve(dtype, dtype_text, options.itemsize)?, read))
}

pub(crate) fn order_of(order: shma_order) -> Result<Order, Failure> {
    match order {
        SHMA_ORDER_C => Ok(Order::C),
        SHMA_ORDER_F => Ok(Order::F),
        _ => Err(invalid("order", format!("{order} is neither SHMA_ORDER_C nor SHMA_ORDER_F"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_ends_where_a_versions_fields_end() {
        let sizes = [48, 56, 72];
        for size in [48, 56, 72, 80, LARGEST_SIZE] {
            assert!(check_size(size, &sizes).is_ok(), "{size}");
        }
        for size in [0, 8, 40, 47, 52, 64, 73, 76, LARGEST_SIZE + 8, usize::MAX] {
            assert!(check_size(size, &sizes).is_err(), "{size}");
        }
    }
}
