//! The directory of segments, its mount, and the room in it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use super::system::System;
use crate::doctor::directory::{Directory, Is, Mount, Room, Trial};

pub(crate) fn directory(system: &System) -> Directory {
    let path = shmarray::directory();
    let mounts = system.text("/proc/self/mountinfo").unwrap_or_default();
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    Directory {
        chosen: path != Path::new("/dev/shm"),
        is: what_is(&path),
        mount: mount_of(&real, &mounts).unwrap_or_default(),
        room: room(&path),
        trial: trial(),
        path,
    }
}

fn what_is(path: &Path) -> Is {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Is::Missing,
        Err(_) => Is::Forbidden,
        Ok(facts) if !facts.is_dir() => Is::NoDirectory,
        Ok(facts) => {
            match access(path, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK) {
                Ok(()) => Is::Ours(facts.mode()),
                Err(Errno::EROFS) => Is::ReadOnly,
                Err(_) => Is::Forbidden,
            }
        }
    }
}

/// Makes the library's trial, with a file without a name.
fn trial() -> Trial {
    match shmarray::try_directory() {
        Ok(true) => Trial::Serves,
        Ok(false) => Trial::NotTried,
        Err(shmarray::Error::UnusableDirectory { reason, .. }) => Trial::Fails(reason.to_owned()),
        Err(error) => Trial::Fails(error.to_string()),
    }
}

/// Returns zeros if the file system cannot be asked; another check then reports the directory.
fn room(path: &Path) -> Room {
    let Ok(facts) = statvfs(path) else { return Room::default() };
    let unit = facts.fragment_size();
    Room {
        total_bytes: facts.blocks() * unit,
        used_bytes: facts.blocks().saturating_sub(facts.blocks_free()) * unit,
        free_bytes: facts.blocks_available() * unit,
        free_files: (facts.files() > 0).then(|| facts.files_available()),
    }
}

/// Returns the mount whose mount point is the longest prefix of the path; of several at the same
/// mount point, the last.
fn mount_of(path: &Path, mountinfo: &str) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(parse);
    mounts
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())
}

/// Parses a line of mountinfo: five fields, options, fields up to a dash, then kind, source,
/// options.
fn parse(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut file_system = file_system.split(' ');
    Some(Mount {
        point: unescaped(mount.split(' ').nth(4)?).into(),
        kind: file_system.next()?.to_owned(),
        options: file_system.nth(1).unwrap_or_default().to_owned(),
    })
}

/// Reverses the kernel's escapes: it writes white space and backslashes as three octal digits.
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        20 1 8:1 / / rw - ext4 /dev/root rw\n\
        25 20 0:5 / /dev rw,nosuid - devtmpfs udev rw\n\
        26 25 0:23 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=65536k\n\
        27 25 0:27 / /dev/shm rw - tmpfs tmpfs rw,size=1g,huge=always\n\
        28 20 0:30 / /mnt/a\\040b rw - hugetlbfs none rw,pagesize=2M\n\
        noise\n";

    fn kind(path: &str) -> String {
        mount_of(Path::new(path), MOUNTS).unwrap().kind
    }

    #[test]
    fn a_path_is_on_the_longest_and_latest_mount() {
        assert_eq!(
            ["/home/x", "/dev/shmem", "/dev/shm/x", "/mnt/a b"].map(kind),
            ["ext4", "devtmpfs", "tmpfs", "hugetlbfs"]
        );
        let shm = mount_of(Path::new("/dev/shm"), MOUNTS).unwrap();
        assert_eq!((shm.option("size"), shm.option("huge")), (Some("1g"), Some("always")));
        assert_eq!(mount_of(Path::new("/x"), ""), None);
    }

    #[test]
    fn a_path_is_what_the_kernel_says() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(what_is(root.path()), Is::Ours(_)));
        assert_eq!(
            [what_is(&file), what_is(&root.path().join("none"))],
            [Is::NoDirectory, Is::Missing]
        );
        assert!(room(root.path()).total_bytes > 0);
        assert_eq!(room(&root.path().join("none")), Room::default());
    }
}
