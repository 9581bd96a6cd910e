//! The process list: which processes have registered, so that a death is noticed.
//!
//! A process is not told that another has died; it must ask the kernel whether a byte is locked.
//! The registry says which bytes to ask about: it contains a u64 for each process, its owner id. A
//! process is entered before it holds anything. At an ordinary exit it removes itself; after a
//! death a process that has swept removes it. So a dead process on the list may have left something
//! behind, and if no process on the list is dead, a sweep would find nothing of dead processes.
//!
//! | value of an entry | written by |
//! |---|---|
//! | 0, or beyond the end of the file → owner | the process, or its parent before a fork |
//! | owner → 0 | the process at its exit, or one that has swept after its death |
//!
//! Both are written under the lock of byte 2^61 + the entry's index.
//!
//! The list is read and written, not mapped, so a file that another program truncates causes an
//! error and no signal. The locks are tried, not waited for: an entry whose lock is taken is
//! skipped. A value that is no owner is ignored and stays. If the list is full, a process is not
//! entered: what it leaves behind waits for a sweep that has another cause.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::super::limits::file_limit;
use super::super::lock;
use super::file::FAMILIES;
use crate::system::shortage::reserve;

/// The maximum number of processes in the list.
const MAX_PROCESSES: usize = 2048;
const ENTRY_BYTES: usize = 8;
/// Where the bytes that stand for entries begin.
const LOCKS: i64 = 1 << 61;

/// Returns the entries as they are now.
pub(super) fn entries(file: &File) -> io::Result<Vec<u64>> {
    let mut bytes = [0; MAX_PROCESSES * ENTRY_BYTES];
    let mut count = 0;
    while let more @ 1.. = read_at(file, &mut bytes[count..], count)? {
        count += more;
    }
    let words = bytes[..count].chunks_exact(ENTRY_BYTES);
    let mut entries = Vec::new();
    reserve(&mut entries, words.len())?;
    entries.extend(words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())));
    Ok(entries)
}

/// Returns the entries that name a process.
pub(super) fn owners(file: &File) -> Vec<u64> {
    // A registry that cannot be read lists nothing.
    let mut owners = entries(file).unwrap_or_default();
    owners.retain(|entry| (1..FAMILIES).contains(entry));
    owners
}

/// Enters a process, if there is room. Allocates nothing and needs little stack: a signal handler
/// may have forked.
pub(super) fn enter(file: &File, owner: u64) {
    const PART: usize = 32;
    let mut bytes = [0; PART * ENTRY_BYTES];
    for first in (0..MAX_PROCESSES).step_by(PART) {
        bytes.fill(0); // zeros, as beyond the end of the file
        if read_at(file, &mut bytes, first * ENTRY_BYTES).is_err() {
            return;
        }
        let entries = bytes.chunks_exact(ENTRY_BYTES).zip(first..);
        let mut free =
            entries.filter(|(entry, _)| entry.iter().all(|byte| *byte == 0)).map(|(_, at)| at);
        if free.any(|at| replace(file, at, 0, owner).unwrap_or(true)) {
            // An error at one entry is an error at all of them.
            return;
        }
    }
}

/// Removes a process: this one, or one that has died and after which somebody has swept.
pub(super) fn leave(file: &File, owner: u64) {
    let entries = entries(file).unwrap_or_default();
    if let Some(at) = entries.iter().position(|entry| *entry == owner) {
        let _ = replace(file, at, owner, 0); // if it stays, the next check removes it
    }
}

/// Changes an entry from `from` to `to`. Returns whether it did; fails if the entry cannot be
/// locked, read or written.
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
    let mut entry = [0; ENTRY_BYTES];
    let offset = at * ENTRY_BYTES;
    if (offset + ENTRY_BYTES) as u64 > file_limit() {
        // A write there would raise SIGXFSZ.
        return Ok(false);
    }
    read_at(file, &mut entry, offset)?; // beyond the end it stays 0
    if u64::from_le_bytes(entry) != from {
        return Ok(false);
    }
    file.write_all_at(&to.to_le_bytes(), offset as u64).map(|()| true)
}

/// Returns how many bytes were read; fewer at the end of the file.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/pread.2.html
fn read_at(file: &File, bytes: &mut [u8], offset: usize) -> io::Result<usize> {
    loop {
        match file.read_at(bytes, offset as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
