//! The control words: the words of a header that change after creation, as atomics over mapped
//! bytes.
//!
//! | word       | segment   | cell, in its head |
//! |------------|-----------|---------|
//! | state      | 128–135   | 0–7     |
//! | generation | 136–143   | 8–15    |
//! | flags      | 144–151   | 16–23   |
//! | holders    | 152–159   |         |
//! | data_bytes |           | 24–31   |
//! | used, warm | 160–175   |         |
//! | entries    | 2304–4095 | 128 to the head's end: 511, or 4095 in a slab of one large cell |
//!
//! The bits of each word, and the process that changes it:
//! * state: bits 0–2 are the state, bits 3–63 the epoch, which grows by one at each transition; see
//!   `lease`.
//! * generation: stored by the creator before LIVE; below 2^53.
//! * flags: PERSIST is set by the creator and cleared by `unlink`. LOCK_ONLY is set for good by a
//!   holder that could not have an entry. DECOMMITTED is changed by the process that has claimed
//!   the cell.
//! * holders: portable backend only; changed by each attach and close.
//! * data_bytes: stored by the creator of an array in a cell, before LIVE.
//! * used, warm: hints of a slab: the number of its cells that are not FREE, and of its FREE cells
//!   that have memory.
//! * entries: see `lease`.
//!
//! Fences order the entries, the flags and the state; `lease` says where they are and names their
//! partners. The generation and a cell's data_bytes are Relaxed: they are written before the state
//! becomes LIVE and read after LIVE was seen.
//!
//! A channel has further words: `channel_words`.
//!
//! Under `cfg(loom)` the same words are loom's atomics, which cannot lie in mapped bytes:
//! `loom_atomics`, `modelled` and `modelled_channel`.

#[cfg(loom)]
pub(crate) mod loom_atomics;
mod word;
#[cfg(loom)]
pub(crate) mod loom_scenarios;
#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod modelled;
#[cfg(not(loom))]
mod channel_words;
#[cfg(loom)]
mod modelled_channel;

#[cfg(not(loom))]
pub(crate) use mapped::ControlWords;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{Ordering, fence};

#[cfg(loom)]
pub(crate) use loom_atomics::{Ordering, fence};
#[cfg(loom)]
pub(crate) use modelled::ControlWords;

#[cfg(not(loom))]
pub(crate) use channel_words::ChannelWords;
#[cfg(loom)]
pub(crate) use modelled_channel::ChannelWords;

pub(crate) use word::{Announced, ControlWord};
pub(crate) use word::{fence_after_rmw, fence_between_loads};

use crate::header::format::{CELL_DESCRIPTION_BYTES, CELL_DESCRIPTION_OFFSET};
pub(crate) use crate::header::format::{DECOMMITTED, LOCK_ONLY, PERSIST};

impl ControlWords {
    /// The state and the epoch.
    pub(crate) fn state(&self) -> &ControlWord {
        self.word(0)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }

    /// Stores the generation. Only the creator does so, before the state becomes LIVE.
    pub(crate) fn set_generation(&self, generation: u64) {
        self.word(1).store(generation, Ordering::Relaxed);
    }

    pub(crate) fn flags(&self) -> &ControlWord {
        self.word(2)
    }

    /// The portable backend's count of mappings.
    #[cfg(not(any(linux_backend, miri)))]
    pub(crate) fn holders(&self) -> &ControlWord {
        self.word(3)
    }

    /// The size of the data of a cell's array.
    pub(crate) fn data_bytes(&self) -> &ControlWord {
        self.word(3)
    }

    /// Stores the description in a cell's head. It is for people only, so a reader that sees half
    /// of it takes no harm.
    pub(crate) fn describe(&self, description: &[u8; CELL_DESCRIPTION_BYTES]) {
        for (index, bytes) in description.chunks_exact(8).enumerate() {
            let word = bytes.try_into().map_or(0, u64::from_ne_bytes); // always 8
            self.word(CELL_DESCRIPTION_OFFSET / 8 + index).store(word, Ordering::Relaxed);
        }
    }

    /// The number of a slab's cells that are not FREE. A hint.
    pub(crate) fn used(&self) -> &ControlWord {
        self.word(4)
    }

    /// The number of a slab's FREE cells that have memory. A hint.
    pub(crate) fn warm(&self) -> &ControlWord {
        self.word(5)
    }
}
