//! `shma_loan_*`, `shma_channel_loan`, `shma_channel_send`: the C functions that send by a channel.

use std::ffi::c_void;
use std::sync::Arc;

use shmarray::{Array, Error, Layout, Loan, Loaned, Options, Posted};

use crate::arguments::{Object, invalid, list, needed, put, shape as shape_of};
use crate::array::{shma_array, strides_of};
use crate::channel::shma_channel;
use crate::dtype::{SHMA_OPAQUE, shma_dtype};
use crate::error::{
    Failure, SHMA_FULL, SHMA_OK, SHMA_TIMED_OUT, guard, guard_outcome, shma_error, shma_status,
};
use crate::options::read_options;
use crate::waiting::wait;

/// A slot on loan: an array that a sender fills, and then publishes or cancels.
pub struct shma_loan {
    loan: Loan,
    /// Callers may retain it.
    array: Arc<shma_array>,
}

impl Object for shma_loan {}

/// Takes a slot on loan, to be filled in place. The caller publishes or cancels it.
///
/// shape is NULL, or in a channel of varying shapes has the ndim numbers of this message.
/// timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until a slot is free. Returns
/// SHMA_TIMED_OUT if none was in that time, SHMA_FULL if none is and the channel was created with
/// SHMA_WHEN_FULL_ERROR. Fails with SHMA_ERROR_INVALID_ARGUMENT if the shape does not fit, or if
/// another thread ends the channel by shma_channel_end meanwhile, and with
/// SHMA_ERROR_PERMISSION_DENIED if the channel is another user's.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_loan(
    channel: Option<&shma_channel>,
    ndim: usize,
    shape: *const i64,
    timeout_ns: i64,
    loan_out: *mut *mut shma_loan,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let channel = &needed("channel", channel)?.channel;
        if loan_out.is_null() {
            return Err(Failure::Null("loan_out"));
        }
        let loaned = if shape.is_null() {
            wait(timeout_ns, |left| channel.loan(left))?
        } else {
            // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller
            // guarantees.
            let shape = unsafe { shape_of(shape, ndim) }?;
            wait(timeout_ns, |left| channel.loan_shape(&shape, left))?
        };
        let loan = match loaned {
            Loaned::Loan(loan) => loan,
            Loaned::TimedOut => return Ok(SHMA_TIMED_OUT),
            Loaned::Full => return Ok(SHMA_FULL),
            _ => return Err(Error::UNKNOWN_OUTCOME.into()),
        };
        let array = Arc::new(shma_array(loan.array().clone()));
        // SAFETY: `put` needs an output that is valid for a write: `loan_out` is not NULL (checked
        // above), so P4 of the crate applies.
        unsafe { put(loan_out, shma_loan { loan, array }) };
        Ok(SHMA_OK)
    })
}

/// Returns the array to fill, which the loan owns: it is valid until the loan is published or
/// cancelled. Its elements are what the slot's last message left.
#[unsafe(no_mangle)]
pub extern "C" fn shma_loan_array(loan: Option<&shma_loan>) -> *const shma_array {
    loan.map_or(std::ptr::null(), |loan| Arc::as_ptr(&loan.array))
}

/// Publishes a loan, with at most SHMA_MAX_META_BYTES of metadata, and frees it, also if the call
/// fails: then nobody receives anything.
///
/// Writes the message's sequence number, which counts from 0, to sequence_out, which may be NULL.
/// Fails with SHMA_ERROR_INVALID_ARGUMENT if the metadata is too long, or if a view of the array or
/// a shma_array_retain of it was not closed: it could write to the message.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_loan_publish(
    loan: Option<Box<shma_loan>>,
    meta: *const c_void,
    meta_bytes: usize,
    sequence_out: Option<&mut u64>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let loan = loan.ok_or(Failure::Null("loan"))?;
        // SAFETY: `list` needs NULL or `meta_bytes` bytes that do not change during the call: P3 of
        // the crate, which the C caller guarantees.
        let meta = unsafe { list("meta", meta.cast::<u8>(), meta_bytes) }?;
        let shma_loan { loan, array } = *loan;
        drop(array);
        if loan.has_views() {
            let reason = "its array was retained, or has a view, which could write to the message";
            return Err(invalid("loan", reason.to_owned()));
        }
        let sequence = loan.publish(meta)?;
        if let Some(out) = sequence_out {
            *out = sequence;
        }
        Ok(())
    })
}

/// Frees a loan. Nobody receives anything. Its slot is given back when no retained array and no
/// view of it is left.
#[unsafe(no_mangle)]
pub extern "C" fn shma_loan_cancel(loan: Option<Box<shma_loan>>) {
    guard(None, || {
        drop(loan);
        Ok(())
    });
}

/// Sends a copy of private memory; a channel of handles sends a shared copy. data points to the
/// first element.
///
/// strides has ndim numbers of bytes; NULL stands for contiguous elements in C order. The dtype,
/// and unless the shapes vary, the shape are the channel's. Other arguments, outcomes and errors
/// are as for shma_channel_loan and shma_loan_publish; SHMA_ERROR_DTYPE_MISMATCH.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `data`, `shape` and `strides` describe
/// elements that can all be read.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_send(
    channel: Option<&shma_channel>,
    data: *const c_void,
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    strides: *const i64,
    meta: *const c_void,
    meta_bytes: usize,
    timeout_ns: i64,
    sequence_out: Option<&mut u64>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let channel = &needed("channel", channel)?.channel;
        let dtype = match dtype {
            SHMA_OPAQUE => channel.dtype().clone(),
            // SAFETY: `read_options` needs NULL or a struct, and gets NULL.
            other => unsafe { read_options(other, std::ptr::null()) }?.0,
        };
        // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller guarantees.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `strides_of` needs NULL or as many numbers as `shape` has, which is `ndim`: P3 of
        // the crate, which the C caller guarantees.
        let strides = unsafe { strides_of(strides, &shape, &dtype) }?;
        let layout = Layout { shape, strides, offset: 0 };
        if data.is_null() && !layout.is_empty() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: `list` needs NULL or `meta_bytes` bytes that do not change during the call: P3 of
        // the crate, which the C caller guarantees.
        let meta = unsafe { list("meta", meta.cast::<u8>(), meta_bytes) }?;
        let data = data.cast();
        if channel.has_handles() {
            // The copy is made before the wait, and once: handlers may interrupt the wait often.
            // SAFETY: `share` needs elements that can be read, which the C caller guarantees by the
            // `# Safety` section.
            let shared = unsafe { Array::share(data, dtype, &layout, &Options::new()) }?;
            let sent = wait(timeout_ns, |left| channel.send_array(&shared, meta, left));
            return posted(sent?, sequence_out);
        }
        // SAFETY: `send` needs elements that can be read, which the C caller guarantees by the
        // `# Safety` section.
        let sent =
            wait(timeout_ns, |left| unsafe { channel.send(data, &dtype, &layout, meta, left) });
        posted(sent?, sequence_out)
    })
}

/// Sends a shared array: a copy of its elements, or in a channel of handles the array itself.
/// Arguments, outcomes and errors are as for shma_channel_send.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_send_array(
    channel: Option<&shma_channel>,
    array: Option<&shma_array>,
    meta: *const c_void,
    meta_bytes: usize,
    timeout_ns: i64,
    sequence_out: Option<&mut u64>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let channel = &needed("channel", channel)?.channel;
        let array = &needed("array", array)?.0;
        // SAFETY: `list` needs NULL or `meta_bytes` bytes that do not change during the call: P3 of
        // the crate, which the C caller guarantees.
        let meta = unsafe { list("meta", meta.cast::<u8>(), meta_bytes) }?;
        let sent = wait(timeout_ns, |left| channel.send_array(array, meta, left));
        posted(sent?, sequence_out)
    })
}

fn posted(posted: Posted, sequence_out: Option<&mut u64>) -> Result<shma_status, Failure> {
    match posted {
        Posted::Posted(sequence) => {
            if let Some(out) = sequence_out {
                *out = sequence;
            }
            Ok(SHMA_OK)
        }
        Posted::TimedOut => Ok(SHMA_TIMED_OUT),
        Posted::Full => Ok(SHMA_FULL),
        _ => Err(Error::UNKNOWN_OUTCOME.into()),
    }
}
