//! The words of a header that move after creation: atomics over mapped bytes.
//!
//! | word       | segment   | cell, in its head | moved by |
//! |------------|-----------|---------|----------|
//! | state      | 128–135   | 0–7     | bits 0–2 state, 3–63 epoch, one more at each transition; see `lease` |
//! | generation | 136–143   | 8–15    | the creator, before LIVE; below 2^53 |
//! | flags      | 144–151   | 16–23   | PERSIST: the creator, cleared by `unlink`; LOCK_ONLY: set for ever by a holder who could have no entry; DECOMMITTED: who has claimed a cell |
//! | holders    | 152–159   |         | portable backend only: each attach and close |
//! | data_bytes |           | 24–31   | the creator of an array in a cell, before LIVE |
//! | used, warm | 160–175   |         | hints of a segment of cells: how many are not FREE, how many FREE ones have memory |
//! | entries    | 2304–4095 | 128–511 | see `lease` |
//!
//! What orders entries, flags and state is a fence; `lease` says where and names the partners.
//! The generation and a cell's data_bytes are Relaxed: written before the state becomes LIVE
//! and read after that was seen.
//!
//! Under `cfg(loom)` the same words are loom's atomics, which cannot lie in mapped bytes:
//! `modelled`.

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
pub(crate) mod modelled;

#[cfg(not(loom))]
pub(crate) use mapped::ControlWords;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use modelled::{AtomicU64, ControlWords, Ordering, fence};

use crate::format::{CELL_DESCRIPTION_BYTES, CELL_DESCRIPTION_OFFSET};
pub(crate) use crate::format::{DECOMMITTED, LOCK_ONLY, PERSIST};

/// A word in shared memory. It has the operations that the protocol needs, and no others; each
/// that stores is announced.
#[repr(transparent)]
pub(crate) struct ControlWord(AtomicU64);

impl ControlWord {
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    #[cfg_attr(loom, track_caller)]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let _around = self.announced();
        self.0.store(value, order);
    }

    /// Whether it was `from` and is now `to`.
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn replace(&self, from: u64, to: u64) -> bool {
        let _around = self.announced();
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    #[cfg_attr(loom, track_caller)]
    pub(crate) fn set(&self, bits: u64) {
        let _around = self.announced();
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    #[cfg_attr(loom, track_caller)]
    pub(crate) fn clear(&self, bits: u64) {
        let _around = self.announced();
        self.0.fetch_and(!bits, Ordering::AcqRel);
    }

    /// A count that is a hint. Who brings it to zero looks, and sees what the others did before
    /// they counted: each is the next one's partner.
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn add(&self, more: u64) -> u64 {
        let _around = self.announced();
        self.0.fetch_add(more, Ordering::AcqRel).wrapping_add(more)
    }

    #[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
    pub(crate) fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    fn announced(&self) -> Announced {
        Announced::around(std::ptr::from_ref(self).cast(), size_of::<Self>())
    }
}

/// A store to shared memory is made while one of these lives. With the feature `steps` it is
/// announced before and after, which is how `tests/crashes` kills a process there; a store that is
/// not announced fails it.
#[must_use]
pub(crate) struct Announced {
    place: *const u8,
    bytes: usize,
}

impl Announced {
    pub(crate) fn around(place: *const u8, bytes: usize) -> Self {
        const BEFORE: u64 = 1;
        announce(BEFORE, place, bytes);
        Self { place, bytes }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        const AFTER: u64 = 2;
        announce(AFTER, self.place, self.bytes);
    }
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
    /// `owner << 1 | held`; 0 is free.
    pub(crate) owner: ControlWord,
    /// Who that is, for people and for the check of its life; written before it is first held.
    pub(crate) owner_info: ControlWord,
}

impl ControlWords {
    /// State and epoch.
    pub(crate) fn state(&self) -> &ControlWord {
        self.word(0)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }

    /// The creator, before the state becomes LIVE.
    pub(crate) fn set_generation(&self, generation: u64) {
        self.word(1).store(generation, Ordering::Relaxed);
    }

    pub(crate) fn flags(&self) -> &ControlWord {
        self.word(2)
    }

    /// The portable backend's count of mappings.
    #[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
    pub(crate) fn holders(&self) -> &ControlWord {
        self.word(3)
    }

    /// Of a cell: size of its array's data.
    pub(crate) fn data_bytes(&self) -> &ControlWord {
        self.word(3)
    }

    /// A copy of the description in a cell's head. It is for people only, so that a reader who sees
    /// half of it is not harmed.
    pub(crate) fn describe(&self, description: &[u8; CELL_DESCRIPTION_BYTES]) {
        for (index, bytes) in description.chunks_exact(8).enumerate() {
            let word = bytes.try_into().map_or(0, u64::from_ne_bytes); // always 8
            self.word(CELL_DESCRIPTION_OFFSET / 8 + index).store(word, Ordering::Relaxed);
        }
    }

    /// Of a segment of cells: how many are not FREE. A hint.
    pub(crate) fn used(&self) -> &ControlWord {
        self.word(4)
    }

    /// Of a segment of cells: how many FREE ones have memory. A hint.
    pub(crate) fn warm(&self) -> &ControlWord {
        self.word(5)
    }
}
