//! The steps of a process under each protocol: one atomic operation each.

use super::world::{
    At, CREATOR, ENTRIES, Message, RECEIVER, SWEEPER, State, TICKET, Then, Word, World,
};

/// A protocol to search: the real one, or one without a part of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Protocol {
    Real,
    /// Scans, then goes from LIVE to FREE in one step.
    WithoutClosing,
    /// The word has no epoch.
    WithoutEpoch,
    /// Looks at the word before it enters.
    ChecksFirst,
    /// The receiver gives the ticket back before it has entered.
    TicketFirst,
    /// Does not check the generation.
    WithoutGeneration,
}

impl Protocol {
    /// Returns the world after one step of a process. `None` while the process must wait.
    pub(crate) fn step(self, world: &World, me: usize) -> Option<World> {
        let mut next = world.clone();
        let at = world.at[me];
        next.at[me] = match at {
            At::AddTicket | At::Send => Self::send(&mut next, at),
            At::Receive => self.receive(&mut next)?,
            At::Enter if self == Self::ChecksFirst => self.check_first(&next, me)?,
            At::Enter
            | At::Check
            | At::Generation
            | At::TakeTicket
            | At::Hold
            | At::Leave
            | At::Undo => self.attach(&mut next, me, at),
            At::Claim | At::Renew | At::Publish => self.reuse(&mut next, me, at),
            At::Sweep(entry) => self.sweep(&mut next, entry),
            At::SweepWord => self.sweep_word(&mut next),
            _ => self.close(&mut next, me, at),
        };
        Some(next)
    }

    /// Holds for a message, and sends it.
    fn send(next: &mut World, at: At) -> At {
        match at {
            At::AddTicket => {
                next.entries[TICKET] = true;
                At::Send
            }
            _ if next.dead[RECEIVER] => {
                next.message = Message::Gone; // no receiver: its lock is dropped
                next.entries[TICKET] = false;
                At::Leave
            }
            _ => {
                next.message = Message::Sent;
                At::Leave
            }
        }
    }

    /// Receives the message. `None` while there is none yet.
    fn receive(self, next: &mut World) -> Option<At> {
        match next.message {
            Message::Sent => {
                next.message = Message::Received;
                let is_early = self == Self::TicketFirst;
                Some(if is_early { At::TakeTicket } else { At::Enter })
            }
            Message::None if !next.dead[CREATOR] => None,
            _ => Some(At::Done), // the other end was closed
        }
    }

    /// Looks at the word before the process has entered: a weaker protocol. `None` while it waits
    /// for the word to change.
    fn check_first(self, next: &World, me: usize) -> Option<At> {
        match next.word.state {
            State::Live if next.generation == 0 => Some(At::Generation),
            State::Live | State::Closing => None,
            _ => Some(self.refused(me)),
        }
    }

    /// An attach, the hold, and its end.
    fn attach(self, next: &mut World, me: usize, at: At) -> At {
        match at {
            At::Enter => {
                next.entries[me] = true;
                At::Check
            }
            At::Check => match next.word.state {
                State::Live => At::Generation,
                State::Closing => At::Scan(next.word, 0, false, Then::Attach),
                _ => At::Undo,
            },
            At::Generation => self.generation(next, me),
            At::TakeTicket => {
                next.entries[TICKET] = false;
                next.message = Message::Gone;
                if self == Self::TicketFirst { At::Enter } else { At::Hold }
            }
            At::Hold => At::Leave,
            At::Leave => {
                next.entries[me] = false;
                next.holds[me] = None;
                let is_reused = me == CREATOR && next.generation == 0;
                At::Load(if is_reused { Then::Reuse } else { Then::Finish })
            }
            At::Undo => {
                next.lost = me == RECEIVER;
                next.entries[me] = false;
                At::Load(Then::Refused)
            }
            _ => unreachable!("{at:?}"),
        }
    }

    /// Claims the free segment, and makes another array in it.
    fn reuse(self, next: &mut World, me: usize, at: At) -> At {
        match at {
            At::Claim if next.word.state == State::Free => {
                next.word = self.moved(next.word, State::Claimed);
                At::Renew
            }
            At::Claim => At::Done,
            At::Renew => {
                next.generation += 1;
                next.entries[me] = true;
                At::Publish
            }
            At::Publish => {
                next.word = self.moved(next.word, State::Live);
                next.holds[me] = Some(next.generation);
                At::Hold
            }
            _ => unreachable!("{at:?}"),
        }
    }

    fn generation(self, next: &mut World, me: usize) -> At {
        if self == Self::ChecksFirst {
            next.entries[me] = true; // too late
        }
        if next.generation != 0 && self != Self::WithoutGeneration {
            return At::Undo;
        }
        next.holds[me] = Some(0);
        if me == RECEIVER && next.message == Message::Received { At::TakeTicket } else { At::Hold }
    }

    /// Gives the ticket back of a receiver that is refused.
    fn refused(self, me: usize) -> At {
        if me == RECEIVER { At::Done } else { At::Sweep(0) }
    }

    fn moved(self, word: Word, state: State) -> Word {
        let epoch = if self == Self::WithoutEpoch { 0 } else { word.epoch + 1 };
        Word { state, epoch }
    }

    /// Tries to close, for a process that may have been the last holder or has met CLOSING.
    fn close(self, next: &mut World, me: usize, at: At) -> At {
        match at {
            At::Load(then) => match next.word.state {
                State::Live => At::Glance(next.word, 0, then),
                State::Closing => At::Scan(next.word, 0, false, then),
                _ => self.after(me, then),
            },
            At::Glance(_, entry, then) if next.entries.get(entry as usize) == Some(&true) => {
                self.still_held(me, then)
            }
            At::Glance(word, entry, then) if (entry as usize) < ENTRIES => {
                At::Glance(word, entry + 1, then)
            }
            At::Glance(word, _, then) => At::Close(word, then),
            At::Close(word, then) if next.word != word => At::Load(then),
            At::Close(word, then) if self == Self::WithoutClosing => {
                next.word = self.moved(word, State::Free);
                self.after(me, then)
            }
            At::Close(word, then) => {
                next.word = self.moved(word, State::Closing);
                At::Scan(next.word, 0, false, then)
            }
            At::Scan(word, entry, found, then) if (entry as usize) < ENTRIES => {
                At::Scan(word, entry + 1, found || next.entries[entry as usize], then)
            }
            At::Scan(word, _, found, then) => At::Settle(word, found, then),
            At::Settle(word, _, then) if next.word != word => At::Load(then),
            At::Settle(word, found, then) => {
                next.word = self.moved(word, if found { State::Live } else { State::Free });
                if found { self.still_held(me, then) } else { self.after(me, then) }
            }
            _ => unreachable!("{at:?}"),
        }
    }

    /// Another process will close it.
    fn still_held(self, me: usize, then: Then) -> At {
        if then == Then::Sweep { At::Done } else { self.after(me, then) }
    }

    fn after(self, me: usize, then: Then) -> At {
        match then {
            Then::Finish if me == SWEEPER => At::Sweep(0), // while the others go on
            Then::Finish => At::Done,
            Then::Reuse => At::Claim,
            Then::Attach => At::Check,
            Then::Refused => At::Done,
            Then::Sweep => At::SweepWord,
        }
    }

    /// Clears the entries of the dead, one by one, each by a compare-and-swap.
    fn sweep(self, next: &mut World, entry: u8) -> At {
        if entry as usize == ENTRIES {
            return At::SweepWord;
        }
        if next.is_void(entry as usize) {
            next.entries[entry as usize] = false;
        }
        At::Sweep(entry + 1)
    }

    /// Frees what a dead creator had kept warm, or was about to use again.
    fn sweep_word(self, next: &mut World) -> At {
        let creator_dead = next.dead[CREATOR];
        match next.word.state {
            State::Free | State::Claimed if creator_dead => {
                next.word = self.moved(next.word, State::Dead);
                At::Done
            }
            State::Live | State::Closing => At::Load(Then::Sweep),
            _ => At::Done,
        }
    }
}
