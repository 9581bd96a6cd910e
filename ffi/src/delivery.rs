//! `shma_delivery_*` and `shma_channel_receive`: the C functions that receive by a channel.

use std::ffi::c_void;
use std::sync::Arc;

use shmarray::{Delivered, Delivery, Error};

use crate::arguments::{Object, needed, put};
use crate::array::shma_array;
use crate::channel::shma_channel;
use crate::error::{
    Failure, SHMA_CLOSED, SHMA_OK, SHMA_SENDER_DIED, SHMA_TIMED_OUT, guard, guard_outcome,
    shma_error, shma_status,
};
use crate::waiting::wait;

/// A message that was received: an array, which keeps its slot until the delivery is closed.
pub struct shma_delivery {
    message: Delivery,
    /// Callers may retain it.
    array: Arc<shma_array>,
}

impl Object for shma_delivery {}

/// Receives a message. The caller closes it with shma_delivery_close.
///
/// timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until there is a message or
/// the stream has ended. Returns SHMA_TIMED_OUT if none came in that time; SHMA_CLOSED if no
/// process sends any more and everything was received; SHMA_SENDER_DIED if the same holds and the
/// last sender died. Of the latest value it receives the value as it is now, as often as it is
/// called, and waits only for the first one: shma_channel_wait_newer waits for the next. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if another thread ends the channel by shma_channel_end meanwhile.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_receive(
    channel: Option<&shma_channel>,
    timeout_ns: i64,
    delivery_out: *mut *mut shma_delivery,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let channel = &needed("channel", channel)?.channel;
        if delivery_out.is_null() {
            return Err(Failure::Null("delivery_out"));
        }
        let delivery = match wait(timeout_ns, |left| channel.receive(left))? {
            Delivered::Message(delivery) => delivery,
            Delivered::TimedOut => return Ok(SHMA_TIMED_OUT),
            Delivered::Ended { died: false, .. } => return Ok(SHMA_CLOSED),
            Delivered::Ended { died: true, .. } => return Ok(SHMA_SENDER_DIED),
            _ => return Err(Error::UNKNOWN_OUTCOME.into()),
        };
        let array = Arc::new(shma_array(delivery.array().clone()));
        // SAFETY: `put` needs an output that is valid for a write: `delivery_out` is not NULL
        // (checked above), so P4 of the crate applies.
        unsafe { put(delivery_out, shma_delivery { message: delivery, array }) };
        Ok(SHMA_OK)
    })
}

/// Returns the array of a message, which the delivery owns: it is valid until the delivery is
/// closed.
///
/// A shma_array_retain or a view of it keeps the slot, too, so that a sender may wait for it. A
/// shma_array_share of its elements, or a memcpy, is a copy.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_array(delivery: Option<&shma_delivery>) -> *const shma_array {
    delivery.map_or(std::ptr::null(), |delivery| Arc::as_ptr(&delivery.array))
}

/// Returns the number of the message: 0 for the first of the channel, 1 more for each after it.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_sequence(delivery: Option<&shma_delivery>) -> u64 {
    delivery.map_or(0, |delivery| delivery.message.sequence())
}

/// Returns when the message was published, in nanoseconds since 1970.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_time_ns(delivery: Option<&shma_delivery>) -> u64 {
    delivery.map_or(0, |delivery| delivery.message.time_ns())
}

/// Returns the time since the message was published, in nanoseconds, by the system's clock.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_age_ns(delivery: Option<&shma_delivery>) -> u64 {
    delivery.map_or(0, |delivery| delivery.message.age().as_nanos() as u64)
}

/// Returns how many messages were dropped since the one that was received before. In a queue one of
/// the receivers is told of each.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_missed(delivery: Option<&shma_delivery>) -> u64 {
    delivery.map_or(0, |delivery| delivery.message.missed())
}

/// Returns the metadata of a message and writes its size to bytes_out, which may be NULL. Valid
/// until the delivery is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_meta(
    delivery: Option<&shma_delivery>,
    bytes_out: Option<&mut usize>,
) -> *const c_void {
    let meta = delivery.map(|delivery| delivery.message.meta());
    if let Some(bytes) = bytes_out {
        *bytes = meta.map_or(0, <[u8]>::len);
    }
    meta.map_or(std::ptr::null(), |meta| meta.as_ptr().cast())
}

/// Frees a delivery. Its slot is given back when no retained array and no view of it is left.
#[unsafe(no_mangle)]
pub extern "C" fn shma_delivery_close(delivery: Option<Box<shma_delivery>>) {
    guard(None, || {
        drop(delivery);
        Ok(())
    });
}
