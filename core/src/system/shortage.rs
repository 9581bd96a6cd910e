//! What a process does when it can map no more: it gives up what it keeps for speed, and retries.
//!
//! A process may have little address space (`ulimit -v`), and few mappings (`vm.max_map_count`).
//! The cache of mappings and the pool take both without being used. Whoever maps or allocates for
//! this library does it inside [`or_after_relief`]: after ENOMEM the cache and the unused part of
//! this process's pool are unmapped, and the attempt is repeated once. The cache and the pool are
//! above this module, so `process` registers the function that empties them.
//!
//! The function does nothing while its thread has a lock of this library, whose data it may need:
//! a caller that maps under a lock gets the error, and makes its attempt again outside. A fork's
//! preparation has all locks and may not free memory, so it does without what it cannot map.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use crate::value::error::{Error, ErrorKind};

/// Set when the library is loaded, and never waited for.
static RELIEF: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    /// Whether this thread is giving up memory, which may map a page itself.
    static IS_UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Registers what gives up address space. It returns whether it could.
pub(crate) fn on_shortage(relief: fn() -> bool) {
    let _ = RELIEF.set(relief); // a second registration has the same function
}

/// An error that may be one of a process that can map no more.
pub(crate) trait Shortage {
    fn is_shortage(&self) -> bool;
}

impl Shortage for io::Error {
    fn is_shortage(&self) -> bool {
        self.kind() == io::ErrorKind::OutOfMemory
    }
}

impl Shortage for Error {
    fn is_shortage(&self) -> bool {
        self.kind() == ErrorKind::NoMemory
    }
}

/// Makes an attempt, and after a shortage one more, with what this process kept for speed given up.
///
/// # Errors
/// Those of the last attempt.
pub(crate) fn or_after_relief<T, E: Shortage>(
    attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    or_after_relief_of(E::is_shortage, attempt)
}

/// Does the same for a call that reports a shortage in its own way.
///
/// # Errors
/// Those of the last attempt.
pub(crate) fn or_after_relief_of<T, E>(
    is_shortage: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    match attempt() {
        Err(error) if is_shortage(&error) && relieve() => attempt(),
        done => done,
    }
}

fn relieve() -> bool {
    let Some(relief) = RELIEF.get().filter(|_| !IS_UNDER_WAY.replace(true)) else { return false };
    let could = relief();
    IS_UNDER_WAY.set(false);
    could
}

/// Adds room for so many more elements to a list whose length other programs decide.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`].
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> io::Result<()> {
    or_after_relief(|| list.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory.into()))
}

/// Does the same, and says what the room is for.
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn reserve_for<T>(
    purpose: &'static str,
    list: &mut Vec<T>,
    more: usize,
) -> Result<(), Error> {
    let bytes = (list.len().saturating_add(more) as u64).saturating_mul(size_of::<T>() as u64);
    reserve(list, more).map_err(|_| Error::NoMemory { bytes, purpose })
}

/// Returns a list with room for exactly so many bytes.
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn room_for(purpose: &'static str, bytes: u64) -> Result<Vec<u8>, Error> {
    let mut room = Vec::new();
    or_after_relief(|| {
        let reserved = room.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX));
        reserved.map_err(|_| Error::NoMemory { bytes, purpose })
    })?;
    Ok(room)
}

/// Returns so many zeros.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`].
pub(crate) fn zeros(bytes: usize) -> io::Result<Vec<u8>> {
    let mut zeros = room_for("", bytes as u64).map_err(|_| io::ErrorKind::OutOfMemory)?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

/// The private memory of a few paths, texts and entries of tables.
const HEADROOM_BYTES: usize = 64 << 10;

/// Checks that there is private memory for the small allocations of an operation, which end the
/// process when they fail. The allocator keeps what is freed here for them.
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn check_headroom() -> Result<(), Error> {
    let room = room_for("an operation on shared memory", HEADROOM_BYTES as u64)?;
    std::hint::black_box(&room); // the compiler may leave out an allocation that nobody uses
    Ok(())
}
