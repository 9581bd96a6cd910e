//! The words of a channel for loom: `channel` runs its ring as it is shipped.

use std::ptr::NonNull;

use super::word::{ControlWord, Entry};
use crate::header::format::ChannelLayout;

struct ModelEnd {
    entry: Entry,
    words: [ControlWord; 7],
    pins: ControlWord,
}

struct ModelChannel {
    layout: ChannelLayout,
    words: [ControlWord; 9],
    ring: Vec<ControlWord>,
    /// The first words of each head: the slot word, the number, and one for a scenario.
    slots: Vec<[ControlWord; 3]>,
    ends: Vec<ModelEnd>,
}

/// The words of one channel. It is never freed: it is the shared memory of a model.
#[derive(Clone, Copy)]
pub(crate) struct ChannelWords(&'static ModelChannel);

impl ChannelWords {
    /// Makes a channel without messages. The words are as `ChannelLayout::write` makes them.
    pub(crate) fn modelled(layout: ChannelLayout) -> Self {
        let zero = |_| ControlWord::zero();
        let end = |_| ModelEnd {
            entry: Entry { owner: ControlWord::zero(), owner_info: ControlWord::zero() },
            words: [(); 7].map(|()| ControlWord::zero()),
            pins: ControlWord::zero(),
        };
        let first = u64::from(layout.ring_words);
        let words = [first, first, 0, 0, 0, 0, 0, u64::from(layout.ends), 0].map(ControlWord::of);
        Self(Box::leak(Box::new(ModelChannel {
            layout,
            words,
            ring: (0..first).map(|number| ControlWord::of(number << 10)).collect(),
            slots: (0..layout.slots)
                .map(|slot| [ControlWord::of(1023 << 3), zero(slot), zero(slot)])
                .collect(),
            ends: (0..layout.ends).map(end).collect(),
        })))
    }

    /// # Safety
    /// None: this body touches no mapped memory.
    #[allow(unsafe_code)] // it has the signature of the mapped body
    pub(crate) unsafe fn new(_header: NonNull<u8>, layout: ChannelLayout, _data: usize) -> Self {
        Self::modelled(layout)
    }

    pub(crate) fn layout(&self) -> &ChannelLayout {
        &self.0.layout
    }

    pub(crate) fn tail(&self) -> &ControlWord {
        &self.0.words[0]
    }

    pub(crate) fn head(&self) -> &ControlWord {
        &self.0.words[1]
    }

    pub(crate) fn published(&self) -> &ControlWord {
        &self.0.words[2]
    }

    pub(crate) fn freed(&self) -> &ControlWord {
        &self.0.words[3]
    }

    pub(crate) fn dropped(&self) -> &ControlWord {
        &self.0.words[4]
    }

    pub(crate) fn left(&self) -> &ControlWord {
        &self.0.words[5]
    }

    pub(crate) fn ends_used(&self) -> &ControlWord {
        &self.0.words[7]
    }

    pub(crate) fn sole(&self) -> &ControlWord {
        &self.0.words[8]
    }

    pub(crate) fn ring(&self, number: u64) -> &ControlWord {
        &self.0.ring[number as usize & (self.0.ring.len() - 1)]
    }

    pub(crate) fn slot_head(&self, slot: u32, index: usize) -> &ControlWord {
        &self.0.slots[slot as usize][index]
    }

    pub(crate) fn prefetch(&self, _slot: u32) {}

    pub(crate) fn prefetch_for_loan(&self, _slot: u32) {}

    pub(crate) fn entry(&self, end: u32) -> &Entry {
        &self.0.ends[end as usize].entry
    }

    pub(crate) fn roles(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[0]
    }

    pub(crate) fn count(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[1]
    }

    pub(crate) fn missed(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[2]
    }

    pub(crate) fn latency(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[4]
    }

    pub(crate) fn next(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[5]
    }

    pub(crate) fn mark(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[6]
    }

    pub(crate) fn cursor(&self, end: u32) -> &ControlWord {
        &self.0.ends[end as usize].words[3]
    }

    pub(crate) fn pins(&self, end: u32, _slot: u32) -> &ControlWord {
        &self.0.ends[end as usize].pins
    }
}
