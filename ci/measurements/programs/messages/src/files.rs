//! The files that a way leaves, in shared memory and where it has its sockets.

use std::collections::BTreeSet;
use std::fs::{self, read_dir};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the ways call their files.
const PARTS: [&str; 4] = ["bench-messages-", "messages-", "iox2_", "iceoryx2"];
const OURS: &str = "shmarray-";
/// Files of locks, which stay for all users of a library.
const STAYS: &str = "shmarray-registry-";
const STAYS_TOO: &str = "global_mgmt";
const BLOCK_BYTES: u64 = 512;

pub fn there() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for folder in [Path::new("/dev/shm"), &std::env::temp_dir(), Path::new("/tmp")] {
        add(folder, false, &mut found);
    }
    found
}

fn add(folder: &Path, all: bool, found: &mut BTreeSet<PathBuf>) {
    for entry in read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name.starts_with(OURS) && !name.starts_with(STAYS);
        let is_meant = all || is_ours || PARTS.iter().any(|part| name.starts_with(part));
        match entry.file_type() {
            Ok(kind) if is_meant && kind.is_dir() => add(&entry.path(), true, found),
            Ok(_) if is_meant => drop(found.insert(entry.path())),
            _ => {}
        }
    }
}

pub fn since(before: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    there().difference(before).cloned().collect()
}

/// Those that are of the messages alone.
pub fn left_since(before: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut left = since(before);
    left.retain(|file| !file.to_string_lossy().ends_with(STAYS_TOO));
    left
}

pub fn bytes(files: &BTreeSet<PathBuf>) -> u64 {
    files
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|of| of.blocks() * BLOCK_BYTES)
        .sum()
}

pub fn remove(files: &BTreeSet<PathBuf>) {
    for file in files {
        let _ = fs::remove_file(file); // it may have gone
    }
}
