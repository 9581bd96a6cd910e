//! The machine and the container: memory, huge pages, logind, limits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::system::System;
use crate::doctor::directory::Container;
use crate::doctor::limits::{Limit, Limits, Mapped};
use crate::doctor::logout::{self, Logout};
use crate::doctor::memory::{Huge, Memory};

/// A limit at or above this means none: cgroup v1 shows a number a little below 2^63 then.
const NO_LIMIT: u64 = 1 << 62;
/// The directories of systemd's settings, that of the highest priority last.
const SYSTEMD_FOLDERS: [&str; 4] =
    ["/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd"];

pub(super) fn container(system: &System, in_kubernetes: bool) -> Container {
    if in_kubernetes {
        Container::Kubernetes
    } else if system.exists("/.dockerenv") {
        Container::Docker
    } else if system.exists("/run/.containerenv") {
        Container::Podman
    } else {
        Container::None
    }
}

pub(super) fn memory(system: &System) -> Memory {
    let info = system.text("/proc/meminfo").unwrap_or_default();
    let bytes = |key| meminfo(&info, key) << 10;
    let groups = system.text("/proc/self/cgroup").unwrap_or_default();
    Memory {
        machine_bytes: bytes("MemTotal").saturating_add(bytes("SwapTotal")),
        group: groups.lines().filter_map(|line| group_limit(system, line)).min(),
    }
}

/// Returns a number of /proc/meminfo, in the unit of that file.
fn meminfo(text: &str, key: &str) -> u64 {
    let value = |line: &str| {
        line.strip_prefix(key)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    };
    text.lines().find_map(value).unwrap_or(0)
}

/// Returns the lowest limit of the group that a line of /proc/self/cgroup names and of its
/// ancestors.
fn group_limit(system: &System, line: &str) -> Option<(u64, PathBuf)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let group = fields.next()?;
    let (mount, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        v1 if v1.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let limit = |folder: &Path| {
        let path = Path::new(mount).join(folder).join(file);
        Some((system.number(&path).filter(|bytes| *bytes < NO_LIMIT)?, path))
    };
    below_root(group).ancestors().filter_map(limit).min()
}

/// Removes the parts of a path that lead above the mount. In a container, the name of the group may
/// be relative to a directory outside.
fn below_root(group: &str) -> PathBuf {
    Path::new(group).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

pub(super) fn huge(system: &System) -> Huge {
    let info = system.text("/proc/meminfo").unwrap_or_default();
    let modes = system.text("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    Huge {
        shmem_enabled: modes.as_deref().and_then(chosen).map(ToOwned::to_owned),
        page_bytes: meminfo(&info, "Hugepagesize") << 10,
        reserved: meminfo(&info, "HugePages_Total"),
        free: meminfo(&info, "HugePages_Free"),
    }
}

/// Returns the word in brackets.
fn chosen(modes: &str) -> Option<&str> {
    Some(modes.split_once('[')?.1.split_once(']')?.0)
}

pub(super) fn logout(system: &System, user: u32, directory: &Path) -> Logout {
    let files = logind_files(system);
    let read = |path: PathBuf| Some((path.clone(), system.text(&path)?));
    let login_defs = system.text("/etc/login.defs").unwrap_or_default();
    let installed = ["/usr/lib/systemd/systemd-logind", "/lib/systemd/systemd-logind"];
    Logout {
        logind_runs: system.exists("/run/systemd/system")
            && installed.iter().any(|path| system.exists(path)),
        in_dev_shm: directory.canonicalize().is_ok_and(|real| real.starts_with("/dev/shm")),
        user,
        system_uid_max: logout::system_uid_max(&login_defs),
        setting: logout::setting(&files.into_iter().filter_map(read).collect::<Vec<_>>()),
    }
}

/// Returns the files in systemd's order: the main file of the highest priority, then the drop-ins
/// by name. A drop-in hides one of the same name in a directory of lower priority.
fn logind_files(system: &System) -> Vec<PathBuf> {
    let mains = SYSTEMD_FOLDERS.iter().rev().map(|folder| Path::new(folder).join("logind.conf"));
    let main = mains.into_iter().find(|path| system.path(path).exists());
    let drop_ins = SYSTEMD_FOLDERS
        .iter()
        .flat_map(|folder| drop_ins(system, &Path::new(folder).join("logind.conf.d")));
    let by_name: BTreeMap<_, _> =
        drop_ins.map(|path| (path.file_name().map(ToOwned::to_owned), path)).collect();
    main.into_iter().chain(by_name.into_values()).collect()
}

fn drop_ins(system: &System, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(system.path(folder)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| folder.join(entry.file_name()));
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "conf")).collect()
}

pub(super) fn limits(system: &System, user: u32, segments: &Path) -> Result<Limits> {
    Ok(Limits {
        files: limit(Resource::RLIMIT_NOFILE)?,
        address_space: limit(Resource::RLIMIT_AS)?,
        file_bytes: limit(Resource::RLIMIT_FSIZE)?,
        locked: limit(Resource::RLIMIT_MEMLOCK)?,
        mappings: system.number("/proc/sys/vm/max_map_count"),
        most_mapped: most_mapped(system, segments),
        is_root: user == 0,
    })
}

/// Returns the process with the most arrays mapped, of those whose mappings this user may read.
fn most_mapped(system: &System, segments: &Path) -> Option<Mapped> {
    let processes = fs::read_dir(system.path("/proc")).ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mapped = pids
        .filter_map(|pid: u64| mapped(system, segments, pid))
        .filter(|mapped| mapped.segments > 0);
    mapped.max_by_key(|mapped| mapped.segments)
}

fn mapped(system: &System, segments: &Path, pid: u64) -> Option<Mapped> {
    let maps = system.text(format!("/proc/{pid}/maps"))?;
    let start = format!(" {}/shmarray-", segments.display());
    let of_segments = maps.lines().filter(|line| line.contains(&start)).count() as u64;
    Some(Mapped { pid, all: maps.lines().count() as u64, segments: of_segments })
}

fn limit(resource: Resource) -> Result<Limit> {
    let (soft, hard) = getrlimit(resource)?;
    let limited = |value| (value != RLIM_INFINITY).then_some(value);
    Ok(Limit { soft: limited(soft), hard: limited(hard) })
}

#[cfg(test)]
mod tests {
    use super::super::made_up;
    use super::*;

    #[test]
    fn containers_leave_a_mark() {
        let (_root, docker) = made_up(&[("/.dockerenv", "")]);
        let (_root2, podman) = made_up(&[("/run/.containerenv", "")]);
        let (_root3, none) = made_up(&[]);
        assert_eq!(
            [&docker, &podman, &none].map(|system| container(system, false)),
            [Container::Docker, Container::Podman, Container::None]
        );
        assert_eq!(container(&docker, true), Container::Kubernetes);
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_counts() {
        let (_root, system) = made_up(&[
            ("/proc/meminfo", "MemTotal:  1024 kB\nSwapTotal: 1024 kB\n"),
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "4096\n"),
            ("/sys/fs/cgroup/memory.max", "8192\n"),
        ]);
        let Memory { machine_bytes, group } = memory(&system);
        assert_eq!(
            (machine_bytes, group),
            (2 << 20, Some((4096, "/sys/fs/cgroup/a/memory.max".into())))
        );
    }

    #[test]
    fn the_first_version_of_groups_is_read_too() {
        let unlimited = "9223372036854771712";
        let (_root, system) = made_up(&[
            ("/proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n0::/../other\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
        ]);
        assert_eq!(
            memory(&system).group,
            Some((4096, "/sys/fs/cgroup/memory/memory.limit_in_bytes".into()))
        );
        let (_root2, free) = made_up(&[
            ("/proc/self/cgroup", "4:memory:/\nnoise"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited),
        ]);
        assert_eq!(memory(&free).group, None);
        assert_eq!(below_root("/../../x"), Path::new("x"));
    }

    #[test]
    fn huge_pages_are_read_from_two_files() {
        let (_root, system) = made_up(&[
            ("/proc/meminfo", "HugePages_Total: 8\nHugePages_Free: 3\nHugepagesize: 2048 kB"),
            (
                "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                "always within_size advise [never] deny force\n",
            ),
        ]);
        let Huge { shmem_enabled, page_bytes, reserved, free } = huge(&system);
        assert_eq!(
            (shmem_enabled.as_deref(), page_bytes, reserved, free),
            (Some("never"), 2 << 20, 8, 3)
        );
        let (_root2, none) = made_up(&[]);
        assert_eq!(huge(&none).shmem_enabled, None);
    }

    #[test]
    fn settings_of_logind_are_read_in_its_order() {
        let (_root, system) = made_up(&[
            ("/usr/lib/systemd/logind.conf", ""),
            ("/etc/systemd/logind.conf", ""),
            ("/usr/lib/systemd/logind.conf.d/20-b.conf", ""),
            ("/usr/lib/systemd/logind.conf.d/50-hidden.conf", ""),
            ("/run/systemd/logind.conf.d/50-hidden.conf", ""),
            ("/etc/systemd/logind.conf.d/10-a.conf", ""),
            ("/etc/systemd/logind.conf.d/99-x.conf.bak", ""),
        ]);
        let wanted = [
            "/etc/systemd/logind.conf",
            "/etc/systemd/logind.conf.d/10-a.conf",
            "/usr/lib/systemd/logind.conf.d/20-b.conf",
            "/run/systemd/logind.conf.d/50-hidden.conf",
        ];
        assert_eq!(logind_files(&system), wanted.map(PathBuf::from));
    }

    #[test]
    fn logind_runs_where_systemd_started_the_machine() {
        let conf = ("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=no");
        let defs = ("/etc/login.defs", "SYS_UID_MAX 499");
        let logind = ("/usr/lib/systemd/systemd-logind", "");
        let (_root, on) = made_up(&[conf, defs, logind, ("/run/systemd/system/x", "")]);
        let (_root2, off) = made_up(&[conf, defs, logind]);
        let facts = logout(&on, 1000, Path::new("/dev/shm"));
        assert_eq!((facts.logind_runs, facts.system_uid_max), (true, 499));
        assert_eq!(facts.setting, Some((false, "/etc/systemd/logind.conf".into())));
        assert!(!logout(&off, 1000, Path::new("/dev/shm")).logind_runs);
    }

    #[test]
    fn limits_are_this_processs() {
        let maps = "1-2 rw-s 0 00:1b 5 /dev/shm/shmarray-abc\n2-3 r--p 0 00:00 0 /usr/bin/ruby\n";
        let few = ("/proc/8/maps", "1-2 r--p 0 00:00 0 /dev/shm/other\n");
        let (_root, system) =
            made_up(&[("/proc/sys/vm/max_map_count", "65530\n"), ("/proc/7/maps", maps), few]);
        let limits = limits(&system, 0, Path::new("/dev/shm")).unwrap();
        assert_eq!((limits.mappings, limits.is_root), (Some(65_530), true));
        assert_eq!(limits.most_mapped, Some(Mapped { pid: 7, all: 2, segments: 1 }));
        assert_ne!(limits.files.soft, Some(0));
    }
}
