//! `shma_channel_*`: the C functions that make, open and close channels.
//!
//! Only Linux has channels. Elsewhere none can be created or opened.

use std::ffi::{c_char, c_int};
use std::fmt::Display;

use shmarray::{Channel, ChannelMode, ChannelOptions, Error, Receives, WaitOutcome, WhenFull};

use crate::arguments::{Object, invalid, needed, produce, put, put_text, shape as shape_of, text};
use crate::dtype::{SHMA_OPAQUE, shma_dtype};
use crate::error::{
    Failure, SHMA_CLOSED, SHMA_OK, SHMA_SENDER_DIED, SHMA_TIMED_OUT, guard, guard_outcome,
    shma_error, shma_status,
};
use crate::options::{Growing, copied, read_options, shma_options};
use crate::waiting::wait;

/// A channel: a bounded queue of arrays, which any process opens by its name or its handle. Only on
/// Linux.
///
/// Several threads may use one. Close it with shma_channel_close.
pub struct shma_channel {
    pub(crate) channel: Channel,
    dtype: shma_dtype,
    shape: Vec<i64>,
}

impl Object for shma_channel {}

impl shma_channel {
    fn new(channel: Channel) -> Self {
        let dtype = channel.dtype().code() as i32;
        let shape = channel.shape().iter().map(|count| *count as i64).collect();
        Self { channel, dtype, shape }
    }
}

/// Who receives a message: SHMA_CHANNEL_QUEUE, SHMA_CHANNEL_BROADCAST or SHMA_CHANNEL_LATEST.
pub type shma_channel_mode = i32;
/// One of the receivers.
pub const SHMA_CHANNEL_QUEUE: shma_channel_mode = 0;
/// Each receiver, from when it joined.
pub const SHMA_CHANNEL_BROADCAST: shma_channel_mode = 1;
/// Each receiver, which reads the last message as often as it likes. No sender waits for receivers.
/// Such a channel has at least 3 slots; half of them can be looked at in place, and a value in the
/// other half is copied when it is received.
pub const SHMA_CHANNEL_LATEST: shma_channel_mode = 2;

/// What a sender does when all slots are taken.
pub type shma_when_full = i32;
/// It waits.
pub const SHMA_WHEN_FULL_BLOCK: shma_when_full = 0;
/// It drops the oldest message; receivers are told how many they missed.
pub const SHMA_WHEN_FULL_DROP_OLDEST: shma_when_full = 1;
/// It returns SHMA_FULL at once.
pub const SHMA_WHEN_FULL_ERROR: shma_when_full = 2;

/// Options of a new channel. Initialize them with SHMA_CHANNEL_OPTIONS_INIT and set what differs
/// from the defaults.
///
/// Later versions add fields at the end, as for shma_options.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct shma_channel_options {
    /// sizeof(shma_channel_options), by which the library knows which fields the caller has.
    pub struct_bytes: usize,
    /// The number of slots, at most 1023; 0 stands for 8. A message takes one until it was received
    /// by all that it goes to, and released.
    pub slots: u32,
    /// How many processes and threads can have the channel open, at most 1023; 0 stands for 128.
    pub ends: u32,
    /// SHMA_CHANNEL_QUEUE, SHMA_CHANNEL_BROADCAST or SHMA_CHANNEL_LATEST.
    pub mode: shma_channel_mode,
    /// SHMA_WHEN_FULL_BLOCK, SHMA_WHEN_FULL_DROP_OLDEST or SHMA_WHEN_FULL_ERROR.
    pub when_full: shma_when_full,
    /// If not 0, each message has a shape of its own, of at most 8 dimensions; the shape of the
    /// channel is the largest.
    pub varying: i32,
    /// If not 0, an existing channel of the same description is opened instead.
    pub exist_ok: i32,
    /// If not 0, the channel lives until its name is unlinked, even if no process has it open.
    pub persist: i32,
    /// The permission bits of the segment; 0 stands for 0600. With 0644 processes of other users
    /// can follow a broadcast or the latest value: they copy it, and no sender waits for them.
    pub file_mode: u32,
}

// SAFETY: `Growing` needs the size first, no padding and fields that take every bit pattern: the
// fields are numbers, and the assertion below adds up their sizes.
unsafe impl Growing for shma_channel_options {
    const SIZES: &'static [usize] = &[40];
    const INITIALIZER: &'static str = "SHMA_CHANNEL_OPTIONS_INIT";
}

const _: () = assert!(shma_channel_options::SIZES[0] == size_of::<shma_channel_options>());

/// Converts options. NULL stands for the defaults.
///
/// # Safety
/// `options` is NULL or points to a struct as `copied` requires.
unsafe fn chosen(options: *const shma_channel_options) -> Result<ChannelOptions, Failure> {
    let plain = ChannelOptions::new();
    if options.is_null() {
        return Ok(plain);
    }
    // SAFETY: `copied` needs a struct that begins with its size, which the caller of this function
    // guarantees by the `# Safety` section. It is not NULL (checked above).
    let options = unsafe { copied(options) }?;
    let mode = match options.mode {
        SHMA_CHANNEL_QUEUE => ChannelMode::Queue,
        SHMA_CHANNEL_BROADCAST => ChannelMode::Broadcast,
        SHMA_CHANNEL_LATEST => ChannelMode::Latest,
        other => return Err(none_of("mode", other, "SHMA_CHANNEL_", &ChannelMode::ALL)),
    };
    let when_full = match options.when_full {
        SHMA_WHEN_FULL_BLOCK => WhenFull::Block,
        SHMA_WHEN_FULL_DROP_OLDEST => WhenFull::DropOldest,
        SHMA_WHEN_FULL_ERROR => WhenFull::Error,
        other => return Err(none_of("when_full", other, "SHMA_WHEN_FULL_", &WhenFull::ALL)),
    };
    let or = |chosen: u32, usual: u32| if chosen == 0 { usual } else { chosen };
    Ok(plain
        .slots(or(options.slots, 8))
        .ends(or(options.ends, 128))
        .mode(mode)
        .when_full(when_full)
        .varying(options.varying != 0)
        .exist_ok(options.exist_ok != 0)
        .persist(options.persist != 0)
        .file_mode(or(options.file_mode, 0o600)))
}

/// Refuses a number that is none of the constants for `choices`, and lists these.
fn none_of(argument: &'static str, number: i32, prefix: &str, choices: &[impl Display]) -> Failure {
    let constants = choices.iter().map(|choice| format!("{prefix}{choice}").to_uppercase());
    let constants = constants.collect::<Vec<_>>().join(", ");
    invalid(argument, format!("{number} is none of {constants}"))
}

/// Creates a channel whose messages are arrays of this dtype and shape, in C order.
///
/// element is NULL, or for SHMA_OPAQUE has the dtype_text or the itemsize; its other fields are
/// not used. options may be NULL. Fails with SHMA_ERROR_EXISTS, SHMA_ERROR_NO_SPACE,
/// SHMA_ERROR_INVALID_ARGUMENT and SHMA_ERROR_INVALID_DTYPE.
/// Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_create(
    name: *const c_char,
    dtype: shma_dtype,
    ndim: usize,
    shape: *const i64,
    element: *const shma_options,
    options: *const shma_channel_options,
    channel_out: *mut *mut shma_channel,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text` needs a text: P2 of the crate, which the C caller guarantees.
        let name = unsafe { text("name", name) }?;
        // SAFETY: `shape_of` needs `ndim` numbers: P3 of the crate, which the C caller guarantees.
        let shape = unsafe { shape_of(shape, ndim) }?;
        // SAFETY: `read_options` needs NULL or a struct with its size and texts: P1 and P2 of the
        // crate, which the C caller guarantees.
        let (dtype, _) = unsafe { read_options(dtype, element) }?;
        // SAFETY: `chosen` needs NULL or a struct with its size: P1 of the crate, which the C
        // caller guarantees.
        let options = unsafe { chosen(options) }?;
        let make = || Ok(shma_channel::new(Channel::create(name, dtype, &shape, &options)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `channel_out`.
        unsafe { produce("channel_out", channel_out, make) }
    })
}

/// Creates a channel whose messages are shared arrays outside of the channel: each message
/// holds its array until it is received. Fails like shma_channel_create.
/// Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_create_by_handle(
    name: *const c_char,
    options: *const shma_channel_options,
    channel_out: *mut *mut shma_channel,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text` needs a text: P2 of the crate, which the C caller guarantees.
        let name = unsafe { text("name", name) }?;
        // SAFETY: `chosen` needs NULL or a struct with its size: P1 of the crate, which the C
        // caller guarantees.
        let options = unsafe { chosen(options) }?;
        let make = || Ok(shma_channel::new(Channel::create_by_handle(name, &options)?));
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `channel_out`.
        unsafe { produce("channel_out", channel_out, make) }
    })
}

/// Opens the channel that has a handle or a name, and waits until there is one of the name.
///
/// timeout_ns is in nanoseconds; with 0 the call fails at once with SHMA_ERROR_NOT_FOUND if there
/// is none, with SHMA_NO_TIMEOUT it waits without a limit. Returns SHMA_TIMED_OUT if there was none
/// in that time. If receives is not 0, a broadcast's messages are received from now on, otherwise
/// from the first receive on; one that receives and never does so stops the senders of a broadcast.
/// A broadcast of another user, whose file mode allows it, is followed: its messages are copied.
/// Fails with SHMA_ERROR_INVALID_ARGUMENT if the name is not a channel's or all of its ends are in
/// use, with SHMA_ERROR_INVALID_HANDLE and SHMA_ERROR_STALE_HANDLE for a handle that is not a
/// channel's or no longer is.
/// Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_open(
    handle_or_name: *const c_char,
    receives: i32,
    timeout_ns: i64,
    channel_out: *mut *mut shma_channel,
    error: Option<&mut shma_error>,
) -> shma_status {
    let receives = Receives::from(receives != 0);
    // SAFETY: `open` needs a text and an output: P2 and P4 of the crate, which the C caller
    // guarantees.
    guard_outcome(error, || unsafe { open(handle_or_name, receives, timeout_ns, channel_out) })
}

/// Opens a broadcast like shma_channel_open, and receives first the last messages, at most history,
/// of which the slots have not been needed for others.
///
/// Fails like shma_channel_open, and with SHMA_ERROR_INVALID_ARGUMENT if history is not 0 and the
/// channel is no broadcast.
/// Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_open_with_history(
    handle_or_name: *const c_char,
    history: u32,
    timeout_ns: i64,
    channel_out: *mut *mut shma_channel,
    error: Option<&mut shma_error>,
) -> shma_status {
    let receives = Receives::WithHistory(history);
    // SAFETY: `open` needs a text and an output: P2 and P4 of the crate, which the C caller
    // guarantees.
    guard_outcome(error, || unsafe { open(handle_or_name, receives, timeout_ns, channel_out) })
}

/// # Safety
/// The pointers are as P2 and P4 of the crate require.
unsafe fn open(
    handle_or_name: *const c_char,
    receives: Receives,
    timeout_ns: i64,
    channel_out: *mut *mut shma_channel,
) -> Result<shma_status, Failure> {
    // SAFETY: `text` needs a text: P2 of the crate, which the caller guarantees.
    let handle_or_name = unsafe { text("handle_or_name", handle_or_name) }?;
    if channel_out.is_null() {
        return Err(Failure::Null("channel_out"));
    }
    let opened = match timeout_ns {
        0 => Some(Channel::open(handle_or_name, receives)?),
        _ => wait(timeout_ns, |left| Channel::open_within(handle_or_name, receives, left))?,
    };
    let Some(channel) = opened else { return Ok(SHMA_TIMED_OUT) };
    // SAFETY: `put` needs an output that is valid for a write: `channel_out` is not NULL (checked
    // above), so P4 of the crate applies.
    unsafe { put(channel_out, shma_channel::new(channel)) };
    Ok(SHMA_OK)
}

/// Writes the channel's handle to text: one line of UTF-8 by which any process on this machine can
/// open it. The handle does not hold the channel: some process must have it open until another has
/// opened it.
///
/// text, text_bytes and needed_bytes_out are as in shma_array_handle. Fails with
/// SHMA_ERROR_TEXT_TOO_SHORT if text_bytes is too small.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_handle(
    channel: Option<&shma_channel>,
    text: *mut c_char,
    text_bytes: usize,
    needed_bytes_out: *mut usize,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let handle = needed("channel", channel)?.channel.handle();
        // SAFETY: `put_text` needs a buffer of `text_bytes` and an output that are NULL or valid
        // for writes: P3 and P4 of the crate, which the C caller guarantees.
        unsafe { put_text(&handle, text, text_bytes, needed_bytes_out) }
    })
}

/// Returns the dtype of the messages; SHMA_UINT8 if they are handles, SHMA_OPAQUE if C has no type
/// for it.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_dtype(channel: Option<&shma_channel>) -> shma_dtype {
    channel.map_or(SHMA_OPAQUE, |channel| channel.dtype)
}

/// Returns the number of dimensions of a message.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_ndim(channel: Option<&shma_channel>) -> usize {
    channel.map_or(0, |channel| channel.shape.len())
}

/// Returns the shape of a message; of varying shapes the largest. Valid until the channel is
/// closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_shape(channel: Option<&shma_channel>) -> *const i64 {
    channel.map_or(std::ptr::null(), |channel| channel.shape.as_ptr())
}

/// Returns 1 if the messages are handles of shared arrays, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_has_handles(channel: Option<&shma_channel>) -> i32 {
    channel.map_or(0, |channel| channel.channel.has_handles().into())
}

/// Returns 1 if the channel is of mode SHMA_CHANNEL_LATEST, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_is_latest(channel: Option<&shma_channel>) -> i32 {
    channel.map_or(0, |channel| (channel.channel.mode() == ChannelMode::Latest).into())
}

/// Waits until the latest value is newer than the one with a sequence number; with -1, until there
/// is one. Then shma_channel_receive returns it at once.
///
/// timeout_ns and the outcomes are those of shma_channel_receive. Fails with
/// SHMA_ERROR_INVALID_ARGUMENT if the channel's mode is another than SHMA_CHANNEL_LATEST.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_wait_newer(
    channel: Option<&shma_channel>,
    sequence: i64,
    timeout_ns: i64,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard_outcome(error, || {
        let channel = &needed("channel", channel)?.channel;
        let sequence = u64::try_from(sequence).ok();
        match wait(timeout_ns, |left| channel.wait_newer(sequence, left))? {
            WaitOutcome::Newer => Ok(SHMA_OK),
            WaitOutcome::TimedOut => Ok(SHMA_TIMED_OUT),
            WaitOutcome::Ended { died: false, .. } => Ok(SHMA_CLOSED),
            WaitOutcome::Ended { died: true, .. } => Ok(SHMA_SENDER_DIED),
            _ => Err(Error::UNKNOWN_OUTCOME.into()),
        }
    })
}

/// Writes 1 to ready_out if a receive need not wait now, else 0. Of the latest value: 1 if this
/// channel has not received it yet; so it is for the fd of shma_channel_fd.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_is_ready(
    channel: Option<&shma_channel>,
    ready_out: Option<&mut i32>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let ready = needed("channel", channel)?.channel.is_ready()?;
        *ready_out.ok_or(Failure::Null("ready_out"))? = ready.into();
        Ok(())
    })
}

/// Writes an fd for poll, epoll and event loops to fd_out. The channel owns it.
///
/// It is readable while a receive need not wait. A receive that finds nothing makes it unreadable,
/// so receive until nothing is left. A thread of this library sets it, in which every signal is
/// blocked.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_channel_fd(
    channel: Option<&shma_channel>,
    fd_out: Option<&mut c_int>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let fd = needed("channel", channel)?.channel.fd()?;
        *fd_out.ok_or(Failure::Null("fd_out"))? = fd;
        Ok(())
    })
}

/// Ends this process's part in a channel: the other side sees the end of the stream after what was
/// sent. Loans and deliveries stay valid until they are given back. Calls that send or receive by
/// this channel fail with SHMA_ERROR_INVALID_ARGUMENT from then on, also those of other threads
/// that wait at it. The channel is freed by shma_channel_close.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_end(channel: Option<&shma_channel>) {
    guard(None, || {
        if let Some(channel) = channel {
            channel.channel.close();
        }
        Ok(())
    });
}

/// Ends this process's part in a channel like shma_channel_end, and frees it. No other thread may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn shma_channel_close(channel: Option<Box<shma_channel>>) {
    guard(None, || {
        drop(channel);
        Ok(())
    });
}
