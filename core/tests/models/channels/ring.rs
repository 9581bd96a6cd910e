//! Slots and the ring, as both kinds of channel have them.

pub(crate) const SLOTS: usize = 2;
/// The words of the ring: one for the message of each slot.
pub(crate) const RING: usize = 2;
const _: () = assert!(RING >= SLOTS);
/// The most ends.
pub(crate) const ENDS: usize = 3;
/// No end: of a slot that is free or dropped.
pub(crate) const NOBODY: u8 = 9;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    Free,
    Loaned,
    Numbered,
    Held,
    Dropped,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Word {
    pub(crate) state: State,
    pub(crate) end: u8,
    pub(crate) life: u8,
}

impl Word {
    pub(crate) fn to(self, state: State, end: u8) -> Self {
        Self { state, end, ..self }
    }

    /// The word after the slot was given to another purpose.
    pub(crate) fn next_life(self, state: State, end: u8) -> Self {
        Self { state, end, life: self.life + 1 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Slot {
    pub(crate) word: Word,
    pub(crate) number: i8,
    /// The message that the payload is.
    pub(crate) payload: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RingWord {
    pub(crate) number: i8,
    pub(crate) slot: u8,
}

/// With so many slots, and ring words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ring<const S: usize = SLOTS, const R: usize = RING> {
    pub(crate) tail: i8,
    pub(crate) head: i8,
    pub(crate) words: [RingWord; R],
    pub(crate) slots: [Slot; S],
    /// The owner of each end; 0 is a free entry.
    pub(crate) owners: [u8; ENDS],
}

impl<const S: usize, const R: usize> Ring<S, R> {
    pub(crate) fn new(owners: [u8; ENDS]) -> Self {
        let word = Word { state: State::Free, end: NOBODY, life: 0 };
        let at = |index: usize| RingWord { number: index as i8 - R as i8, slot: 0 };
        Self {
            tail: 0,
            head: 0,
            words: std::array::from_fn(at),
            slots: [Slot { word, number: -1, payload: 0 }; S],
            owners,
        }
    }

    pub(crate) fn word_of(&self, number: i8) -> RingWord {
        self.words[number as usize % R]
    }

    /// Replaces the word of a slot, as compare-and-swap does.
    pub(crate) fn replace(&mut self, slot: u8, from: Word, to: Word) -> bool {
        let word = &mut self.slots[slot as usize].word;
        let is_same = *word == from;
        if is_same {
            *word = to;
        }
        is_same
    }

    pub(crate) fn replace_ring_word(&mut self, number: i8, from: RingWord, to: RingWord) -> bool {
        let word = &mut self.words[number as usize % R];
        let is_same = *word == from;
        if is_same {
            *word = to;
        }
        is_same
    }

    /// Makes the tail the one after `from`, whatever it is: a late process sets it back.
    pub(crate) fn advance_tail(&mut self, from: i8) {
        self.tail = from + 1;
    }

    pub(crate) fn advance_head(&mut self, from: i8) {
        self.head = from + 1;
    }
}
