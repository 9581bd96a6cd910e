//! Sleeping at a word of shared memory, and waking who sleeps there.
#![allow(unsafe_code)] // futex

use std::io;
use std::time::Duration;

use super::clock::timespec;

/// Sleeps while the word is `seen`, for `most` at the longest. Fails when a signal ended the sleep.
/// Where nothing is mapped, it returns at once.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/futex.2.html
pub(crate) fn sleep_at(word: *const u32, seen: u32, most: Duration) -> io::Result<()> {
    let most = timespec(most);
    // SAFETY: the time must be valid and aligned during the call; it is a local variable, which the
    // kernel only reads. It checks the word's address, and reads the word as an atomic.
    let done =
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &raw const most) };
    let error = io::Error::last_os_error();
    if done < 0 && error.kind() == io::ErrorKind::Interrupted {
        return Err(error);
    }
    Ok(()) // woken, the word had changed, or the time is over
}

/// Wakes at most `most` threads that sleep at the word, in any process. Returns their number.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/futex.2.html
pub(crate) fn wake_at(word: *const u32, most: i32) -> usize {
    // SAFETY: FUTEX_WAKE uses the address as a key, which the kernel checks, and reads no value.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, most) };
    usize::try_from(woken).unwrap_or(0)
}
