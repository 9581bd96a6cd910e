//! The slots of a bounded queue, none of which is lost when a process dies.
//!
//! A queue is a [`Pipe`](crate::Pipe), and each message in it has one of a fixed number of *slots*:
//! a word that all processes of the queue share. Python's queues are the only ones:
//! bindings/python/TASKS.md ("Queue slots") describes what a crash at each step leaves.
//!
//! The states of a slot:
//! * FREE: no message has it.
//! * SENDING, with a process: the process is about to send a message, which may be in the pipe
//!   already.
//! * WAITING, with a process: the message waits in the process for room in the pipe.
//! * IN_PIPE: the message is in the pipe.
//!
//! A slot is free again when its message is received. A process that finds no free slot recovers
//! slots of dead processes. A slot is recovered if its message waited in a dead process. While
//! nothing can be received from the pipe, two more kinds are recovered: an IN_PIPE slot, because
//! its message was received by a process that has died or is about to free the slot; and a SENDING
//! slot of a dead process, because its message was not sent, or was received.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::spins::Spins;
use crate::memory::operation::Operation;
use crate::system::{
    self, AsFd, BorrowedFd, Directory, Liveness, OwnedFd, Owner, SharedWords, socket,
};
use crate::value::error::{Error, Result};

/// The bits of a slot's word: the process, by its number in the registry; the state; and the slot's
/// life, which changes with each message.
const PROCESS: u64 = (1 << 52) - 1;
const FREE: u64 = 0;
const SENDING: u64 = 1 << 52;
const WAITING: u64 = 2 << 52;
const IN_PIPE: u64 = 3 << 52;
const STATE: u64 = 3 << 52;
const LIFE_SHIFT: u32 = 54;

/// The words before those of the slots. Both are hints: the slot that is tried first, and the
/// number of messages in a queue without a bound.
const NEXT: usize = 0;
const COUNT: usize = 1;
const FRONT: usize = 2;

/// How often a waiting process tries to recover slots: a death wakes no process.
const POLL: Duration = Duration::from_millis(100);

/// A slot that was taken. It travels with its message, as [`QUEUE_SLOT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSlot {
    index: u32,
    life: u32,
}

/// The size of a slot in a message, in bytes.
pub const QUEUE_SLOT_BYTES: usize = 8;

impl QueueSlot {
    /// Returns the bytes that travel with the message.
    #[must_use]
    pub fn to_bytes(self) -> [u8; QUEUE_SLOT_BYTES] {
        (u64::from(self.life) << 32 | u64::from(self.index)).to_le_bytes()
    }

    /// Returns the slot of a message that was received.
    #[must_use]
    pub fn from_bytes(bytes: [u8; QUEUE_SLOT_BYTES]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Self { index: number as u32, life: (number >> 32) as u32 }
    }
}

/// The slots of a queue.
///
/// ```
/// use std::time::Duration;
/// use shmarray::{Pipe, QueueSlots};
/// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
/// let (reader, writer) = Pipe::pair()?;
/// let slots = QueueSlots::new(1)?;
/// let slot = slots.take(&reader, None)?.expect("one is free");
/// writer.send(&slot.to_bytes(), &[], None)?;
/// slots.set_in_pipe(slot);
/// assert!(slots.take(&reader, Some(Duration::ZERO))?.is_none());
/// slots.free(slot); // in the process that has received the message
/// assert!(slots.take(&reader, Some(Duration::ZERO))?.is_some());
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Debug)]
pub struct QueueSlots {
    words: SharedWords,
    spins: Spins,
}

impl QueueSlots {
    /// Makes `count` slots, all of them free.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn new(count: u32) -> Result<Self> {
        let words = SharedWords::new(FRONT + count as usize)?;
        Ok(Self { words, spins: Spins::with(0) })
    }

    /// Opens the slots that another process made, from their fd.
    ///
    /// # Errors
    /// [`Error::Os`] or [`Error::InvalidArgument`] when it is not an fd of slots.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let words = SharedWords::open(fd)?;
        if words.words().len() >= FRONT {
            Ok(Self { words, spins: Spins::with(0) })
        } else {
            Err(Error::argument("fd", "it has no queue slots"))
        }
    }

    fn slots(&self) -> &[AtomicU64] {
        &self.words.words()[FRONT..]
    }

    /// Takes a slot as soon as one is free. `None` if none was free in that time. `reader` is the
    /// end of the pipe at which the messages arrive.
    ///
    /// # Errors
    /// [`Error::Os`], with `EINTR` when a signal ended the wait.
    pub fn take(&self, reader: &impl AsFd, timeout: Option<Duration>) -> Result<Option<QueueSlot>> {
        let _operation = Operation::enter()?;
        let me = process_id();
        let is_wait = timeout.is_none_or(|timeout| !timeout.is_zero());
        for _ in 0..if is_wait { self.spins.count() } else { 0 } {
            if let Some(slot) = self.take_one(me) {
                self.spins.note(true);
                return Ok(Some(slot));
            }
            std::hint::spin_loop();
        }
        let began = Instant::now();
        let slot = self.take_by(reader, me, timeout.and_then(|timeout| began.checked_add(timeout)));
        if is_wait {
            self.spins.note_sleep(matches!(slot, Ok(Some(_))), began.elapsed());
        }
        slot
    }

    /// Takes a slot if one is free now. Unlike `take` it recovers none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] as for all functions.
    pub fn take_now(&self) -> Result<Option<QueueSlot>> {
        let _operation = Operation::enter()?;
        Ok(self.take_one(process_id()))
    }

    /// Sleeps until a slot is free, or the time is over.
    fn take_by(
        &self,
        reader: &impl AsFd,
        me: u64,
        until: Option<Instant>,
    ) -> Result<Option<QueueSlot>> {
        loop {
            let wakeups = self.words.wakeups();
            if let Some(slot) = self.take_one(me) {
                return Ok(Some(slot));
            }
            if self.recover(reader.as_fd()) {
                continue;
            }
            let left = until
                .map_or(POLL, |until| until.saturating_duration_since(Instant::now()).min(POLL));
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.words.wait(wakeups, left, || self.has_free());
            waited.map_err(|error| Error::os("futex", "", error))?;
        }
    }

    /// Takes a free slot. Slots become free in about the order in which they were taken, so the
    /// slot after the last one taken is tried first.
    fn take_one(&self, me: u64) -> Option<QueueSlot> {
        let slots = self.slots();
        let next = &self.words.words()[NEXT];
        let first = next.load(Ordering::Relaxed) as usize;
        for step in 0..slots.len() {
            let index = (first + step) % slots.len();
            let word = slots[index].load(Ordering::Relaxed);
            let taken = word & !(STATE | PROCESS) | SENDING | me;
            if word & STATE == FREE
                && slots[index]
                    .compare_exchange(word, taken, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                next.store((index as u64 + 1) % slots.len() as u64, Ordering::Relaxed);
                return Some(QueueSlot { index: index as u32, life: (word >> LIFE_SHIFT) as u32 });
            }
        }
        None
    }

    fn has_free(&self) -> bool {
        self.slots().iter().any(|word| word.load(Ordering::SeqCst) & STATE == FREE)
    }

    /// Records that the slot's message found no room in the pipe and waits in this process.
    pub fn set_waiting(&self, slot: QueueSlot) {
        self.change(slot, SENDING, WAITING | process_id());
    }

    /// Records that this process is about to send the slot's message, which has waited.
    pub fn set_sending(&self, slot: QueueSlot) {
        self.change(slot, WAITING, SENDING | process_id());
    }

    /// Records that the slot's message is in the pipe.
    pub fn set_in_pipe(&self, slot: QueueSlot) {
        self.change(slot, SENDING, IN_PIPE);
    }

    /// Changes the state of a slot, if it is `from`: the message may have been received meanwhile.
    fn change(&self, slot: QueueSlot, from: u64, to: u64) {
        let Some(word) = self.slots().get(slot.index as usize) else { return };
        let now = word.load(Ordering::Relaxed);
        if now >> LIFE_SHIFT == u64::from(slot.life) && now & STATE == from {
            let then = now & !(STATE | PROCESS) | to;
            let _ = word.compare_exchange(now, then, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Frees a slot whose message was received, or will not be sent. A second call has no effect.
    pub fn free(&self, slot: QueueSlot) {
        let Some(word) = self.slots().get(slot.index as usize) else { return };
        let mut now = word.load(Ordering::Relaxed);
        while now >> LIFE_SHIFT == u64::from(slot.life) && now & STATE != FREE {
            match word.compare_exchange_weak(now, freed(now), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return self.words.wake_one(),
                Err(other) => now = other,
            }
        }
    }

    /// Frees the slots of messages that no process has any more. Returns whether there were any.
    fn recover(&self, reader: BorrowedFd<'_>) -> bool {
        let dead = DeadProcesses::default();
        let all = self.slots().iter().map(|word| (word, word.load(Ordering::Acquire)));
        let may_be_left = |word: u64| match word & STATE {
            FREE => false,
            IN_PIPE => true,
            _ => dead.contain(word & PROCESS),
        };
        let left: Vec<_> = all.filter(|(_, word)| may_be_left(*word)).collect();
        // The pipe is examined after the slots: a message that enters it from now on has a slot
        // that is not among them.
        let is_empty = !left.is_empty()
            && matches!(socket::wait(reader, false, Some(Instant::now())), Ok(false));
        let free = |(word, seen): &&(&AtomicU64, u64)| {
            (is_empty || seen & STATE == WAITING)
                && word
                    .compare_exchange(*seen, freed(*seen), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        };
        let count = left.iter().filter(free).count();
        (0..count).for_each(|_| self.words.wake_one());
        count > 0
    }

    /// Returns the number of slots that are taken. `reader` is as for [`take`](Self::take).
    #[must_use]
    pub fn taken(&self, reader: &impl AsFd) -> u32 {
        self.recover(reader.as_fd());
        self.slots().iter().filter(|word| word.load(Ordering::Relaxed) & STATE != FREE).count()
            as u32
    }

    /// Changes the number of messages in a queue without a bound. The number becomes wrong by one
    /// if the process dies between this and the message.
    pub fn add_to_count(&self, change: i64) {
        self.words.words()[COUNT].fetch_add(change as u64, Ordering::Relaxed);
    }

    /// Returns the approximate number of messages in a queue without a bound.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.words.words()[COUNT].load(Ordering::Relaxed) as i64
    }
}

impl AsFd for QueueSlots {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.words.as_fd()
    }
}

/// Returns the word of a slot in its next life, in which it is free.
fn freed(word: u64) -> u64 {
    ((word >> LIFE_SHIFT) + 1) << LIFE_SHIFT
}

/// Returns this process's number in the registry; 0 if there is no registry.
fn process_id() -> u64 {
    me().map_or(0, |me| me.id)
}

fn me() -> Option<Owner> {
    system::process_owner(&Directory::current())
}

/// The dead among the processes of this process's registry. Processes of another directory's
/// registry count as dead: this process cannot ask about them, and a message that such a process
/// sends later has no slot of its own.
#[derive(Default)]
struct DeadProcesses(std::cell::OnceCell<Option<(Liveness, u64)>>);

impl DeadProcesses {
    fn contain(&self, process: u64) -> bool {
        let read = || {
            let liveness = Liveness::of(&Directory::current());
            let info = if liveness.has_registry() { me()?.info } else { return None };
            Some((liveness, info))
        };
        match self.0.get_or_init(read) {
            Some((liveness, info)) => process == 0 || liveness.is_dead_owner(process, *info),
            None => false,
        }
    }
}
