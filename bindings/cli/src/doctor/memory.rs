//! Memory: the limit that shared memory is charged to, and huge pages.

use std::path::{Path, PathBuf};

use super::directory::{Container, Directory};
use super::finding::{Finding, count, size};

const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// The limits that shared memory is charged to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// The memory and swap of the machine.
    pub(crate) machine_bytes: u64,
    /// The lowest limit of this process's control groups, and the file that has it.
    pub(crate) group: Option<(u64, PathBuf)>,
}

/// The kernel's settings for huge pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Huge {
    /// The word in brackets in `shmem_enabled`; `None` if the kernel has no such file.
    pub(crate) shmem_enabled: Option<String>,
    pub(crate) page_bytes: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
}

pub(crate) fn limit(memory: &Memory, directory: &Directory, container: Container) -> Finding {
    const CHECK: &str = "memory limit";
    let total = match directory.room.total_bytes {
        0 => u64::MAX,
        total => total,
    };
    match &memory.group {
        _ if !directory.mount.is_memory() => {
            Finding::ok(CHECK, "arrays do not count: they are on a disk")
        }
        _ if directory.mount.kind == "hugetlbfs" => {
            Finding::ok(CHECK, "arrays do not count: their pages are reserved")
        }
        Some((bytes, file)) if *bytes <= total => {
            let remedy =
                format!("{}; or {}", shrink(*bytes, directory, container), raise(file, container));
            Finding::look(CHECK, killed("a control group", *bytes, directory), remedy)
        }
        _ if memory.machine_bytes <= total => {
            let machine = memory.machine_bytes;
            Finding::look(
                CHECK,
                killed("this machine", machine, directory),
                shrink(machine, directory, container),
            )
        }
        Some((bytes, _)) => Finding::ok(
            CHECK,
            format!("{} by a control group, more than the directory", size(*bytes)),
        ),
        None => {
            Finding::ok(CHECK, format!("none but the machine's {}", size(memory.machine_bytes)))
        }
    }
}

fn killed(whose: &str, bytes: u64, directory: &Directory) -> String {
    let limit = size(bytes);
    let path = directory.path.display();
    format!("{whose} has {limit}, shared memory included: the kernel kills before {path} is full")
}

/// Returns how to make the directory half as large as the limit.
fn shrink(limit: u64, directory: &Directory, container: Container) -> String {
    let half = (limit / 2) >> 20;
    match container {
        _ if !directory.is_on_dev_shm() => directory.mount.remount(&format!("size={half}m")),
        Container::Docker => format!("docker run --shm-size={half}m …"),
        Container::Podman => format!("podman run --shm-size={half}m …"),
        Container::Kubernetes => {
            format!("in the pod, give the emptyDir at /dev/shm sizeLimit: {half}Mi")
        }
        Container::None => directory.mount.remount(&format!("size={half}m")),
    }
}

fn raise(file: &Path, container: Container) -> String {
    match container {
        Container::Docker | Container::Podman => "a larger --memory=…".to_owned(),
        Container::Kubernetes => "a larger resources.limits.memory".to_owned(),
        Container::None => format!("a larger number in {}", file.display()),
    }
}

pub(crate) fn huge_pages(huge: &Huge, directory: &Directory, container: Container) -> Finding {
    const CHECK: &str = "huge pages";
    let here = directory.mount.option("huge").unwrap_or("never");
    let kind = directory.mount.kind.as_str();
    let without = format!("arrays of {} and more do without", size(huge.page_bytes));
    match huge.shmem_enabled.as_deref() {
        _ if kind == "hugetlbfs" => Finding::ok(CHECK, "always: hugetlbfs"),
        _ if kind != "tmpfs" => Finding::ok(CHECK, "only a tmpfs has them"),
        None => Finding::ok(CHECK, "this kernel has none for shared memory"),
        Some("force") => Finding::ok(CHECK, "shmem_enabled is force"),
        Some("deny") => Finding::look(
            CHECK,
            format!("shmem_enabled is deny: {without}"),
            on_the_host(container, &allow(directory)),
        ),
        Some(_) if matches!(here, "always" | "within_size") => {
            Finding::ok(CHECK, format!("mounted with huge={here}"))
        }
        Some(_) => {
            let remedy = on_the_host(container, &directory.mount.remount("huge=within_size"));
            Finding::look(CHECK, format!("mounted with huge={here}: {without}"), remedy)
        }
    }
}

/// Returns the commands that make the setting of each mount valid again, and set it for this one.
fn allow(directory: &Directory) -> String {
    let remount = directory.mount.remount("huge=within_size");
    format!("echo never | sudo tee {SHMEM_ENABLED} && {remount}")
}

fn on_the_host(container: Container, command: &str) -> String {
    match container {
        Container::None => command.to_owned(),
        _ => format!("{command} (needs a privileged container)"),
    }
}

pub(crate) fn reserved_pages(huge: &Huge, directory: &Directory) -> Finding {
    const CHECK: &str = "reserved pages";
    let needed = directory.mount.kind == "hugetlbfs";
    let pages =
        format!("{} of {}", count(huge.reserved as usize, "huge page"), size(huge.page_bytes));
    match (huge.reserved, huge.free) {
        (0, _) if !needed => Finding::ok(CHECK, "none, and none needed"),
        (0, _) => Finding::problem(
            CHECK,
            "none, and hugetlbfs needs them",
            "sudo sysctl -w vm.nr_hugepages=512",
        ),
        (reserved, 0) if needed => Finding::problem(
            CHECK,
            format!("{pages}, none free"),
            format!("sudo sysctl -w vm.nr_hugepages={}", reserved.saturating_mul(2)),
        ),
        (_, free) if needed => Finding::ok(CHECK, format!("{pages}, {free} free")),
        _ => Finding::ok(
            CHECK,
            format!("{pages}, which arrays in {} do not use", directory.path.display()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::directory::in_memory;
    use crate::doctor::finding::{Verdict, says};

    fn of_kind(kind: &str, options: &str) -> Directory {
        let mut directory = in_memory();
        (directory.mount.kind, directory.mount.options) = (kind.to_owned(), options.to_owned());
        directory
    }

    fn group(bytes: u64) -> Memory {
        Memory { machine_bytes: 64 << 30, group: Some((bytes, "/sys/fs/cgroup/memory.max".into())) }
    }

    fn huge(word: Option<&str>) -> Huge {
        Huge {
            shmem_enabled: word.map(ToOwned::to_owned),
            page_bytes: 2 << 20,
            reserved: 0,
            free: 0,
        }
    }

    #[test]
    fn a_limit_below_the_size_is_worth_a_look() {
        let tight = |container| limit(&group(4 << 30), &in_memory(), container);
        says(
            &tight(Container::None),
            Verdict::Look,
            "has 4 GiB",
            "size=2048m /dev/shm; or a larger number in /sys/",
        );
        says(
            &tight(Container::Docker),
            Verdict::Look,
            "kills before /dev/shm is full",
            "--shm-size=2048m …; or a larger",
        );
        says(&tight(Container::Podman), Verdict::Look, "4 GiB", "podman run --shm-size=2048m");
        says(
            &tight(Container::Kubernetes),
            Verdict::Look,
            "4 GiB",
            "sizeLimit: 2048Mi; or a larger resources.limits",
        );
        let mut own = in_memory();
        own.mount.point = "/mnt/own".into();
        says(
            &limit(&group(4 << 30), &own, Container::Docker),
            Verdict::Look,
            "4 GiB",
            "remount,size=2048m /mnt/own",
        );
    }

    #[test]
    fn a_directory_without_a_limit_is_above_every_limit() {
        let mut unlimited = in_memory();
        unlimited.room.total_bytes = 0;
        says(
            &limit(&group(4 << 30), &unlimited, Container::None),
            Verdict::Look,
            "4 GiB",
            "size=2048m",
        );
    }

    #[test]
    fn a_directory_as_large_as_the_machine_is_worth_a_look() {
        let memory = Memory { machine_bytes: 8 << 30, group: None };
        says(
            &limit(&memory, &in_memory(), Container::None),
            Verdict::Look,
            "this machine has 8 GiB",
            "remount,size=4096m /dev/shm",
        );
    }

    #[test]
    fn a_limit_above_the_size_is_fine() {
        let none = Memory { group: None, ..group(0) };
        says(&limit(&group(16 << 30), &in_memory(), Container::None), Verdict::Ok, "16 GiB", "");
        says(
            &limit(&none, &in_memory(), Container::None),
            Verdict::Ok,
            "none but the machine's 64 GiB",
            "",
        );
        says(
            &limit(&group(1), &of_kind("ext4", "rw"), Container::None),
            Verdict::Ok,
            "on a disk",
            "",
        );
        says(
            &limit(&group(1), &of_kind("hugetlbfs", "rw"), Container::None),
            Verdict::Ok,
            "reserved",
            "",
        );
    }

    #[test]
    fn huge_pages_follow_the_mount_unless_the_kernel_denies_or_forces() {
        let tmpfs =
            |word, options| huge_pages(&huge(word), &of_kind("tmpfs", options), Container::None);
        let remount = "sudo mount -o remount,huge=within_size /dev/shm";
        says(&tmpfs(Some("never"), "rw"), Verdict::Look, "huge=never: arrays of 2 MiB", remount);
        says(&tmpfs(Some("advise"), "rw,huge=advise"), Verdict::Look, "huge=advise", remount);
        says(&tmpfs(Some("never"), "rw,huge=always"), Verdict::Ok, "huge=always", "");
        says(&tmpfs(Some("never"), "rw,huge=within_size"), Verdict::Ok, "huge=within_size", "");
        says(
            &tmpfs(Some("deny"), "rw,huge=always"),
            Verdict::Look,
            "deny",
            "echo never | sudo tee /sys/kernel",
        );
        says(&tmpfs(Some("force"), "rw"), Verdict::Ok, "force", "");
        says(&tmpfs(None, "rw"), Verdict::Ok, "this kernel has none", "");
    }

    #[test]
    fn huge_pages_are_a_matter_of_a_tmpfs() {
        let with = |kind| huge_pages(&huge(Some("never")), &of_kind(kind, "rw"), Container::None);
        says(&with("ext4"), Verdict::Ok, "only a tmpfs", "");
        says(&with("hugetlbfs"), Verdict::Ok, "always", "");
        let inside = huge_pages(&huge(Some("never")), &in_memory(), Container::Docker);
        says(&inside, Verdict::Look, "huge=never", "privileged container");
    }

    #[test]
    fn only_hugetlbfs_needs_reserved_pages() {
        let pages = |reserved, free, kind| {
            reserved_pages(&Huge { reserved, free, ..huge(None) }, &of_kind(kind, ""))
        };
        says(&pages(0, 0, "tmpfs"), Verdict::Ok, "none needed", "");
        says(
            &pages(4, 4, "tmpfs"),
            Verdict::Ok,
            "4 huge pages of 2 MiB, which arrays in /dev/shm do not use",
            "",
        );
        says(&pages(4, 1, "hugetlbfs"), Verdict::Ok, "4 huge pages of 2 MiB, 1 free", "");
        says(&pages(4, 0, "hugetlbfs"), Verdict::Problem, "none free", "vm.nr_hugepages=8");
        says(
            &pages(0, 0, "hugetlbfs"),
            Verdict::Problem,
            "needs them",
            "sudo sysctl -w vm.nr_hugepages=512",
        );
    }
}
