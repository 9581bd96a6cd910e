//! The words of a header that move after birth: atomics over mapped bytes.
//!
//! | word       | segment   | cell, in its head | moved by |
//! |------------|-----------|---------|----------|
//! | state      | 128–135   | 0–7     | bits 0–2 state, 3–63 epoch, one more at each transition; see `lease` |
//! | generation | 136–143   | 8–15    | the creator, before LIVE; below 2^53 |
//! | flags      | 144–151   | 16–23   | PERSIST: the creator, cleared by `unlink`; BY_LOCK: set for ever by a holder who could have no entry; PUNCHED: who has claimed a cell |
//! | holders    | 152–159   |         | portable backend only: each attach and close |
//! | data_bytes |           | 24–31   | the creator of an array in a cell, before LIVE |
//! | used, warm | 160–175   |         | hints of a segment of cells: how many are not FREE, how many FREE ones have memory |
//! | entries    | 2304–4095 | 128–511 | see `lease` |
//!
//! What orders entries, flags and state is a fence; `lease` says where and names the partners.
//! The generation and a cell's data_bytes are Relaxed: written before the state becomes LIVE
//! and read after that was seen.

use std::ptr::NonNull;

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

use crate::format::{
    CELL_DESCRIPTION_BYTES, CELL_DESCRIPTION_OFFSET, CELL_ENTRIES, CELL_ENTRIES_OFFSET, CELL_HEAD_BYTES, HEADS_OFFSET,
    LEASES_OFFSET, WORDS_OFFSET,
};

/// Where the state and the flags stand in the file, for who gives a segment back without mapping it.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) const STATE_OFFSET: u64 = WORDS_OFFSET as u64;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) const FLAGS_OFFSET: u64 = WORDS_OFFSET as u64 + 16;

/// The array outlives its holders until somebody unlinks its name.
pub(crate) const PERSIST: u64 = 1;
/// Somebody holds by the file's lock alone: only who has that lock exclusively gives it back.
pub(crate) const BY_LOCK: u64 = 2;
/// The memory of a cell was given back: it must be reserved before it is touched.
pub(crate) const PUNCHED: u64 = 4;

/// A word in shared memory. It has the operations that the protocol needs, and no others; each
/// that stores is announced.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.change(|word| word.store(value, order));
    }

    /// Whether it was `from` and is now `to`.
    pub(crate) fn replace(&self, from: u64, to: u64) -> bool {
        self.change(|word| word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok())
    }

    pub(crate) fn set(&self, bits: u64) {
        self.change(|word| word.fetch_or(bits, Ordering::AcqRel));
    }

    pub(crate) fn clear(&self, bits: u64) {
        self.change(|word| word.fetch_and(!bits, Ordering::AcqRel));
    }

    /// A count that decides nothing.
    pub(crate) fn add(&self, more: u64) -> u64 {
        self.change(|word| word.fetch_add(more, Ordering::Relaxed)).wrapping_add(more)
    }

    #[cfg(any(feature = "portable", not(target_os = "linux")))]
    pub(crate) fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    fn change<T>(&self, change: impl FnOnce(&AtomicU64) -> T) -> T {
        announced(std::ptr::from_ref(self).cast(), size_of::<Self>(), || change(&self.0))
    }
}

/// A store to shared memory. With the feature `steps` it is announced before and after, which is
/// how `tests/crashes` kills a process there; a store that is not announced fails it.
pub(crate) fn announced<T>(place: *const u8, bytes: usize, store: impl FnOnce() -> T) -> T {
    const BEFORE: u64 = 1;
    const AFTER: u64 = 2;
    announce(BEFORE, place, bytes);
    let stored = store();
    announce(AFTER, place, bytes);
    stored
}

/// A system call that does nothing, but at which whoever traces this process can stop it.
#[cfg(all(feature = "steps", target_os = "linux"))]
#[allow(unsafe_code)]
fn announce(when: u64, place: *const u8, bytes: usize) {
    const MARK: u64 = u64::from_le_bytes(*b"shmarray");
    // SAFETY: `getppid` takes no arguments; the kernel ignores what else is in the registers.
    unsafe { libc::syscall(libc::SYS_getppid, MARK, when, place, bytes) };
}

#[cfg(not(all(feature = "steps", target_os = "linux")))]
fn announce(_: u64, _: *const u8, _: usize) {}

/// One holder, in shared memory.
#[repr(C)]
pub(crate) struct Entry {
    /// `holder << 1 | held`; 0 is free.
    pub(crate) holder: Word,
    /// Who that is, for people and for the check of its life; written before it is first held.
    pub(crate) about: Word,
}

/// The words of one mapped header, or of one cell of it.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    header: NonNull<u8>,
    first: NonNull<u8>,
    table: NonNull<u8>,
    entries: usize,
    cells: u32,
}

#[allow(unsafe_code)] // one place that turns mapped bytes into atomics
impl Words {
    /// # Safety
    /// `header` is the start of a mapped header, 8-aligned, that stays mapped while this is used,
    /// with room for that many entries from LEASES_OFFSET on and for that many heads of cells
    /// from HEADS_OFFSET on.
    pub(crate) unsafe fn new(header: NonNull<u8>, entries: usize, cells: u32) -> Self {
        // SAFETY: inside the header page that the caller promises.
        let first = unsafe { header.add(WORDS_OFFSET) };
        // SAFETY: the same.
        let table = unsafe { header.add(LEASES_OFFSET) };
        Self { header, first, table, entries, cells }
    }

    /// The words of a cell, if there is one of that number.
    pub(crate) fn cell(&self, cell: u32) -> Option<Self> {
        if cell >= self.cells {
            return None;
        }
        // SAFETY: `new` was promised that this head is there.
        let first = unsafe { self.header.add(HEADS_OFFSET + cell as usize * CELL_HEAD_BYTES) };
        // SAFETY: a head has room for its entries.
        let table = unsafe { first.add(CELL_ENTRIES_OFFSET) };
        Some(Self { first, table, entries: CELL_ENTRIES, cells: 0, ..*self })
    }

    /// Those of all cells.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.cells).filter_map(|cell| self.cell(cell))
    }

    fn word(&self, index: usize) -> &Word {
        debug_assert!(index < 6);
        // SAFETY: six words lie inside what `new` was promised; so they do in a cell's head.
        let word = unsafe { self.first.add(8 * index) };
        // SAFETY: mapped and aligned (promised to `new`); a `Word` is an atomic; other processes
        // touch these bytes only as atomics (FORMAT.md); a read-only mapping is only loaded from.
        unsafe { word.cast().as_ref() }
    }

    /// The lease table.
    pub(crate) fn entries(&self) -> &[Entry] {
        // SAFETY: `new` was promised room for the entries; they are atomics, so that others
        // may write them meanwhile.
        unsafe { std::slice::from_raw_parts(self.table.as_ptr().cast(), self.entries) }
    }

    /// A copy of the description in a cell's head.
    pub(crate) fn describe(&self, description: &[u8; CELL_DESCRIPTION_BYTES]) {
        let place = self.first.as_ptr().wrapping_add(CELL_DESCRIPTION_OFFSET);
        announced(place, description.len(), || {
            // SAFETY: a head has room for it behind its words; it is for people only, so that a
            // reader who sees half of it is not harmed.
            unsafe { std::ptr::copy_nonoverlapping(description.as_ptr(), place, description.len()) };
        });
    }
}

impl Words {
    /// State and epoch.
    pub(crate) fn state(&self) -> &Word {
        self.word(0)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }

    /// The creator, before the state becomes LIVE.
    pub(crate) fn set_generation(&self, generation: u64) {
        self.word(1).store(generation, Ordering::Relaxed);
    }

    pub(crate) fn flags(&self) -> &Word {
        self.word(2)
    }

    /// The portable backend's count of mappings.
    #[cfg(any(feature = "portable", not(target_os = "linux")))]
    pub(crate) fn holders(&self) -> &Word {
        self.word(3)
    }

    /// Of a cell: size of its array's data.
    pub(crate) fn data_bytes(&self) -> &Word {
        self.word(3)
    }

    /// Of a segment of cells: how many are not FREE. A hint.
    pub(crate) fn used(&self) -> &Word {
        self.word(4)
    }

    /// Of a segment of cells: how many FREE ones have memory. A hint.
    pub(crate) fn warm(&self) -> &Word {
        self.word(5)
    }
}
