//! The state of the segment and of its processes, and what must hold in it.

pub(crate) const PROCESSES: usize = 3;
/// The creator sends the message, the receiver receives it, and the sweeper attaches by a plain
/// handle and sweeps.
pub(crate) const CREATOR: usize = 0;
pub(crate) const RECEIVER: usize = 1;
pub(crate) const SWEEPER: usize = 2;
/// The entry of the message.
pub(crate) const TICKET: usize = 3;
pub(crate) const ENTRIES: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    Live,
    Closing,
    Free,
    Claimed,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Word {
    pub(crate) state: State,
    pub(crate) epoch: u8,
}

/// The continuation of a process after it has tried to close.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Then {
    Finish,
    Reuse,
    Attach,
    Refused,
    Sweep,
}

/// The next step of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    AddTicket,
    Send,
    Receive,
    Enter,
    Check,
    Generation,
    TakeTicket,
    Hold,
    Leave,
    Undo,
    Load(Then),
    Glance(Word, u8, Then),
    Close(Word, Then),
    Scan(Word, u8, bool, Then),
    Settle(Word, bool, Then),
    Claim,
    Renew,
    Publish,
    Sweep(u8),
    SweepWord,
    Done,
    Crashed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Message {
    None,
    Sent,
    Received,
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) word: Word,
    pub(crate) generation: u8,
    pub(crate) entries: [bool; ENTRIES],
    pub(crate) message: Message,
    /// The generation that each process holds.
    pub(crate) holds: [Option<u8>; PROCESSES],
    pub(crate) at: [At; PROCESSES],
    pub(crate) dead: [bool; PROCESSES],
    /// A message was received, and its array was refused.
    pub(crate) lost: bool,
    pub(crate) swept: bool,
}

impl World {
    pub(crate) fn start() -> Self {
        Self {
            word: Word { state: State::Live, epoch: 0 },
            generation: 0,
            entries: [true, false, false, false],
            message: Message::None,
            holds: [Some(0), None, None],
            at: [At::AddTicket, At::Receive, At::Enter],
            dead: [false; PROCESSES],
            lost: false,
            swept: false,
        }
    }

    /// Whether the process that an entry depends on is gone.
    pub(crate) fn is_void(&self, entry: usize) -> bool {
        match entry {
            TICKET => match self.message {
                Message::None => self.dead[CREATOR],
                Message::Sent | Message::Received => self.dead[RECEIVER],
                Message::Gone => true,
            },
            process => self.dead[process],
        }
    }

    /// Returns what a process or a message has lost in this state, if any has.
    pub(crate) fn broken(&self) -> Option<String> {
        let live = matches!(self.word.state, State::Live | State::Closing);
        for (process, held) in self.holds.iter().enumerate() {
            if let Some(generation) = held
                && (!live || *generation != self.generation)
            {
                return Some(format!(
                    "process {process} holds generation {generation} of {self:?}"
                ));
            }
        }
        if self.lost {
            return Some(format!("a message arrived and its array did not: {self:?}"));
        }
        let under_way = self.message == Message::Sent && !self.dead[RECEIVER];
        if under_way && (!live || self.generation != 0) {
            Some(format!("a message is under way in {self:?}"))
        } else {
            None
        }
    }
}
