//! Leftovers: segments that nobody holds, files that are none of ours, and the registry.

use super::finding::{Finding, count, size};

/// What a file is by its name; a name itself is without the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    HalfMade,
    /// A link by a person's name.
    Name(String),
}

/// A file in the directory that is named like one of ours.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// A whole segment by its header, as core reads it.
    pub(crate) is_segment: bool,
    pub(crate) is_regular: bool,
    /// By a process. `None` when we may not look.
    pub(crate) held: Option<bool>,
    /// Messages that hold it, or its cells.
    pub(crate) tickets: u64,
    /// Outlives its holders, as somebody asked.
    pub(crate) persists: bool,
    pub(crate) links: u64,
}

impl Entry {
    fn is_abandoned(&self) -> bool {
        self.held == Some(false) && !self.persists && self.tickets == 0
    }

    /// Until the message is received, or a sweep finds that nobody can.
    fn is_under_way(&self) -> bool {
        self.held == Some(false) && !self.persists && self.tickets > 0
    }
}

pub(crate) fn all(entries: &[Entry]) -> [Finding; 4] {
    [segments(entries), half_made(entries), strangers(entries), names(entries)]
}

fn segments(entries: &[Entry]) -> Finding {
    const CHECK: &str = "segments";
    let segments = || entries.iter().filter(|entry| entry.kind == Kind::Segment && entry.is_segment);
    let abandoned: Vec<_> = segments().filter(|entry| entry.is_abandoned()).collect();
    let special = [
        (segments().filter(|entry| entry.persists).count(), "kept until their names go"),
        (segments().filter(|entry| entry.is_under_way()).count(), "held by messages alone"),
    ];
    let special: String = special.iter().filter(|(many, _)| *many > 0).map(|(n, why)| format!("; {n} {why}")).collect();
    let found = format!("{}, {}{special}", count(segments().count(), "segment"), total(segments()));
    match (abandoned.len(), segments().count()) {
        (0, 0) => Finding::ok(CHECK, "none"),
        (0, _) if special.is_empty() => Finding::ok(CHECK, format!("{found}, none left over")),
        (0, _) => Finding::ok(CHECK, found),
        (left, _) => Finding::look(
            CHECK,
            format!("{found}; nobody holds {left} of them, {}", total(abandoned.into_iter())),
            "shmarray sweep",
        ),
    }
}

fn total<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    size(entries.map(|entry| entry.bytes).sum())
}

fn half_made(entries: &[Entry]) -> Finding {
    const CHECK: &str = "half-made";
    let half_made = || entries.iter().filter(|entry| entry.kind == Kind::HalfMade);
    let abandoned: Vec<_> = half_made().filter(|entry| entry.is_abandoned()).collect();
    match (abandoned.len(), half_made().count()) {
        (0, 0) => Finding::ok(CHECK, "none"),
        (0, making) => Finding::ok(CHECK, format!("{making} being made now")),
        (left, _) => Finding::look(
            CHECK,
            format!("{} of makers that died, {}", count(left, "file"), total(abandoned.into_iter())),
            "shmarray sweep",
        ),
    }
}

/// Named like segments, and none. What a running process holds may be of a newer version.
fn strangers(entries: &[Entry]) -> Finding {
    const CHECK: &str = "strange files";
    let is_strange = |entry: &&Entry| match entry.is_regular {
        true => entry.kind == Kind::Segment && !entry.is_segment && entry.is_abandoned(),
        false => true,
    };
    let strange: Vec<_> = entries.iter().filter(is_strange).collect();
    let Some(first) = strange.first() else { return Finding::ok(CHECK, "none") };
    let remedy = match strange.iter().all(|entry| entry.is_regular) {
        true => "shmarray sweep",
        false => "look at them, then rm -r what is neither yours nor needed",
    };
    let named = count(strange.len(), "file");
    Finding::look(CHECK, format!("{named} named like ours but no segment: {}", first.file), remedy)
}

/// A name is a second link: one that is the only link leads to no segment that a handle finds.
fn names(entries: &[Entry]) -> Finding {
    const CHECK: &str = "names";
    let names = || entries.iter().filter(|entry| matches!(entry.kind, Kind::Name(_)) && entry.is_regular);
    let astray = |entry: &Entry| match &entry.kind {
        Kind::Name(name) if entry.links == 1 && entry.held == Some(false) => Some(name.clone()),
        _ => None,
    };
    let astray: Vec<_> = names().filter_map(astray).collect();
    match (astray.first(), names().count()) {
        (None, 0) => Finding::ok(CHECK, "none"),
        (None, given) => Finding::ok(CHECK, format!("{given} given")),
        (Some(first), given) => Finding::look(
            CHECK,
            format!("{given} given; {} of them without a segment: {first}", astray.len()),
            // A name may begin like an option.
            format!("shmarray rm {}{first}", if first.starts_with('-') { "-- " } else { "" }),
        ),
    }
}

/// The file of locks of this user.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    pub(crate) path: String,
    pub(crate) is_regular: bool,
    pub(crate) owner: u32,
    pub(crate) user: u32,
    pub(crate) mode: u32,
}

pub(crate) fn registry(registry: Option<&Registry>) -> Finding {
    const CHECK: &str = "registry";
    let Some(Registry { path, is_regular, owner, user, mode }) = registry else {
        return Finding::ok(CHECK, "none yet: the first use makes it");
    };
    match mode & 0o777 {
        _ if !is_regular => Finding::problem(CHECK, format!("{path} is no file"), format!("sudo rm -r {path}")),
        _ if owner != user => Finding::problem(
            CHECK,
            format!("{path} belongs to uid {owner}, who can make names wait"),
            format!("sudo rm {path}"),
        ),
        0o600 => Finding::ok(CHECK, "ours alone (mode 0600)"),
        mode if mode & 0o600 != 0o600 => Finding::problem(
            CHECK,
            format!("{path} has mode {mode:04o}: we cannot lock names"),
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

    fn entry(kind: Kind) -> Entry {
        Entry {
            file: "shmarray-x".to_owned(),
            kind,
            bytes: 4096,
            is_segment: true,
            is_regular: true,
            held: Some(true),
            tickets: 0,
            persists: false,
            links: 2,
        }
    }

    fn named() -> Entry {
        entry(Kind::Name("x".to_owned()))
    }

    #[test]
    fn segments_that_nobody_holds_are_left_over() {
        let held = || entry(Kind::Segment);
        let left = || Entry { held: Some(false), ..held() };
        says(&segments(&[]), Verdict::Ok, "none", "");
        says(&segments(&[held(), named()]), Verdict::Ok, "1 segment, 4 KiB, none left over", "");
        let found = "3 segments, 12 KiB; nobody holds 2 of them, 8 KiB";
        says(&segments(&[held(), left(), left()]), Verdict::Look, found, "shmarray sweep");
    }

    #[test]
    fn what_persists_or_is_anothers_is_not_left_over() {
        let left = Entry { held: Some(false), ..entry(Kind::Segment) };
        let kept = Entry { persists: true, ..left.clone() };
        says(&segments(&[kept]), Verdict::Ok, "1 segment, 4 KiB; 1 kept until their names go", "");
        says(&segments(&[Entry { held: None, ..left }]), Verdict::Ok, "none left over", "");
    }

    #[test]
    fn what_a_message_holds_is_not_left_over() {
        let sent = Entry { held: Some(false), tickets: 2, ..entry(Kind::Segment) };
        let left = Entry { tickets: 0, ..sent.clone() };
        says(&segments(std::slice::from_ref(&sent)), Verdict::Ok, "1 segment, 4 KiB; 1 held by messages alone", "");
        let found = "2 segments, 8 KiB; 1 held by messages alone; nobody holds 1 of them";
        says(&segments(&[sent, left]), Verdict::Look, found, "shmarray sweep");
    }

    #[test]
    fn half_made_files_are_left_over_when_their_makers_died() {
        let making = Entry { is_segment: false, ..entry(Kind::HalfMade) };
        let left = Entry { held: Some(false), ..making.clone() };
        says(&half_made(&[named()]), Verdict::Ok, "none", "");
        says(&half_made(std::slice::from_ref(&making)), Verdict::Ok, "1 being made now", "");
        says(&half_made(&[making, left]), Verdict::Look, "1 file of makers that died, 4 KiB", "shmarray sweep");
    }

    #[test]
    fn files_that_are_only_named_like_segments_are_strange() {
        let noise = Entry { is_segment: false, held: Some(false), ..entry(Kind::Segment) };
        let folder = Entry { is_regular: false, held: None, ..noise.clone() };
        let newer = Entry { held: Some(true), ..noise.clone() };
        says(&strangers(&[entry(Kind::Segment), named(), newer]), Verdict::Ok, "none", "");
        says(&strangers(std::slice::from_ref(&noise)), Verdict::Look, "1 file named like ours", "shmarray sweep");
        says(&strangers(&[noise, folder]), Verdict::Look, "2 files named like ours", "rm -r");
    }

    #[test]
    fn a_name_that_leads_nowhere_is_astray() {
        let astray = Entry { links: 1, held: Some(false), ..named() };
        says(&names(&[entry(Kind::Segment)]), Verdict::Ok, "none", "");
        says(&names(&[named()]), Verdict::Ok, "1 given", "");
        says(&names(&[named(), astray]), Verdict::Look, "2 given; 1 of them without a segment: x", "shmarray rm x");
        let dashed = Entry { kind: Kind::Name("-x".to_owned()), links: 1, held: Some(false), ..named() };
        says(&names(&[dashed]), Verdict::Look, "1 given; 1 of them", "shmarray rm -- -x");
    }

    #[test]
    fn the_registry_is_a_file_of_ours_alone() {
        let path = "/dev/shm/shmarray-registry-7".to_owned();
        let ours = Registry { path, is_regular: true, owner: 7, user: 7, mode: 0o100_600 };
        let with = |mode| registry(Some(&Registry { mode, ..ours.clone() }));
        says(&registry(None), Verdict::Ok, "none yet", "");
        says(&with(0o100_600), Verdict::Ok, "ours alone", "");
        says(&with(0o100_666), Verdict::Look, "mode 0666", "chmod 600 /dev/shm/shmarray-registry-7");
        says(&with(0o100_000), Verdict::Problem, "cannot lock names", "chmod 600");
        says(&registry(Some(&Registry { owner: 8, ..ours.clone() })), Verdict::Problem, "uid 8", "sudo rm /dev");
        says(&registry(Some(&Registry { is_regular: false, ..ours })), Verdict::Problem, "no file", "sudo rm -r");
    }
}
