//! Memory of other users: how much of it there is, and of whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, Uid, User, access};

use super::OtherUser;

/// The bytes of a unit in which `stat` counts.
const UNIT_BYTES: u64 = 512;

/// Returns what other users have in the directory and this one may not read. Files are not opened:
/// they may be anything.
pub(super) fn read(directory: &Path) -> Vec<OtherUser> {
    let mut users = BTreeMap::<u32, OtherUser>::new();
    let mut inodes = BTreeSet::new(); // an array with a name has two files
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let file_name = file_name.to_string_lossy();
        if !file_name.starts_with("shmarray-") || file_name.starts_with("shmarray-registry-") {
            continue;
        }
        let Ok(facts) = entry.metadata() else { continue }; // it has ended meanwhile
        let is_hidden = facts.is_file() && access(&entry.path(), AccessFlags::R_OK).is_err();
        let is_new = facts.nlink() == 1 || inodes.insert(facts.ino());
        if is_hidden && facts.uid() != Uid::effective().as_raw() && is_new {
            let user = users.entry(facts.uid()).or_insert_with(|| nobody_yet(facts.uid()));
            user.files += 1;
            user.bytes += facts.blocks() * UNIT_BYTES;
        }
    }
    users.into_values().collect()
}

fn nobody_yet(uid: u32) -> OtherUser {
    OtherUser { uid, user: user_name(uid), files: 0, bytes: 0 }
}

/// Returns the name of a user, if the system knows one.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}
