//! Giving back what dead processes held.
//!
//! | when | what |
//! |---|---|
//! | the first use in a process that was not forked | a sweep of everything |
//! | a create, a message that was received, [`sweep_dead`], an ordinary end | a look at the roll of processes; a sweep when one of them has died |
//! | every so many files or bytes that this process makes | a sweep: messages that nobody can receive any more are on no roll |
//! | [`sweep`], and before shared memory is said to be full | a sweep that also takes what the living keep for reuse |
//!
//! A look costs some system calls, and may take a part of a thread's time only: a large one before
//! memory is taken from the system, and a small one where what was there is used again ([`When`]).
//! A sweep follows each death that is seen, whatever it costs: that is what bounds the memory of
//! the dead.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::lease::Closed;
use crate::mapping::{self, Mapped, read_header};
use crate::name::SegmentId;
use crate::segment::{close_without_the_dead, holds_all_of};
use crate::slab::{self, SweepMode};
use crate::sys::{self, Dead, Directory, Liveness, Lookup, Operation};

/// What a sweep gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Segments.
    pub segments: u64,
    /// Bytes of shared memory.
    pub bytes: u64,
}

/// Gives back what dead processes held, and the memory that living ones only keep for reuse: this
/// process's pool, and free cells of others.
///
/// Nobody needs to call this: creating and receiving arrays does what is needed.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read.
pub fn sweep() -> Result<Swept> {
    sys::refuse_orphan()?;
    sweep_directory(&Directory::current(), SweepMode::AlsoIdle)
}

/// Gives back what dead processes held, if any has died: for those who have just waited for one.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_dead() -> Result<Swept> {
    sys::refuse_orphan()?;
    let directory = Directory::current();
    match sys::find_dead(&directory).dead {
        Some(_) => sweep_directory(&directory, SweepMode::DeadOnly),
        None => Ok(Swept::default()),
    }
}

/// Gives back what this process's pool keeps and has not used since the last call. Returns its
/// bytes.
///
/// For runtimes that call it now and then, as at the end of a garbage collection.
pub fn trim_pool() -> u64 {
    let _operation = Operation::begin();
    slab::let_go_of_idle(false)
}

/// Gives back all that this process's pool keeps. Returns its bytes.
pub fn empty_pool() -> u64 {
    let _operation = Operation::begin();
    slab::let_go_of_idle(true)
}

/// Sweeps because memory is wanted. Returns whether any went back.
pub(crate) fn gives_room(directory: &Directory) -> Result<bool> {
    Ok(sweep_directory(directory, SweepMode::AlsoIdle)?.bytes > 0)
}

fn sweep_directory(directory: &Directory, mode: SweepMode) -> Result<Swept> {
    let dead = sys::find_dead(directory).dead; // who dies from now on is the next sweep's
    mapping::empty_cache(mode == SweepMode::AlsoIdle);
    let mut swept = Swept { bytes: slab::let_go(mode), ..Swept::default() };
    let ids = directory.segment_ids()?;
    if let Some(liveness) = Liveness::look(directory) {
        sys::sweep_tickets(directory, &liveness);
    }
    let (mut seen, mut is_whole) = (0, true); // seen: of what stays
    for id in &ids {
        match sweep_one(directory, id, mode, &mut seen) {
            Ok((bytes, ended)) => {
                seen += usize::from(!ended);
                swept.segments += u64::from(ended);
                swept.bytes += bytes;
            }
            Err(error) => is_whole &= !is_shortage(&error), // what is not ours to give does not stop us
        }
    }
    sys::sweep_names(directory);
    SEEN_BY_SWEEP.store(seen, Ordering::Relaxed);
    CREATES.store(0, Ordering::Relaxed);
    MADE_BYTES.store(0, Ordering::Relaxed);
    if is_whole {
        dead.into_iter().for_each(Dead::are_swept);
    }
    Ok(swept)
}

/// This process, and not the segment, is why it could not be looked at.
fn is_shortage(error: &Error) -> bool {
    matches!(error, Error::Os { source, .. } if !sys::is_none_of_ours(source))
}

/// Returns the bytes that went back, and whether the segment is gone.
fn sweep_one(
    directory: &Directory,
    id: &SegmentId,
    mode: SweepMode,
    seen: &mut usize,
) -> Result<(u64, bool)> {
    if mode == SweepMode::DeadOnly && holds_all_of(id) {
        return Ok((0, false));
    }
    match sys::give_back(directory, id)? {
        Some(bytes) => Ok((bytes, true)),
        None => sweep_mapped(directory, id, mode, seen),
    }
}

/// The same of what is mapped somewhere, but perhaps by nobody who holds it any more.
fn sweep_mapped(
    directory: &Directory,
    id: &SegmentId,
    mode: SweepMode,
    seen: &mut usize,
) -> Result<(u64, bool)> {
    let Some(file) = sys::SegmentFile::open_own(directory, id)? else { return Ok((0, false)) };
    let header = read_header(Lookup::Id(id), &file)?;
    let mapped = Mapped::map(&file, header, sys::Access::ReadWrite)?;
    drop(file); // the mapping holds it: if that is the last hold, its end gives the segment back
    let leases = mapped.leases();
    let segment_bytes = mapped.header.segment_bytes();
    if let Some(layout) = mapped.header.slab_layout {
        *seen += layout.cells as usize / 4; // a cell costs less than a file
        let (bytes, ended) = slab::sweep(&mapped, mode);
        return Ok((if ended { segment_bytes } else { bytes }, ended));
    }
    let closed =
        !leases.is_lock_only() && close_without_the_dead(&leases, directory) == Closed::Last;
    let dead = closed || leases.is_dead(); // by somebody who died before he unlinked it
    let ended = dead && mapped.discard();
    Ok((if ended { segment_bytes } else { 0 }, ended))
}

/// SweepMode many segments the last sweep of this process looked at; files and bytes that were made
/// since.
static SEEN_BY_SWEEP: AtomicUsize = AtomicUsize::new(0);
static CREATES: AtomicUsize = AtomicUsize::new(0);
static MADE_BYTES: AtomicU64 = AtomicU64::new(0);
/// Files between two sweeps, at the least, and bytes; and bytes for each segment that the last one
/// looked at, which take longer to make than a look.
const CREATES_BETWEEN_SWEEPS: usize = 64;
const BYTES_BETWEEN_SWEEPS: u64 = 64 << 20;
const BYTES_OF_A_LOOK: u64 = 1 << 20;

/// Before a create that makes a file of so many bytes.
pub(crate) fn before_file(directory: &Directory, bytes: u64) {
    sys::note_user();
    let seen = SEEN_BY_SWEEP.load(Ordering::Relaxed);
    let creates = CREATES.fetch_add(1, Ordering::Relaxed);
    let made_bytes = MADE_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let is_much = made_bytes >= BYTES_BETWEEN_SWEEPS.max(seen as u64 * BYTES_OF_A_LOOK);
    if is_much || creates >= CREATES_BETWEEN_SWEEPS.max(seen) {
        let _ = sweep_directory(directory, SweepMode::DeadOnly); // one that cannot be read is reported by what comes next
    }
}

/// Whether this process, or the one that forked it, has made or attached anything.
static WAS_USED: AtomicBool = AtomicBool::new(false);

/// The first use in a process gives back what dead processes left. No other thread waits for it,
/// and no child: a forked process was begun by its parent.
pub(crate) fn at_first_use() {
    if !WAS_USED.load(Ordering::Relaxed) && !WAS_USED.swap(true, Ordering::Relaxed) {
        let _ = sweep_directory(&Directory::current(), SweepMode::DeadOnly); // one that cannot be read is reported by what comes next
    }
}

/// What a look comes before or after, and so how often there may be one: the time between two of
/// them is so many times what the last one took.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Occasion {
    /// A create that takes memory from the system.
    Growing = 4,
    /// A message was received.
    Received = 40,
    /// A create of memory that is there.
    Reusing = 200,
}

/// Sweeps when a process has died, if it is time to look.
pub(crate) fn check(directory: &Directory, when: Occasion) {
    check_at(directory, when, sys::monotonic_ns());
}

/// The same before memory is used again. Whether it is time to see that its file can still be
/// found.
pub(crate) fn check_before_reuse(directory: &Directory) -> bool {
    let (last, now_ns) = (directory.last_check(), sys::monotonic_ns());
    let is_due = check_at(directory, Occasion::Reusing, now_ns)
        || now_ns >= last.checked_ns.load(Ordering::Relaxed);
    if is_due {
        sys::note_user();
        last.checked_ns.store(now_ns.saturating_add(CHECK_NS), Ordering::Relaxed);
    }
    is_due
}

/// So long a file is taken to be there after somebody looked: a hundred times what a look takes.
const CHECK_NS: u64 = 50_000;

/// Whether it looked.
fn check_at(directory: &Directory, when: Occasion, now_ns: u64) -> bool {
    let last = directory.last_check();
    let rest_ns = || (when as u64).saturating_mul(last.took_ns.load(Ordering::Relaxed));
    let due_ns = || last.ended_ns.load(Ordering::Relaxed).saturating_add(rest_ns());
    // The same steps in each run, where they are counted.
    if !cfg!(feature = "steps") && now_ns < due_ns() {
        return false;
    }
    sys::note_user();
    let began = sys::thread_ns();
    let found = sys::find_dead(directory);
    if found.was_deleted {
        sys::warn_of_removed_files(directory);
    }
    last.took_ns.store(sys::thread_ns() - began, Ordering::Relaxed);
    if found.dead.is_some() {
        let _ = sweep_directory(directory, SweepMode::DeadOnly); // nobody asked for it
    }
    last.ended_ns.store(sys::monotonic_ns(), Ordering::Relaxed);
    true
}

/// The end of a process. `is_clean`: nothing of it stays that somebody must sweep.
#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
pub(crate) fn at_exit(is_clean: bool) {
    if WAS_USED.load(Ordering::Relaxed) && SEEN_BY_SWEEP.load(Ordering::Relaxed) <= SEEN_AT_EXIT {
        let _ = sweep_dead(); // nobody is left to be told
    }
    if is_clean {
        sys::leave_process_lists();
    }
}

/// An end of a process is not made longer by more than a few milliseconds.
#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
const SEEN_AT_EXIT: usize = 256;
