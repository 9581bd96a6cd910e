//! The files in the directory of segments, and whether somebody holds them.
//!
//! Nothing is locked: the kernel is only asked who has a lock.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::doctor::leftovers::{Entry, Kind, Registry};

// As in core/FORMAT.md.
const PREFIX: &str = "shmarray-";
const MAGIC: &[u8] = b"shmarray";
const FLAGS_OFFSET: usize = 144;
const PERSIST: u8 = 1;

pub(super) fn entries(directory: &Path, user: u32) -> Result<Vec<Entry>> {
    let mut tickets = HashMap::new();
    for array in shmarray::segments()? {
        *tickets.entry(array.segment.id.to_string()).or_insert(0) += array.tickets;
    }
    let there = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let names = there.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut entries: Vec<_> = names.filter_map(|name| entry(directory, name, user, &tickets)).collect();
    entries.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(entries)
}

/// `None` when it is not named like one of ours, or is gone by now. `tickets` has those of each whole segment.
fn entry(directory: &Path, file: String, user: u32, tickets: &HashMap<String, u64>) -> Option<Entry> {
    let rest = file.strip_prefix(PREFIX)?;
    let kind = kind(rest)?;
    let path = directory.join(&file);
    let facts = fs::symlink_metadata(&path).ok()?;
    let ours = user == 0 || facts.uid() == user;
    let opened = facts.is_file().then(|| open(&path)).and_then(io::Result::ok).filter(|_| ours);
    Some(Entry {
        is_segment: tickets.contains_key(rest),
        tickets: tickets.get(rest).copied().unwrap_or(0),
        is_regular: facts.is_file() || !ours,
        held: opened.as_ref().and_then(is_held),
        persists: opened.as_ref().is_some_and(persists),
        bytes: facts.size(),
        links: facts.nlink(),
        kind,
        file,
    })
}

/// By what stands behind the prefix.
fn kind(rest: &str) -> Option<Kind> {
    match (rest.strip_prefix("name-"), rest.strip_prefix("new-")) {
        (Some(name), _) => name.parse::<shmarray::ArrayName>().ok().map(|name| Kind::Name(name.to_string())),
        (_, Some(id)) if is_id(id) => Some(Kind::HalfMade),
        _ if is_id(rest) => Some(Kind::Segment),
        _ => None, // the registry, and what a later version may add
    }
}

fn is_id(text: &str) -> bool {
    !text.contains('.') && text.parse::<shmarray::SegmentText>().is_ok()
}

fn open(path: &Path) -> io::Result<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether anybody has a lock on byte 0, which holders share.
fn is_held(file: &fs::File) -> Option<bool> {
    let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    let mut lock = libc::flock { l_type, l_whence, l_start: 0, l_len: 1, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
    Some(lock.l_type != libc::F_UNLCK as libc::c_short)
}

fn persists(file: &fs::File) -> bool {
    let mut front = [0; FLAGS_OFFSET + 1];
    let read = file.read_exact_at(&mut front, 0).is_ok();
    read && front.starts_with(MAGIC) && front[FLAGS_OFFSET] & PERSIST != 0
}

pub(super) fn registry(directory: &Path, user: u32) -> Option<Registry> {
    let path = directory.join(format!("{PREFIX}registry-{user}"));
    let facts = fs::symlink_metadata(&path).ok()?;
    let (is_regular, owner, mode) = (facts.is_file(), facts.uid(), facts.mode());
    Some(Registry { path: crate::doctor::finding::quoted(&path), is_regular, owner, user, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "abcdefghijklmnopqrstuvwx";

    #[test]
    fn files_are_told_by_their_names() {
        assert_eq!(kind(ID), Some(Kind::Segment));
        assert_eq!(kind(&format!("new-{ID}")), Some(Kind::HalfMade));
        assert_eq!(kind("name-camera.1"), Some(Kind::Name("camera.1".to_owned())));
        for other in ["registry-0", "name-a b", "name-", "new-x", "x", &format!("{ID}.0"), &format!("{ID}x")] {
            assert_eq!(kind(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_says_so_persists() {
        let root = tempfile::tempdir().unwrap();
        let with = |magic: &[u8], flags: u8| {
            let path = root.path().join("file");
            let mut front = vec![0; 4096];
            front[..magic.len()].copy_from_slice(magic);
            front[FLAGS_OFFSET] = flags;
            fs::write(&path, front).unwrap();
            persists(&open(&path).unwrap())
        };
        assert_eq!([with(MAGIC, 1), with(MAGIC, 0), with(b"shmarrax", 1)], [true, false, false]);
    }
}
