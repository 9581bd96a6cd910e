//! Limits of a process: open files, mappings, address space, file size, locked memory.

use super::finding::{Finding, size};

/// A limit of open files below that of nearly every system.
const FEW_FILES: u64 = 1024;
const ENOUGH_FILES: u64 = 65_536;
/// The kernel's default limit.
const USUAL_MAPPINGS: u64 = 65_530;

/// A soft and a hard limit; `None` means that there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limit {
    pub(crate) soft: Option<u64>,
    pub(crate) hard: Option<u64>,
}

/// The limits that matter to this library, and that of locked memory, which does not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) files: Limit,
    pub(crate) address_space: Limit,
    pub(crate) file_bytes: Limit,
    pub(crate) locked: Limit,
    /// The value of `vm.max_map_count`.
    pub(crate) mappings: Option<u64>,
    /// The process with the most arrays mapped, of those whose mappings this user may read.
    pub(crate) most_mapped: Option<Mapped>,
    pub(crate) is_root: bool,
}

/// The mappings of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) pid: u64,
    pub(crate) all: u64,
    /// The number of mappings of segments.
    pub(crate) segments: u64,
}

pub(crate) fn all(limits: &Limits) -> [Finding; 5] {
    [
        files(limits),
        mappings(limits),
        address_space(limits),
        file_size(limits),
        locked_memory(limits),
    ]
}

fn files(limits: &Limits) -> Finding {
    const CHECK: &str = "open files";
    let Limit { soft, hard } = limits.files;
    let found = match hard {
        hard if hard == soft => number(soft),
        None => format!("{}, without an upper limit", number(soft)),
        hard => format!("{}, of at most {}", number(soft), number(hard)),
    };
    let flight = if limits.is_root { "" } else { "; bounds the messages in flight" };
    match (soft, hard) {
        (Some(..FEW_FILES), Some(..FEW_FILES)) => Finding::look(
            CHECK,
            format!("{found}{flight}: few"),
            "raise nofile: in /etc/security/limits.conf, as LimitNOFILE= of a service, by docker \
             run --ulimit nofile=65536",
        ),
        (Some(..FEW_FILES), hard) => {
            let enough = hard.map_or(ENOUGH_FILES, |hard| hard.min(ENOUGH_FILES));
            Finding::look(CHECK, format!("{found}{flight}: few"), format!("ulimit -Sn {enough}"))
        }
        _ => Finding::ok(CHECK, format!("{found}{flight}")),
    }
}

fn number(limit: Option<u64>) -> String {
    limit.map_or("no limit".to_owned(), |limit| limit.to_string())
}

fn mappings(limits: &Limits) -> Finding {
    const CHECK: &str = "mappings";
    const MORE: &str = "sudo sysctl -w vm.max_map_count=262144";
    let mapped = limits.most_mapped.map_or(String::new(), |Mapped { pid, all, segments }| {
        format!("; process {pid} has {all}, {segments} of them of segments")
    });
    // Above a quarter of the limit, core copies an array that only this process receives
    // (`should_copy`).
    let are_short = |most| limits.most_mapped.is_some_and(|mapped| mapped.all > most / 4 * 3);
    match limits.mappings {
        Some(most @ ..USUAL_MAPPINGS) => Finding::look(
            CHECK,
            format!("{most} in a process (vm.max_map_count), two for a segment: few{mapped}"),
            MORE,
        ),
        Some(most) if are_short(most) => Finding::look(
            CHECK,
            format!("{most} in a process (vm.max_map_count), of which few are left{mapped}"),
            MORE,
        ),
        Some(most) => Finding::ok(CHECK, format!("{most} in a process, two for a segment{mapped}")),
        None => Finding::look(CHECK, "vm.max_map_count cannot be read", "mount /proc"),
    }
}

fn address_space(limits: &Limits) -> Finding {
    const CHECK: &str = "address space";
    match limits.address_space.soft {
        Some(bytes) => Finding::look(
            CHECK,
            format!("{}: a mapped array counts whole", size(bytes)),
            raise("ulimit -v unlimited", "as", limits.address_space),
        ),
        None => Finding::ok(CHECK, "no limit"),
    }
}

fn file_size(limits: &Limits) -> Finding {
    const CHECK: &str = "file size";
    match limits.file_bytes.soft {
        Some(bytes) => Finding::look(
            CHECK,
            format!("{}: a larger array is an error", size(bytes)),
            raise("ulimit -f unlimited", "fsize", limits.file_bytes),
        ),
        None => Finding::ok(CHECK, "no limit"),
    }
}

/// Returns the command to raise a limit if the hard limit allows it, else where it is set.
fn raise(command: &str, item: &str, limit: Limit) -> String {
    match limit.hard {
        None => command.to_owned(),
        Some(_) => format!(
            "take the hard limit away ({item} in /etc/security/limits.conf), then {command}"
        ),
    }
}

fn locked_memory(limits: &Limits) -> Finding {
    let limit = limits.locked.soft.map_or("no limit".to_owned(), size);
    Finding::ok("locked memory", format!("{limit}, and none needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Verdict, says};

    fn at(soft: u64, hard: Option<u64>) -> Limit {
        Limit { soft: Some(soft), hard }
    }

    #[test]
    fn open_files_bound_the_messages_in_flight() {
        let with = |files, is_root| super::files(&Limits { files, is_root, ..Limits::default() });
        says(
            &with(at(1024, Some(4096)), false),
            Verdict::Ok,
            "1024, of at most 4096; bounds the messages",
            "",
        );
        says(&with(Limit::default(), true), Verdict::Ok, "no limit", "");
        says(
            &with(at(256, Some(4096)), false),
            Verdict::Look,
            "256, of at most 4096",
            "ulimit -Sn 4096",
        );
        says(
            &with(at(256, None), false),
            Verdict::Look,
            "256, without an upper limit",
            "ulimit -Sn 65536",
        );
        says(
            &with(at(256, Some(256)), false),
            Verdict::Look,
            "256; bounds",
            "--ulimit nofile=65536",
        );
        assert!(!with(at(256, Some(256)), true).found.contains("flight"));
    }

    #[test]
    fn few_mappings_are_worth_a_look() {
        let with = |mappings| super::mappings(&Limits { mappings, ..Limits::default() });
        says(&with(Some(65_530)), Verdict::Ok, "65530 in a process", "");
        says(
            &with(Some(1000)),
            Verdict::Look,
            "1000 in a process",
            "sysctl -w vm.max_map_count=262144",
        );
        says(&with(None), Verdict::Look, "cannot be read", "mount /proc");
    }

    #[test]
    fn the_process_with_the_most_mappings_is_named() {
        let with = |all| {
            let most_mapped = Some(Mapped { pid: 7, all, segments: 400 });
            super::mappings(&Limits { mappings: Some(65_530), most_mapped, ..Limits::default() })
        };
        says(&with(500), Verdict::Ok, "process 7 has 500, 400 of them of segments", "");
        says(
            &with(60_000),
            Verdict::Look,
            "of which few are left; process 7 has 60000",
            "sysctl -w vm.max_map_count",
        );
    }

    #[test]
    fn a_limited_address_space_is_worth_a_look() {
        let with =
            |address_space| super::address_space(&Limits { address_space, ..Limits::default() });
        says(&with(Limit::default()), Verdict::Ok, "no limit", "");
        says(&with(at(4 << 30, None)), Verdict::Look, "4 GiB", "ulimit -v unlimited");
        says(
            &with(at(4 << 30, Some(4 << 30))),
            Verdict::Look,
            "4 GiB",
            "(as in /etc/security/limits.conf)",
        );
    }

    #[test]
    fn a_limited_file_size_is_worth_a_look() {
        let with = |file_bytes| super::file_size(&Limits { file_bytes, ..Limits::default() });
        says(&with(Limit::default()), Verdict::Ok, "no limit", "");
        says(
            &with(at(1 << 20, None)),
            Verdict::Look,
            "1 MiB: a larger array",
            "ulimit -f unlimited",
        );
        says(
            &with(at(1 << 20, Some(1 << 20))),
            Verdict::Look,
            "is an error",
            "(fsize in /etc/security/limits.conf)",
        );
    }

    #[test]
    fn locked_memory_is_never_needed() {
        let with = |locked| super::locked_memory(&Limits { locked, ..Limits::default() });
        says(&with(at(0, None)), Verdict::Ok, "0 bytes, and none needed", "");
        says(&with(Limit::default()), Verdict::Ok, "no limit, and none needed", "");
    }
}
