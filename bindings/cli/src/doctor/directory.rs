//! The directory of segments: whether it exists, is in memory, and is large enough.

use std::path::{Path, PathBuf};

use super::finding::{Finding, quoted, size as text};

/// The size below which one array of a common size fills the directory.
const SMALL_BYTES: u64 = 1 << 30;
const DOCKER_DEFAULT_BYTES: u64 = 64 << 20;
const NETWORK: [&str; 10] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "beegfs",
    "gpfs",
    "fuse.sshfs",
    "fuse.glusterfs",
];

/// The kind of file that is at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    Missing,
    NoDirectory,
    ReadOnly,
    Forbidden,
    /// A directory that this user may write to, with its mode.
    Ours(u32),
}

/// The container that this process runs in, whose settings have the size of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    None,
    Docker,
    Podman,
    Kubernetes,
}

/// The mounted file system that has the directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
    pub(crate) kind: String,
    pub(crate) options: String,
}

impl Mount {
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.kind.as_str(), "tmpfs" | "ramfs" | "hugetlbfs")
    }

    pub(crate) fn remount(&self, option: &str) -> String {
        format!("sudo mount -o remount,{option} {}", quoted(&self.point))
    }
}

/// The bytes and files of the file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// 0 if the file system has no limit of its own.
    pub(crate) total_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) free_bytes: u64,
    /// `None` if the file system does not count files.
    pub(crate) free_files: Option<u64>,
}

/// The directory of segments.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// Whether `SHMARRAY_DIR` names another than the system's shared memory.
    pub(crate) chosen: bool,
    pub(crate) is: Is,
    pub(crate) mount: Mount,
    pub(crate) room: Room,
    pub(crate) trial: Trial,
}

/// The result of the library's trial of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trial {
    Serves,
    /// Nothing can be made there now.
    NotTried,
    /// The reason why each use is an error.
    Fails(String),
}

impl Directory {
    /// Returns whether it is on the mount whose size a container's settings have.
    pub(crate) fn is_on_dev_shm(&self) -> bool {
        self.mount.point == Path::new("/dev/shm")
    }

    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.is, Is::Ours(_))
    }

    fn tmpfs_advice(&self) -> String {
        if self.chosen {
            "unset SHMARRAY_DIR, or let it name a directory in a tmpfs".to_owned()
        } else {
            "export SHMARRAY_DIR=/path/to/a/directory/in/a/tmpfs, for every process alike"
                .to_owned()
        }
    }
}

pub(crate) fn location(directory: &Directory) -> Finding {
    const CHECK: &str = "directory";
    let path = directory.path.display();
    match directory.is {
        Is::Missing => Finding::problem(CHECK, format!("{path} does not exist"), make(directory)),
        Is::NoDirectory => {
            Finding::problem(CHECK, format!("{path} is not a directory"), directory.tmpfs_advice())
        }
        Is::ReadOnly => Finding::problem(
            CHECK,
            format!("{path} is mounted read-only"),
            directory.mount.remount("rw"),
        ),
        Is::Forbidden => Finding::problem(
            CHECK,
            format!("{path} is not ours to read and write"),
            open(directory),
        ),
        Is::Ours(_) if directory.path.is_relative() => Finding::look(
            CHECK,
            format!("{path} is relative: a process that runs elsewhere finds other arrays"),
            "let SHMARRAY_DIR name the directory from the root on",
        ),
        Is::Ours(mode) if mode & 0o1002 == 0o0002 => Finding::look(
            CHECK,
            format!("{path} lets every user delete what is yours"),
            format!("sudo chmod +t {}", quoted(&directory.path)),
        ),
        Is::Ours(_) => Finding::ok(CHECK, format!("{path}, ours to write")),
    }
}

fn make(directory: &Directory) -> String {
    let path = quoted(&directory.path);
    if directory.chosen {
        format!("mkdir -p {path}, or unset SHMARRAY_DIR")
    } else {
        format!("sudo mkdir -p {path} && sudo mount -t tmpfs -o mode=1777 tmpfs {path}")
    }
}

fn open(directory: &Directory) -> String {
    if directory.chosen {
        directory.tmpfs_advice()
    } else {
        format!("sudo chmod 1777 {}", quoted(&directory.path))
    }
}

pub(crate) fn file_system(directory: &Directory) -> Finding {
    const CHECK: &str = "file system";
    let kind = directory.mount.kind.as_str();
    match kind {
        "tmpfs" | "ramfs" => Finding::ok(CHECK, format!("{kind}: memory")),
        "hugetlbfs" => Finding::look(
            CHECK,
            "hugetlbfs: the smallest array takes a whole huge page, and only reserved pages count",
            "for any but a few large arrays, let SHMARRAY_DIR name a directory in a tmpfs",
        ),
        "" => Finding::look(
            CHECK,
            "of unknown kind: it may be slower than memory",
            directory.tmpfs_advice(),
        ),
        _ if NETWORK.contains(&kind) => Finding::problem(
            CHECK,
            format!(
                "{kind}, over a network: memory is not shared between machines, and holds may \
                 outlive a crash"
            ),
            directory.tmpfs_advice(),
        ),
        _ => Finding::look(
            CHECK,
            format!(
                "{kind}, not memory: slower, the kernel writes every array to it in the background"
            ),
            directory.tmpfs_advice(),
        ),
    }
}

pub(crate) fn trial(directory: &Directory) -> Finding {
    const CHECK: &str = "trial";
    match &directory.trial {
        Trial::Serves => {
            Finding::ok(CHECK, "a mapping keeps the lock of its file, and reserved memory exists")
        }
        Trial::NotTried => Finding::look(
            CHECK,
            "not made: no file can be made there now",
            format!("make room, then shmarray doctor again; or {}", directory.tmpfs_advice()),
        ),
        Trial::Fails(reason) => Finding::problem(CHECK, reason.clone(), directory.tmpfs_advice()),
    }
}

pub(crate) fn size(directory: &Directory, container: Container) -> Finding {
    const CHECK: &str = "size";
    let Room { total_bytes, used_bytes, free_bytes, free_files } = directory.room;
    let total = text(total_bytes);
    let used = text(used_bytes);
    let free = text(free_bytes);
    let found = format!("{total}, {used} used, {free} free");
    match total_bytes {
        _ if free_files == Some(0) => {
            Finding::problem(CHECK, format!("{found}, but no file is left"), more_files(directory))
        }
        0 => Finding::ok(CHECK, "no limit of its own"),
        _ if free_bytes == 0 => {
            Finding::problem(CHECK, format!("{total}, full"), make_room(directory, container))
        }
        1..SMALL_BYTES => {
            let whose = if has_docker_default(directory) { "Docker's default, and " } else { "" };
            Finding::look(CHECK, format!("{found}: {whose}little"), grow(directory, container))
        }
        _ if free_bytes < total_bytes / 10 => {
            Finding::look(CHECK, format!("{found}: nearly full"), make_room(directory, container))
        }
        _ => Finding::ok(CHECK, found),
    }
}

fn make_room(directory: &Directory, container: Container) -> String {
    format!(
        "shmarray ls says what is there, shmarray sweep gives back; or {}",
        grow(directory, container)
    )
}

fn more_files(directory: &Directory) -> String {
    if directory.mount.kind == "tmpfs" {
        directory.mount.remount("nr_inodes=1m")
    } else {
        directory.tmpfs_advice()
    }
}

/// Returns how to make it larger in this environment.
fn grow(directory: &Directory, container: Container) -> String {
    let docker = "docker run --shm-size=2g … (in a compose file shm_size: 2gb)";
    match container {
        _ if !directory.mount.is_memory() => directory.tmpfs_advice(),
        _ if !directory.is_on_dev_shm() => directory.mount.remount("size=50%"),
        Container::Docker => docker.to_owned(),
        Container::Podman => "podman run --shm-size=2g …".to_owned(),
        Container::Kubernetes => {
            "in the pod, mount an emptyDir with medium: Memory at /dev/shm".to_owned()
        }
        Container::None if has_docker_default(directory) => docker.to_owned(),
        Container::None => directory.mount.remount("size=50%"),
    }
}

fn has_docker_default(directory: &Directory) -> bool {
    directory.is_on_dev_shm() && directory.room.total_bytes == DOCKER_DEFAULT_BYTES
}

/// Returns a directory with 8 GiB of free shared memory, for tests.
#[cfg(test)]
pub(crate) fn in_memory() -> Directory {
    Directory {
        path: "/dev/shm".into(),
        chosen: false,
        is: Is::Ours(0o41777),
        mount: Mount {
            point: "/dev/shm".into(),
            kind: "tmpfs".to_owned(),
            options: "rw,size=8g".to_owned(),
        },
        room: Room {
            total_bytes: 8 << 30,
            used_bytes: 0,
            free_bytes: 8 << 30,
            free_files: Some(9),
        },
        trial: Trial::Serves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Verdict, says};

    fn of_kind(kind: &str) -> Directory {
        let mut directory = in_memory();
        directory.mount.kind = kind.to_owned();
        directory
    }

    #[test]
    fn a_directory_that_fails_its_trial_is_a_problem() {
        let with = |trial| Directory { trial, chosen: true, ..in_memory() };
        says(&trial(&with(Trial::Serves)), Verdict::Ok, "a mapping keeps the lock", "");
        says(&trial(&with(Trial::NotTried)), Verdict::Look, "not made", "make room");
        let fails = Trial::Fails("every holder looks dead".to_owned());
        says(&trial(&with(fails)), Verdict::Problem, "looks dead", "unset SHMARRAY_DIR");
    }

    fn of_size(total_bytes: u64, free_bytes: u64) -> Directory {
        let used_bytes = total_bytes - free_bytes;
        Directory {
            room: Room { total_bytes, used_bytes, free_bytes, free_files: Some(9) },
            ..in_memory()
        }
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_a_problem() {
        let named = |is| Directory { path: "/x y".into(), chosen: true, is, ..in_memory() };
        let plain = |is| Directory { is, ..in_memory() };
        says(
            &location(&named(Is::Missing)),
            Verdict::Problem,
            "/x y does not exist",
            "mkdir -p '/x y', or unset",
        );
        says(
            &location(&plain(Is::Missing)),
            Verdict::Problem,
            "does not exist",
            "mount -t tmpfs -o mode=1777",
        );
        says(
            &location(&named(Is::NoDirectory)),
            Verdict::Problem,
            "not a directory",
            "unset SHMARRAY_DIR",
        );
        says(
            &location(&plain(Is::NoDirectory)),
            Verdict::Problem,
            "not a directory",
            "export SHMARRAY_DIR=",
        );
        says(
            &location(&plain(Is::ReadOnly)),
            Verdict::Problem,
            "read-only",
            "sudo mount -o remount,rw /dev/shm",
        );
        says(&location(&named(Is::Forbidden)), Verdict::Problem, "not ours", "unset SHMARRAY_DIR");
        says(
            &location(&plain(Is::Forbidden)),
            Verdict::Problem,
            "not ours",
            "sudo chmod 1777 /dev/shm",
        );
        assert!(!plain(Is::Forbidden).is_usable());
    }

    #[test]
    fn a_directory_that_can_be_used_may_still_be_odd() {
        says(&location(&in_memory()), Verdict::Ok, "/dev/shm, ours to write", "");
        says(
            &location(&Directory { is: Is::Ours(0o40700), ..in_memory() }),
            Verdict::Ok,
            "ours to write",
            "",
        );
        says(
            &location(&Directory { path: "x".into(), ..in_memory() }),
            Verdict::Look,
            "relative",
            "from the root",
        );
        let open = Directory { is: Is::Ours(0o40777), ..in_memory() };
        says(&location(&open), Verdict::Look, "every user", "sudo chmod +t /dev/shm");
    }

    #[test]
    fn only_memory_is_a_good_file_system() {
        says(&file_system(&of_kind("tmpfs")), Verdict::Ok, "tmpfs: memory", "");
        says(&file_system(&of_kind("ramfs")), Verdict::Ok, "ramfs: memory", "");
        says(&file_system(&of_kind("hugetlbfs")), Verdict::Look, "whole huge page", "in a tmpfs");
        says(
            &file_system(&of_kind("ext4")),
            Verdict::Look,
            "ext4, not memory: slower",
            "SHMARRAY_DIR",
        );
        says(&file_system(&of_kind("")), Verdict::Look, "unknown", "SHMARRAY_DIR");
        says(
            &file_system(&of_kind("nfs4")),
            Verdict::Problem,
            "nfs4, over a network",
            "SHMARRAY_DIR",
        );
    }

    #[test]
    fn a_small_directory_is_worth_a_look() {
        let small = of_size(512 << 20, 512 << 20);
        says(&size(&small, Container::None), Verdict::Look, "512 MiB", "remount,size=50% /dev/shm");
        says(&size(&small, Container::Docker), Verdict::Look, "little", "docker run --shm-size=");
        says(&size(&small, Container::Podman), Verdict::Look, "little", "podman run --shm-size=");
        says(
            &size(&small, Container::Kubernetes),
            Verdict::Look,
            "little",
            "emptyDir with medium: Memory",
        );
        let docker = of_size(64 << 20, 64 << 20);
        says(
            &size(&docker, Container::None),
            Verdict::Look,
            "Docker's default",
            "docker run --shm-size=",
        );
    }

    #[test]
    fn another_mount_than_dev_shm_is_not_the_containers() {
        let mut own = of_size(64 << 20, 64 << 20);
        own.mount.point = "/mnt/own".into();
        let found = size(&own, Container::Docker);
        says(
            &found,
            Verdict::Look,
            "64 MiB free: little",
            "sudo mount -o remount,size=50% /mnt/own",
        );
        own.mount.kind = "ext4".to_owned();
        says(&size(&own, Container::Docker), Verdict::Look, "little", "SHMARRAY_DIR");
    }

    #[test]
    fn a_full_directory_is_a_problem() {
        says(
            &size(&in_memory(), Container::None),
            Verdict::Ok,
            "8 GiB, 0 bytes used, 8 GiB free",
            "",
        );
        says(&size(&of_size(0, 0), Container::None), Verdict::Ok, "no limit", "");
        says(
            &size(&of_size(8 << 30, 0), Container::None),
            Verdict::Problem,
            "8 GiB, full",
            "shmarray sweep",
        );
        says(
            &size(&of_size(8 << 30, 1 << 20), Container::None),
            Verdict::Look,
            "nearly full",
            "shmarray ls",
        );
    }

    #[test]
    fn a_directory_without_files_left_is_a_problem() {
        for (kind, remedy) in [("tmpfs", "remount,nr_inodes=1m /dev/shm"), ("ext4", "SHMARRAY_DIR")]
        {
            let mut directory = of_kind(kind);
            directory.room.free_files = Some(0);
            says(&size(&directory, Container::None), Verdict::Problem, "no file is left", remedy);
        }
        let uncounted =
            Directory { room: Room { free_files: None, ..in_memory().room }, ..in_memory() };
        says(&size(&uncounted, Container::None), Verdict::Ok, "8 GiB", "");
    }

    #[test]
    fn an_option_of_a_mount_is_found_by_its_whole_name() {
        assert_eq!(in_memory().mount.option("size"), Some("8g"));
        assert_eq!(
            [in_memory().mount.option("siz"), in_memory().mount.option("huge")],
            [None, None]
        );
    }
}
