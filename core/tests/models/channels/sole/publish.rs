//! How a sender loans a slot and publishes it, in its session or in the ring.

use super::super::publish::{Loan, Outcome, Publish, Weaker};
use super::super::ring::{NOBODY, RingWord, State, Word};
use super::{Actor, At, HOMES, Mode, Protocol, Sole, SoleWord, Then, home};

impl<const S: usize, const R: usize> Sole<S, R> {
    /// The sole word while the session of this thread is open.
    fn session(&self, me: &Actor) -> Option<SoleWord> {
        let shared = self.is(Protocol::SharesTheSession) && self.sole.end == me.end;
        let base = if shared { Some(self.sole.number) } else { me.base };
        base.map(|number| SoleWord { mode: Mode::Sole, end: me.end, number })
    }

    pub(super) fn loan_step(&mut self, me: &mut Actor) -> Option<At> {
        let end = me.end as usize;
        Some(match me.at {
            At::Join if self.ends[end].owner != 0 => return None,
            At::Join => {
                self.ends[end].owner = me.process + 1;
                At::SetSends
            }
            At::SetSends => {
                self.ends[end].sends = true;
                At::Loan
            }
            At::Loan if self.session(me) == Some(self.sole) => At::LoanHome(0),
            At::Loan => {
                me.base = None;
                At::LoanAny(0)
            }
            At::LoanHome(ahead) => {
                let slot = home(self.ends[end].next + ahead);
                match self.word(slot) {
                    word if word.state == State::Free => At::TakeHome(slot, word),
                    word if word.state != State::Loaned || word.end != me.end => At::LookForFree,
                    _ if ahead + 1 < HOMES => At::LoanHome(ahead + 1),
                    _ => At::LookForFree,
                }
            }
            At::TakeHome(slot, word) => {
                if self.take_free(me, slot, word) {
                    At::Write
                } else {
                    At::LookForFree
                }
            }
            // The result decides only whether to wait, so that it is one step.
            At::LookForFree => {
                let session = self.session(me)?;
                if self.ring.slots.iter().any(|slot| slot.word.state == State::Free) {
                    me.base = None;
                    self.close(me, session, Then::Loan)
                } else {
                    Self::finds_no_slot(me)
                }
            }
            At::LoanAny(slot) => match self.word(slot) {
                word if word.state == State::Free => At::TakeAny(slot, word),
                _ if slot as usize + 1 < S => At::LoanAny(slot + 1),
                _ => Self::finds_no_slot(me),
            },
            At::TakeAny(slot, word) => {
                if self.take_free(me, slot, word) {
                    At::Write
                } else {
                    At::Loan
                }
            }
            At::Write => {
                if self.word(me.loan.slot) != me.loan.word {
                    self.fail("a slot is written by a process that does not have it");
                }
                self.ring.slots[me.loan.slot as usize].payload = me.message;
                me.carries = me.message;
                me.message += 1;
                match me.ahead {
                    Some(_) => At::Choose,
                    None if me.loans_ahead <= me.carries && me.message <= me.last => {
                        me.ahead = Some((me.loan, me.carries));
                        At::Loan
                    }
                    None => At::LoadSole,
                }
            }
            At::Choose => At::LoadSole,
            At::Cancel => {
                let free = me.loan.word.next_life(State::Free, NOBODY);
                if !self.ring.replace(me.loan.slot, me.loan.word, free) {
                    self.fail("a loan was taken from a living process");
                }
                (me.loan, me.carries) = (super::NO_LOAN, 0);
                me.message -= 1;
                At::Loan
            }
            At::Leave => {
                self.ends[end].owner = 0;
                self.ends[end].sends = false;
                At::Done
            }
            _ => return None,
        })
    }

    fn finds_no_slot(me: &Actor) -> At {
        if me.drops { At::LoadHead } else { At::Loan }
    }

    fn take_free(&mut self, me: &mut Actor, slot: u8, word: Word) -> bool {
        let loaned = word.next_life(State::Loaned, me.end);
        let is_loaned = self.ring.replace(slot, word, loaned);
        if is_loaned {
            me.loan = Loan { slot, word: loaned };
        }
        is_loaned
    }

    /// Publishes in the session of this thread, if it has one.
    pub(super) fn sole_step(&mut self, me: &mut Actor) -> Option<At> {
        let end = me.end as usize;
        let numbered = me.loan.word.to(State::Numbered, me.end);
        Some(match me.at {
            At::LoadSole => {
                let next = self.ends[end].next; // which no other thread stores meanwhile
                if self.session(me) != Some(self.sole) || me.loan.slot != home(next) {
                    me.mine = None;
                    return Some(self.close(me, self.sole, Then::Publish));
                }
                me.seen = self.sole;
                if self.is(Protocol::MarkAfterNext) { At::Next(next) } else { At::Mark(next) }
            }
            At::Mark(number) => {
                self.ends[end].mark = me.loan;
                if self.is(Protocol::MarkAfterNext) { At::Number(number) } else { At::Next(number) }
            }
            At::Next(number) => {
                self.ends[end].next = number + 1;
                if self.is(Protocol::MarkAfterNext) { At::Mark(number) } else { At::Number(number) }
            }
            At::Number(number) => {
                self.ring.slots[me.loan.slot as usize].number = number;
                At::SetNumbered(number)
            }
            At::SetNumbered(number) => {
                if !self.ring.replace(me.loan.slot, me.loan.word, numbered) {
                    self.fail("a loan was taken from a living process");
                }
                me.loan.word = numbered;
                At::LoadSoleAgain(number)
            }
            At::LoadSoleAgain(number) => {
                let is_open = self.sole == me.seen || self.is(Protocol::TrustsItsSession);
                if is_open {
                    self.published(me, number)
                } else {
                    (me.mine, me.base) = (Some(number), None);
                    self.close(me, me.seen, Then::Publish)
                }
            }
            _ => return None,
        })
    }

    /// Notes that this thread's message is published. Returns what it does next.
    fn published(&mut self, me: &mut Actor, number: i8) -> At {
        self.note(me.carries, number);
        self.sent[me.carries as usize] = true;
        (me.mine, me.seen, me.loan, me.carries) = (None, super::FIRST, super::NO_LOAN, 0);
        if me.message <= me.last {
            return At::Loan;
        }
        match me.ahead.take() {
            Some(ahead) => {
                (me.loan, me.carries) = ahead;
                At::LoadSole
            }
            None => At::Leave,
        }
    }

    /// Begins to publish in the ring, unless who closed the session has done so.
    pub(super) fn goes_to_ring(&self, me: &Actor) -> At {
        if me.mine.is_none() || self.is(Protocol::PublishesAgain) {
            At::Publish(Publish::LoadTail)
        } else if self.is(Protocol::RingLast) {
            At::LookAtOwnWord
        } else {
            At::LookForOwn
        }
    }

    /// Publishes in the ring.
    pub(super) fn publish_step(&mut self, me: &mut Actor) -> Option<At> {
        let Loan { slot, word } = me.loan;
        let ring_last = self.is(Protocol::RingLast);
        Some(match me.at {
            At::LookForOwn => {
                let number = me.mine?;
                if self.ring.word_of(number) == (RingWord { number, slot }) {
                    self.published(me, number)
                } else if ring_last {
                    At::Publish(Publish::LoadTail)
                } else {
                    At::LookAtOwnWord
                }
            }
            At::LookAtOwnWord if self.word(slot) != word => self.published(me, me.mine?),
            At::LookAtOwnWord if ring_last => At::LookForOwn,
            At::LookAtOwnWord => At::Publish(Publish::LoadTail),
            At::Publish(step) => self.ring_step(me, step),
            _ => return None,
        })
    }

    fn ring_step(&mut self, me: &mut Actor, step: Publish) -> At {
        let writes = matches!(step, Publish::WriteNumber(..) | Publish::SetNumbered(..));
        if writes && self.word(me.loan.slot) != me.loan.word {
            self.fail("a slot is numbered by a process that does not have it");
        }
        match step.step(&mut self.ring, &mut me.loan, Weaker::default()) {
            Outcome::Next(step) => At::Publish(step),
            Outcome::Published(number, step) => {
                if self.word(me.loan.slot) != me.loan.word {
                    self.fail("a slot is published by a process that does not have it");
                }
                self.note(me.carries, number);
                me.number = number;
                At::Publish(step)
            }
            Outcome::LoanLost => At::Done, // failed before
            Outcome::Done => {
                let number = std::mem::take(&mut me.number);
                self.published(me, number)
            }
        }
    }
}
