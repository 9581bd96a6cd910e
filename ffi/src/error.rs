//! Statuses, the caller's error struct, and the guard that wraps every fallible function.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use shmarray::{Error, ErrorKind};

/// The result of a function that can fail: one of the numbers below, negative if it failed.
pub type shma_status = i32;

/// Done.
pub const SHMA_OK: shma_status = 0;
/// The timeout passed before the operation could be done.
pub const SHMA_TIMED_OUT: shma_status = 1;
/// No process has the other end of the pipe open; or none sends by the channel any more.
pub const SHMA_CLOSED: shma_status = 2;
/// No slot of the channel is free, and it was created with SHMA_WHEN_FULL_ERROR.
pub const SHMA_FULL: shma_status = 3;
/// No process sends by the channel any more, and the last that did died.
pub const SHMA_SENDER_DIED: shma_status = 4;
/// The dictionary has no such key.
pub const SHMA_ABSENT: shma_status = 5;

/// The segment, name or file does not exist. The memory of a segment was given back, or it was
/// never on this machine.
pub const SHMA_ERROR_NOT_FOUND: shma_status = -1;
/// The name already exists.
pub const SHMA_ERROR_EXISTS: shma_status = -2;
/// The handle has an earlier generation than its segment: that array no longer exists.
pub const SHMA_ERROR_STALE_HANDLE: shma_status = -3;
/// The text is not a valid handle; the message names the field.
pub const SHMA_ERROR_INVALID_HANDLE: shma_status = -4;
/// The file is not a valid segment, or its bytes are not a valid list; the message names the field.
pub const SHMA_ERROR_INVALID_SEGMENT: shma_status = -5;
/// A name, shape, stride, offset or option is invalid, or a required pointer is NULL.
pub const SHMA_ERROR_INVALID_ARGUMENT: shma_status = -6;
/// The dtype cannot be stored in shared memory.
pub const SHMA_ERROR_INVALID_DTYPE: shma_status = -7;
/// The dtype of the array differs from the requested one. In C only functions on files, channels,
/// lists and dictionaries return it.
pub const SHMA_ERROR_DTYPE_MISMATCH: shma_status = -8;
/// A view or an index is outside its array.
pub const SHMA_ERROR_OUT_OF_BOUNDS: shma_status = -9;
/// The operation would write to a read-only array. No C function returns it; C++ does.
pub const SHMA_ERROR_READ_ONLY: shma_status = -10;
/// Shared memory is full; the message says how many bytes were requested and how many are free.
pub const SHMA_ERROR_NO_SPACE: shma_status = -11;
/// The operating system or the owner of the memory refuses access.
pub const SHMA_ERROR_PERMISSION_DENIED: shma_status = -12;
/// The operation is not supported on this platform, or in a process that a signal handler forked.
pub const SHMA_ERROR_UNSUPPORTED: shma_status = -13;
/// A system call failed for another reason; os_errno has its error number.
pub const SHMA_ERROR_OS: shma_status = -14;
/// The text buffer is too short; needed_bytes_out says how long it must be.
pub const SHMA_ERROR_TEXT_TOO_SHORT: shma_status = -15;
/// A bug in shmarray: the library panicked. The message is the panic's. No output was written, but
/// the call may have taken effect in part.
pub const SHMA_ERROR_PANIC: shma_status = -16;
/// This process can get no more private memory, or can map no more of any kind. The message says
/// how many bytes were requested, and what for.
pub const SHMA_ERROR_NO_MEMORY: shma_status = -17;
/// The file is not a valid NPY or NPZ file, or exceeds a limit; the message names the file, the
/// member and the field.
pub const SHMA_ERROR_INVALID_FILE: shma_status = -18;

/// Size of shma_error.message, including the terminating zero. Longer messages are truncated.
pub const SHMA_MESSAGE_BYTES: usize = 1016;

/// Describes a failure. The caller owns the struct; it needs no cleanup. Initialize it with
/// SHMA_ERROR_INIT. Its size and fields never change.
#[repr(C)]
pub struct shma_error {
    /// The status that was returned.
    pub status: shma_status,
    /// The operating system's error number, or 0.
    pub os_errno: i32,
    /// One line of text that says what failed, with the values involved.
    pub message: [c_char; SHMA_MESSAGE_BYTES],
}

/// The reason why a call failed.
pub(crate) enum Failure {
    Core(Error),
    Null(&'static str),
    NoMember { name: String, file: String },
    TextTooShort(usize),
    Panic(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl Failure {
    fn status(&self) -> shma_status {
        match self {
            Self::Core(error) => status_of(error.kind()),
            Self::Null(_) => SHMA_ERROR_INVALID_ARGUMENT,
            Self::NoMember { .. } => SHMA_ERROR_NOT_FOUND,
            Self::TextTooShort(_) => SHMA_ERROR_TEXT_TOO_SHORT,
            Self::Panic(_) => SHMA_ERROR_PANIC,
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Self::Core(error) => error.to_string(),
            Self::Null(argument) => format!("invalid {argument}: it is NULL"),
            Self::NoMember { name, file } => format!("no member is named {name:?} in {file}"),
            Self::TextTooShort(needed) => format!("the text needs {needed} bytes"),
            Self::Panic(message) => format!("a bug in shmarray: {message}"),
        }
    }

    fn os_errno(&self) -> i32 {
        match self {
            Self::Core(error) => error.os_errno().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Maps each error kind of core to its number in this ABI. A number never changes once assigned.
fn status_of(kind: ErrorKind) -> shma_status {
    match kind {
        ErrorKind::NotFound => SHMA_ERROR_NOT_FOUND,
        ErrorKind::Exists => SHMA_ERROR_EXISTS,
        ErrorKind::StaleHandle => SHMA_ERROR_STALE_HANDLE,
        ErrorKind::InvalidHandle => SHMA_ERROR_INVALID_HANDLE,
        ErrorKind::InvalidSegment => SHMA_ERROR_INVALID_SEGMENT,
        ErrorKind::InvalidFile => SHMA_ERROR_INVALID_FILE,
        ErrorKind::InvalidArgument => SHMA_ERROR_INVALID_ARGUMENT,
        ErrorKind::InvalidDType => SHMA_ERROR_INVALID_DTYPE,
        ErrorKind::DTypeMismatch => SHMA_ERROR_DTYPE_MISMATCH,
        ErrorKind::OutOfBounds => SHMA_ERROR_OUT_OF_BOUNDS,
        ErrorKind::ReadOnly => SHMA_ERROR_READ_ONLY,
        ErrorKind::NoSpace => SHMA_ERROR_NO_SPACE,
        ErrorKind::NoMemory => SHMA_ERROR_NO_MEMORY,
        ErrorKind::PermissionDenied => SHMA_ERROR_PERMISSION_DENIED,
        ErrorKind::Unsupported => SHMA_ERROR_UNSUPPORTED,
        ErrorKind::Os => SHMA_ERROR_OS,
        _ => SHMA_ERROR_PANIC, // a kind without a number, which the test below rejects
    }
}

/// Runs the body of an exported function. A panic does not unwind into C; every failure is reported
/// through `error` and the status.
pub(crate) fn guard(
    error: Option<&mut shma_error>,
    body: impl FnOnce() -> Result<(), Failure>,
) -> shma_status {
    guard_outcome(error, || body().map(|()| SHMA_OK))
}

/// Like [`guard`], for a body that has ordinary outcomes besides SHMA_OK.
pub(crate) fn guard_outcome(
    error: Option<&mut shma_error>,
    body: impl FnOnce() -> Result<shma_status, Failure>,
) -> shma_status {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let outcome = outcome.unwrap_or_else(|panic| Err(Failure::Panic(text_of(&*panic))));
    outcome.unwrap_or_else(|failure| report(&failure, error))
}

fn report(failure: &Failure, error: Option<&mut shma_error>) -> shma_status {
    let status = failure.status();
    if let Some(error) = error {
        let message = failure.message();
        *error =
            shma_error { status, os_errno: failure.os_errno(), message: [0; SHMA_MESSAGE_BYTES] };
        let text = truncated(&message, SHMA_MESSAGE_BYTES - 1);
        for (to, byte) in error.message.iter_mut().zip(text.bytes()) {
            *to = byte as c_char;
        }
    }
    status
}

/// Returns the longest prefix of at most `most_bytes` that ends at a character boundary.
fn truncated(text: &str, most_bytes: usize) -> &str {
    let fits = text
        .char_indices()
        .map(|(start, c)| start + c.len_utf8())
        .take_while(|end| *end <= most_bytes);
    &text[..fits.last().unwrap_or(0)]
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Returns the name of a status, such as "SHMA_ERROR_NOT_FOUND"; NULL for numbers that are no
/// status. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn shma_status_name(status: shma_status) -> *const c_char {
    name_of(status).map_or(std::ptr::null(), CStr::as_ptr)
}

fn name_of(status: shma_status) -> Option<&'static CStr> {
    Some(match status {
        SHMA_OK => c"SHMA_OK",
        SHMA_TIMED_OUT => c"SHMA_TIMED_OUT",
        SHMA_CLOSED => c"SHMA_CLOSED",
        SHMA_FULL => c"SHMA_FULL",
        SHMA_SENDER_DIED => c"SHMA_SENDER_DIED",
        SHMA_ABSENT => c"SHMA_ABSENT",
        SHMA_ERROR_NOT_FOUND => c"SHMA_ERROR_NOT_FOUND",
        SHMA_ERROR_EXISTS => c"SHMA_ERROR_EXISTS",
        SHMA_ERROR_STALE_HANDLE => c"SHMA_ERROR_STALE_HANDLE",
        SHMA_ERROR_INVALID_HANDLE => c"SHMA_ERROR_INVALID_HANDLE",
        SHMA_ERROR_INVALID_SEGMENT => c"SHMA_ERROR_INVALID_SEGMENT",
        SHMA_ERROR_INVALID_ARGUMENT => c"SHMA_ERROR_INVALID_ARGUMENT",
        SHMA_ERROR_INVALID_DTYPE => c"SHMA_ERROR_INVALID_DTYPE",
        SHMA_ERROR_DTYPE_MISMATCH => c"SHMA_ERROR_DTYPE_MISMATCH",
        SHMA_ERROR_OUT_OF_BOUNDS => c"SHMA_ERROR_OUT_OF_BOUNDS",
        SHMA_ERROR_READ_ONLY => c"SHMA_ERROR_READ_ONLY",
        SHMA_ERROR_NO_SPACE => c"SHMA_ERROR_NO_SPACE",
        SHMA_ERROR_NO_MEMORY => c"SHMA_ERROR_NO_MEMORY",
        SHMA_ERROR_INVALID_FILE => c"SHMA_ERROR_INVALID_FILE",
        SHMA_ERROR_PERMISSION_DENIED => c"SHMA_ERROR_PERMISSION_DENIED",
        SHMA_ERROR_UNSUPPORTED => c"SHMA_ERROR_UNSUPPORTED",
        SHMA_ERROR_OS => c"SHMA_ERROR_OS",
        SHMA_ERROR_TEXT_TOO_SHORT => c"SHMA_ERROR_TEXT_TOO_SHORT",
        SHMA_ERROR_PANIC => c"SHMA_ERROR_PANIC",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> shma_error {
        shma_error { status: 0, os_errno: 0, message: [0; SHMA_MESSAGE_BYTES] }
    }

    fn message(error: &shma_error) -> String {
        let bytes = error.message.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
        String::from_utf8(bytes.collect()).unwrap()
    }

    #[test]
    fn every_kind_has_a_number_of_its_own() {
        let numbers: std::collections::BTreeSet<_> =
            ErrorKind::ALL.into_iter().map(status_of).collect();
        assert_eq!(numbers.len(), ErrorKind::ALL.len());
        assert!(numbers.iter().all(|number| *number < 0 && *number != SHMA_ERROR_PANIC));
    }

    /// Every constant of the type `shma_status`, from this file itself: a list by hand missed two.
    fn statuses() -> Vec<(&'static str, shma_status)> {
        let constant = |line: &'static str| {
            line.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(": shma_status = ")
        };
        let parsed = |(name, number): (_, &str)| (name, number.parse().unwrap());
        include_str!("error.rs").lines().filter_map(constant).map(parsed).collect()
    }

    #[test]
    fn every_status_has_its_name_and_a_line_in_the_header() {
        let header = include_str!("../../include/shmarray.h");
        assert!(statuses().len() >= ErrorKind::ALL.len());
        for (name, status) in statuses() {
            assert_eq!(name_of(status).and_then(|found| found.to_str().ok()), Some(name));
            assert!(header.contains(&format!("#define {name} ")), "{name}");
        }
    }

    #[test]
    fn a_number_that_is_no_status_has_no_name() {
        let numbers: Vec<_> = statuses().into_iter().map(|(_, number)| number).collect();
        let least = numbers.iter().min().unwrap();
        let most = numbers.iter().max().unwrap();
        assert_eq!([i32::MIN, least - 1, most + 1, i32::MAX].map(name_of), [None; 4]);
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_message() {
        let mut error = empty();
        let status = guard(Some(&mut error), || panic!("as a test of the guard"));
        assert_eq!((status, error.status), (SHMA_ERROR_PANIC, SHMA_ERROR_PANIC));
        assert!(message(&error).ends_with("as a test of the guard"));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut error = empty();
        let reason = "ä".repeat(SHMA_MESSAGE_BYTES);
        let failure = Failure::Panic(reason);
        report(&failure, Some(&mut error));
        assert!(failure.message().starts_with(&message(&error)));
        assert!((SHMA_MESSAGE_BYTES - 3..SHMA_MESSAGE_BYTES).contains(&message(&error).len()));
    }
}
