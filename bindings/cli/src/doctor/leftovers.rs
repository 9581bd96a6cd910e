//! Shared memory in use, pooled or left over; files that are not of this library; and the registry.

use shmarray::SegmentKind;

use super::finding::{Finding, count, size};

/// A segment or a cell, as `shmarray::segments` lists it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) kind: SegmentKind,
    pub(crate) bytes: u64,
    /// The living processes, each with its command.
    pub(crate) holders: Vec<String>,
    /// The number of messages that hold it.
    pub(crate) tickets: u64,
    /// Whether it was created to live without a holder.
    pub(crate) persists: bool,
}

pub(crate) fn segments(parts: &[Part]) -> Finding {
    const CHECK: &str = "segments";
    let [arrays, channels, pools, remains] =
        [SegmentKind::Array, SegmentKind::Channel, SegmentKind::Pool, SegmentKind::Remains]
            .map(|kind| of_kind(parts, kind));
    let mut found = match arrays.len() {
        0 => "no arrays".to_owned(),
        many => format!("{}, {}{}", count(many, "array"), total(&arrays), special(&arrays)),
    };
    if !channels.is_empty() {
        found += &format!("; {}, {}", count(channels.len(), "channel"), total(&channels));
    }
    if !pools.is_empty() {
        found += &format!("; pools keep {}: {}", total(&pools), holders_of(&pools));
    }
    match (remains.is_empty(), parts.is_empty()) {
        (true, true) => Finding::ok(CHECK, "none"),
        (true, false) => Finding::ok(CHECK, found + "; nothing left over"),
        (false, _) => Finding::look(
            CHECK,
            format!("{found}; dead processes left {}", total(&remains)),
            "shmarray sweep",
        ),
    }
}

fn of_kind(parts: &[Part], kind: SegmentKind) -> Vec<&Part> {
    parts.iter().filter(|part| part.kind == kind).collect()
}

fn total(parts: &[&Part]) -> String {
    size(parts.iter().map(|part| part.bytes).sum())
}

/// Describes the arrays that no process holds.
fn special(arrays: &[&Part]) -> String {
    let is_under_way =
        |part: &&&Part| part.holders.is_empty() && !part.persists && part.tickets > 0;
    let special = [
        (arrays.iter().filter(|part| part.persists).count(), "persistent until unlinked"),
        (arrays.iter().filter(is_under_way).count(), "held by messages alone"),
    ];
    special
        .iter()
        .filter(|(many, _)| *many > 0)
        .map(|(many, why)| format!("; {many} {why}"))
        .collect()
}

/// Returns the holders of all parts, each once.
fn holders_of(pools: &[&Part]) -> String {
    let mut holders: Vec<_> =
        pools.iter().flat_map(|part| &part.holders).map(String::as_str).collect();
    holders.sort_unstable();
    holders.dedup();
    holders.join(", ")
}

/// The kind of a file according to its name. The name of a `Name` has no prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    HalfMade,
    /// A link that has the name of an array.
    Name(String),
}

/// A file in the directory whose name is like that of a file of this library.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    pub(crate) file: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// Whether core reads its header as that of a whole segment.
    pub(crate) is_segment: bool,
    pub(crate) is_regular: bool,
    /// Whether a process holds it. `None` if this user may not read it.
    pub(crate) held: Option<bool>,
    pub(crate) links: u64,
}

impl FoundFile {
    fn is_unheld(&self) -> bool {
        self.held == Some(false)
    }
}

pub(crate) fn files(entries: &[FoundFile]) -> [Finding; 3] {
    [half_made(entries), strangers(entries), names(entries)]
}

fn half_made(entries: &[FoundFile]) -> Finding {
    const CHECK: &str = "half-made";
    let half_made = || entries.iter().filter(|entry| entry.kind == Kind::HalfMade);
    let abandoned: Vec<_> = half_made().filter(|entry| entry.is_unheld()).collect();
    match (abandoned.len(), half_made().count()) {
        (0, 0) => Finding::ok(CHECK, "none"),
        (0, making) => Finding::ok(CHECK, format!("{making} being made now")),
        (left, _) => Finding::look(
            CHECK,
            format!(
                "{} of makers that died, {}",
                count(left, "file"),
                size(abandoned.iter().map(|entry| entry.bytes).sum())
            ),
            "shmarray sweep",
        ),
    }
}

/// Describes the files that are named like segments but are not. A sweep leaves them in place. One
/// that a process holds may be of a newer version.
fn strangers(entries: &[FoundFile]) -> Finding {
    const CHECK: &str = "strange files";
    let is_strange = |entry: &&FoundFile| {
        if entry.is_regular {
            entry.kind == Kind::Segment && !entry.is_segment && entry.is_unheld()
        } else {
            true
        }
    };
    let strange: Vec<_> = entries.iter().filter(is_strange).collect();
    let Some(first) = strange.first() else { return Finding::ok(CHECK, "none") };
    let named = count(strange.len(), "file");
    Finding::look(
        CHECK,
        format!("{named} named like a segment but without a valid header: {}", first.file),
        "look at them, then rm -r what is neither yours nor needed",
    )
}

/// Describes names without a segment. A name is a second link to a segment, so a handle cannot find
/// the segment of a name that is the only link.
fn names(entries: &[FoundFile]) -> Finding {
    const CHECK: &str = "names";
    let names =
        || entries.iter().filter(|entry| matches!(entry.kind, Kind::Name(_)) && entry.is_regular);
    let astray = |entry: &FoundFile| match &entry.kind {
        Kind::Name(name) if entry.links == 1 && entry.is_unheld() => Some(name.clone()),
        _ => None,
    };
    let astray: Vec<_> = names().filter_map(astray).collect();
    match (astray.first(), names().count()) {
        (None, 0) => Finding::ok(CHECK, "none"),
        (None, given) => Finding::ok(CHECK, format!("{given} given")),
        (Some(first), given) => Finding::look(
            CHECK,
            format!("{given} given; {} of them without a segment: {first}", astray.len()),
            // `--` is needed because a name may begin like an option.
            format!("shmarray rm {}{first}", if first.starts_with('-') { "-- " } else { "" }),
        ),
    }
}

/// The file that shows which processes of this user live, by its usual name.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    pub(crate) path: String,
    pub(crate) is_regular: bool,
    pub(crate) owner: u32,
    pub(crate) user: u32,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    /// The name of the registry that is used instead.
    pub(crate) instead: Option<String>,
}

pub(crate) fn registry(registry: Option<&Registry>) -> Finding {
    const CHECK: &str = "registry";
    let Some(Registry { path, is_regular, owner, user, mode, links, instead }) = registry else {
        return Finding::ok(CHECK, "none yet: the first use makes it");
    };
    let instead = match instead {
        Some(name) => format!("the library uses {name} instead"),
        None => "the library will make another".to_owned(),
    };
    match mode & 0o777 {
        _ if !is_regular => Finding::look(
            CHECK,
            format!("{path} is no file: {instead}"),
            format!("sudo rm -r {path}"),
        ),
        _ if owner != user => Finding::look(
            CHECK,
            format!("{path} belongs to uid {owner}: {instead}"),
            format!("sudo rm {path}"),
        ),
        _ if *links != 1 => Finding::look(
            CHECK,
            format!("{path} has {links} names: {instead}"),
            format!("rm {path}"),
        ),
        0o600 => Finding::ok(CHECK, "ours alone (mode 0600)"),
        mode if mode & 0o600 != 0o600 => Finding::look(
            CHECK,
            format!("{path} has mode {mode:04o}: {instead}"),
            format!("chmod 600 {path}"),
        ),
        mode => Finding::look(
            CHECK,
            format!("{path} has mode {mode:04o}: others can make names wait"),
            format!("chmod 600 {path}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Verdict, says};

    fn part(kind: SegmentKind) -> Part {
        Part { kind, bytes: 4096, holders: vec!["7 ruby".to_owned()], tickets: 0, persists: false }
    }

    fn unheld(kind: SegmentKind) -> Part {
        Part { holders: Vec::new(), ..part(kind) }
    }

    fn entry(kind: Kind) -> FoundFile {
        let file = "shmarray-x".to_owned();
        FoundFile {
            file,
            kind,
            bytes: 4096,
            is_segment: true,
            is_regular: true,
            held: Some(true),
            links: 2,
        }
    }

    fn named() -> FoundFile {
        entry(Kind::Name("x".to_owned()))
    }

    #[test]
    fn memory_of_dead_processes_is_reported_as_left_over() {
        let array = part(SegmentKind::Array);
        let left = unheld(SegmentKind::Remains);
        says(&segments(&[]), Verdict::Ok, "none", "");
        says(
            &segments(std::slice::from_ref(&array)),
            Verdict::Ok,
            "1 array, 4 KiB; nothing left over",
            "",
        );
        let found = "1 array, 4 KiB; dead processes left 8 KiB";
        says(
            &segments(&[array, left.clone(), left.clone()]),
            Verdict::Look,
            found,
            "shmarray sweep",
        );
        says(
            &segments(&[left]),
            Verdict::Look,
            "no arrays; dead processes left 4 KiB",
            "shmarray sweep",
        );
    }

    #[test]
    fn pools_are_told_with_the_processes_that_keep_them() {
        let one = part(SegmentKind::Pool);
        let other = Part { holders: vec!["8 python".to_owned()], ..part(SegmentKind::Pool) };
        let found = "no arrays; pools keep 12 KiB: 7 ruby, 8 python; nothing left over";
        says(&segments(&[other, one.clone(), one]), Verdict::Ok, found, "");
    }

    #[test]
    fn persistent_arrays_and_messages_are_not_left_over() {
        let kept = Part { persists: true, ..unheld(SegmentKind::Array) };
        says(
            &segments(&[kept]),
            Verdict::Ok,
            "1 array, 4 KiB; 1 persistent until unlinked; nothing",
            "",
        );
        let sent = Part { tickets: 2, ..unheld(SegmentKind::Array) };
        says(
            &segments(&[sent]),
            Verdict::Ok,
            "1 array, 4 KiB; 1 held by messages alone; nothing",
            "",
        );
    }

    #[test]
    fn half_made_files_are_left_over_when_their_makers_died() {
        let making = FoundFile { is_segment: false, ..entry(Kind::HalfMade) };
        let left = FoundFile { held: Some(false), ..making.clone() };
        says(&half_made(&[named()]), Verdict::Ok, "none", "");
        says(&half_made(std::slice::from_ref(&making)), Verdict::Ok, "1 being made now", "");
        says(
            &half_made(&[making, left]),
            Verdict::Look,
            "1 file of makers that died, 4 KiB",
            "shmarray sweep",
        );
    }

    #[test]
    fn files_that_are_only_named_like_segments_are_strange() {
        let noise = FoundFile { is_segment: false, held: Some(false), ..entry(Kind::Segment) };
        let folder = FoundFile { is_regular: false, held: None, ..noise.clone() };
        let newer = FoundFile { held: Some(true), ..noise.clone() };
        says(&strangers(&[entry(Kind::Segment), named(), newer]), Verdict::Ok, "none", "");
        says(
            &strangers(std::slice::from_ref(&noise)),
            Verdict::Look,
            "1 file named like a segment",
            "look at them",
        );
        says(
            &strangers(&[noise, folder]),
            Verdict::Look,
            "2 files named like a segment",
            "look at them",
        );
    }

    #[test]
    fn a_name_that_leads_nowhere_is_astray() {
        let astray = FoundFile { links: 1, held: Some(false), ..named() };
        says(&names(&[entry(Kind::Segment)]), Verdict::Ok, "none", "");
        says(&names(&[named()]), Verdict::Ok, "1 given", "");
        says(
            &names(&[named(), astray]),
            Verdict::Look,
            "2 given; 1 of them without a segment: x",
            "shmarray rm x",
        );
        let dashed =
            FoundFile { kind: Kind::Name("-x".to_owned()), links: 1, held: Some(false), ..named() };
        says(&names(&[dashed]), Verdict::Look, "1 given; 1 of them", "shmarray rm -- -x");
    }

    #[test]
    fn the_registry_is_a_file_of_ours_alone() {
        let path = "/dev/shm/shmarray-registry-7".to_owned();
        let ours = Registry {
            path,
            is_regular: true,
            owner: 7,
            user: 7,
            mode: 0o100_600,
            links: 1,
            instead: None,
        };
        let with = |mode| registry(Some(&Registry { mode, ..ours.clone() }));
        says(&registry(None), Verdict::Ok, "none yet", "");
        says(&with(0o100_600), Verdict::Ok, "ours alone", "");
        says(
            &with(0o100_666),
            Verdict::Look,
            "mode 0666",
            "chmod 600 /dev/shm/shmarray-registry-7",
        );
        says(
            &with(0o100_000),
            Verdict::Look,
            "mode 0000: the library will make another",
            "chmod 600",
        );
        let linked = Registry { links: 2, ..ours.clone() };
        let instead = Some("shmarray-registry-7-x".to_owned());
        says(&registry(Some(&linked)), Verdict::Look, "2 names", "rm /dev");
        let squatted = Registry { owner: 8, instead, ..ours.clone() };
        says(
            &registry(Some(&squatted)),
            Verdict::Look,
            "uid 8: the library uses shmarray-registry-7-x",
            "sudo rm /dev",
        );
        says(
            &registry(Some(&Registry { is_regular: false, ..ours })),
            Verdict::Look,
            "no file",
            "sudo rm -r",
        );
    }
}
