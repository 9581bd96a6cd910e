//! The ways to send messages from one worker to another, all with one interface.

mod bare;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod ours;
#[cfg(feature = "ringfire")]
mod ringfire;
#[cfg(feature = "tachyon")]
mod tachyon;
#[cfg(feature = "zeromq")]
mod zeromq;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::workers::{Board, Outcome, Word};

#[derive(Clone, Copy, PartialEq)]
pub enum Wait {
    Poll,
    /// Polls, and lets other processes of the core work in between.
    Yield,
    Block,
}

/// One way from senders to receivers.
#[derive(Clone)]
pub struct Plan {
    pub name: String,
    pub bytes: usize,
    pub wait: Wait,
    pub slots: u32,
    pub senders: usize,
    pub receivers: usize,
    /// What a bare word is, and what threads of one process use.
    pub word: &'static Word,
    pub local: (Sender<u64>, Receiver<u64>),
}

impl Plan {
    pub fn new(name: String, bytes: usize, wait: Wait, slots: u32, word: &'static Word) -> Self {
        let local = bounded(slots as usize);
        Self { name, bytes, wait, slots, senders: 1, receivers: 1, word, local }
    }

    pub fn between(mut self, senders: usize, receivers: usize) -> Self {
        (self.senders, self.receivers) = (senders, receivers);
        self
    }

    /// The same in the other direction.
    pub fn back(&self, board: &'static Board) -> Self {
        let name = format!("{}-back", self.name);
        Self::new(name, self.bytes, self.wait, self.slots, &board.words[1])
    }

    fn path(&self) -> String {
        std::env::temp_dir().join(format!("{}.messages", self.name)).display().to_string()
    }
}

/// Sends a message whose first eight bytes are a number. It writes no other bytes, where it gets
/// the memory from the library: filling them costs the same in every way.
pub trait Sends {
    /// Connects with the receivers that are there.
    fn connect(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn send(&mut self, number: u64) -> Outcome<()>;
}

/// Receives a message as the plan says, and reads its first eight bytes.
pub trait Receives {
    /// Connects with the senders that have connected.
    fn connect(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn receive(&mut self) -> Outcome<u64>;
}

pub struct Way {
    pub name: &'static str,
    pub sender: fn(&Plan) -> Outcome<Box<dyn Sends>>,
    pub receiver: fn(&Plan) -> Outcome<Box<dyn Receives>>,
    pub in_threads: bool,
    /// Whether each receiver gets each message.
    pub broadcasts: bool,
}

const fn way(
    name: &'static str,
    sender: fn(&Plan) -> Outcome<Box<dyn Sends>>,
    receiver: fn(&Plan) -> Outcome<Box<dyn Receives>>,
) -> Way {
    Way { name, sender, receiver, in_threads: false, broadcasts: false }
}

pub const WAYS: &[Way] = &[
    way("shmarray", ours::queue, ours::receiver),
    Way { broadcasts: true, ..way("shmarray, broadcast", ours::broadcast, ours::receiver) },
    #[cfg(feature = "iceoryx2")]
    Way { broadcasts: true, ..way("iceoryx2", iceoryx::sender, iceoryx::receiver) },
    #[cfg(feature = "tachyon")]
    way("tachyon-ipc", tachyon::sender, tachyon::receiver),
    #[cfg(feature = "ringfire")]
    way("ringfire", ringfire::sender, ringfire::receiver),
    #[cfg(feature = "zeromq")]
    way("ZeroMQ", zeromq::sender, zeromq::receiver),
    way("a Unix socket", bare::socket_sender, bare::socket_receiver),
    way("a word", bare::word_sender, bare::word_receiver),
    Way {
        in_threads: true,
        ..way("crossbeam-channel, one process", bare::local_sender, bare::local_receiver)
    },
];

/// The number at the beginning of a message.
///
/// # Safety
/// The memory has eight bytes.
unsafe fn read(message: *const u8) -> u64 {
    // SAFETY: the caller's.
    unsafe { message.cast::<u64>().read_unaligned() }
}

/// # Safety
/// The memory has eight bytes.
unsafe fn write(message: *mut u8, number: u64) {
    // SAFETY: the caller's.
    unsafe { message.cast::<u64>().write_unaligned(number) }
}
