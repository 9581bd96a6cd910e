//! Closes a session: from then on the ring says which messages there are.

use super::super::publish::Loan;
use super::super::ring::{RingWord, State, Word};
use super::{Actor, At, Mode, Protocol, Sole, SoleWord, Then, home};

/// The next step, with the tail and the number of the message that is put into the ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Close {
    LoadSole,
    Opening,
    Sole,
    LoadNext,
    LoadMark(i8),
    LoadHome(i8, Loan),
    Fill(i8),
    LoadRing(i8, i8),
    LoadWord(i8, i8, RingWord),
    Replace(i8, i8, RingWord),
    StoreTail(i8),
    End(i8),
}

impl<const S: usize, const R: usize> Sole<S, R> {
    /// Closes the session that `me` has seen, if there is one.
    pub(super) fn close(&self, me: &mut Actor, seen: SoleWord, then: Then) -> At {
        (me.seen, me.then) = (seen, then);
        match seen.mode {
            Mode::Closing | Mode::Filling if self.is(Protocol::ClosesAlone) => self.closed(me),
            _ => self.closes(me),
        }
    }

    /// Returns the next step by what was loaded.
    fn closes(&self, me: &mut Actor) -> At {
        let tail = me.seen.number;
        At::Close(match me.seen.mode {
            Mode::General => return self.closed(me),
            Mode::Opening => Close::Opening,
            Mode::Sole => Close::Sole,
            Mode::Closing => Close::LoadNext,
            Mode::Filling if self.is(Protocol::ManyTails) => Close::LoadNext,
            Mode::Filling => Self::fill(tail, Self::oldest(tail)),
        })
    }

    fn closed(&self, me: &mut Actor) -> At {
        me.seen = super::FIRST;
        match std::mem::replace(&mut me.then, Then::Done) {
            Then::Loan => At::LoanAny(0),
            Then::Publish => self.goes_to_ring(me),
            Then::Look => At::Look,
            Then::Recover(end, owner) => At::RecoverWord(end, owner, 0),
            Then::Clear(end, owner) => At::ClearEntry(end, owner),
            Then::Done => At::Done,
        }
    }

    pub(super) fn close_step(&mut self, me: &mut Actor) -> Option<At> {
        let At::Close(step) = me.at else { return None };
        let general = |me: &Actor| SoleWord { mode: Mode::General, ..me.seen };
        Some(At::Close(match step {
            Close::LoadSole => {
                let gives_up = self.is(Protocol::ClosesAlone)
                    || self.is(Protocol::ClosesOnce) && me.seen.mode == Mode::Opening;
                if gives_up {
                    return Some(self.closed(me));
                }
                me.seen = self.sole;
                return Some(self.closes(me));
            }
            Close::Opening if self.replace_sole(me.seen, general(me)) => {
                return Some(self.closed(me));
            }
            Close::Sole if self.replace_sole(me.seen, me.seen.to(Mode::Closing)) => {
                me.seen.mode = Mode::Closing;
                Close::LoadNext
            }
            Close::Opening | Close::Sole => Close::LoadSole,
            Close::End(tail) => {
                let done = SoleWord { number: tail, ..general(me) };
                if self.replace_sole(me.seen, done) {
                    return Some(self.closed(me));
                }
                Close::LoadSole
            }
            _ => self.tail_step(me, step).unwrap_or_else(|| self.fill_step(step)),
        }))
    }

    /// Finds the tail of the session.
    fn tail_step(&mut self, me: &mut Actor, step: Close) -> Option<Close> {
        let end = self.ends[me.seen.end as usize];
        Some(match step {
            Close::LoadNext => Close::LoadMark(end.next),
            Close::LoadMark(next) => Close::LoadHome(next, end.mark),
            Close::LoadHome(next, mark) => {
                let slot = home(next - 1);
                let is_marked = self.is_marked(me.seen.end, mark, slot, self.word(slot));
                Close::Fill(if is_marked { next - 1 } else { next })
            }
            Close::Fill(tail) if self.is(Protocol::ManyTails) => {
                Self::fill(tail, Self::oldest(tail))
            }
            Close::Fill(tail) => {
                let filling = SoleWord { mode: Mode::Filling, number: tail, ..me.seen };
                if !self.replace_sole(me.seen, filling) {
                    return Some(Close::LoadSole);
                }
                me.seen = filling;
                Self::fill(tail, Self::oldest(tail))
            }
            _ => return None,
        })
    }

    /// Puts the messages before the tail into the ring.
    fn fill_step(&mut self, step: Close) -> Close {
        match step {
            Close::LoadRing(tail, number) => match self.ring.word_of(number) {
                before if before.number >= number => Self::fill(tail, number + 1),
                before if self.is(Protocol::FillsWhatIsThere) => {
                    Close::LoadWord(tail, number, before)
                }
                before => Close::Replace(tail, number, before),
            },
            Close::LoadWord(tail, number, before) => match self.word(home(number)).state {
                State::Numbered => Close::Replace(tail, number, before),
                _ => Self::fill(tail, number + 1),
            },
            Close::Replace(tail, number, before) => {
                let slot = home(number);
                if self.ring.replace_ring_word(number, before, RingWord { number, slot }) {
                    self.note_in_ring(number, slot);
                }
                Self::fill(tail, number + 1)
            }
            Close::StoreTail(tail) => {
                self.pass_tail(tail - 1);
                Close::End(tail)
            }
            _ => step,
        }
    }

    fn oldest(tail: i8) -> i8 {
        (tail - R as i8).max(0)
    }

    fn fill(tail: i8, number: i8) -> Close {
        if number < tail { Close::LoadRing(tail, number) } else { Close::StoreTail(tail) }
    }

    /// Whether a slot word is that of a marked loan of an end.
    pub(super) fn is_marked(&self, end: u8, mark: Loan, slot: u8, word: Word) -> bool {
        word.state == State::Loaned
            && word.end == end
            && (mark.slot == slot || self.is(Protocol::MarkWithoutSlot))
            && (mark.word.life == word.life || self.is(Protocol::MarkWithoutLife))
            && mark.word.end == end
            && !self.is(Protocol::NoMark)
    }
}
