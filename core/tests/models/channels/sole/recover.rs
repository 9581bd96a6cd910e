//! How the ends of dead processes are recovered.

use super::super::ring::{NOBODY, RingWord, State};
use super::{Actor, At, ENDS, Mode, Protocol, Sole, Then};

impl<const S: usize, const R: usize> Sole<S, R> {
    /// The step after a slot was recovered.
    fn after_recovered(&self, end: u8, owner: u8, slot: u8) -> At {
        if slot as usize + 1 < S {
            At::RecoverWord(end, owner, slot + 1)
        } else if self.is(Protocol::FreesFirst) {
            At::RecoverSole(end, owner)
        } else {
            At::ClearEntry(end, owner)
        }
    }

    pub(super) fn recovery_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::Find => {
                let end = (0..ENDS).find(|end| self.is_dead(self.ends[*end].owner))?;
                let owner = self.ends[end].owner;
                if self.is(Protocol::FreesFirst) {
                    At::RecoverWord(end as u8, owner, 0)
                } else {
                    At::RecoverSole(end as u8, owner)
                }
            }
            At::RecoverSole(end, owner) => {
                let then = if self.is(Protocol::FreesFirst) {
                    Then::Clear(end, owner)
                } else {
                    Then::Recover(end, owner)
                };
                let is_its = self.sole.end == end;
                let seen = if is_its { self.sole } else { self.sole.to(Mode::General) };
                self.close(me, seen, then)
            }
            At::ClearEntry(end, owner) => {
                let entry = &mut self.ends[end as usize];
                if entry.owner == owner {
                    (entry.owner, entry.sends) = (0, false);
                }
                At::Find
            }
            _ => return None,
        })
    }

    /// Recovers one slot of a dead end.
    pub(super) fn recover_slot_step(&mut self, me: &mut Actor) -> Option<At> {
        Some(match me.at {
            At::RecoverWord(end, owner, slot) => match self.word(slot) {
                word if word.end == end && word.state != State::Free => {
                    At::LoadEntry(end, owner, slot, word)
                }
                _ => self.after_recovered(end, owner, slot),
            },
            At::LoadEntry(end, owner, slot, word) => match word.state {
                _ if self.ends[end as usize].owner != owner => At::Find,
                State::Numbered => At::LoadDeadNumber(end, owner, slot, word),
                _ => At::FreeSlot(end, owner, slot, word),
            },
            At::LoadDeadNumber(end, owner, slot, word) => {
                At::LoadDeadRing(end, owner, slot, word, self.number_in(slot))
            }
            At::LoadDeadRing(end, owner, slot, word, number) => match self.ring.word_of(number) {
                ring if ring == (RingWord { number, slot }) => {
                    self.after_recovered(end, owner, slot)
                }
                _ => At::FreeSlot(end, owner, slot, word),
            },
            At::FreeSlot(end, owner, slot, word) => {
                let next = self.after_recovered(end, owner, slot);
                self.ring.replace(slot, word, word.next_life(State::Free, NOBODY));
                next
            }
            _ => return None,
        })
    }
}
