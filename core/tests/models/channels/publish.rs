//! The steps by which a sender publishes a slot that it has on loan.

use super::ring::{Ring, RingWord, State, Word};

/// The next step, with what was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Publish {
    LoadTail,
    LoadRing(i8),
    HelpTail(i8),
    WriteNumber(i8, RingWord),
    SetNumbered(i8, RingWord),
    Store(i8, RingWord),
    LateNumber(i8),
    AdvanceTail(i8),
}

/// A slot on loan, and the word that the sender put there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Loan {
    pub(crate) slot: u8,
    pub(crate) word: Word,
}

/// How a weaker protocol publishes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weaker {
    /// The number is written after the ring's word.
    pub(crate) number_last: bool,
    /// The tail is counted up first, in place of the ring's word.
    pub(crate) tail_first: bool,
}

/// What a step did.
pub(crate) enum Outcome {
    Next(Publish),
    /// The message has this number now.
    Published(i8, Publish),
    /// Somebody took the slot.
    LoanLost,
    Done,
}

impl Publish {
    pub(crate) fn step<const S: usize, const R: usize>(
        self,
        ring: &mut Ring<S, R>,
        loan: &mut Loan,
        weaker: Weaker,
    ) -> Outcome {
        let slot = loan.slot as usize;
        Outcome::Next(match self {
            Self::LoadTail if weaker.tail_first => {
                ring.tail += 1;
                Self::LoadRing(ring.tail - 1)
            }
            Self::LoadTail => Self::LoadRing(ring.tail),
            Self::LoadRing(tail) => match ring.word_of(tail) {
                word if word.number >= tail => Self::HelpTail(word.number),
                word if weaker.number_last => Self::SetNumbered(tail, word),
                word => Self::WriteNumber(tail, word),
            },
            Self::HelpTail(found) => {
                ring.advance_tail(found);
                Self::LoadTail
            }
            Self::WriteNumber(tail, word) => {
                ring.slots[slot].number = tail;
                Self::SetNumbered(tail, word)
            }
            Self::SetNumbered(tail, word) => {
                let numbered = loan.word.to(State::Numbered, loan.word.end);
                if loan.word != numbered && ring.slots[slot].word != loan.word {
                    return Outcome::LoanLost;
                }
                ring.slots[slot].word = numbered;
                loan.word = numbered;
                Self::Store(tail, word)
            }
            Self::Store(tail, word) => {
                let to = RingWord { number: tail, slot: loan.slot };
                let after = if weaker.number_last { Self::LateNumber } else { Self::AdvanceTail };
                if ring.replace_ring_word(tail, word, to) {
                    return Outcome::Published(tail, after(tail));
                } else {
                    Self::LoadTail
                }
            }
            Self::LateNumber(tail) => {
                ring.slots[slot].number = tail;
                Self::AdvanceTail(tail)
            }
            Self::AdvanceTail(tail) => {
                ring.advance_tail(tail);
                return Outcome::Done;
            }
        })
    }
}
