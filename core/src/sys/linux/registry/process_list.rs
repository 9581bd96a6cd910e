//! The roll: which processes have registered, so that somebody notices when one has died.
//!
//! Nothing tells a process that another has died; the kernel answers when it is asked for a byte.
//! Whom to ask stands in the registry itself: a u64 for each process, its holder. A process is
//! entered before it holds anything, and taken off by itself at an ordinary end, or by a process
//! that has swept after its death. So a process that is on the roll and dead may have left
//! something, and without such a one there is nothing to sweep for.
//!
//! | entry | moved by | under the lock of |
//! |---|---|---|
//! | 0, or beyond the end of the file → holder | the process, or its parent before a fork | byte 2^61 + the entry's number |
//! | holder → 0 | the process at its end, or who has swept after it died | the same |
//!
//! It is read and written, not mapped: a file that another program truncates is an error then, and
//! no signal. The locks are tried, not waited for: an entry whose lock is taken is passed over.
//! What is no holder is noise, and stays. A process for which there is no room goes without: what
//! it leaves waits for a sweep that somebody makes for another reason.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::super::limits::file_limit;
use super::super::lock;
use super::family::FAMILIES;

/// The most processes on it.
const MOST: usize = 2048;
const ENTRY_BYTES: usize = 8;
/// Where the bytes that stand for entries begin.
const LOCKS: i64 = 1 << 61;

/// The entries, as they are now.
pub(super) fn entries(file: &File) -> io::Result<Vec<u64>> {
    let mut bytes = [0; MOST * ENTRY_BYTES];
    let mut count = 0;
    while let more @ 1.. = read_at(file, &mut bytes[count..], count)? {
        count += more;
    }
    let words = bytes[..count].chunks_exact(ENTRY_BYTES);
    Ok(words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect())
}

/// Those that name a process.
pub(super) fn holders(file: &File) -> Vec<u64> {
    let entries = entries(file).unwrap_or_default(); // a registry that cannot be read says nothing
    entries.into_iter().filter(|entry| (1..FAMILIES).contains(entry)).collect()
}

/// Enters a process. Without room it goes without. Allocates nothing, and needs little of a stack:
/// a signal handler may have forked.
pub(super) fn enter(file: &File, holder: u64) {
    const PART: usize = 32;
    let mut bytes = [0; PART * ENTRY_BYTES];
    for first in (0..MOST).step_by(PART) {
        bytes.fill(0); // as what lies beyond the end
        if read_at(file, &mut bytes, first * ENTRY_BYTES).is_err() {
            return;
        }
        let entries = bytes.chunks_exact(ENTRY_BYTES).zip(first..);
        let mut free =
            entries.filter(|(entry, _)| entry.iter().all(|byte| *byte == 0)).map(|(_, at)| at);
        if free.any(|at| replace(file, at, 0, holder).unwrap_or(true)) {
            return; // an error at one entry is an error at all of them
        }
    }
}

/// Takes a process off: itself, or one that has died and was swept after.
pub(super) fn leave(file: &File, holder: u64) {
    let entries = entries(file).unwrap_or_default();
    if let Some(at) = entries.iter().position(|entry| *entry == holder) {
        let _ = replace(file, at, holder, 0); // one that stays is taken off after another look
    }
}

/// Whether the entry was `from` and is now `to`. An error: it could not be asked.
fn replace(file: &File, at: usize, from: u64, to: u64) -> io::Result<bool> {
    match lock::try_exclusive_at(file, LOCKS + at as i64) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        Err(error) => return Err(error),
    }
    let replaced = replace_locked(file, at, from, to);
    lock::unlock_at(file, LOCKS + at as i64);
    replaced
}

fn replace_locked(file: &File, at: usize, from: u64, to: u64) -> io::Result<bool> {
    let (mut entry, offset) = ([0; ENTRY_BYTES], at * ENTRY_BYTES);
    if (offset + ENTRY_BYTES) as u64 > file_limit() {
        return Ok(false); // a write would be answered with SIGXFSZ
    }
    read_at(file, &mut entry, offset)?; // beyond the end it stays 0
    if u64::from_le_bytes(entry) != from {
        return Ok(false);
    }
    file.write_all_at(&to.to_le_bytes(), offset as u64).map(|()| true)
}

/// How many bytes were read: fewer at the end of the file.
fn read_at(file: &File, bytes: &mut [u8], offset: usize) -> io::Result<usize> {
    loop {
        match file.read_at(bytes, offset as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
