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
//! `loom_atomics` and `modelled`.

#[cfg(loom)]
pub(crate) mod loom_atomics;
mod word;
#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(crate) use mapped::ControlWords;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{Ordering, fence};

#[cfg(loom)]
pub(crate) use loom_atomics::{Ordering, fence};
#[cfg(loom)]
pub(crate) use modelled::ControlWords;

pub(crate) use word::{Announced, ControlWord};

use crate::format::{CELL_DESCRIPTION_BYTES, CELL_DESCRIPTION_OFFSET};
pub(crate) use crate::format::{DECOMMITTED, LOCK_ONLY, PERSIST};

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
