//! `shma_options`: the choices of a creation, in a struct that grows.

use std::ffi::c_char;

use shmarray::{Options, Order};

use crate::arguments::{invalid, optional_text};
use crate::dtype::{resolve, shma_dtype};
use crate::error::Failure;

/// The order of elements in memory: SHMA_ORDER_C or SHMA_ORDER_F.
pub type shma_order = i32;
/// The last dimension varies fastest.
pub const SHMA_ORDER_C: shma_order = 0;
/// The first dimension varies fastest.
pub const SHMA_ORDER_F: shma_order = 1;

/// Creation options. Initialize them with SHMA_OPTIONS_INIT. All zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct shma_options {
    /// sizeof(shma_options), by which the library knows which fields the caller has; 0 stands for
    /// those of the library's version.
    pub struct_bytes: usize,
    /// A name for the array, 1 to 64 characters of A-Z a-z 0-9 . _ -, or NULL.
    pub name: *const c_char,
    /// If not 0, the array lives until its name is unlinked, even without a holder.
    pub persist: i32,
    /// The permission bits of the segment; 0 stands for 0600.
    pub mode: u32,
    /// SHMA_ORDER_C or SHMA_ORDER_F.
    pub order: shma_order,
    /// If not 0, the memory is not zeroed and may have bytes of this user's earlier arrays.
    pub uninitialized: u32,
    /// The size of one element in bytes, for SHMA_OPAQUE.
    pub itemsize: u64,
    /// The dtype's text as in a handle, for SHMA_OPAQUE; NULL for plain bytes of that itemsize.
    pub dtype_text: *const c_char,
}

/// Converts a dtype and options to those of core.
///
/// # Safety
/// The texts in `options` are as P2 of the crate requires.
pub(crate) unsafe fn read_options(
    dtype: shma_dtype,
    options: Option<&shma_options>,
) -> Result<(shmarray::DType, Options), Failure> {
    let Some(options) = options else { return Ok((resolve(dtype, None, 0)?, Options::default())) };
    if options.struct_bytes != 0 && options.struct_bytes < size_of::<shma_options>() {
        return Err(invalid(
            "options",
            format!("struct_bytes {}: no version of shma_options has it", options.struct_bytes),
        ));
    }
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of this
    // function guarantees for `options.name` by the `# Safety` section.
    let name = unsafe { optional_text("name", options.name) }?;
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text, which the caller of this
    // function guarantees for `options.dtype_text` by the `# Safety` section.
    let dtype_text = unsafe { optional_text("dtype_text", options.dtype_text) }?;
    let read = Options {
        order: order_of(options.order)?,
        name: name.map(str::to_owned),
        persist: options.persist != 0,
        mode: if options.mode == 0 { 0o600 } else { options.mode },
        uninitialized: options.uninitialized != 0,
    };
    Ok((resolve(dtype, dtype_text, options.itemsize)?, read))
}

pub(crate) fn order_of(order: shma_order) -> Result<Order, Failure> {
    match order {
        SHMA_ORDER_C => Ok(Order::C),
        SHMA_ORDER_F => Ok(Order::F),
        _ => Err(invalid("order", format!("{order} is neither SHMA_ORDER_C nor SHMA_ORDER_F"))),
    }
}
