//! An end of a channel: what one open channel of one process has in it.
//!
//! PROTOCOL.md, "Channels", has the steps. An entry is as in a lease table: `owner << 1 | held`.

use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use super::ring::Ring;
use super::wait;
use crate::control::ChannelWords;
use crate::control::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::control::fence;
use crate::error::{Error, Result};
use crate::format::ChannelMode;
use crate::segment::Segment;
use crate::sys::{self, Liveness, Mutex, Owner};

/// The bits of an end's roles. An end without any is undecided, and counts as a sender.
pub(super) const SENDS: u64 = 1;
pub(super) const RECEIVES: u64 = 2;
/// It was closed, and stays until its last loan or view was given back.
const CLOSED: u64 = 4;
const HELD: u64 = 1;

/// How the last sender left.
const LEFT_BY_CLOSE: u64 = 1;
const LEFT_BY_DEATH: u64 = 2;

/// An end that this process has, until its last loan and its last view are dropped.
pub(super) struct End {
    pub(super) segment: Arc<Segment>,
    pub(super) words: ChannelWords,
    pub(super) ring: Ring,
    pub(super) index: u32,
    /// The number of forks that led to this process: a forked child has no part in the end.
    fork: u64,
    /// Locked while a thread receives a message of a broadcast: the end has one cursor.
    pub(super) receiving: Mutex<()>,
    is_closed: AtomicBool,
    /// Whether there has been another end that sends since this one was opened.
    has_seen_sender: AtomicBool,
    joined_before: u64,
}

impl End {
    /// Takes an end. For a broadcast that it receives, from the next message on.
    pub(super) fn join(segment: Arc<Segment>, words: ChannelWords, receives: bool) -> Result<Self> {
        let owner = sys::process_owner(segment.directory()).ok_or(Error::Unsupported {
            what: "a channel where this process cannot lock the registry",
        })?;
        let ring = Ring::new(words);
        let index = match Self::take_entry(&words, owner) {
            Some(index) => index,
            None => {
                recover(&segment, &words);
                Self::take_entry(&words, owner).ok_or_else(|| {
                    let most = words.layout().ends;
                    Error::argument("channel", format!("all of its {most} ends are in use"))
                })?
            }
        };
        let end = Self {
            index,
            fork: sys::fork::count(),
            receiving: Mutex::new(()),
            is_closed: AtomicBool::new(false),
            has_seen_sender: AtomicBool::new(false),
            joined_before: words.joined().load(Acquire),
            segment,
            words,
            ring,
        };
        end.words.cursor(index).store(end.words.tail().load(Acquire), Relaxed);
        if receives {
            end.words.roles(index).set(RECEIVES);
        }
        // AcqRel: all of the end's words come before it is held.
        end.words.entry(index).owner.set(HELD);
        end.set_cursor();
        Ok(end)
    }

    fn take_entry(words: &ChannelWords, owner: Owner) -> Option<u32> {
        let taken = owner.id << 1;
        let index = (0..words.layout().ends).find(|end| {
            let entry = &words.entry(*end).owner;
            entry.load(Relaxed) == 0 && entry.replace(0, taken)
        })?;
        words.entry(index).owner_info.store(owner.info, Release);
        words.roles(index).store(0, Relaxed);
        words.count(index).store(0, Relaxed);
        words.missed(index).store(0, Relaxed);
        (0..words.layout().slots).step_by(64).for_each(|slot| {
            words.pins(index, slot).store(0, Relaxed);
        });
        Some(index)
    }

    /// Makes the next message the first that this end receives, of a broadcast.
    fn set_cursor(&self) {
        if self.words.layout().mode == ChannelMode::Broadcast {
            let next = self.ring.next_number();
            self.words.cursor(self.index).store(next, Release);
        }
    }

    /// Whether this process has joined with this end, and is no child of the one that has.
    pub(super) fn is_ours(&self) -> bool {
        self.fork == sys::fork::count()
    }

    fn roles(&self) -> u64 {
        self.words.roles(self.index).load(Acquire)
    }

    /// Refuses an end that was closed.
    pub(super) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(atomic::Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::argument("channel", "it is closed")),
        }
    }

    /// Makes the end one that sends, at its first loan.
    pub(super) fn become_sender(&self) {
        if self.roles() & SENDS == 0 {
            self.words.roles(self.index).set(SENDS);
            self.words.joined().add(1);
        }
    }

    /// Makes the end one that receives, at its first receive. Of a broadcast it sees the messages
    /// from then on.
    pub(super) fn become_receiver(&self) {
        if self.roles() & RECEIVES == 0 {
            let _receiving = self.receiving.lock();
            if self.roles() & RECEIVES == 0 {
                let next = self.words.tail().load(Acquire);
                self.words.cursor(self.index).store(next, Release);
                self.words.roles(self.index).set(RECEIVES);
                self.set_cursor();
            }
        }
    }

    /// Whether no other end sends, or may send, and one has since this one was opened. A sender
    /// that a process has just recovered has left, too.
    pub(super) fn has_no_senders(&self) -> bool {
        let sends = |end: u32| {
            let roles = self.words.roles(end).load(Acquire);
            let is_held = self.words.entry(end).owner.load(Acquire) & HELD != 0;
            is_held && (roles == 0 || roles & SENDS != 0) && roles & CLOSED == 0
        };
        let mut others = (0..self.words.layout().ends).filter(|end| *end != self.index);
        if others.any(sends) {
            self.has_seen_sender.store(true, atomic::Ordering::Relaxed);
            return false;
        }
        self.has_seen_sender.load(atomic::Ordering::Relaxed)
            || self.words.joined().load(Acquire) != self.joined_before
    }

    /// Whether the last sender died.
    pub(super) fn has_last_sender_died(&self) -> bool {
        self.words.left().load(Acquire) == LEFT_BY_DEATH
    }

    /// Whether a held end has this slot pinned.
    pub(super) fn is_pinned(&self, slot: u32) -> bool {
        (0..self.words.layout().ends).any(|end| {
            self.words.entry(end).owner.load(Acquire) & HELD != 0
                && self.ring.has_pinned(end, slot)
        })
    }

    /// Whether every end that receives has received, or missed, the message with a number.
    pub(super) fn has_everybody_passed(&self, number: u64) -> bool {
        (0..self.words.layout().ends).all(|end| {
            let is_held = self.words.entry(end).owner.load(Acquire) & HELD != 0;
            let receives = self.words.roles(end).load(Acquire) & (RECEIVES | CLOSED) == RECEIVES;
            !is_held || !receives || self.words.cursor(end).load(Acquire) > number
        })
    }

    /// Gives back or completes what dead ends have.
    pub(super) fn recover(&self) {
        recover(&self.segment, &self.words);
    }

    pub(super) fn wake_receivers(&self) {
        let layout = self.words.layout();
        wait::wake(self.words.published(), layout.mode == ChannelMode::Broadcast || layout.is_followed);
    }

    pub(super) fn wake_senders(&self) {
        wait::wake(self.words.freed(), false);
    }

    /// Ends what this end does. Its entry stays until its last loan or view is dropped.
    pub(super) fn close(&self) {
        if self.is_ours() && !self.is_closed.swap(true, atomic::Ordering::AcqRel) {
            if self.roles() & SENDS != 0 {
                self.words.left().store(LEFT_BY_CLOSE, Release);
            }
            self.words.roles(self.index).set(CLOSED);
            wake_all(&self.words);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_ours() && !sys::is_orphaned() {
            self.close();
            // Release: what this end did comes before it.
            self.words.entry(self.index).owner.store(0, Release);
            wake_all(&self.words);
        }
    }
}

fn wake_all(words: &ChannelWords) {
    fence(SeqCst); // C5
    wait::wake(words.published(), true);
    wait::wake(words.freed(), true);
}

/// Recovers the ends whose owner is dead.
fn recover(segment: &Segment, words: &ChannelWords) {
    let Some(liveness) = Liveness::open(segment.directory()) else { return };
    let mut is_any_dead = false;
    for index in 0..words.layout().ends {
        let entry = words.entry(index);
        let word = entry.owner.load(Acquire);
        if word == 0 || !liveness.is_dead_owner(word >> 1, entry.owner_info.load(Acquire)) {
            continue;
        }
        is_any_dead = true;
        if words.roles(index).load(Acquire) & (SENDS | CLOSED) == SENDS {
            words.left().store(LEFT_BY_DEATH, Release);
        }
        Ring::new(*words).recover(index, || entry.owner.load(Acquire) == word);
        let _ = entry.owner.replace(word, 0); // or another process did
    }
    if is_any_dead {
        wake_all(words);
    }
}
