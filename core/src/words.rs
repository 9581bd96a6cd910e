//! The words of a header that move after birth: atomics over mapped bytes.
//!
//! | word       | bytes     | moved by |
//! |------------|-----------|----------|
//! | state      | 128–135   | bits 0–2 state, 3–63 epoch, one more at each transition; see `lease` |
//! | generation | 136–143   | the creator, before LIVE; below 2^53 |
//! | flags      | 144–151   | bit 0 PERSIST: the creator, cleared by `unlink`; bit 1 BY_LOCK: set for ever by a holder who could have no entry |
//! | holders    | 152–159   | portable backend only: each attach and close |
//! | entries    | 2304–4095 | see `lease` |
//!
//! Every access that `lease` needs is SeqCst: entries, flags and state are Dekker pairs, and
//! the table there names the partners. The generation is Relaxed: it is written before the
//! state becomes LIVE and read after that was seen.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::{LEASES_OFFSET, WORDS_OFFSET};

/// Where the state and the flags stand in the file, for who gives a segment back without mapping it.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) const STATE_OFFSET: u64 = WORDS_OFFSET as u64;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) const FLAGS_OFFSET: u64 = WORDS_OFFSET as u64 + 16;

/// The array outlives its holders until somebody unlinks its name.
pub(crate) const PERSIST: u64 = 1;
/// Somebody holds the segment by its lock alone: only who has that lock exclusively gives it back.
pub(crate) const BY_LOCK: u64 = 2;

/// One holder of a segment, in shared memory.
#[repr(C)]
pub(crate) struct Entry {
    /// `holder << 1 | held`; 0 is free.
    pub(crate) holder: AtomicU64,
    /// Who that is, for people and for the check of its life; written before it is first held.
    pub(crate) about: AtomicU64,
}

/// The words of one mapped header.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    header: NonNull<u8>,
    entries: usize,
}

#[allow(unsafe_code)] // one place that turns mapped bytes into atomics
impl Words {
    /// # Safety
    /// `header` is the start of a mapped header page, 8-aligned, that stays mapped while this is
    /// used and has room for that many entries from LEASES_OFFSET on.
    pub(crate) unsafe fn new(header: NonNull<u8>, entries: usize) -> Self {
        Self { header, entries }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < 4);
        // SAFETY: WORDS_OFFSET + 32 lies inside the header page that `new` was promised.
        let word = unsafe { self.header.add(WORDS_OFFSET + 8 * index) };
        // SAFETY: the page is mapped and aligned (promised to `new`); other processes touch
        // these bytes only as atomics (FORMAT.md); a read-only mapping is only loaded from.
        unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
    }

    /// The lease table.
    pub(crate) fn entries(&self) -> &[Entry] {
        let first = self.header.as_ptr().wrapping_add(LEASES_OFFSET).cast::<Entry>();
        // SAFETY: `new` was promised room for the entries; they are atomics, so that others
        // may write them meanwhile.
        unsafe { std::slice::from_raw_parts(first, self.entries) }
    }
}

impl Words {
    /// State and epoch.
    pub(crate) fn state(&self) -> &AtomicU64 {
        self.word(0)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }

    /// The creator, before the state becomes LIVE.
    pub(crate) fn set_generation(&self, generation: u64) {
        self.word(1).store(generation, Ordering::Relaxed);
    }

    pub(crate) fn flags(&self) -> &AtomicU64 {
        self.word(2)
    }

    /// The portable backend's count of mappings.
    #[cfg(any(feature = "portable", not(target_os = "linux")))]
    pub(crate) fn holders(&self) -> &AtomicU64 {
        self.word(3)
    }
}
