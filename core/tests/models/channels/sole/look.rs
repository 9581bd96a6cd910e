//! How a receiver looks at a message, and takes it.

use super::super::publish::Loan;
use super::super::ring::{NOBODY, State, Word};
use super::{Actor, At, Found, HOMES, Mode, Protocol, Sole, Then, home};

impl<const S: usize, const R: usize> Sole<S, R> {
    fn is_numbered_by(me: &Actor, word: Word) -> bool {
        word.state == State::Numbered && word.end == me.seen.end
    }

    pub(super) fn look_step(&mut self, me: &mut Actor) -> Option<At> {
        let is_before =
            |base: i8, me: &Actor| me.number < base && !self.is(Protocol::IgnoresTheBase);
        Some(match me.at {
            At::Help => self.close(me, self.sole, Then::Done),
            At::LoadHead => {
                me.number = self.ring.head;
                At::Look
            }
            At::Look => match self.sole {
                seen if matches!(seen.mode, Mode::Closing | Mode::Filling) => {
                    self.close(me, seen, Then::Look)
                }
                seen if seen.mode == Mode::Sole && !is_before(seen.number, me) => {
                    me.seen = seen;
                    At::LoadHome
                }
                _ => {
                    me.seen = super::FIRST;
                    At::LoadRingWord
                }
            },
            At::LoadRingWord => match self.ring.word_of(me.number) {
                word if word.number == me.number => At::LoadWord(word.slot),
                word if word.number > me.number => {
                    At::AdvanceHead(me.number.max(word.number - R as i8), false)
                }
                _ => self.finds(me, Found::Nothing),
            },
            At::LoadWord(slot) => At::LoadNumber(slot, self.word(slot)),
            At::LoadNumber(slot, word) => {
                let is_it = self.number_in(slot) == me.number && word.state == State::Numbered;
                if is_it { At::Take(slot, word) } else { At::AdvanceHead(me.number, false) }
            }
            _ => return None,
        })
    }

    /// Looks at the home of a message beside a sole sender.
    pub(super) fn home_step(&mut self, me: &mut Actor) -> Option<At> {
        let slot = home(me.number);
        let end = self.ends.get(me.seen.end as usize)?;
        Some(match me.at {
            At::LoadHome => At::LoadHomeNumber(self.word(slot)),
            At::LoadHomeNumber(word) => match self.number_in(slot) {
                found if found < me.number => At::LookAgain(Found::Nothing),
                found if found > me.number => At::LookAgain(Found::Gone(found - HOMES)),
                _ if Self::is_numbered_by(me, word) => At::LookAgain(Found::Message(slot, word)),
                _ if self.is(Protocol::TrustsTheNumber) => At::LoadMark(me.number + 1),
                _ => At::LoadNext,
            },
            At::LoadNext if end.next <= me.number => At::LookAgain(Found::Nothing),
            At::LoadNext => At::LoadMark(end.next),
            At::LoadMark(next) if self.is(Protocol::MarkLast) => {
                At::LoadMarkLast(next, self.word(slot))
            }
            At::LoadMark(next) => At::LoadHomeAgain(next, end.mark),
            At::LoadMarkLast(next, word) => self.judge(me, next, end.mark, word),
            At::LoadHomeAgain(next, mark) => self.judge(me, next, mark, self.word(slot)),
            At::LookAgain(found) => {
                let trusts = match found {
                    Found::Nothing => false,
                    Found::Message(..) => self.is(Protocol::TakesAtOnce),
                    Found::Gone(_) => self.is(Protocol::PassesAtOnce),
                };
                if self.sole == me.seen || trusts { self.finds(me, found) } else { At::Look }
            }
            _ => return None,
        })
    }

    /// Judges by what was loaded whether the message, whose number the home has, is gone.
    fn judge(&self, me: &Actor, next: i8, mark: Loan, word: Word) -> At {
        let is_marked = self.is_marked(me.seen.end, mark, home(me.number), word);
        let is_last = next == me.number + 1 || self.is(Protocol::AnyMark);
        if is_marked && is_last {
            At::LookAgain(Found::Nothing)
        } else if Self::is_numbered_by(me, word) && !self.is(Protocol::TrustsTheHome) {
            At::Look
        } else {
            At::LookAgain(Found::Gone(me.number))
        }
    }

    fn finds(&mut self, me: &mut Actor, found: Found) -> At {
        let number = me.number;
        match found {
            Found::Nothing => {
                if self.setting.checks_nothing && !me.was_empty {
                    self.fail("a receiver finds nothing, and there was a message all the time");
                }
                (me.seen, me.number) = (super::FIRST, 0);
                if me.drops { At::Loan } else { At::LoadHead }
            }
            Found::Message(slot, word) => At::Take(slot, word),
            Found::Gone(last) => At::AdvanceHead(last.max(number), false),
        }
    }

    pub(super) fn take_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::Take(slot, word) => {
                let held = word.to(State::Held, me.end);
                let taken = if me.drops { word.next_life(State::Loaned, me.end) } else { held };
                me.seen = super::FIRST;
                if !self.ring.replace(slot, word, taken) {
                    me.number = 0;
                    return Some(At::LoadHead);
                }
                me.loan = Loan { slot, word: taken };
                me.carries = self.ring.slots[slot as usize].payload;
                self.note_taken(me.number, slot);
                At::AdvanceHead(me.number, true)
            }
            At::AdvanceHead(number, has_taken) => {
                self.pass_head(number);
                (me.number, me.seen) = (0, super::FIRST);
                if !has_taken {
                    At::LoadHead
                } else if me.drops {
                    At::Write
                } else {
                    At::Read
                }
            }
            At::Read => {
                if self.ring.slots[me.loan.slot as usize].payload != me.carries {
                    self.fail("a message changed while it was held");
                }
                At::Release
            }
            At::Release => {
                let free = me.loan.word.next_life(State::Free, NOBODY);
                if !self.ring.replace(me.loan.slot, me.loan.word, free) {
                    self.fail("a view was taken from a living process");
                }
                (me.loan, me.carries) = (super::NO_LOAN, 0);
                At::LoadHead
            }
            _ => return None,
        })
    }
}
