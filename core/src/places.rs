//! The places of a bounded queue, of which none is lost with a process.
//!
//! A queue is a [`Pipe`](crate::Pipe), and each message in it has one of so many *places*: a word
//! that all processes of the queue share. PROTOCOL.md ("Places") says what a crash at each step
//! leaves.
//!
//! | word | is |
//! |---|---|
//! | free | nobody's |
//! | being sent by a process | taken for a message that it is about to send: the message may be in the pipe |
//! | kept by a process | its message waits there for room in the pipe |
//! | in the pipe | its message's |
//!
//! A place is free again when its message is received. Who finds none free looks whether some are
//! only left over: what a dead process kept; and while nothing can be received from the pipe, what
//! was *in the pipe* before, since it was received by somebody who has died, or is just about to
//! free it, and what was *being sent* by a process that had died before, since it was not sent or
//! was received.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::segment;
use crate::sys::{self, Directory, Identity, Lives, SharedWords, socket};

/// Bits of a word: the holder, as the registry knows it; the state; and which life of the place it
/// is.
const HOLDER: u64 = (1 << 52) - 1;
const FREE: u64 = 0;
const BEING_SENT: u64 = 1 << 52;
const KEPT: u64 = 2 << 52;
const IN_PIPE: u64 = 3 << 52;
const STATE: u64 = 3 << 52;
const LIFE_SHIFT: u32 = 54;

/// The words before those of the places: where the next free one is, about; and how many are taken
/// of a queue without a bound, about.
const NEXT: usize = 0;
const ABOUT: usize = 1;
const FRONT: usize = 2;

/// Who waits looks so often: nobody wakes him when the one who had a place has died.
const LOOK: Duration = Duration::from_millis(100);

/// A place that was taken. It travels with its message, as [`PLACE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    index: u32,
    life: u32,
}

/// How long a place is as bytes.
pub const PLACE_BYTES: usize = 8;

impl Place {
    /// As it travels.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PLACE_BYTES] {
        (u64::from(self.life) << 32 | u64::from(self.index)).to_le_bytes()
    }

    /// What travelled.
    #[must_use]
    pub fn from_bytes(bytes: [u8; PLACE_BYTES]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Self { index: number as u32, life: (number >> 32) as u32 }
    }
}

/// The places of a queue.
///
/// ```
/// use std::time::Duration;
/// use shmarray::{Pipe, Places};
/// let (reader, writer) = Pipe::pair()?;
/// let places = Places::new(1)?;
/// let place = places.take(&reader, None)?.expect("one is free");
/// writer.send(&place.to_bytes(), &[], None)?;
/// places.sent(place);
/// assert!(places.take(&reader, Some(Duration::ZERO))?.is_none());
/// places.free(place); // by who has received it
/// assert!(places.take(&reader, Some(Duration::ZERO))?.is_some());
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Debug)]
pub struct Places(SharedWords);

impl Places {
    /// So many places, all of them free.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn new(count: u32) -> Result<Self> {
        let words = SharedWords::new(FRONT + count as usize)
            .map_err(|error| Error::os("memfd_create", "", error))?;
        Ok(Self(words))
    }

    /// Those of another process.
    ///
    /// # Errors
    /// [`Error::Os`] when the descriptor is none of places.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let words = SharedWords::open(fd).map_err(|error| Error::os("mmap", "", error))?;
        match words.words().len() >= FRONT {
            true => Ok(Self(words)),
            false => Err(Error::argument("fd", "it has no places")),
        }
    }

    fn places(&self) -> &[AtomicU64] {
        &self.0.words()[FRONT..]
    }

    /// Takes a place as soon as there is one; `None` when there was none in that time. `reader` is
    /// where the messages arrive.
    ///
    /// # Errors
    /// [`Error::Os`], with `EINTR` when a signal ended the wait.
    pub fn take(&self, reader: &impl AsFd, timeout: Option<Duration>) -> Result<Option<Place>> {
        segment::begin()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let me = holder();
        loop {
            let heard = self.0.bell();
            if let Some(place) = self.take_one(me) {
                return Ok(Some(place));
            }
            if self.recover(reader.as_fd()) {
                continue;
            }
            let left = until
                .map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.0.wait(heard, left, || self.has_free());
            waited.map_err(|error| Error::os("futex", "", error))?;
        }
    }

    /// They become free in about the order in which they were taken: so the next one is tried
    /// first.
    fn take_one(&self, me: u64) -> Option<Place> {
        let (places, next) = (self.places(), &self.0.words()[NEXT]);
        let first = next.load(Ordering::Relaxed) as usize;
        for step in 0..places.len() {
            let index = (first + step) % places.len();
            let word = places[index].load(Ordering::Relaxed);
            let held = word & !(STATE | HOLDER) | BEING_SENT | me;
            if word & STATE == FREE
                && places[index]
                    .compare_exchange(word, held, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                next.store((index as u64 + 1) % places.len() as u64, Ordering::Relaxed);
                return Some(Place { index: index as u32, life: (word >> LIFE_SHIFT) as u32 });
            }
        }
        None
    }

    fn has_free(&self) -> bool {
        self.places().iter().any(|word| word.load(Ordering::SeqCst) & STATE == FREE)
    }

    /// The message of a place found no room in the pipe, and waits in this process.
    pub fn kept(&self, place: Place) {
        self.change(place, BEING_SENT, KEPT | holder());
    }

    /// This process is about to send what it kept.
    pub fn being_sent(&self, place: Place) {
        self.change(place, KEPT, BEING_SENT | holder());
    }

    /// The message of a place is in the pipe.
    pub fn sent(&self, place: Place) {
        self.change(place, BEING_SENT, IN_PIPE);
    }

    /// From one state to another, if the place is still in the first: its message may have been
    /// received.
    fn change(&self, place: Place, from: u64, to: u64) {
        let Some(word) = self.places().get(place.index as usize) else { return };
        let now = word.load(Ordering::Relaxed);
        if now >> LIFE_SHIFT == u64::from(place.life) && now & STATE == from {
            let then = now & !(STATE | HOLDER) | to;
            let _ = word.compare_exchange(now, then, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// A place is free: its message was received, or will not be sent. Once is enough, twice does
    /// no harm.
    pub fn free(&self, place: Place) {
        let Some(word) = self.places().get(place.index as usize) else { return };
        let mut now = word.load(Ordering::Relaxed);
        while now >> LIFE_SHIFT == u64::from(place.life) && now & STATE != FREE {
            match word.compare_exchange_weak(now, freed(now), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return self.0.ring(),
                Err(other) => now = other,
            }
        }
    }

    /// Frees what is only left over; whether there was something.
    fn recover(&self, reader: BorrowedFd<'_>) -> bool {
        let dead = Asked::default();
        let all = self.places().iter().map(|word| (word, word.load(Ordering::Acquire)));
        let is_left = |word: u64| match word & STATE {
            FREE => false,
            IN_PIPE => true,
            _ => dead.is_one(word & HOLDER),
        };
        let left: Vec<_> = all.filter(|(_, word)| is_left(*word)).collect();
        // After that look: what comes into the pipe from now on is not among them.
        let is_empty = !left.is_empty()
            && matches!(socket::wait(reader, false, Some(Instant::now())), Ok(false));
        let free = |(word, seen): &&(&AtomicU64, u64)| {
            (is_empty || seen & STATE == KEPT)
                && word
                    .compare_exchange(*seen, freed(*seen), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        };
        let count = left.iter().filter(free).count();
        (0..count).for_each(|_| self.0.ring());
        count > 0
    }

    /// How many are taken. `reader` is as for `take`.
    #[must_use]
    pub fn taken(&self, reader: &impl AsFd) -> u32 {
        self.recover(reader.as_fd());
        self.places().iter().filter(|word| word.load(Ordering::Relaxed) & STATE != FREE).count()
            as u32
    }

    /// Of a queue without a bound: one message more, or less. Who dies between that and the message
    /// leaves it wrong by one.
    pub fn count(&self, change: i64) {
        self.0.words()[ABOUT].fetch_add(change as u64, Ordering::Relaxed);
    }

    /// What was counted.
    #[must_use]
    pub fn counted(&self) -> i64 {
        self.0.words()[ABOUT].load(Ordering::Relaxed) as i64
    }
}

impl AsFd for Places {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The next life of a place, in which it is free.
fn freed(word: u64) -> u64 {
    ((word >> LIFE_SHIFT) + 1) << LIFE_SHIFT
}

/// This process, as the registry knows it; 0 where there is none.
fn holder() -> u64 {
    me().map_or(0, |me| me.holder)
}

fn me() -> Option<Identity> {
    sys::identity(&Directory::current())
}

/// Who is dead, of those in this process's registry. Of another directory's nobody can be asked:
/// they count as dead, and a message that they send late has no place of its own.
#[derive(Default)]
struct Asked(std::cell::OnceCell<Option<(Lives, u64)>>);

impl Asked {
    fn is_one(&self, holder: u64) -> bool {
        let look = || Some((Lives::look(&Directory::current())?, me()?.about));
        match self.0.get_or_init(look) {
            Some((lives, about)) => holder == 0 || lives.is_void(holder, *about),
            None => false,
        }
    }
}
