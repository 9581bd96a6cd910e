//! The files in the directory of segments, and whether a process holds them.
//!
//! No lock is taken: F_OFD_GETLK only asks the kernel for the owner of a lock.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use shmarray::SegmentInfo;

use crate::doctor::finding::quoted;
use crate::doctor::leftovers::{FoundFile, Kind, Part, Registry};
use crate::process::process;

// As in core/FORMAT.md.
const PREFIX: &str = "shmarray-";

pub(super) fn part(info: &SegmentInfo) -> Part {
    let SegmentInfo { kind, segment_bytes, tickets, persists, .. } = *info;
    Part {
        kind,
        bytes: segment_bytes,
        holders: info.holders.iter().copied().map(process).collect(),
        tickets,
        persists,
    }
}

/// Returns the files whose names are like those of this library. `segments` lists the valid ones.
pub(super) fn entries(
    directory: &Path,
    user: u32,
    segments: &[SegmentInfo],
) -> Result<Vec<FoundFile>> {
    let ids: HashSet<_> = segments.iter().map(|info| info.segment.id.to_string()).collect();
    let names = names(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut entries: Vec<_> = names.filter_map(|name| entry(directory, name, user, &ids)).collect();
    entries.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(entries)
}

fn names(directory: &Path) -> io::Result<impl Iterator<Item = String>> {
    Ok(fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
}

/// Returns `None` if its name is not like that of a file of this library, or if it no longer
/// exists.
fn entry(
    directory: &Path,
    file: String,
    user: u32,
    segments: &HashSet<String>,
) -> Option<FoundFile> {
    let rest = file.strip_prefix(PREFIX)?;
    let kind = kind(rest)?;
    let path = directory.join(&file);
    let facts = fs::symlink_metadata(&path).ok()?;
    let ours = user == 0 || facts.uid() == user;
    let opened = facts.is_file().then(|| open(&path)).and_then(io::Result::ok).filter(|_| ours);
    Some(FoundFile {
        is_segment: segments.contains(rest),
        is_regular: facts.is_file() || !ours,
        held: opened.as_ref().and_then(is_held),
        bytes: facts.size(),
        links: facts.nlink(),
        kind,
        file,
    })
}

/// Returns the kind of a file by its name without the prefix.
fn kind(rest: &str) -> Option<Kind> {
    match (rest.strip_prefix("name-"), rest.strip_prefix("new-")) {
        (Some(name), _) => {
            name.parse::<shmarray::ArrayName>().ok().map(|name| Kind::Name(name.to_string()))
        }
        (_, Some(id)) if is_id(id) => Some(Kind::HalfMade),
        _ if is_id(rest) => Some(Kind::Segment),
        _ => None, // the registry, and files of later versions
    }
}

fn is_id(text: &str) -> bool {
    !text.contains('.') && text.parse::<shmarray::SegmentText>().is_ok()
}

fn open(path: &Path) -> io::Result<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Returns whether a process has a lock on byte 0, which all holders share.
fn is_held(file: &fs::File) -> Option<bool> {
    let l_type = libc::F_WRLCK as libc::c_short;
    let l_whence = libc::SEEK_SET as libc::c_short;
    let mut lock = libc::flock { l_type, l_whence, l_start: 0, l_len: 1, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
    Some(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Returns the file that should be this user's registry, with its path quoted for a shell.
pub(super) fn registry(directory: &Path, user: u32) -> Option<Registry> {
    let name = format!("{PREFIX}registry-{user}");
    let path = directory.join(&name);
    let facts = fs::symlink_metadata(&path).ok()?;
    Some(Registry {
        path: quoted(&path),
        is_regular: facts.is_file(),
        owner: facts.uid(),
        user,
        mode: facts.mode(),
        links: facts.nlink(),
        instead: others(directory, &(name + "-"), user),
    })
}

/// Returns the registry that the library uses if that file is not a valid one: the first by name of
/// this user's registries.
fn others(directory: &Path, start: &str, user: u32) -> Option<String> {
    let is_ours = |name: &String| {
        let facts = fs::symlink_metadata(directory.join(name));
        name.starts_with(start) && facts.is_ok_and(|facts| facts.is_file() && facts.uid() == user)
    };
    names(directory).ok()?.filter(is_ours).min()
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
        for other in
            ["registry-0", "name-a b", "name-", "new-x", "x", &format!("{ID}.0"), &format!("{ID}x")]
        {
            assert_eq!(kind(other), None, "{other}");
        }
    }
}
