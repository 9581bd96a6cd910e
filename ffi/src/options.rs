//! `shma_options`: the choices of a creation, in a struct that grows.

use std::ffi::c_char;

use shmarray::{DType, Error, Options, Order};

use crate::arguments::{invalid, optional_text};
use crate::dtype::{agrees, resolve, shma_dtype};
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

/// A struct of options, which the caller initializes and to which later versions add fields.
///
/// # Safety
/// It begins with its size in bytes as a `usize`, it has no padding, and every bit pattern is a
/// value of its fields.
pub(crate) unsafe trait Growing: Copy {
    /// The sizes that the struct has had, of the first version and of each that added fields. It
    /// has no padding, so each size is the end of a field.
    const SIZES: &'static [usize];
    /// The macro that initializes it.
    const INITIALIZER: &'static str;
}

// SAFETY: `Growing` needs the size first, no padding and fields that take every bit pattern: the
// fields are numbers and raw pointers, and the assertion below adds up their sizes.
unsafe impl Growing for shma_options {
    const SIZES: &'static [usize] = &[48];
    const INITIALIZER: &'static str = "SHMA_OPTIONS_INIT";
}

const _: () = assert!(shma_options::SIZES[0] == size_of::<shma_options>());

/// Larger sizes are those of an uninitialized struct.
const LARGEST_SIZE: usize = 4096;

/// Whether a struct of that size is one of these versions, or may be of a later one.
fn is_a_size(struct_bytes: usize, sizes: &[usize]) -> bool {
    let later = sizes.last().is_some_and(|last| struct_bytes > *last)
        && struct_bytes <= LARGEST_SIZE
        && struct_bytes.next_multiple_of(align_of::<usize>()) == struct_bytes;
    later || sizes.contains(&struct_bytes)
}

/// Returns this version's fields of the caller's struct, which another version may have compiled.
///
/// # Safety
/// `options` points to a struct that begins with a `usize`, which is the struct's size in bytes.
pub(crate) unsafe fn copied<T: Growing>(options: *const T) -> Result<T, Failure> {
    // SAFETY: a read needs a live aligned `usize`: every version of the struct begins with
    // `struct_bytes`, and the caller of this function guarantees the struct.
    let struct_bytes = unsafe { options.cast::<usize>().read() };
    if !is_a_size(struct_bytes, T::SIZES) {
        let initializer = T::INITIALIZER;
        let reason = format!("{struct_bytes} is no version's size: initialize with {initializer}");
        return Err(invalid("struct_bytes", reason));
    }
    // SAFETY: `from_raw_parts` needs that many initialized bytes, which the caller guarantees by
    // the `# Safety` section; `is_a_size` has refused the sizes of uninitialized structs.
    let bytes = unsafe { std::slice::from_raw_parts(options.cast::<u8>(), struct_bytes) };
    let (current, later) = bytes.split_at(struct_bytes.min(size_of::<T>()));
    if let Some(position) = later.iter().position(|byte| *byte != 0) {
        let at = current.len() + position;
        let reason = format!("a field of a later version is set: byte {at} of {struct_bytes}");
        return Err(invalid("options", reason));
    }
    let mut copy = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `current` has at most the bytes of the struct (`min` above), and `copy` is a local of
    // this function, so the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(current.as_ptr(), copy.as_mut_ptr().cast(), current.len())
    };
    // SAFETY: every bit pattern is a value of the struct, as `Growing` demands, and `zeroed` has
    // initialized the bytes that were not copied.
    Ok(unsafe { copy.assume_init() })
}

/// The caller's options of one array, without their dtype.
pub(crate) struct Chosen<'a> {
    options: Options,
    order: shma_order,
    name: Option<&'a str>,
    dtype_text: Option<&'a str>,
    itemsize: u64,
}

impl Chosen<'_> {
    /// Converts options. NULL stands for the defaults.
    ///
    /// # Safety
    /// `options` is NULL or points to a struct as `copied` requires. Its texts are as P2 of the
    /// crate requires, and live as long as the result.
    pub(crate) unsafe fn read(options: *const shma_options) -> Result<Self, Failure> {
        if options.is_null() {
            let options = Options::default();
            let order = SHMA_ORDER_C;
            return Ok(Self { options, order, name: None, dtype_text: None, itemsize: 0 });
        }
        // SAFETY: `copied` needs a struct that begins with its size, which the caller of this
        // function guarantees by the `# Safety` section. It is not NULL (checked above).
        let options = unsafe { copied(options) }?;
        // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of
        // this function guarantees for `options.name` by the `# Safety` section.
        let name = unsafe { optional_text("name", options.name) }?;
        // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of
        // this function guarantees for `options.dtype_text` by the `# Safety` section.
        let dtype_text = unsafe { optional_text("dtype_text", options.dtype_text) }?;
        let order = options.order;
        let itemsize = options.itemsize;
        let options = Options::new()
            .order(order_of(order)?)
            .persist(options.persist != 0)
            .mode(if options.mode == 0 { 0o600 } else { options.mode })
            .uninitialized(options.uninitialized != 0);
        let options = name.into_iter().fold(options, Options::name);
        Ok(Self { options, order, name, dtype_text, itemsize })
    }

    /// Returns the options for an array with this dtype that is read from a file. Options that
    /// contradict the file are an error.
    pub(crate) fn of_file(&self, dtype: &DType) -> Result<&Options, Error> {
        if self.order != SHMA_ORDER_C {
            let reason = "the file says in which order its elements lie".to_owned();
            return Err(Error::InvalidArgument { argument: "order", reason });
        }
        if let Some(expected) = self.dtype_text.filter(|text| *text != dtype.text()) {
            let expected = expected.to_owned();
            let found = dtype.text().to_owned();
            return Err(Error::DTypeMismatch { expected, found });
        }
        agrees(dtype, None, self.itemsize)?;
        Ok(&self.options)
    }

    /// Returns the options of a list, which says by itself what its bytes are.
    pub(crate) fn of_list(&self) -> &Options {
        &self.options
    }

    /// Returns the options of several arrays of files. A name is an error: it is that of one array.
    pub(crate) fn of_files(&self) -> Result<&Self, Failure> {
        match self.name {
            None => Ok(self),
            Some(name) => Err(invalid("name", format!("{name:?} can only be that of one array"))),
        }
    }
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
    // SAFETY: `Chosen::read` needs NULL or a struct that begins with its size, and live texts,
    // which the caller of this function guarantees by the `# Safety` section.
    let chosen = unsafe { Chosen::read(options) }?;
    Ok((resolve(dtype, chosen.dtype_text, chosen.itemsize)?, chosen.options))
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
            assert!(is_a_size(size, &sizes), "{size}");
        }
        for size in [0, 8, 40, 47, 52, 64, 73, 76, LARGEST_SIZE + 8, usize::MAX] {
            assert!(!is_a_size(size, &sizes), "{size}");
        }
    }
}
