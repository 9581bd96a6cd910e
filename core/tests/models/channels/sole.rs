//! A queue with a sole sender, which publishes in the slots alone while its session is open.

mod close;
mod look;
mod publish;
mod recover;
mod session;

use self::close::Close;
use super::publish::{Loan, Publish};
use super::ring::{NOBODY, Ring, State, Word};
use super::{World, must_be_caught, must_hold};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// The sole sender does not load the sole word again after it made the slot NUMBERED.
    TrustsItsSession,
    /// A sender whose session was closed publishes in the ring, whatever is there.
    PublishesAgain,
    /// A sender whose session was closed loads the slot word before the ring's word.
    RingLast,
    /// A receiver does not load the sole word again after it found a message.
    TakesAtOnce,
    /// A receiver does not load the sole word again before it passes a message.
    PassesAtOnce,
    /// A receiver takes a number in a home for one that was published.
    TrustsTheNumber,
    /// A receiver does not load the home again after next.
    TrustsTheHome,
    /// The slot word is loaded before the mark.
    MarkLast,
    /// A receiver takes a marked home for that of the message that it looks for.
    AnyMark,
    /// A receiver looks at the home also of a message from before the session.
    IgnoresTheBase,
    /// The session is open at once, and the looks come then.
    OpensAtOnce,
    /// The begin does not look at the ends.
    IgnoresTheEnds,
    /// The begin looks at the ends before it stores the sole word, and not afterwards.
    LooksAtTheEndsBefore,
    /// The begin looks at the slots before it stores the sole word, and not afterwards.
    LooksAtTheSlotsBefore,
    /// The begin does not care for slots that the end has LOANED.
    IgnoresLoans,
    /// The begin does not care for slots that are NUMBERED, and not yet in the ring.
    IgnoresNumbered,
    /// The begin finds the tail before it looks at the ends and the slots.
    TailFirst,
    /// The base may be that of the session before.
    SameBase,
    /// Two threads of an end begin at once.
    BeginsTwice,
    /// A thread uses the session that another one of its end has begun.
    SharesTheSession,
    /// The mark is stored after next.
    MarkAfterNext,
    /// The mark has no life.
    MarkWithoutLife,
    /// The mark has no slot.
    MarkWithoutSlot,
    /// There is no mark: a message is published when its number was given.
    NoMark,
    /// A process that finds a session half closed leaves it to the one that closes it.
    ClosesAlone,
    /// Each process that closes finds the tail for itself.
    ManyTails,
    /// Who closes puts only those messages into the ring that are still there.
    FillsWhatIsThere,
    /// A process that saw OPENING does not close what was made SOLE meanwhile.
    ClosesOnce,
    /// The recovery frees the slots before it closes the session.
    FreesFirst,
}

/// The homes: the first of the slots.
const HOMES: i8 = 2;
const ENDS: usize = 5;
/// The first ends are those of senders.
const SENDERS: u8 = 2;
/// The end of a process that comes when all others are stopped.
const STRANGER: u8 = ENDS as u8 - 1;
/// The most messages. The last is the stranger's.
const MESSAGES: usize = 6;
const UNPUBLISHED: i8 = -9;
const EMPTY: Word = Word { state: State::Free, end: NOBODY, life: 0 };
const NO_LOAN: Loan = Loan { slot: 0, word: EMPTY };
/// More steps than one that is alone needs for its operations.
const ENOUGH: usize = 400;

/// Returns the home of a message.
fn home(number: i8) -> u8 {
    number.rem_euclid(HOMES) as u8
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Mode {
    General,
    Opening,
    /// With the base.
    Sole,
    Closing,
    /// With the tail.
    Filling,
}

/// The sole word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SoleWord {
    mode: Mode,
    end: u8,
    number: i8,
}

impl SoleWord {
    fn to(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

const FIRST: SoleWord = SoleWord { mode: Mode::General, end: NOBODY, number: -1 };

/// An entry with its roles, and the words of a sole sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct End {
    /// The process, and one more: 0 is a free entry.
    owner: u8,
    sends: bool,
    next: i8,
    mark: Loan,
    /// Of the process: whether one of its threads is about to begin a session.
    begins: bool,
}

/// The next step of a thread, with what it has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// A sender that comes when the end is free.
    Join,
    SetSends,
    Loan,
    LoanHome(i8),
    TakeHome(u8, Word),
    LookForFree,
    LoanAny(u8),
    TakeAny(u8, Word),
    Write,
    Choose,
    Cancel,
    // Begins a session.
    Begin,
    Open,
    LookAtEnd(u8),
    LookAtSlot(u8),
    LookAtNumber(u8),
    LookAtRingOf(u8, i8),
    FindTail,
    FindInRing(i8),
    PassFound(i8),
    StoreNext,
    MakeSole,
    // Publishes in its session.
    LoadSole,
    Mark(i8),
    Next(i8),
    Number(i8),
    SetNumbered(i8),
    LoadSoleAgain(i8),
    LookForOwn,
    LookAtOwnWord,
    Publish(Publish),
    Leave,
    /// Closes a session.
    Close(Close),
    // A receiver.
    LoadHead,
    Look,
    LoadHome,
    LoadHomeNumber(Word),
    LoadNext,
    LoadMark(i8),
    LoadHomeAgain(i8, Loan),
    LoadMarkLast(i8, Word),
    LookAgain(Found),
    LoadRingWord,
    LoadWord(u8),
    LoadNumber(u8, Word),
    Take(u8, Word),
    AdvanceHead(i8, bool),
    Read,
    Release,
    // A recovery of an end with an owner.
    Find,
    RecoverSole(u8, u8),
    RecoverWord(u8, u8, u8),
    LoadEntry(u8, u8, u8, Word),
    LoadDeadNumber(u8, u8, u8, Word),
    LoadDeadRing(u8, u8, u8, Word, i8),
    FreeSlot(u8, u8, u8, Word),
    ClearEntry(u8, u8),
    /// One that closes a session, if there is one, and does nothing else.
    Help,
    Done,
    Dead,
}

/// What a receiver finds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Found {
    Nothing,
    Message(u8, Word),
    /// The message is gone, and all up to a number.
    Gone(i8),
}

/// A thread of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    process: u8,
    end: u8,
    /// The next message that it writes, and the last one.
    message: u8,
    last: u8,
    loan: Loan,
    /// The message that it has written to that.
    carries: u8,
    /// What it has on loan beside that, with the message.
    ahead: Option<(Loan, u8)>,
    /// From which message on it takes the slot of the next one before it publishes.
    loans_ahead: u8,
    /// Whether it drops the oldest message when there is no free slot.
    drops: bool,
    /// How often it may still give a slot back that it has on loan.
    cancels: u8,
    /// How often it may still begin a session, and the base of that which it has.
    begins: u8,
    base: Option<i8>,
    /// The number that it published in its session, when that is closed.
    mine: Option<i8>,
    /// The sole word that it has loaded.
    seen: SoleWord,
    /// The number that it looks for, or begins with.
    number: i8,
    /// The step after a session was closed.
    then: Then,
    may_die: bool,
    /// Whether there was no message at some time of a receiver's look.
    was_empty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Then {
    Loan,
    Publish,
    Look,
    Recover(u8, u8),
    Clear(u8, u8),
    Done,
}

/// What else happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Setting {
    deaths: u8,
    /// Processes that were stopped before a store to the tail, and to the head.
    late_tails: u8,
    late_heads: u8,
    /// Whether a receiver may find nothing only if there was nothing at some time of its look.
    checks_nothing: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Sole<const S: usize, const R: usize> {
    ring: Ring<S, R>,
    sole: SoleWord,
    ends: [End; ENDS],
    actors: Vec<Actor>,
    setting: Setting,
    /// The number of each message, once it is known.
    numbers: [i8; MESSAGES],
    taken: [bool; MESSAGES],
    /// Whether its sender knows that it is published.
    sent: [bool; MESSAGES],
    next_taken: i8,
    violation: Option<&'static str>,
    protocol: u8,
}

fn actor(at: At, process: u8, end: u8, messages: (u8, u8)) -> Actor {
    Actor {
        at,
        process,
        end,
        message: messages.0,
        last: messages.1,
        loan: NO_LOAN,
        carries: 0,
        ahead: None,
        loans_ahead: u8::MAX,
        drops: false,
        cancels: 0,
        begins: 0,
        base: None,
        mine: None,
        seen: FIRST,
        number: 0,
        then: Then::Done,
        may_die: false,
        was_empty: false,
    }
}

/// A sender that may begin so many sessions. Its process has the number of its end.
fn sole_sender(begins: u8, first: u8, last: u8) -> Actor {
    Actor { begins, ..actor(At::Loan, 0, 0, (first, last)) }
}

/// A sender that has not sent yet.
fn sender(end: u8, first: u8, last: u8) -> Actor {
    actor(At::SetSends, end, end, (first, last))
}

/// A sender that comes when an end is free.
fn newcomer(process: u8, end: u8, begins: u8, message: u8) -> Actor {
    Actor { begins, ..actor(At::Join, process, end, (message, message)) }
}

fn receiver(end: u8) -> Actor {
    actor(At::LoadHead, end, end, (0, 0))
}

fn recovery() -> Actor {
    actor(At::Find, NOBODY, NOBODY, (0, 0))
}

fn helper() -> Actor {
    actor(At::Help, NOBODY, NOBODY, (0, 0))
}

impl<const S: usize, const R: usize> Sole<S, R> {
    fn new(protocol: Protocol, setting: Setting, actors: &[Actor]) -> Self {
        let mut ends =
            [End { owner: 0, sends: false, next: 0, mark: NO_LOAN, begins: false }; ENDS];
        for actor in actors.iter().filter(|actor| actor.end != NOBODY && actor.at != At::Join) {
            let end = &mut ends[actor.end as usize];
            end.owner = actor.process + 1;
            end.sends |= actor.at == At::Loan;
        }
        Self {
            ring: Ring::new(Default::default()),
            sole: FIRST,
            ends,
            actors: actors.to_vec(),
            setting,
            numbers: [UNPUBLISHED; MESSAGES],
            taken: [false; MESSAGES],
            sent: [false; MESSAGES],
            next_taken: 0,
            violation: None,
            protocol: protocol as u8,
        }
    }

    fn is(&self, protocol: Protocol) -> bool {
        self.protocol == protocol as u8
    }

    fn is_dead(&self, owner: u8) -> bool {
        let dead = |actor: &Actor| actor.at == At::Dead && actor.process + 1 == owner;
        self.actors.iter().any(dead)
    }

    fn fail(&mut self, violation: &'static str) {
        self.violation.get_or_insert(violation);
    }

    fn word(&self, slot: u8) -> Word {
        self.ring.slots[slot as usize].word
    }

    fn number_in(&self, slot: u8) -> i8 {
        self.ring.slots[slot as usize].number
    }

    fn replace_sole(&mut self, from: SoleWord, to: SoleWord) -> bool {
        let is_same = self.sole == from;
        if is_same {
            self.sole = to;
        }
        is_same
    }

    /// Sets the tail after the message with a number.
    fn pass_tail(&mut self, number: i8) {
        if number >= 0 && self.ring.word_of(number).number < number {
            self.fail("the tail is ahead of the ring");
        }
        self.ring.advance_tail(number);
    }

    fn pass_head(&mut self, number: i8) {
        if number >= self.next_taken {
            self.fail("a message is passed that nobody has taken");
        }
        self.ring.advance_head(number);
    }

    /// Notes that a message was published with a number.
    fn note(&mut self, message: u8, number: i8) {
        let known = self.numbers[message as usize];
        if known != UNPUBLISHED && known != number {
            return self.fail("a message has two numbers");
        }
        self.numbers[message as usize] = number;
        if self.numbers.iter().filter(|other| **other == number).count() > 1 {
            self.fail("two messages have one number");
        }
    }

    /// Notes that who closed has put the message with a number into the ring.
    fn note_in_ring(&mut self, number: i8, slot: u8) {
        let at = self.ring.slots[slot as usize];
        if at.word.state == State::Numbered && at.number == number {
            self.note(at.payload, number);
        } else if number >= self.next_taken {
            self.fail("the ring has a message that is not there");
        }
    }

    /// Notes that the message with a number was taken from a slot.
    fn note_taken(&mut self, number: i8, slot: u8) {
        let payload = self.ring.slots[slot as usize].payload;
        if number < self.next_taken || self.taken[payload as usize] {
            return self.fail("a message was taken twice");
        }
        if number > self.next_taken {
            return self.fail("a message was taken before an earlier one");
        }
        self.next_taken += 1;
        self.taken[payload as usize] = true;
        self.note(payload, number);
    }

    /// One step of a thread. `None` if it has none.
    fn advance(&mut self, me: &mut Actor) -> Option<()> {
        let at = self
            .loan_step(me)
            .or_else(|| self.begin_step(me))
            .or_else(|| self.look_before_step(me))
            .or_else(|| self.sole_step(me))
            .or_else(|| self.publish_step(me))
            .or_else(|| self.close_step(me))
            .or_else(|| self.look_step(me))
            .or_else(|| self.home_step(me))
            .or_else(|| self.take_step(me))
            .or_else(|| self.recovery_step(me))
            .or_else(|| self.recover_slot_step(me))?;
        me.at = at;
        Some(())
    }

    /// What one step of a thread leads to, with a second choice where it has one.
    fn steps(&self, number: usize) -> Vec<Self> {
        let me = self.actors[number];
        let mut choices = vec![me];
        match me.at {
            At::Loan if me.base.is_none() && me.begins > 0 => {
                choices.push(Actor { at: At::Begin, begins: me.begins - 1, ..me });
            }
            At::LoadSole if me.cancels > 0 && me.ahead.is_none() => {
                choices.push(Actor { at: At::Cancel, cancels: me.cancels - 1, ..me });
            }
            At::Choose => {
                let (loan, carries) = me.ahead.unwrap_or((me.loan, me.carries));
                let ahead = Some((me.loan, me.carries));
                choices.push(Actor { loan, carries, ahead, ..me });
            }
            _ => {}
        }
        let step = |mut me: Actor| {
            let mut next = self.clone();
            next.advance(&mut me)?;
            next.actors[number] = me;
            Some(next)
        };
        choices.into_iter().filter_map(step).collect()
    }

    /// What the death of a process leads to.
    fn death(&self, process: u8) -> Self {
        let mut next = self.clone();
        next.setting.deaths -= 1;
        for dead in next.actors.iter_mut().filter(|actor| actor.process == process) {
            if let Some(end) = next.ends.get_mut(dead.end as usize) {
                end.begins = false;
            }
            *dead = Actor { at: At::Dead, ..actor(At::Dead, process, dead.end, (0, 0)) };
        }
        next
    }

    /// What the late stores of processes that were stopped lead to.
    fn late_stores(&self) -> Vec<Self> {
        let late = |is_tail: bool, old: i8| {
            let mut next = self.clone();
            if is_tail {
                next.setting.late_tails -= 1;
                next.ring.tail = old;
            } else {
                next.setting.late_heads -= 1;
                next.ring.head = old;
            }
            next
        };
        let tails = if self.setting.late_tails > 0 { 0..self.ring.tail } else { 0..0 };
        let heads = if self.setting.late_heads > 0 { 0..self.ring.head } else { 0..0 };
        tails.map(|old| late(true, old)).chain(heads.map(|old| late(false, old))).collect()
    }

    /// Notes for each receiver that looks whether there is no message now.
    fn note_nothing(&mut self) {
        let looks = |actor: &Actor| match actor.at {
            At::AdvanceHead(_, has_taken) => !has_taken,
            At::Read | At::Release | At::Dead => false,
            _ => actor.last == 0 && actor.end != NOBODY,
        };
        if !self.setting.checks_nothing {
            return;
        }
        let is_empty = !self.clone().stranger_receives();
        for actor in &mut self.actors {
            let was_empty = actor.was_empty && actor.at != At::LoadHead;
            actor.was_empty = looks(actor) && (is_empty || was_empty);
        }
    }

    /// Whether a receiver that comes when all others are stopped takes a message.
    fn stranger_receives(&mut self) -> bool {
        let mut me = Actor { was_empty: true, ..receiver(STRANGER) };
        let mut head = None;
        for _ in 0..ENOUGH {
            if me.at == At::LoadHead && head.replace(self.ring.head) == Some(self.ring.head) {
                return false;
            }
            let has_taken = me.at == At::Release;
            if self.advance(&mut me).is_none() {
                return false;
            }
            if has_taken {
                return true;
            }
        }
        false
    }

    /// Whether a sender that comes when all others are stopped publishes.
    fn stranger_sends(&mut self) -> bool {
        let message = MESSAGES as u8 - 1;
        let mut me = actor(At::SetSends, STRANGER, STRANGER, (message, message));
        self.ends[STRANGER as usize].owner = STRANGER + 1;
        (0..ENOUGH).any(|_| {
            let _ = self.advance(&mut me);
            me.at == At::Leave
        })
    }

    /// Whether a receiver that comes when all others are stopped finds all that was published.
    fn stranger_finds_all(&mut self) -> bool {
        while self.stranger_receives() {}
        (0..MESSAGES).all(|message| !self.sent[message] || self.taken[message])
    }

    /// What a process does not find that comes when all others are stopped for good.
    fn is_hidden(&self) -> Option<&'static str> {
        let mut received = self.clone();
        if !received.stranger_finds_all() {
            return Some("a message is published, and no receiver finds it");
        }
        let mut sent = self.clone();
        if !sent.ring.slots.iter().any(|slot| slot.word.state == State::Free) {
            return received.violation;
        }
        if !sent.stranger_sends() {
            return Some("there is a free slot, and no sender gets it");
        }
        if !sent.stranger_finds_all() {
            return Some("a message is published by another sender, and no receiver finds it");
        }
        received.violation.or(sent.violation)
    }

    /// Whether every process has ended, or is between two operations.
    fn is_quiet(&self) -> bool {
        let rests = |actor: &Actor| match actor.at {
            At::Loan => actor.ahead.is_none(),
            At::Done | At::Dead | At::LoadHead | At::Find | At::Join | At::Help => true,
            _ => false,
        };
        self.actors.iter().all(rests) && !self.ends.iter().any(|end| self.is_dead(end.owner))
    }

    /// What is not there when all is quiet. [`is_hidden`](Self::is_hidden) looks at the messages.
    fn is_lost(&self) -> Option<&'static str> {
        let mut rest = self.clone();
        while rest.stranger_receives() {}
        let are_free = rest.ring.slots.iter().all(|slot| slot.word.state == State::Free);
        if are_free { rest.violation } else { Some("a slot is lost") }
    }
}

impl<const S: usize, const R: usize> World for Sole<S, R> {
    fn successors(&self) -> Vec<Self> {
        let steps = (0..self.actors.len()).flat_map(|number| self.steps(number));
        let may_die = |actor: &&Actor| {
            self.setting.deaths > 0 && actor.may_die && !matches!(actor.at, At::Done | At::Dead)
        };
        let deaths = self.actors.iter().filter(may_die).map(|actor| self.death(actor.process));
        let mut all: Vec<_> = steps.chain(deaths).chain(self.late_stores()).collect();
        all.iter_mut().for_each(Self::note_nothing);
        all
    }

    fn violation(&self) -> Option<&'static str> {
        let is_lost = || self.is_quiet().then(|| self.is_lost()).flatten();
        self.violation.or_else(|| self.is_hidden()).or_else(is_lost)
    }
}

fn mortal(actor: Actor) -> Actor {
    Actor { may_die: true, ..actor }
}

const QUIET: Setting = Setting { deaths: 0, late_tails: 0, late_heads: 0, checks_nothing: false };
const ONE_DEATH: Setting = Setting { deaths: 1, ..QUIET };

/// A sole sender, whose session another sender closes, and a receiver.
fn two_senders(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 1), sender(1, 2, 2), receiver(2)];
    Sole::new(protocol, QUIET, &actors)
}

/// The same, and the other sender sends more: the ring goes round.
fn another_sends_more(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 0), sender(1, 1, 2), receiver(2)];
    Sole::new(protocol, QUIET, &actors)
}

/// One of the two senders dies.
fn a_sender_dies(protocol: Protocol) -> Sole<2, 2> {
    let senders = [mortal(sole_sender(1, 0, 0)), mortal(sender(1, 1, 1))];
    let actors = [senders[0], senders[1], receiver(2), recovery()];
    Sole::new(protocol, ONE_DEATH, &actors)
}

/// A sole sender whose messages go to two receivers, which find nothing only if nothing is there.
fn two_receivers(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 2), receiver(2), receiver(3)];
    Sole::new(protocol, Setting { checks_nothing: true, ..QUIET }, &actors)
}

/// A receiver dies, and a helper closes the session.
fn a_receiver_dies(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 1), helper(), mortal(receiver(2)), recovery()];
    Sole::new(protocol, ONE_DEATH, &actors)
}

/// A sole sender whose session a helper closes, which may be stopped in the middle of it.
fn helped(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 2), helper(), receiver(2)];
    Sole::new(protocol, QUIET, &actors)
}

/// The same, and another process was stopped before a store to the tail.
fn a_late_tail(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 1), helper(), receiver(2)];
    Sole::new(protocol, Setting { late_tails: 1, ..QUIET }, &actors)
}

/// The same, of the head.
fn a_late_head(protocol: Protocol) -> Sole<2, 2> {
    let actors = [sole_sender(1, 0, 1), helper(), receiver(2)];
    Sole::new(protocol, Setting { late_heads: 1, ..QUIET }, &actors)
}

/// A sole sender that begins again: a helper of the first close goes on in the next session. The
/// sender drops the oldest message, so that the ring goes round without a receiver.
fn two_sessions(protocol: Protocol) -> Sole<2, 2> {
    let sender = Actor { drops: true, ..sole_sender(2, 0, 2) };
    Sole::new(protocol, QUIET, &[sender, helper(), helper()])
}

/// A sole sender that gives back what it has on loan, and begins again with the same tail.
fn an_empty_session(protocol: Protocol) -> Sole<2, 2> {
    let sender = Actor { cancels: 3, ..sole_sender(3, 0, 0) };
    Sole::new(protocol, QUIET, &[sender, helper(), helper()])
}

/// Two senders, the first of which is the sole one at first, that drop the oldest message.
fn two_that_drop(protocol: Protocol) -> Sole<2, 2> {
    let [first, second] = [sole_sender(1, 0, 2), sender(1, 3, 3)];
    let actors = [Actor { drops: true, ..first }, Actor { drops: true, ..second }];
    Sole::new(protocol, QUIET, &actors)
}

/// A sole sender that drops the oldest message, and a receiver.
fn one_that_drops(protocol: Protocol) -> Sole<2, 2> {
    let sender = Actor { drops: true, ..sole_sender(1, 0, 3) };
    Sole::new(protocol, QUIET, &[sender, receiver(2)])
}

/// A sole sender dies, and another one takes its end.
fn two_owners(protocol: Protocol) -> Sole<2, 2> {
    let actors = [mortal(sole_sender(1, 0, 1)), newcomer(4, 0, 1, 2), receiver(2), recovery()];
    Sole::new(protocol, ONE_DEATH, &actors)
}

/// Two threads of a sole sender, one of which begins.
fn two_threads(protocol: Protocol) -> Sole<2, 2> {
    let threads = [sole_sender(1, 0, 1), sole_sender(0, 2, 2)];
    Sole::new(protocol, QUIET, &[threads[0], threads[1], receiver(2)])
}

/// Two threads of a sole sender, both of which begin, and a helper.
fn two_threads_begin(protocol: Protocol) -> Sole<2, 2> {
    let threads = [sole_sender(1, 0, 0), sole_sender(1, 1, 1)];
    Sole::new(protocol, QUIET, &[threads[0], threads[1], helper()])
}

/// A sole sender that has two slots on loan.
fn two_loans(protocol: Protocol) -> Sole<2, 2> {
    let sender = Actor { loans_ahead: 2, ..sole_sender(1, 0, 3) };
    Sole::new(protocol, QUIET, &[sender, helper(), receiver(2)])
}

/// With a slot that is no home, and a larger ring.
fn three_slots(protocol: Protocol) -> Sole<3, 4> {
    let actors = [sole_sender(1, 0, 2), helper(), receiver(2)];
    Sole::new(protocol, QUIET, &actors)
}

type Scenario = fn(Protocol) -> Sole<2, 2>;

#[test]
fn no_message_of_a_session_is_torn_doubled_or_lost() {
    must_hold("two senders", two_senders(Protocol::Real));
    must_hold("another sends more", another_sends_more(Protocol::Real));
    must_hold("two receivers", two_receivers(Protocol::Real));
    must_hold("a helper", helped(Protocol::Real));
    must_hold("a late tail", a_late_tail(Protocol::Real));
    must_hold("a late head", a_late_head(Protocol::Real));
    must_hold("two sessions", two_sessions(Protocol::Real));
    must_hold("an empty session", an_empty_session(Protocol::Real));
    must_hold("two loans", two_loans(Protocol::Real));
    must_hold("one that drops", one_that_drops(Protocol::Real));
    must_hold("two that drop", two_that_drop(Protocol::Real));
    must_hold("three slots", three_slots(Protocol::Real));
}

#[test]
fn threads_of_one_end_have_one_session() {
    must_hold("two threads", two_threads(Protocol::Real));
    must_hold("two threads that begin", two_threads_begin(Protocol::Real));
}

#[test]
fn a_death_at_any_step_of_a_session_loses_what_the_dead_one_held_and_no_more() {
    must_hold("a sender dies", a_sender_dies(Protocol::Real));
    must_hold("a receiver dies", a_receiver_dies(Protocol::Real));
    must_hold("an end that is taken again", two_owners(Protocol::Real));
}

#[test]
fn a_weaker_session_is_caught() {
    let weaker: [(Scenario, &[Protocol]); 10] = [
        (
            two_senders,
            &[
                Protocol::TrustsItsSession,
                Protocol::TakesAtOnce,
                Protocol::OpensAtOnce,
                Protocol::IgnoresTheEnds,
                Protocol::LooksAtTheEndsBefore,
                Protocol::TailFirst,
                Protocol::ManyTails,
                Protocol::FillsWhatIsThere,
                Protocol::ClosesOnce,
            ],
        ),
        (another_sends_more, &[Protocol::RingLast]),
        (a_sender_dies, &[Protocol::FreesFirst, Protocol::PassesAtOnce]),
        (two_receivers, &[Protocol::AnyMark]),
        (
            helped,
            &[
                Protocol::PublishesAgain,
                Protocol::TrustsTheHome,
                Protocol::MarkLast,
                Protocol::IgnoresTheBase,
                Protocol::MarkAfterNext,
                Protocol::NoMark,
                Protocol::ClosesAlone,
            ],
        ),
        (an_empty_session, &[Protocol::SameBase]),
        (two_owners, &[Protocol::TrustsTheNumber]),
        (
            two_threads,
            &[
                Protocol::LooksAtTheSlotsBefore,
                Protocol::IgnoresLoans,
                Protocol::IgnoresNumbered,
                Protocol::SharesTheSession,
            ],
        ),
        (two_threads_begin, &[Protocol::BeginsTwice]),
        (two_loans, &[Protocol::MarkWithoutLife, Protocol::MarkWithoutSlot]),
    ];
    for (scenario, protocols) in weaker {
        for protocol in protocols {
            must_be_caught(&format!("{protocol:?}"), scenario(*protocol));
        }
    }
}
