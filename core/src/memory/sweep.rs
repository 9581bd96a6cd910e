//! Sweeps: giving back what dead processes held.
//!
//! Occasions for a sweep:
//! * The first use in a process that was not forked: a sweep of everything.
//! * A create, a received message, [`sweep_dead`], and the exit of a process: a check of the
//!   registry's process list, and a sweep when one of the processes has died.
//! * Every so many files or bytes that this process makes: a sweep. It finds the messages that
//!   nobody can receive any more, which are on no process list.
//! * [`sweep`], and before shared memory is reported as full: a sweep that also takes the memory
//!   that living processes keep for reuse.
//!
//! A check costs some system calls and may take only a part of a thread's time: a large part before
//! memory is taken from the system, and a small one where existing memory is used again
//! ([`Occasion`]). A sweep follows each death that is found, whatever it costs, because that is
//! what bounds the memory of dead processes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::header::lease::Closed;
use crate::memory::mapping::{self, Mapped, read_header};
use crate::memory::operation::Operation;
use crate::memory::segment::{clear_dead_and_close, holds_all_of};
use crate::memory::slab::{self, MakeRoom, SweepMode};
use crate::system::{self, Dead, Directory, Liveness, Lookup};
use crate::value::error::{Error, ErrorKind, Result};
use crate::value::name::SegmentId;

/// Whether this process, or the one that forked it, has made or attached anything.
static WAS_USED: AtomicBool = AtomicBool::new(false);
/// The number of segments that this process's last sweep examined and left, and what the names that
/// it read took, in segments.
static SEEN_BY_SWEEP: AtomicUsize = AtomicUsize::new(0);
/// The number of files that this process has made since its last sweep.
static CREATES: AtomicUsize = AtomicUsize::new(0);
/// The bytes of these files.
static MADE_BYTES: AtomicU64 = AtomicU64::new(0);

/// The least number of files between two sweeps. It is at least the number of segments that the
/// last one examined, so that a sweep costs each create no more than one examination.
const CREATES_BETWEEN_SWEEPS: usize = 64;
/// The least number of bytes between two sweeps.
const BYTES_BETWEEN_SWEEPS: u64 = 64 << 20;
/// The least number of bytes between two sweeps for each segment that the last one examined: to
/// make so many bytes takes longer than to examine a segment.
const BYTES_OF_AN_EXAMINATION: u64 = 1 << 20;
/// The number of names in the directory that take as long as the examination of a segment: each is
/// read, and the kernel is asked whose file it is.
const NAMES_OF_AN_EXAMINATION: usize = 16;
/// The time for which a file is taken to exist after a lookup: a hundred times what the lookup
/// takes.
const CHECK_NS: u64 = 50_000;
/// The most segments that are swept at an exit, so that it takes no more than a few milliseconds
/// longer.
#[cfg(linux_backend)]
const SEEN_AT_EXIT: usize = 256;

/// The result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Swept {
    /// The number of segments given back.
    pub segments: u64,
    /// The bytes of shared memory given back.
    pub bytes: u64,
}

/// Gives back what dead processes held, and the memory that living ones keep only for reuse: this
/// process's pool, and free cells in the slabs of others.
///
/// Programs need not call this: creating and receiving arrays sweeps when a process has died.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the directory cannot be read;
/// [`Error::NoMemory`](crate::Error::NoMemory) when this process has no memory for its list.
pub fn sweep() -> Result<Swept> {
    let _operation = Operation::without_handlers()?;
    sweep_directory(&Directory::current(), SweepMode::AlsoIdle)
}

/// Gives back what dead processes held, if any has died. For callers that have just waited for a
/// process.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_dead() -> Result<Swept> {
    let _operation = Operation::without_handlers()?;
    system::check_headroom()?;
    let directory = Directory::current();
    match system::find_dead(&directory, &Liveness::of(&directory)).dead {
        Some(_) => sweep_directory(&directory, SweepMode::DeadOnly),
        None => {
            mapping::evict_ended(); // of processes that have left in order
            Ok(Swept::default())
        }
    }
}

/// Gives back the pooled memory that this process has not used since the last call. Returns its
/// bytes.
///
/// For runtimes that call it now and then, for example at the end of a garbage collection.
pub fn trim_pool() -> u64 {
    let Some(_operation) = Operation::to_give_back() else { return 0 };
    slab::release_idle(false)
}

/// Gives back all memory in this process's pool. Returns its bytes.
pub fn empty_pool() -> u64 {
    let Some(_operation) = Operation::to_give_back() else { return 0 };
    slab::release_idle(true)
}

/// Gives up the address space that this process takes only for speed: cached mappings, and the
/// memory in its pool that no array has.
#[cfg(linux_backend)]
pub(crate) fn give_up_address_space() {
    mapping::empty_cache(); // first, and without an allocation: what follows may need some memory
    empty_pool();
}

fn sweep_directory(directory: &Directory, mode: SweepMode) -> Result<Swept> {
    system::is_usable(directory)?; // where every holder looks dead, nothing may be given back
    system::check_headroom()?;
    let liveness = Liveness::for_sweep(directory);
    let dead = system::find_dead(directory, &liveness).dead; // the next sweep finds later deaths
    match mode {
        SweepMode::AlsoIdle => mapping::empty_cache(),
        SweepMode::DeadOnly => mapping::evict_lock_only(),
    }
    let mut swept = Swept { bytes: slab::release_unused(mode), ..Swept::default() };
    let files = directory.own_files()?;
    system::sweep_tickets(directory, &files, &liveness);
    let mut is_whole = true;
    let mut shortage = None;
    let mut seen = files.names_read / NAMES_OF_AN_EXAMINATION;
    for id in &files.ids {
        match sweep_one(directory, id, mode, &liveness) {
            Ok(outcome) => {
                seen += outcome.cost;
                swept.segments += u64::from(outcome.is_gone);
                swept.bytes += outcome.bytes;
            }
            // The next one would need as much.
            Err(error) if error.kind() == ErrorKind::NoMemory => {
                shortage = Some(error);
                break;
            }
            // A segment that is not this user's to give back does not stop the sweep.
            Err(error) => is_whole &= !is_shortage(&error),
        }
    }
    mapping::evict_ended();
    system::sweep_names(directory, &files, &liveness);
    SEEN_BY_SWEEP.store(seen, Ordering::Relaxed);
    CREATES.store(0, Ordering::Relaxed);
    MADE_BYTES.store(0, Ordering::Relaxed);
    if let Some(error) = shortage {
        return Err(error);
    }
    if is_whole {
        dead.into_iter().for_each(|dead: Dead| dead.remove_from_list(&liveness));
    }
    Ok(swept)
}

/// Whether a segment could not be examined because of a limit of this process.
fn is_shortage(error: &Error) -> bool {
    matches!(error, Error::Os { source, .. } if !system::is_absent_or_foreign(source))
}

/// The outcome of the sweep of one segment.
struct SweepOutcome {
    /// The bytes given back.
    bytes: u64,
    is_gone: bool,
    /// The cost of examining it again in the next sweep, in segments. None for one that is gone.
    cost: usize,
}

impl SweepOutcome {
    const STAYS: Self = Self { bytes: 0, is_gone: false, cost: 1 };

    fn gone(bytes: u64) -> Self {
        Self { bytes, is_gone: true, cost: 0 }
    }
}

fn sweep_one(
    directory: &Directory,
    id: &SegmentId,
    mode: SweepMode,
    liveness: &Liveness,
) -> Result<SweepOutcome> {
    if mode == SweepMode::DeadOnly && holds_all_of(id) {
        return Ok(SweepOutcome::STAYS);
    }
    match system::reclaim(directory, id, liveness)? {
        Some(bytes) => Ok(SweepOutcome::gone(bytes)),
        None => sweep_mapped(directory, id, mode, liveness),
    }
}

/// Sweeps a segment that some process has mapped, but perhaps none that still holds it.
fn sweep_mapped(
    directory: &Directory,
    id: &SegmentId,
    mode: SweepMode,
    liveness: &Liveness,
) -> Result<SweepOutcome> {
    let Some(file) = system::SegmentFile::open_own(directory, id)? else {
        return Ok(SweepOutcome::STAYS);
    };
    let header = read_header(Lookup::Id(id), &file)?;
    let mapped = Mapped::map_header(&file, header)?;
    drop(file); // the mapping holds it: if that is the last hold, its drop gives the segment back
    let leases = mapped.leases();
    let segment_bytes = mapped.header.segment_bytes();
    if let Some(layout) = mapped.header.slab_layout {
        let cost = 1 + layout.cells as usize / 4; // a cell costs less than a file
        return Ok(match slab::sweep(&mapped, mode, liveness) {
            (_, true) => SweepOutcome::gone(segment_bytes),
            (bytes, false) => SweepOutcome { bytes, is_gone: false, cost },
        });
    }
    let closed = !leases.is_lock_only() && clear_dead_and_close(&leases, liveness) == Closed::Last;
    let dead = closed || leases.is_dead(); // by a process that died before it unlinked it
    if dead && mapped.discard() {
        Ok(SweepOutcome::gone(segment_bytes))
    } else {
        Ok(SweepOutcome::STAYS)
    }
}

/// Room for new arrays: what a create does about dead processes before it uses memory.
pub(crate) struct Room<'a> {
    directory: &'a Directory,
    /// Whether it is time to look up that the file of a slab can still be found.
    must_look_up: bool,
}

impl<'a> Room<'a> {
    /// Checks whether a process has died, if it is time to.
    pub(crate) fn check(directory: &'a Directory) -> Self {
        Self { directory, must_look_up: check_before_reuse(directory) }
    }

    /// Leaves the check to a create that grows.
    pub(crate) fn unchecked(directory: &'a Directory) -> Self {
        Self { directory, must_look_up: false }
    }

    /// Sweeps because memory is wanted. Returns whether any was given back.
    pub(crate) fn sweep(&self) -> Result<bool> {
        Ok(sweep_directory(self.directory, SweepMode::AlsoIdle)?.bytes > 0)
    }
}

impl MakeRoom for Room<'_> {
    fn may_reuse(&self, slab: &SegmentId) -> bool {
        !self.must_look_up || system::is_findable(self.directory, slab)
    }

    fn before_growing(&self, bytes: u64) {
        before_file(self.directory, bytes);
        check(self.directory, Occasion::Growing);
    }
}

/// Counts a create that is about to make a file of so many bytes, and sweeps when it is time.
fn before_file(directory: &Directory, bytes: u64) {
    system::refresh_user();
    let seen = SEEN_BY_SWEEP.load(Ordering::Relaxed);
    let creates = CREATES.fetch_add(1, Ordering::Relaxed);
    let made_bytes = MADE_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let is_much = made_bytes >= BYTES_BETWEEN_SWEEPS.max(seen as u64 * BYTES_OF_AN_EXAMINATION);
    if is_much || creates >= CREATES_BETWEEN_SWEEPS.max(seen) {
        // A directory that cannot be read is reported by the operation that follows.
        let _ = sweep_directory(directory, SweepMode::DeadOnly);
    }
}

/// Sweeps at the first use in a process. No other thread waits for it, and a forked child does not
/// repeat it, because its parent has.
pub(crate) fn at_first_use() {
    if !WAS_USED.load(Ordering::Relaxed) && !WAS_USED.swap(true, Ordering::Relaxed) {
        // A directory that cannot be read is reported by the operation that follows.
        let _ = sweep_directory(&Directory::current(), SweepMode::DeadOnly);
    }
}

/// Does the same at a first use that makes an array. The process registers first, in a directory
/// that it can use, so that it looks for its registry once.
pub(crate) fn at_first_create() {
    if WAS_USED.load(Ordering::Relaxed) {
        return;
    }
    let directory = Directory::current();
    if system::is_usable(&directory).is_ok() {
        let _ = system::process_owner(&directory); // without one, arrays are held by locks alone
        at_first_use();
    }
}

/// The kind of operation that a check for dead processes belongs to. Its number limits how often
/// the check runs: the time between two checks is at least the last check's duration times that
/// number. So checks take at most one part in so many of a thread's time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Occasion {
    /// A create that takes memory from the system.
    Growing = 4,
    /// A message was received.
    Received = 40,
    /// A create that uses existing memory again.
    Reusing = 200,
}

/// Checks whether a process has died, if it is time to, and sweeps if one has.
pub(crate) fn check(directory: &Directory, when: Occasion) {
    check_at(directory, when, system::monotonic_ns());
}

/// Does the same before memory is used again. Returns whether it is time to look up that the file
/// can still be found.
fn check_before_reuse(directory: &Directory) -> bool {
    let last = directory.last_check();
    let now_ns = system::monotonic_ns();
    let is_due = check_at(directory, Occasion::Reusing, now_ns)
        || now_ns >= last.checked_ns.load(Ordering::Relaxed);
    if is_due {
        system::refresh_user();
        last.checked_ns.store(now_ns.saturating_add(CHECK_NS), Ordering::Relaxed);
    }
    is_due
}

/// Returns whether it checked.
fn check_at(directory: &Directory, when: Occasion, now_ns: u64) -> bool {
    let last = directory.last_check();
    let rest_ns = || (when as u64).saturating_mul(last.took_ns.load(Ordering::Relaxed));
    let due_ns = || last.ended_ns.load(Ordering::Relaxed).saturating_add(rest_ns());
    // tests/crashes counts steps, so with its cfg the time must not decide whether to check.
    if !cfg!(shmarray_steps) && now_ns < due_ns() {
        return false;
    }
    system::refresh_user();
    let began = system::thread_ns();
    let found = system::find_dead(directory, &Liveness::of(directory));
    if found.was_deleted {
        system::warn_of_removed_files(directory);
    }
    last.took_ns.store(system::thread_ns() - began, Ordering::Relaxed);
    if found.dead.is_some() {
        let _ = sweep_directory(directory, SweepMode::DeadOnly); // no caller asked for it
    }
    last.ended_ns.store(system::monotonic_ns(), Ordering::Relaxed);
    true
}

/// Sweeps at the exit of a process that may leave messages which nobody can receive any more, in
/// pipes or as bytes of its family, before it gives back what it holds itself: a segment is given
/// back by its last holder.
#[cfg(linux_backend)]
pub(crate) fn of_unread() {
    if SEEN_BY_SWEEP.load(Ordering::Relaxed) <= SEEN_AT_EXIT {
        let _ = sweep_directory(&Directory::current(), SweepMode::DeadOnly); // nobody to report to
    }
}

/// Sweeps at the exit of a process. `is_clean` says that nothing of this process is left for a
/// sweep. Mappings that no array uses are removed now: the kernel would remove them later, and a
/// process that drops the last array of a LOCK_ONLY slab meanwhile would leave the slab to a sweep.
#[cfg(linux_backend)]
pub(crate) fn at_exit(is_clean: bool) {
    mapping::empty_cache();
    if WAS_USED.load(Ordering::Relaxed) && SEEN_BY_SWEEP.load(Ordering::Relaxed) <= SEEN_AT_EXIT {
        let _ = sweep_dead(); // there is nobody to report an error to
    }
    if is_clean {
        system::leave_process_lists();
    }
}
