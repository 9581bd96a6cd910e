//! The words of a header that move after birth: atomics over mapped bytes.
//!
//! | word       | bytes   | moved by | bits |
//! |------------|---------|----------|------|
//! | state      | 128–135 | the creator once (to LIVE, before the segment can be seen); then only who holds the segment's exclusive lock (to DEAD) | 0–2 state, 3–63 epoch, bumped by each transition |
//! | generation | 136–143 | the creator once, before LIVE | below 2^53 |
//! | flags      | 144–151 | the creator; `unlink` clears PERSIST under the name's lock | 0 PERSIST |
//! | holders    | 152–159 | portable backend only: each attach and close | count |
//!
//! Orderings: the creator's Release store of LIVE pairs with the Acquire load in
//! [`Words::state`]; everything in the header was written before it. The rest is Relaxed
//! because a kernel lock stands between any two processes that could disagree.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::WORDS_OFFSET;

/// The state of a segment. The numbers stand in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Being made, or not a number that this version writes.
    Unborn,
    /// Somebody may hold it.
    Live,
    /// Given back; its name may still be there.
    Dead,
}

const LIVE: u64 = 1;
const DEAD: u64 = 4;
const STATE_BITS: u32 = 3;
/// The array outlives its holders until somebody unlinks its name.
const PERSIST: u64 = 1;

/// Where the state and the flags stand in the file, for who gives a segment back without mapping it.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod in_file {
    use super::{DEAD, PERSIST, STATE_BITS, WORDS_OFFSET};
    pub(crate) const STATE_OFFSET: u64 = WORDS_OFFSET as u64;
    pub(crate) const FLAGS_OFFSET: u64 = WORDS_OFFSET as u64 + 16;
    /// The state DEAD and the flag PERSIST as bytes of the file.
    pub(crate) const DEAD_BYTES: [u8; 8] = (1 << STATE_BITS | DEAD).to_le_bytes();
    pub(crate) const PERSIST_BYTE: u8 = PERSIST as u8;
}
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) use in_file::{DEAD_BYTES, FLAGS_OFFSET, PERSIST_BYTE, STATE_OFFSET};

/// The words of one mapped header.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    header: NonNull<u8>,
}

#[allow(unsafe_code)] // one place that turns mapped bytes into atomics
impl Words {
    /// # Safety
    /// `header` is the start of a mapped header page, 8-aligned, and stays mapped while this is used.
    pub(crate) unsafe fn new(header: NonNull<u8>) -> Self {
        Self { header }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < 4);
        // SAFETY: WORDS_OFFSET + 32 lies inside the header page that `new` was promised.
        let word = unsafe { self.header.add(WORDS_OFFSET + 8 * index) };
        // SAFETY: the page is mapped and aligned (promised to `new`); other processes touch
        // these bytes only as atomics (FORMAT.md); a read-only mapping is only loaded from.
        unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
    }
}

impl Words {
    /// What the segment is now. Acquire: pairs with [`Words::set_live`].
    pub(crate) fn state(&self) -> State {
        match self.word(0).load(Ordering::Acquire) & ((1 << STATE_BITS) - 1) {
            LIVE => State::Live,
            DEAD => State::Dead,
            _ => State::Unborn,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }

    #[cfg(any(feature = "portable", not(target_os = "linux")))]
    pub(crate) fn persists(&self) -> bool {
        self.word(2).load(Ordering::Relaxed) & PERSIST != 0
    }

    #[cfg(any(feature = "portable", not(target_os = "linux")))]
    pub(crate) fn clear_persist(&self) {
        self.word(2).fetch_and(!PERSIST, Ordering::Relaxed);
    }

    /// The creator's last store before the segment can be seen. Release: pairs with [`Words::state`].
    pub(crate) fn set_live(&self, generation: u64, persist: bool) {
        self.word(1).store(generation, Ordering::Relaxed);
        self.word(2).store(if persist { PERSIST } else { 0 }, Ordering::Relaxed);
        self.word(0).store(LIVE, Ordering::Release);
    }

    /// The portable backend's count of mappings.
    #[cfg(any(feature = "portable", not(target_os = "linux")))]
    pub(crate) fn holders(&self) -> &AtomicU64 {
        self.word(3)
    }
}
