//! Finds hangs: reads from /proc what each thread waits for, and whether any thread will go on.
//!
//! A process whose threads all sleep, twice in a row and without having run in between, goes on
//! only when another process does something. So a hang is found at once, without a time limit.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use crate::call_names::call_name;
use crate::process::Pid;

/// A thread at one moment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Thread {
    process: Pid,
    pub(crate) id: Pid,
    state: char,
    /// The system call that it is in, and its first argument.
    call: Option<(i64, u64)>,
    /// How often it has stopped running.
    switches: String,
}

/// Returns all threads of some processes. Threads that end meanwhile are left out.
pub(crate) fn threads_of(processes: impl IntoIterator<Item = Pid>) -> Vec<Thread> {
    let ids = |process: Pid| names(&format!("/proc/{process}/task")).map(move |id| (process, id));
    processes
        .into_iter()
        .flat_map(ids)
        .filter_map(|(process, id)| Thread::look(process, id))
        .collect()
}

/// The ids of the processes of a scene, in memory that all of them share. A search of every process
/// of the machine would keep the memory, and with it the locks, of processes that die elsewhere.
struct Family {
    count: AtomicUsize,
    ids: [AtomicI32; 500],
}

static FAMILY: AtomicPtr<Family> = AtomicPtr::new(std::ptr::null_mut());

fn family() -> Option<&'static Family> {
    // SAFETY: the pointer is null or valid: `begin_family` mapped what it points to and never
    // unmaps it, and its atomics are valid in any state.
    unsafe { FAMILY.load(Ordering::Relaxed).as_ref() }
}

/// Begins a family without processes.
pub(crate) fn begin_family() {
    if let Some(family) = family() {
        return family.count.store(0, Ordering::Relaxed);
    }
    let (anywhere, writable) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping replaces no memory in use, because the kernel chooses its address.
    let start = unsafe { libc::mmap(anywhere, size_of::<Family>(), writable, shared, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    FAMILY.store(start.cast(), Ordering::Relaxed);
}

pub(crate) fn enter_family(process: Pid) {
    if let Some(family) = family() {
        let slot = family.ids.get(family.count.fetch_add(1, Ordering::Relaxed));
        slot.expect("no scene has so many processes").store(process, Ordering::Relaxed);
    }
}

/// Returns all processes that have entered.
pub(crate) fn all_of_family() -> Vec<Pid> {
    let ids = |family: &'static Family| {
        let count = family.count.load(Ordering::Relaxed).min(family.ids.len());
        family.ids[..count].iter().map(|id| id.load(Ordering::Relaxed)).collect()
    };
    family().map(ids).unwrap_or_default()
}

fn names(directory: &str) -> impl Iterator<Item = Pid> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

impl Thread {
    fn look(process: Pid, id: Pid) -> Option<Self> {
        let read =
            |what: &str| fs::read_to_string(format!("/proc/{process}/task/{id}/{what}")).ok();
        let status = read("status")?;
        let state =
            status.lines().find_map(|line| line.strip_prefix("State:"))?.trim().chars().next()?;
        let switches = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
        Some(Self {
            process,
            id,
            state,
            call: read("syscall").and_then(|text| call(&text)),
            switches,
        })
    }

    fn is_at_rest(&self) -> bool {
        matches!(self.state, 'S' | 't' | 'T' | 'Z')
    }

    /// Whether its tracer has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state == 't'
    }

    /// Returns the futex that it sleeps in.
    pub(crate) fn futex(&self) -> Option<u64> {
        let (call, address) = self.call.filter(|_| self.state == 'S')?;
        (call == libc::SYS_futex).then_some(address)
    }
}

/// Parses "202 0x7f… …"; "running" stands for no call.
fn call(text: &str) -> Option<(i64, u64)> {
    let mut fields = text.split(' ');
    let number = fields.next()?.parse().ok()?;
    let first = u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok()?;
    Some((number, first))
}

/// Whether none of them runs, and none has run since `before`.
pub(crate) fn nobody_moves(now: &[Thread], before: &[Thread]) -> bool {
    !now.is_empty() && now == before && now.iter().all(Thread::is_at_rest)
}

/// Whether an address is a static of this program: a lock of the library, which is linked here, and
/// not one of the C library's.
pub(crate) fn is_of_this_program(address: u64) -> bool {
    unsafe extern "C" {
        static __data_start: u8;
        static _end: u8;
    }
    (&raw const __data_start as u64..&raw const _end as u64).contains(&address)
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.call.map_or("no system call".to_owned(), |(call, _)| call_name(call));
        write!(f, "thread {} of process {}: state {} in {at}", self.id, self.process, self.state)
    }
}
