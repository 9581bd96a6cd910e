//! The roll: which processes have registered, so that somebody notices when one has died.
//!
//! Nothing tells a process that another has died; the kernel answers when it is asked for a byte.
//! Whom to ask stands in the registry itself: a u64 for each process, its holder. A process is entered
//! before it holds anything, and taken off by itself at an ordinary end, or by a process that has swept
//! after its death. So a process that is on the roll and dead may have left something, and without
//! such a one there is nothing to sweep for.
//!
//! | entry | moved by | under the lock of |
//! |---|---|---|
//! | 0, or beyond the end of the file → holder | the process, or its parent before a fork | byte 2^61 + the entry's number |
//! | holder → 0 | the process at its end, or who has swept after it died | the same |
//!
//! It is read and written, not mapped: a file that another program truncates is an error then, and no
//! signal. The locks are tried, not waited for: an entry whose lock is taken is passed over. What is no
//! holder is noise, and stays. A process for which there is no room goes without: what it leaves waits
//! for a sweep that somebody makes for another reason.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::super::lock;
use super::super::map::file_limit;
use super::FAMILIES;

/// The most processes on it.
const MOST: usize = 2048;
const ENTRY_BYTES: usize = 8;
/// Where the bytes that stand for entries begin.
const LOCKS: i64 = 1 << 61;

/// The entries, as they are now.
pub(super) fn entries(file: &File) -> io::Result<Vec<u64>> {
    let mut bytes = [0; MOST * ENTRY_BYTES];
    let mut count = 0;
    loop {
        match file.read_at(&mut bytes[count..], count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let words = bytes[..count].chunks_exact(ENTRY_BYTES);
    Ok(words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect())
}

/// Those that name a process.
pub(super) fn holders(file: &File) -> Vec<u64> {
    let entries = entries(file).unwrap_or_default(); // a registry that cannot be read says nothing
    entries.into_iter().filter(|entry| (1..FAMILIES).contains(entry)).collect()
}

/// Enters a process. Without room it goes without. Allocates nothing, and needs little of a stack: a
/// signal handler may have forked.
pub(super) fn enter(file: &File, holder: u64) {
    const PART: usize = 32;
    let mut bytes = [0; PART * ENTRY_BYTES];
    for first in (0..MOST).step_by(PART) {
        bytes.fill(0); // as what lies beyond the end
        if file.read_at(&mut bytes, (first * ENTRY_BYTES) as u64).is_err() {
            return;
        }
        let entries = bytes.chunks_exact(ENTRY_BYTES).zip(first..);
        let mut free = entries.filter(|(entry, _)| entry.iter().all(|byte| *byte == 0)).map(|(_, at)| at);
        if free.any(|at| replace(file, at, 0, holder)) {
            return;
        }
    }
}

/// Takes a process off: itself, or one that has died and was swept after.
pub(super) fn leave(file: &File, holder: u64) {
    let entries = entries(file).unwrap_or_default();
    if let Some(at) = entries.iter().position(|entry| *entry == holder) {
        replace(file, at, holder, 0);
    }
}

/// Whether the entry was `from` and is now `to`.
fn replace(file: &File, at: usize, from: u64, to: u64) -> bool {
    if lock::try_exclusive_at(file, LOCKS + at as i64).is_err() {
        return false;
    }
    let (mut entry, offset) = ([0; ENTRY_BYTES], (at * ENTRY_BYTES) as u64);
    let may_be = offset + ENTRY_BYTES as u64 <= file_limit();
    let is_known = may_be && file.read_at(&mut entry, offset).is_ok(); // beyond the end it stays 0
    let replaced =
        is_known && u64::from_le_bytes(entry) == from && file.write_all_at(&to.to_le_bytes(), offset).is_ok();
    lock::unlock_at(file, LOCKS + at as i64);
    replaced
}
