//! The C ABI on systems other than Linux, by the portable backend on Linux: arrays work, and what
//! only Linux has is there and fails with SHMA_ERROR_UNSUPPORTED.
#![cfg(any(shmarray_portable, not(target_os = "linux")))]
#![allow(missing_docs, unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};

use shmarray_ffi::array::{SHMA_READ_WRITE, shma_array, shma_array_close, shma_array_create};
use shmarray_ffi::channel::*;
use shmarray_ffi::delivery::*;
use shmarray_ffi::dtype::SHMA_INT32;
use shmarray_ffi::error::{SHMA_ERROR_UNSUPPORTED, SHMA_MESSAGE_BYTES, SHMA_OK, shma_error};
use shmarray_ffi::loan::*;
use shmarray_ffi::message::*;

fn no_error() -> shma_error {
    shma_error { status: 0, os_errno: 0, message: [0; SHMA_MESSAGE_BYTES] }
}

/// Calls a function, which must fail as unsupported and say so.
fn refused(call: impl FnOnce(&mut shma_error) -> i32) {
    let mut error = no_error();
    assert_eq!(call(&mut error), SHMA_ERROR_UNSUPPORTED);
    assert_eq!(error.status, SHMA_ERROR_UNSUPPORTED);
    // SAFETY: the text ends in a zero byte: the array was zeros, and the library writes whole texts
    // that are shorter.
    let text = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    let said = text.to_str().unwrap();
    assert!(said.contains("pipes for arrays") || said.contains("channels"), "{said:?}");
}

#[test]
fn every_function_of_pipes_fails_as_unsupported() {
    let mut one = null_mut::<shma_pipe>();
    let mut other = null_mut::<shma_pipe>();
    let mut message = null_mut::<shma_message>();
    let mut array = null_mut::<shma_array>();
    let fd: c_int = 0;
    // SAFETY: every output is a local variable, and every list is empty.
    refused(|error| unsafe { shma_pipe_pair(&mut one, &mut other, Some(error)) });
    // SAFETY: the output is a local variable; the fd is open and is not used.
    refused(|error| unsafe { shma_pipe_from_fd(fd, &mut one, Some(error)) });
    // SAFETY: there is no pipe, and the two lists are empty.
    refused(|error| unsafe { shma_pipe_send(None, null(), 0, null(), 0, 0, Some(error)) });
    // SAFETY: there is no pipe, and the output is a local variable.
    refused(|error| unsafe { shma_pipe_receive(None, 0, &mut message, Some(error)) });
    // SAFETY: there is no message, and the output is a local variable.
    refused(|error| unsafe {
        shma_message_array(None, 0, SHMA_READ_WRITE, &mut array, Some(error))
    });
    assert!(one.is_null() && other.is_null() && message.is_null() && array.is_null());
    assert_eq!((shma_pipe_fd(None), shma_message_count(None)), (-1, 0));
    assert!(shma_message_payload(None, None).is_null());
    shma_pipe_close(None);
    shma_message_close(None);
}

#[test]
fn every_function_of_channels_fails_as_unsupported() {
    let mut channel = null_mut::<shma_channel>();
    let mut loan = null_mut::<shma_loan>();
    let mut delivery = null_mut::<shma_delivery>();
    let mut ready = 0;
    let mut fd = 0;
    let name = c"numbers".as_ptr();
    // SAFETY: the name is a text, every output is a local variable, and the options are NULL.
    refused(|error| unsafe {
        shma_channel_create(name, SHMA_INT32, 0, null(), null(), null(), &mut channel, Some(error))
    });
    // SAFETY: the name is a text, the output is a local variable, and the options are NULL.
    refused(|error| unsafe {
        shma_channel_create_by_handle(name, null(), &mut channel, Some(error))
    });
    // SAFETY: the name is a text, and the output is a local variable.
    refused(|error| unsafe { shma_channel_open(name, 1, 0, &mut channel, Some(error)) });
    // SAFETY: there is no channel and no shape, and the output is a local variable.
    refused(|error| unsafe { shma_channel_loan(None, 0, null(), 0, &mut loan, Some(error)) });
    // SAFETY: there is no loan and no metadata.
    refused(|error| unsafe { shma_loan_publish(None, null(), 0, None, Some(error)) });
    // SAFETY: there is no channel, no shape and no metadata.
    refused(|error| unsafe {
        shma_channel_send(
            None,
            null(),
            SHMA_INT32,
            0,
            null(),
            null(),
            null(),
            0,
            0,
            None,
            Some(error),
        )
    });
    // SAFETY: there is no channel, no array and no metadata.
    refused(|error| unsafe {
        shma_channel_send_array(None, None, null(), 0, 0, None, Some(error))
    });
    // SAFETY: there is no channel, and the output is a local variable.
    refused(|error| unsafe { shma_channel_receive(None, 0, &mut delivery, Some(error)) });
    // SAFETY: there is no channel, and the output is a local variable.
    refused(|error| unsafe { shma_channel_is_ready(None, Some(&mut ready), Some(error)) });
    // SAFETY: there is no channel, and the output is a local variable.
    refused(|error| unsafe { shma_channel_fd(None, Some(&mut fd), Some(error)) });
    assert!(channel.is_null() && loan.is_null() && delivery.is_null());
    shma_loan_cancel(None);
    shma_delivery_close(None);
    shma_channel_end(None);
    shma_channel_close(None);
}

#[test]
fn arrays_can_be_made() {
    let shape = [2i64, 3];
    let mut array = null_mut::<shma_array>();
    // SAFETY: the shape has two numbers, and the output is a local variable.
    let status =
        unsafe { shma_array_create(SHMA_INT32, 2, shape.as_ptr(), null(), &mut array, None) };
    assert_eq!(status, SHMA_OK);
    // SAFETY: `shma_array_create` succeeded, so `array` is one that nobody else has.
    unsafe { shma_array_close(array) };
}
