//! Processes or threads that send and receive, each on its core, and the memory that they share.

use std::error::Error;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// A watchdog, no measure.
const PATIENCE: Duration = Duration::from_secs(10);

/// A word in a line of its own.
#[repr(align(128))]
#[derive(Default)]
pub struct Word(pub AtomicU32);

#[repr(align(128))]
#[derive(Default)]
pub struct Counter(pub AtomicU64);

/// What all workers of a measurement see.
#[derive(Default)]
pub struct Board {
    /// For the ways that are a bare word: there and back.
    pub words: [Word; 2],
    /// How often a worker said that it is at a meeting point.
    here: Counter,
    /// The last number that was sent, and that was received.
    pub sent: Counter,
    pub received: Counter,
    /// The first number that a receiver received, and the last one of the first sender.
    pub first: Counter,
    pub last: Counter,
    pub senders_that_ended: Counter,
    pub stop: Counter,
    /// The receiver's thread, and how often it has slept.
    pub thread: Counter,
    pub slept: Counter,
    /// 1 if a receiver or sender had an error, and its text.
    pub failed: Counter,
    text: [AtomicU64; 16],
}

impl Board {
    /// Zeros, shared with the processes that are forked from now on.
    pub fn new() -> Outcome<&'static Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so nothing else is there.
        let board = unsafe {
            mmap_anonymous(std::ptr::null_mut(), size_of::<Self>(), access, MapFlags::SHARED)?
        };
        // SAFETY: zeros are a valid Board, and nobody unmaps it.
        Ok(unsafe { &*board.cast::<Self>() })
    }

    /// Returns when so many have come, in all meetings until now.
    pub fn meet(&self, count: u64) {
        self.here.0.fetch_add(1, SeqCst);
        while self.here.0.load(SeqCst) < count {
            std::thread::yield_now();
        }
    }

    pub fn note(&self, error: &dyn Error) {
        let said = error.to_string();
        let mut bytes = said.lines().next().unwrap_or("it failed").bytes();
        for word in &self.text {
            let mut part = [0; 8];
            part.iter_mut().for_each(|byte| *byte = bytes.next().unwrap_or(0));
            word.store(u64::from_ne_bytes(part), SeqCst);
        }
        self.failed.0.store(1, SeqCst);
    }

    /// The error that was noted, and that is forgotten now.
    pub fn error(&self) -> Option<String> {
        if self.failed.0.swap(0, SeqCst) == 0 {
            return None;
        }
        let bytes: Vec<u8> =
            self.text.iter().flat_map(|word| word.load(SeqCst).to_ne_bytes()).collect();
        Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }
}

pub enum Worker {
    Process(Pid),
    Thread(std::thread::JoinHandle<()>),
}

impl Worker {
    /// Begins to work on this core, or on any: in a forked process, or in a thread.
    pub fn start(
        in_thread: bool,
        core: Option<usize>,
        work: impl FnOnce() -> Outcome<()> + Send + 'static,
    ) -> Outcome<Self> {
        let work = move || {
            if let Err(error) = pin(core).and_then(|()| work()) {
                eprintln!("{error}");
                std::process::exit(1);
            }
        };
        if in_thread {
            return Ok(Self::Thread(std::thread::spawn(work)));
        }
        // SAFETY: a fork needs a process with one thread; threads are only made for ways that do
        // not fork.
        match unsafe { libc::fork() } {
            0 => {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                work();
                std::process::exit(0)
            }
            pid => Ok(Self::Process(Pid::from_raw(pid).ok_or("fork")?)),
        }
    }

    pub fn join(self) -> Outcome<()> {
        match self {
            Self::Thread(thread) => thread.join().map_err(|_| "a thread has panicked".into()),
            Self::Process(pid) => match waitpid(Some(pid), WaitOptions::empty())? {
                Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
                _ => Err("a process has failed".into()),
            },
        }
    }

    /// Ends it by force if it does not end in that time.
    pub fn end_within(self, limit: Duration) -> Outcome<()> {
        let Self::Process(pid) = self else { return self.join() };
        let began = Instant::now();
        while waitpid(Some(pid), WaitOptions::NOHANG)?.is_none() {
            if began.elapsed() > limit {
                return self.kill();
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    pub fn kill(self) -> Outcome<()> {
        let Self::Process(pid) = self else { return Err("a thread cannot be killed".into()) };
        kill_process(pid, Signal::KILL)?;
        waitpid(Some(pid), WaitOptions::empty())?;
        Ok(())
    }
}

pub fn pin(core: Option<usize>) -> Outcome<()> {
    let Some(core) = core else { return Ok(()) };
    let mut one = CpuSet::new();
    one.set(core);
    Ok(sched_setaffinity(None, &one)?)
}

/// The first core and the last.
pub fn cores() -> Outcome<[usize; 2]> {
    let allowed = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let first = cores.next().ok_or("no core")?;
    Ok([first, cores.last().unwrap_or(first)])
}

/// Tries until it is no error: what another process makes is not there at once.
pub fn until<T, E: Into<Box<dyn Error>>>(mut attempt: impl FnMut() -> Result<T, E>) -> Outcome<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => std::thread::yield_now(),
            Ok(made) => return Ok(made),
        }
    }
}
