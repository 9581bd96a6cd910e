//! How a sender begins a session.
//!
//! Whether it tries at all is the search's choice, so a look before the sole word is stored, after
//! which it does not try, is none of the steps.

use super::super::ring::{RingWord, State};
use super::{Actor, At, Mode, Protocol, SENDERS, Sole, SoleWord, Then};

impl<const S: usize, const R: usize> Sole<S, R> {
    pub(super) fn begin_step(&mut self, me: &mut Actor) -> Option<At> {
        let end = me.end as usize;
        Some(match me.at {
            At::Begin if self.ends[end].begins && !self.is(Protocol::BeginsTwice) => At::LoanAny(0),
            At::Begin if self.sole.mode != Mode::General => self.close(me, self.sole, Then::Loan),
            At::Begin => {
                self.ends[end].begins = true;
                me.seen = self.sole;
                if self.is(Protocol::LooksAtTheEndsBefore) {
                    At::LookAtEnd(0)
                } else if self.is(Protocol::LooksAtTheSlotsBefore) {
                    At::LookAtSlot(0)
                } else if self.is(Protocol::OpensAtOnce) {
                    At::FindTail
                } else {
                    At::Open
                }
            }
            At::Open => {
                let opening = SoleWord { mode: Mode::Opening, end: me.end, ..me.seen };
                if !self.replace_sole(me.seen, opening) {
                    return Some(self.begins_not(me));
                }
                me.seen = opening;
                if self.is(Protocol::TailFirst) { At::FindTail } else { self.look_first() }
            }
            At::StoreNext => {
                self.ends[end].next = me.number;
                let looks = self.is(Protocol::TailFirst) && !self.is(Protocol::OpensAtOnce);
                if looks { self.look_first() } else { At::MakeSole }
            }
            At::MakeSole => {
                let base = me.number;
                let session = SoleWord { mode: Mode::Sole, end: me.end, number: base };
                if !self.replace_sole(me.seen, session) {
                    return Some(self.begins_not(me));
                }
                me.seen = session;
                if self.is(Protocol::OpensAtOnce) { self.look_first() } else { self.begun(me) }
            }
            _ => return self.tail_found_step(me),
        })
    }

    fn tail_found_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::FindTail => At::FindInRing(self.ring.tail),
            At::FindInRing(tail) => match self.ring.word_of(tail).number {
                found if found >= tail => At::PassFound(found),
                // Otherwise this session would be the one before.
                _ if tail <= me.seen.number && !self.is(Protocol::SameBase) => self.begins_not(me),
                _ => {
                    me.number = tail;
                    At::StoreNext
                }
            },
            At::PassFound(found) => {
                self.pass_tail(found);
                At::FindTail
            }
            _ => return None,
        })
    }

    fn begun(&mut self, me: &mut Actor) -> At {
        (me.base, me.seen, me.number) = (Some(me.seen.number), super::FIRST, 0);
        self.ends[me.end as usize].begins = false;
        At::LoanHome(0)
    }

    /// Gives up, and closes what this thread has stored.
    fn begins_not(&mut self, me: &mut Actor) -> At {
        (self.ends[me.end as usize].begins, me.number) = (false, 0);
        self.close(me, me.seen, Then::Loan)
    }

    fn look_first(&self) -> At {
        if self.is(Protocol::IgnoresTheEnds) || self.is(Protocol::LooksAtTheEndsBefore) {
            At::LookAtSlot(0)
        } else {
            At::LookAtEnd(0)
        }
    }

    /// The looks at the ends and at the slots.
    pub(super) fn look_before_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::LookAtEnd(end) => {
                let other = self.ends[end as usize];
                if end != me.end && other.owner != 0 && other.sends {
                    self.begins_not(me)
                } else if end + 1 < SENDERS {
                    At::LookAtEnd(end + 1)
                } else if me.seen.mode == Mode::General {
                    At::Open
                } else if self.is(Protocol::LooksAtTheSlotsBefore) {
                    At::FindTail
                } else {
                    At::LookAtSlot(0)
                }
            }
            At::LookAtSlot(slot) => match self.word(slot) {
                word if word.end != me.end => self.after_slot(me, slot),
                word if word.state == State::Loaned && !self.is(Protocol::IgnoresLoans) => {
                    self.begins_not(me)
                }
                word if word.state == State::Numbered && !self.is(Protocol::IgnoresNumbered) => {
                    At::LookAtNumber(slot)
                }
                _ => self.after_slot(me, slot),
            },
            At::LookAtNumber(slot) => At::LookAtRingOf(slot, self.number_in(slot)),
            At::LookAtRingOf(slot, number) => {
                if self.ring.word_of(number) == (RingWord { number, slot }) {
                    self.after_slot(me, slot)
                } else {
                    self.begins_not(me)
                }
            }
            _ => return None,
        })
    }

    fn after_slot(&mut self, me: &mut Actor, slot: u8) -> At {
        if slot as usize + 1 < S {
            At::LookAtSlot(slot + 1)
        } else if me.seen.mode == Mode::General {
            At::Open
        } else if self.is(Protocol::OpensAtOnce) {
            self.begun(me)
        } else if self.is(Protocol::TailFirst) {
            At::MakeSole
        } else {
            At::FindTail
        }
    }
}
