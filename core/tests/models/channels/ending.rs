//! The end of the stream: a receiver that finds nothing looks whether any sender is left.

use super::{World, must_be_caught, must_hold};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Real,
    /// A receiver looks at the ends once.
    OneLook,
    /// A receiver does not look for a message once more.
    WithoutLastLook,
    /// A sender is counted after it is CLOSED, in another step.
    CountsAfterwards,
    /// A receiver does not note at its join how many have left.
    NotesNothing,
    /// A receiver that joins does not recover the dead first.
    JoinsBesideTheDead,
    /// A recovery does not load the entry after the roles.
    TrustsTheRoles,
    /// The count begins anew when an entry is used again.
    ForgetsTheCount,
    /// A process that was given an end has none before it has joined.
    GivesNothing,
    /// A receiver does not look whether its own end has sent.
    IgnoresItself,
}

const ENTRIES: usize = 2;
/// Added to the owner of an entry, the message by which that owner is given the end.
const MESSAGE: u8 = 100;

/// An entry, with the roles and the count in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Roles {
    sends: bool,
    closed: bool,
    left: u8,
}

impl Roles {
    fn left(self) -> Self {
        Self { closed: true, left: self.left + u8::from(!self.closed), ..self }
    }
}

/// The owner of an entry, 0 for none, and the bit `held`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Entry {
    owner: u8,
    held: bool,
}

/// One look at all entries, or a part of it.
type Seen = [(Entry, Roles); ENTRIES];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// A sender.
    Take(u8),
    /// One that is given an end: until then, and then.
    Await,
    Adopt,
    /// One with an end that gives another: it takes the other's entry.
    Give(u8, u8),
    ClearGiven(u8, u8),
    HoldGiven(u8, u8),
    /// A thread that sends through the receiver's own end.
    SetOwnSends,
    PublishOwn,
    Clear(u8),
    Hold(u8),
    SetSends(u8),
    Publish(u8),
    LoadRoles(u8),
    Leave(u8, Roles),
    Count(u8),
    Free(u8),
    /// A recovery.
    Find,
    LoadDeadRoles(u8, Entry),
    LoadDeadEntry(u8, Entry, Roles),
    CountDead(u8, Entry, Roles),
    ClearEntry(u8, Entry),
    /// The receiver.
    Join,
    Sum(u8, u8),
    Look,
    LookAtItself,
    ScanRoles(u8, Seen, Option<Seen>),
    ScanEntry(u8, Roles, Seen, Option<Seen>),
    LastLook,
    Ended,
    Done,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    /// Whether a sender sends a message, and does not only open and close.
    sends: bool,
    may_die: bool,
    /// The owner that it gives an end before it closes its own.
    gives_to: Option<u8>,
    is_given: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Ending {
    entries: [Entry; ENTRIES],
    roles: [Roles; ENTRIES],
    published: u8,
    received: u8,
    actors: Vec<Actor>,
    deaths: u8,
    /// The receiver's: the senders that had left at its join, the messages from before, and
    /// whether it has received one of them.
    before: u8,
    old: u8,
    has_old: bool,
    /// Whether a sender was there since the join began, and since it was done.
    since_begun: bool,
    since_joined: bool,
    /// The messages that were published when there was first no sender, since a look began.
    without_sender: Option<u8>,
    /// Whether the receiver's own end has sent, and had when its last look began.
    own_sends: bool,
    own_sent: bool,
    violation: Option<&'static str>,
    protocol: u8,
}

fn actor(at: At, sends: bool) -> Actor {
    let may_die = matches!(at, At::Take(_) | At::Await);
    Actor { at, sends, may_die, gives_to: None, is_given: false }
}

impl Ending {
    /// The receiver is the first actor, and the recovery the second.
    fn new(protocol: Protocol, deaths: u8, senders: &[bool]) -> Self {
        let mut actors = vec![actor(At::Join, false), actor(At::Find, false)];
        actors.extend(senders.iter().map(|sends| actor(At::Take(0), *sends)));
        Self {
            entries: [Entry::default(); ENTRIES],
            roles: [Roles::default(); ENTRIES],
            published: 0,
            received: 0,
            actors,
            deaths,
            before: 0,
            old: 0,
            has_old: false,
            since_begun: false,
            since_joined: false,
            without_sender: None,
            own_sends: false,
            own_sent: false,
            violation: None,
            protocol: protocol as u8,
        }
    }

    /// A sender that gives the next one its end, and that one.
    fn giving(protocol: Protocol, deaths: u8, sends: [bool; 2]) -> Self {
        let mut world = Self::new(protocol, deaths, &sends);
        world.actors[2].gives_to = Some(4);
        world.actors[3].at = At::Await;
        world
    }

    /// A sender, and a thread that sends through the receiver's own end.
    fn of_two_threads(protocol: Protocol) -> Self {
        let mut world = Self::new(protocol, 1, &[true]);
        world.actors.push(actor(At::SetOwnSends, true));
        world
    }

    fn is(&self, protocol: Protocol) -> bool {
        self.protocol == protocol as u8
    }

    fn is_dead(&self, owner: u8) -> bool {
        if owner > MESSAGE {
            // The fd of the message is the giver's until it was given.
            let is_given = self.actors[(owner - MESSAGE) as usize - 1].is_given;
            return self.is_dead(if is_given { owner - MESSAGE } else { self.giver() });
        }
        owner > 0 && self.actors[owner as usize - 1].at == At::Dead
    }

    /// The owner that gives an end, 0 for none.
    fn giver(&self) -> u8 {
        let giver = self.actors.iter().position(|actor| actor.gives_to.is_some());
        giver.map_or(0, |giver| giver as u8 + 1)
    }

    /// Whether some end is a sender, dead or not, or somebody was given one and has not joined.
    fn has_sender(&self) -> bool {
        let joins =
            |at| matches!(at, At::Await | At::Adopt | At::Take(_) | At::Clear(_) | At::Hold(_));
        (0..ENTRIES).any(|end| self.entries[end].held && !self.roles[end].closed)
            || self.actors.iter().any(|actor| actor.is_given && joins(actor.at))
    }

    fn fail(&mut self, violation: &'static str) {
        self.violation.get_or_insert(violation);
    }

    fn step(&self, number: usize) -> Option<Self> {
        let mut next = self.clone();
        let me = self.actors[number];
        let at = next
            .sender_step(me, number as u8 + 1)
            .or_else(|| next.recovery_step(me.at))
            .or_else(|| next.receiver_step(me.at))?;
        next.actors[number].at = at;
        next.note();
        Some(next)
    }

    fn has_living_sender(&self) -> bool {
        (0..ENTRIES).any(|end| {
            let Entry { owner, held } = self.entries[end];
            held && !self.roles[end].closed && !self.is_dead(owner)
        })
    }

    /// Notes what the receiver should learn in the end.
    fn note(&mut self) {
        let is_there = self.has_living_sender();
        let receiver = self.actors[0].at;
        let has_joined = !matches!(receiver, At::Join | At::Sum(..));
        self.since_begun |= is_there && receiver != At::Join;
        self.since_joined |= is_there && has_joined;
        if !self.has_sender() {
            self.without_sender.get_or_insert(self.published);
        }
    }

    fn sender_step(&mut self, me: Actor, owner: u8) -> Option<At> {
        Some(match me.at {
            At::Take(end) if self.entries[end as usize].owner == 0 => {
                self.entries[end as usize].owner = owner;
                At::Clear(end)
            }
            At::Take(end) => At::Take((end + 1) % ENTRIES as u8),
            At::Clear(end) => {
                let forgets = self.is(Protocol::ForgetsTheCount);
                let roles = &mut self.roles[end as usize];
                let left = if forgets { 0 } else { roles.left };
                *roles = Roles { left, ..Roles::default() };
                At::Hold(end)
            }
            At::Hold(end) => {
                self.entries[end as usize].held = true;
                Self::goes_on(me, end)
            }
            At::Await if me.is_given && self.is(Protocol::GivesNothing) => At::Take(0),
            At::Await if me.is_given => At::Adopt,
            At::Adopt => {
                let given = Entry { owner: MESSAGE + owner, held: true };
                let end = (0..ENTRIES).find(|end| self.entries[*end] == given)?;
                self.entries[end].owner = owner;
                Self::goes_on(me, end as u8)
            }
            At::Give(own, end) if self.entries[end as usize].owner == 0 => {
                self.entries[end as usize].owner = MESSAGE + me.gives_to?;
                At::ClearGiven(own, end)
            }
            At::Give(own, end) => At::Give(own, (end + 1) % ENTRIES as u8),
            At::ClearGiven(own, end) => {
                let left = self.roles[end as usize].left;
                self.roles[end as usize] = Roles { left, ..Roles::default() };
                At::HoldGiven(own, end)
            }
            At::HoldGiven(own, end) => {
                self.entries[end as usize].held = true;
                self.actors[me.gives_to? as usize - 1].is_given = true;
                At::LoadRoles(own)
            }
            At::SetOwnSends => {
                self.own_sends = true;
                At::PublishOwn
            }
            At::PublishOwn => {
                self.published += 1;
                At::Done
            }
            At::SetSends(end) => {
                self.roles[end as usize].sends = true;
                At::Publish(end)
            }
            At::Publish(end) => {
                self.published += 1;
                match me.gives_to {
                    Some(to) if self.is(Protocol::GivesNothing) => {
                        self.actors[to as usize - 1].is_given = true;
                        At::LoadRoles(end)
                    }
                    Some(_) => At::Give(end, 0),
                    None => At::LoadRoles(end),
                }
            }
            At::LoadRoles(end) => At::Leave(end, self.roles[end as usize]),
            At::Leave(end, _) if self.is(Protocol::CountsAfterwards) => {
                self.roles[end as usize].closed = true;
                At::Count(end)
            }
            At::Leave(end, seen) => {
                if self.replace_roles(end, seen, seen.left()) {
                    At::Free(end)
                } else {
                    At::LoadRoles(end)
                }
            }
            At::Count(end) => {
                self.roles[end as usize].left += 1;
                At::Free(end)
            }
            At::Free(end) => {
                self.entries[end as usize] = Entry::default();
                At::Done
            }
            _ => return None,
        })
    }

    /// What a sender does with an end that is held now.
    fn goes_on(me: Actor, end: u8) -> At {
        if me.sends { At::SetSends(end) } else { At::LoadRoles(end) }
    }

    fn replace_roles(&mut self, end: u8, from: Roles, to: Roles) -> bool {
        let roles = &mut self.roles[end as usize];
        let is_same = *roles == from;
        if is_same {
            *roles = to;
        }
        is_same
    }

    fn recovery_step(&mut self, at: At) -> Option<At> {
        Some(match at {
            At::Find => {
                let end = (0..ENTRIES).find(|end| self.is_dead(self.entries[*end].owner))?;
                At::LoadDeadRoles(end as u8, self.entries[end])
            }
            At::LoadDeadRoles(end, entry) => {
                At::LoadDeadEntry(end, entry, self.roles[end as usize])
            }
            At::LoadDeadEntry(end, entry, roles) => {
                let is_its = self.entries[end as usize] == entry;
                if (is_its || self.is(Protocol::TrustsTheRoles)) && entry.held && !roles.closed {
                    At::CountDead(end, entry, roles)
                } else {
                    At::ClearEntry(end, entry)
                }
            }
            At::CountDead(end, entry, roles) => {
                if self.is(Protocol::TrustsTheRoles) {
                    self.roles[end as usize] = self.roles[end as usize].left();
                } else {
                    self.replace_roles(end, roles, roles.left());
                }
                At::ClearEntry(end, entry)
            }
            At::ClearEntry(end, entry) => {
                if self.entries[end as usize] == entry {
                    self.entries[end as usize] = Entry::default();
                }
                At::Find
            }
            _ => return None,
        })
    }

    fn receiver_step(&mut self, at: At) -> Option<At> {
        Some(match at {
            At::Join => {
                if !self.is(Protocol::JoinsBesideTheDead) {
                    self.recover_all();
                }
                At::Sum(0, 0)
            }
            At::Sum(end, sum) if (end as usize) < ENTRIES => {
                At::Sum(end + 1, sum + self.roles[end as usize].left)
            }
            At::Sum(_, sum) => {
                self.before = if self.is(Protocol::NotesNothing) { 0 } else { sum };
                self.old = self.published;
                At::Look
            }
            At::Look if self.received < self.published => {
                self.receive();
                At::Look
            }
            At::Look => {
                self.without_sender = None;
                self.own_sent = self.own_sends;
                At::LookAtItself
            }
            At::LookAtItself if self.own_sends && !self.is(Protocol::IgnoresItself) => At::Look,
            At::LookAtItself => At::ScanRoles(0, Seen::default(), None),
            At::ScanRoles(end, seen, before) => {
                At::ScanEntry(end, self.roles[end as usize], seen, before)
            }
            At::ScanEntry(end, roles, mut seen, before) => {
                let entry = self.entries[end as usize];
                seen[end as usize] = (entry, roles);
                if entry.held && !roles.closed {
                    At::Look
                } else if end as usize + 1 < ENTRIES {
                    At::ScanRoles(end + 1, seen, before)
                } else if before == Some(seen) || self.is(Protocol::OneLook) {
                    let left: u8 = seen.iter().map(|(_, roles)| roles.left).sum();
                    if left != self.before || self.has_old { At::LastLook } else { At::Look }
                } else {
                    At::ScanRoles(0, Seen::default(), Some(seen))
                }
            }
            At::LastLook
                if self.received < self.published && !self.is(Protocol::WithoutLastLook) =>
            {
                self.receive();
                At::Look
            }
            At::LastLook => {
                self.check_end();
                At::Ended
            }
            _ => return None,
        })
    }

    fn check_end(&mut self) {
        match self.without_sender {
            None => self.fail("the stream ended while there was a sender all the time"),
            Some(published) if published > self.received => {
                self.fail("the stream ended before its last message");
            }
            Some(_) => {}
        }
        if self.own_sent {
            self.fail("the stream ended while the receiver's own process sent");
        }
        if !self.since_begun && !self.has_old {
            self.fail("the stream ended, and no sender was there since the join");
        }
    }

    fn receive(&mut self) {
        self.has_old |= self.received < self.old;
        self.received += 1;
    }

    /// Recovers the dead in one step: the recovery beside it has the single ones.
    fn recover_all(&mut self) {
        for end in 0..ENTRIES {
            if self.is_dead(self.entries[end].owner) {
                if self.entries[end].held {
                    self.roles[end] = self.roles[end].left();
                }
                self.entries[end] = Entry::default();
            }
        }
    }

    /// Whether a receiver waits for ever for the end of a stream.
    fn is_left_waiting(&self) -> bool {
        let rests = |actor: &Actor| match actor.at {
            At::Done | At::Dead => true,
            At::Await => !actor.is_given && self.is_dead(self.giver()),
            _ => false,
        };
        let is_quiet = self.actors[0].at == At::Look
            && self.actors[1].at == At::Find
            && self.actors[2..].iter().all(rests)
            && !self.entries.iter().any(|entry| self.is_dead(entry.owner));
        let mut rest = self.clone();
        is_quiet
            && self.since_joined
            && !self.own_sends
            && !(0..100).any(|_| {
                let next = rest.step(0);
                next.is_none_or(|next| {
                    rest = next;
                    rest.actors[0].at == At::Ended
                })
            })
    }
}

impl World for Ending {
    fn successors(&self) -> Vec<Self> {
        let steps = (0..self.actors.len()).filter_map(|number| self.step(number));
        let may_die = |number: &usize| {
            let me = self.actors[*number];
            self.deaths > 0 && me.may_die && !matches!(me.at, At::Done | At::Dead)
        };
        let deaths = (0..self.actors.len()).filter(may_die).map(|number| {
            let mut next = self.clone();
            next.deaths -= 1;
            next.actors[number].at = At::Dead;
            next
        });
        steps.chain(deaths).collect()
    }

    fn violation(&self) -> Option<&'static str> {
        let waits = "a receiver waits for a stream whose senders have all left";
        self.violation.or_else(|| self.is_left_waiting().then_some(waits))
    }
}

/// Two that send, and one that opens and closes only.
fn three(protocol: Protocol, deaths: u8) -> Ending {
    Ending::new(protocol, deaths, &[true, true, false])
}

/// Two, one of which dies.
fn two(protocol: Protocol) -> Ending {
    Ending::new(protocol, 1, &[true, false])
}

#[test]
fn the_stream_ends_when_the_last_sender_has_left_and_not_before() {
    must_hold("three senders", three(Protocol::Real, 0));
    must_hold("two senders that die", Ending::new(Protocol::Real, 2, &[true, true]));
    must_hold("two of which one sends", Ending::new(Protocol::Real, 2, &[true, false]));
    must_hold("one that is given an end", Ending::giving(Protocol::Real, 2, [true, true]));
    must_hold("one that closes what it is given", Ending::giving(Protocol::Real, 2, [true, false]));
    must_hold("two threads of one end", Ending::of_two_threads(Protocol::Real));
}

#[test]
fn a_weaker_end_is_caught() {
    must_be_caught("one look", three(Protocol::OneLook, 0));
    must_be_caught("no last look", three(Protocol::WithoutLastLook, 0));
    must_be_caught("counts afterwards", two(Protocol::CountsAfterwards));
    must_be_caught("notes nothing", three(Protocol::NotesNothing, 0));
    must_be_caught("joins beside the dead", two(Protocol::JoinsBesideTheDead));
    must_be_caught("trusts the roles", two(Protocol::TrustsTheRoles));
    must_be_caught("forgets the count", three(Protocol::ForgetsTheCount, 0));
    must_be_caught("gives nothing", Ending::giving(Protocol::GivesNothing, 0, [true, true]));
    must_be_caught("ignores itself", Ending::of_two_threads(Protocol::IgnoresItself));
}
