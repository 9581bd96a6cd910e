//! What only the Linux backend has: owners that the kernel knows to be dead, what follows from
//! their deaths, pipes and channels, clocks and limits.
//!
//! Here no process dies, and there are no messages. A type of which there is no value has no
//! variants.

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::system::interface::{Access, LastCheck, Lookup, OwnFiles};
use crate::system::{AsFd, BorrowedFd, Directory, Mapping, OwnedFd, SegmentFile};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId, SegmentText};

pub(crate) use super::socket;

/// A segment ends with its last holder: a count of zero cannot be attached again.
pub(crate) const CAN_PERSIST: bool = false;
/// Pipes and channels need a kernel that gives up what a dead process held.
pub(crate) const HAS_TRANSPORT: bool = false;

/// The owner of an entry, a process or a message, as its entries name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) info: u64,
}

/// Returns `None`: no kernel would tell that this process died.
pub(crate) fn process_owner(_directory: &Directory) -> Option<Owner> {
    None
}

/// A view of which owners are alive: none can be known to be dead.
pub(crate) struct Liveness;

impl Liveness {
    pub(crate) fn of(_directory: &Directory) -> Self {
        Self
    }

    pub(crate) fn for_sweep(_directory: &Directory) -> Self {
        Self
    }

    pub(crate) fn for_list(_directory: &Directory, _user: u32) -> Self {
        Self
    }

    pub(crate) fn has_registry(&self) -> bool {
        cfg!(memory_backend)
    }

    pub(crate) fn is_dead_owner(&self, _owner: u64, _info: u64) -> bool {
        false
    }
}

/// A mapping here has its pages from the start, and all of them may be written.
impl Mapping {
    pub(crate) fn header_is_writable(&self) -> bool {
        true
    }

    pub(crate) fn populate(&self) {}

    pub(crate) fn let_forks_inherit(&self, _do_inherit: bool) {}

    pub(crate) fn is_frozen(&self) -> bool {
        false
    }

    pub(crate) fn is_owned(&self) -> bool {
        true
    }

    pub(crate) fn thaw(&self, _id: &SegmentId) -> bool {
        false
    }

    pub(crate) fn drop_written_pages(&self, _offset: u64, _bytes: u64) -> bool {
        false
    }
}

/// A file here is used through its mapping alone, which is of all of it.
impl SegmentFile {
    pub(crate) fn takes_writes(&self) -> bool {
        false
    }

    pub(crate) fn write_at(
        &self,
        _offset: u64,
        _bytes: *const u8,
        _count: usize,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn write_error(&self, error: io::Error) -> Error {
        Error::os("pwrite", "", error)
    }

    pub(crate) fn open_own(directory: &Directory, id: &SegmentId) -> Result<Option<Self>> {
        Self::open(directory.clone(), Lookup::OwnId(id), Access::ReadWrite).map(Some)
    }

    pub(crate) fn other_user(&self) -> Option<u32> {
        None
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.bytes()
    }

    pub(crate) fn is_held(&self) -> bool {
        true
    }

    /// No name here leads to a copy of a segment.
    pub(crate) fn is_another_than(&self, _id: &SegmentId) -> Result<bool> {
        Ok(false)
    }

    pub(crate) fn map_header(&self, header_bytes: u64) -> Result<Mapping> {
        self.map(Access::ReadWrite, header_bytes)
    }
}

/// Dead processes: none can be known.
pub(crate) struct Dead;

impl Dead {
    pub(crate) fn remove_from_list(self, _liveness: &Liveness) {}
}

/// What a check for dead processes found: nothing.
pub(crate) struct DeathCheck {
    pub(crate) dead: Option<Dead>,
    pub(crate) was_deleted: bool,
}

pub(crate) fn find_dead(_directory: &Directory, _liveness: &Liveness) -> DeathCheck {
    DeathCheck { dead: None, was_deleted: false }
}

/// Returns a check that is never due.
pub(crate) fn never_due() -> &'static LastCheck {
    static NEVER: LastCheck = LastCheck {
        ended_ns: AtomicU64::new(u64::MAX),
        took_ns: AtomicU64::new(0),
        checked_ns: AtomicU64::new(u64::MAX),
    };
    &NEVER
}

/// An operation that no exit handler waits for.
#[must_use]
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn begin() -> Self {
        Self(())
    }
}

/// Returns `false`: there is no handler that a forked child would need.
pub(crate) fn is_orphaned() -> bool {
    false
}

pub(crate) fn forks() -> u32 {
    0
}

pub(crate) fn without_fork<T>(read: impl FnOnce() -> T) -> T {
    read()
}

pub(crate) fn monotonic_ns() -> u64 {
    0
}

pub(crate) fn coarse_ns() -> u64 {
    0
}

pub(crate) fn realtime_ns() -> u64 {
    0
}

/// It is not known here.
pub(crate) fn available_memory() -> u64 {
    0
}

/// No limit is known here.
pub(crate) fn most_mappings() -> usize {
    usize::MAX
}

/// No limit is known here.
pub(crate) fn most_cached_bytes() -> u64 {
    u64::MAX
}

/// Whether a file does not exist or is not this user's.
pub(crate) fn is_absent_or_foreign(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

pub(crate) fn thread_ns() -> u64 {
    0
}

/// Does nothing: a segment ends only by its last holder's count.
pub(crate) fn discard(
    _directory: &Directory,
    _id: &SegmentId,
    _name: Option<&ArrayName>,
) -> Result<bool> {
    Ok(true)
}

const NO_MESSAGES: Error = Error::Unsupported { what: "messages on this platform" };

pub(crate) fn family_message(_directory: &Directory) -> Result<Owner> {
    Err(NO_MESSAGES)
}

pub(crate) fn family_of(_ticket: u64) -> Option<u64> {
    None
}

pub(crate) fn has_exited(_info: u64) -> bool {
    false
}

pub(crate) fn is_same_registry(_info: u64, _other: u64) -> bool {
    false
}

pub(crate) fn is_message(_info: u64) -> bool {
    false
}

pub(crate) fn link_ticket(
    _directory: &Directory,
    _of: &SegmentText,
    _ticket: u64,
    _info: u64,
) -> Result<bool> {
    Err(NO_MESSAGES)
}

pub(crate) fn unlink_ticket(_directory: &Directory, _of: &SegmentText, _ticket: u64) -> bool {
    false
}

pub(crate) fn sweep_tickets(_: &Directory, _: &OwnFiles, _: &Liveness) {}

/// Does nothing: without leases there are no cells, and only cells are decommitted.
pub(crate) fn decommit(
    _directory: &Directory,
    _id: &SegmentId,
    _parts: &[(u64, u64)],
) -> Result<()> {
    Ok(())
}

pub(crate) fn recommit(_directory: &Directory, _id: &SegmentId, _part: (u64, u64)) -> Result<()> {
    Ok(())
}

/// Returns `false`: only channels give up a name, and live on.
pub(crate) fn remove_name(_: &Directory, _: &SegmentId, _: &ArrayName) -> Result<bool> {
    Ok(false)
}

/// Returns the mode of every segment.
pub(crate) fn file_mode(_directory: &Directory, _id: &SegmentId) -> Result<u32> {
    Ok(0o600)
}

/// Does nothing: the system does not list names.
pub(crate) fn sweep_names(_: &Directory, _: &OwnFiles, _: &Liveness) {}

pub(crate) fn is_found(_directory: &Directory, _id: &SegmentId) -> bool {
    true
}

/// Returns `true`: what this backend needs, the system has.
pub(crate) fn is_usable(_directory: &Directory) -> Result<bool> {
    Ok(true)
}

pub(crate) fn is_findable(_directory: &Directory, _id: &SegmentId) -> bool {
    true
}

/// Does nothing: the process's user does not matter here.
pub(crate) fn refresh_user() {}

/// Returns `None`: only the last holder can tell that a segment is not held.
pub(crate) fn reclaim(_: &Directory, _: &SegmentId, _: &Liveness) -> Result<Option<u64>> {
    Ok(None)
}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

pub(crate) fn message(_directory: &Directory) -> Result<(Owner, OwnedFd)> {
    Err(NO_MESSAGES)
}

pub(crate) fn ticket_of(_directory: &Directory, _channel: u64) -> Result<Owner> {
    Err(NO_MESSAGES)
}

pub(crate) fn keep_family(_directory: &Directory) -> Result<(u64, OwnedFd)> {
    Err(NO_MESSAGES)
}

pub(crate) fn memory_file(_pieces: &[&[u8]]) -> io::Result<OwnedFd> {
    Err(unsupported())
}

pub(crate) fn read_memory_file(_file: OwnedFd) -> io::Result<Vec<u8>> {
    Err(unsupported())
}

pub(crate) fn sleep_at(_word: *const u32, _seen: u32, _most: Duration) -> io::Result<()> {
    Err(unsupported())
}

pub(crate) fn wake_at(_word: *const u32, _most: i32) -> usize {
    0
}

pub(crate) fn block_signals() {}

pub(crate) enum FamilyLock {}

impl FamilyLock {
    pub(crate) fn new(_directory: &Directory, _channel: u64) -> Result<Self> {
        Err(NO_MESSAGES)
    }
}

pub(crate) enum Appearances {}

impl Appearances {
    pub(crate) fn watch(_directory: &Directory) -> Result<Self> {
        Err(NO_MESSAGES)
    }

    pub(crate) fn wait(&self, _most: Duration) -> Result<()> {
        match *self {}
    }
}

pub(crate) enum EventFd {}

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        Err(unsupported())
    }

    pub(crate) fn set(&self) {
        match *self {}
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }

    pub(crate) fn number(&self) -> std::ffi::c_int {
        match *self {}
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}

pub(crate) enum ForeignFile {}

impl ForeignFile {
    pub(crate) fn open(_directory: &Directory, _lookup: Lookup<'_>) -> Result<Self> {
        Err(NO_MESSAGES)
    }

    pub(crate) fn bytes(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn read_at(&self, _offset: u64, _bytes: &mut [u8]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn not_writable(&self, _call: &'static str) -> Error {
        match *self {}
    }

    pub(crate) fn is_held(&self) -> bool {
        match *self {}
    }

    pub(crate) fn futex_page(&self, _page: u64, _page_bytes: u64) -> Result<FutexPage> {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum FutexPage {}

impl FutexPage {
    pub(crate) fn word(&self, _offset: usize) -> *const u32 {
        match *self {}
    }
}

/// Words that processes share: there are none. Hidden: it is for this project's bindings.
#[derive(Debug)]
pub enum SharedWords {}

impl SharedWords {
    /// Fails.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn new(_words: usize) -> Result<Self> {
        Err(NO_MESSAGES)
    }

    pub(crate) fn open(_file: OwnedFd) -> Result<Self> {
        Err(NO_MESSAGES)
    }

    /// Returns the words.
    pub fn words(&self) -> &[AtomicU64] {
        match *self {}
    }

    pub(crate) fn wakeups(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn wake_one(&self) {
        match *self {}
    }

    pub(crate) fn wake_all(&self) {
        match *self {}
    }

    pub(crate) fn wait(
        &self,
        _seen: u32,
        _most: Duration,
        _is_ready: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        match *self {}
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
