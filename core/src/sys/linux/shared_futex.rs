//! Sleeping at a word of shared memory, and waking who sleeps there.
#![allow(unsafe_code)] // futex

use std::io;
use std::time::Duration;

use crate::control::ControlWord;

/// Returns the lower half of a word, at which the kernel lets threads sleep.
fn half(word: &ControlWord) -> *const u32 {
    std::ptr::from_ref(word).cast()
}

/// Sleeps while the lower half of the word is `seen`, for `most` at the longest. Fails when a
/// signal ended the sleep.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/futex.2.html
pub(crate) fn sleep_at(word: &ControlWord, seen: u32, most: Duration) -> io::Result<()> {
    let most = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word and the time must be valid and aligned during the call; `word` is borrowed,
    // the time is a local variable, and the kernel only reads both.
    let done = unsafe {
        libc::syscall(libc::SYS_futex, half(word), libc::FUTEX_WAIT, seen, &raw const most)
    };
    let error = io::Error::last_os_error();
    match done < 0 && error.kind() == io::ErrorKind::Interrupted {
        true => Err(error),
        false => Ok(()), // woken, the word had changed, or the time is over
    }
}

/// Wakes at most `most` threads that sleep at the word, in any process. Returns their number.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/futex.2.html
pub(crate) fn wake_at(word: &ControlWord, most: i32) -> usize {
    // SAFETY: FUTEX_WAKE uses the address as a key and reads no value there; `word` is borrowed
    // during the call.
    let woken = unsafe { libc::syscall(libc::SYS_futex, half(word), libc::FUTEX_WAKE, most) };
    usize::try_from(woken).unwrap_or(0)
}
