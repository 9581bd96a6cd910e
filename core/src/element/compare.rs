//! Comparisons of memory, byte by byte.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use super::copy::{in_threads, parts_of};

unsafe extern "C" {
    /// Every target's C library has it, and not every target has the crate `libc` here.
    fn memcmp(one: *const c_void, other: *const c_void, bytes: usize) -> c_int;
}

/// How many bytes a thread compares before it looks whether another has found a difference.
const PIECE_BYTES: usize = 1 << 20;

/// Returns whether the bytes at two addresses are the same, by as many threads as a copy of them.
///
/// # Safety
/// So many bytes can be read at both addresses. Other threads and processes may write there
/// meanwhile: then the bytes compared are some of its bytes.
#[must_use]
pub unsafe fn are_same_bytes(one: *const u8, other: *const u8, bytes: usize) -> bool {
    let parts = parts_of(bytes as u64);
    let sides = Sides(one, other);
    let differ = AtomicBool::new(false);
    in_threads(parts, |part| {
        let mut at = bytes / parts * part;
        let end = if part + 1 == parts { bytes } else { bytes / parts * (part + 1) };
        while at < end && !differ.load(Ordering::Relaxed) {
            let piece = PIECE_BYTES.min(end - at);
            // SAFETY: `at + piece` is at most `bytes`, and the caller lets so many be read.
            if unsafe { sides.differ(at, piece) } {
                differ.store(true, Ordering::Relaxed);
            }
            at += piece;
        }
    });
    !differ.into_inner()
}

/// Two addresses that several threads read from.
struct Sides(*const u8, *const u8);

// SAFETY: `in_threads` joins its threads before the call returns for which the caller lets the
// memory be read.
unsafe impl Sync for Sides {}

impl Sides {
    /// Returns whether a piece of the one memory differs from the other's.
    ///
    /// # Safety
    /// So many bytes from there on can be read on both sides.
    unsafe fn differ(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller lets so many bytes be read from there on.
        let one = unsafe { self.0.add(at) };
        // SAFETY: as above.
        let other = unsafe { self.1.add(at) };
        // SAFETY: as above. C's own function reads them, since a slice must not see another's
        // stores.
        unsafe { memcmp(one.cast(), other.cast(), bytes) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::are_same_bytes;

    #[test]
    fn one_byte_anywhere_makes_a_difference() {
        let one = vec![7; (9 << 20) + 3];
        for at in [0, 1 << 20, 4 << 20, (9 << 20) + 2] {
            let mut other = one.clone();
            // SAFETY: both vectors have so many bytes.
            let same =
                |other: &[u8]| unsafe { are_same_bytes(one.as_ptr(), other.as_ptr(), one.len()) };
            assert!(same(&other));
            other[at] = 8;
            assert!(!same(&other), "{at}");
        }
    }
}
