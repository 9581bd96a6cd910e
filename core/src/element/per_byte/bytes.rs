//! One byte after the other, each by a relaxed atomic access.
#![allow(unsafe_code)] // loads and stores at addresses

/// Returns `BYTES` bytes, each loaded atomically.
///
/// # Safety
/// `BYTES` bytes can be read at `from`.
#[inline]
pub(crate) unsafe fn load<const BYTES: usize>(from: *const u8) -> [u8; BYTES] {
    // SAFETY: the caller promises that so many bytes can be read, and the index is below that.
    std::array::from_fn(|index| unsafe { load_byte(from.wrapping_add(index)) })
}

/// Stores `BYTES` bytes, each atomically.
///
/// # Safety
/// `BYTES` bytes can be written at `to`.
#[inline]
pub(crate) unsafe fn store<const BYTES: usize>(to: *mut u8, bytes: [u8; BYTES]) {
    for (index, byte) in bytes.into_iter().enumerate() {
        // SAFETY: the caller promises that so many bytes can be written, and the index is below
        // that.
        unsafe { store_byte(to.wrapping_add(index), byte) };
    }
}

/// Copies `count` bytes, each loaded and stored atomically.
///
/// # Safety
/// `count` bytes can be read at `from` and written at `to`, and do not overlap.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    for index in 0..count {
        // SAFETY: the caller promises that `count` bytes can be read, and the index is below that.
        let byte = unsafe { load_byte(from.wrapping_add(index)) };
        // SAFETY: the caller promises that `count` bytes can be written, and the index is below
        // that.
        unsafe { store_byte(to.wrapping_add(index), byte) };
    }
}

/// Loads one byte, which may be in a read-only mapping.
///
/// `AtomicU8::from_ptr` asks for memory that is valid for writes, too. Miri checks that, so under
/// Miri this uses the intrinsic, which makes no reference.
///
/// # Safety
/// One byte can be read at `from`.
#[inline]
unsafe fn load_byte(from: *const u8) -> u8 {
    #[cfg(miri)]
    // SAFETY: the caller promises that the byte can be read, and a byte needs no alignment.
    return unsafe {
        std::intrinsics::atomic_load::<u8, { std::intrinsics::AtomicOrdering::Relaxed }>(from)
    };
    #[cfg(not(miri))]
    {
        // SAFETY: `from_ptr` needs a byte that is valid for reads, as the caller promises, and for
        // writes, which a read-only mapping is not. A relaxed load of one byte is a plain load, and
        // may read it (`std::sync::atomic`, "Atomic accesses to read-only memory").
        let byte = unsafe { std::sync::atomic::AtomicU8::from_ptr(from.cast_mut()) };
        byte.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Stores one byte.
///
/// # Safety
/// One byte can be written at `to`.
#[inline]
unsafe fn store_byte(to: *mut u8, byte: u8) {
    // SAFETY: the caller promises that the byte can be written; a byte needs no alignment.
    let atomic = unsafe { std::sync::atomic::AtomicU8::from_ptr(to) };
    atomic.store(byte, std::sync::atomic::Ordering::Relaxed);
}
