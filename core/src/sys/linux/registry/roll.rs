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

/// Enters a process. Without room it goes without.
pub(super) fn enter(file: &File, holder: u64) {
    let entries = entries(file).unwrap_or_default();
    let free = (0..MOST).filter(|at| entries.get(*at).is_none_or(|entry| *entry == 0));
    for at in free.take(MOST) {
        if replace(file, at, 0, holder).unwrap_or(true) {
            return;
        }
    }
}

/// Takes a process off: itself, or one that has died and was swept after.
pub(super) fn leave(file: &File, holder: u64) {
    let entries = entries(file).unwrap_or_default();
    if let Some(at) = entries.iter().position(|entry| *entry == holder) {
        let _ = replace(file, at, holder, 0);
    }
}

fn replace(file: &File, at: usize, from: u64, to: u64) -> io::Result<bool> {
    match lock::try_exclusive_at(file, LOCKS + at as i64) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::EACCES) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    }
    let replaced = replace_locked(file, at, from, to);
    lock::unlock_at(file, LOCKS + at as i64);
    replaced
}

fn replace_locked(file: &File, at: usize, from: u64, to: u64) -> io::Result<bool> {
    let (mut entry, offset) = ([0; ENTRY_BYTES], (at * ENTRY_BYTES) as u64);
    if offset + ENTRY_BYTES as u64 > file_limit() {
        return Ok(false);
    }
    file.read_at(&mut entry, offset)?; // beyond the end it stays 0
    if u64::from_le_bytes(entry) != from {
        return Ok(false);
    }
    file.write_all_at(&to.to_le_bytes(), offset).map(|()| true)
}
