//! A finding: the result of a check, its verdict, and the remedy.

use std::path::Path;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    /// It works, but the user should know about it.
    Look,
    /// Something will not work.
    Problem,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Look => "look",
            Self::Problem => "problem",
        }
    }
}

/// One line of the report; for look and problem, also the line with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) found: String,
    pub(crate) remedy: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), remedy: None }
    }

    pub(crate) fn look(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, verdict: Verdict::Look, found: found.into(), remedy: Some(remedy.into()) }
    }

    pub(crate) fn problem(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, verdict: Verdict::Problem, found: found.into(), remedy: Some(remedy.into()) }
    }
}

const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Returns a size with its unit, such as 64 MiB or 1.5 GiB.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    // A number that would be printed as 1024 becomes 1 of the next unit.
    while value.round() >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let rounded = (value * 10.0).round() / 10.0;
    let decimals = usize::from(rounded < 10.0 && rounded.fract() != 0.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Returns a number with its noun, such as `1 segment` or `2 segments`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns a path that is quoted for a shell if necessary.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Asserts a finding's verdict, and that its text and its remedy contain these words.
#[cfg(test)]
#[track_caller]
pub(crate) fn says(finding: &Finding, verdict: Verdict, found: &str, remedy: &str) {
    assert_eq!(finding.verdict, verdict, "{finding:?}");
    assert!(finding.found.contains(found), "{finding:?}");
    assert!(finding.remedy.as_deref().unwrap_or_default().contains(remedy), "{finding:?}");
    assert_eq!(finding.remedy.is_some(), verdict != Verdict::Ok, "{finding:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 8192, 64 << 20, 3 << 29, (24 << 30) - 1, u64::MAX].map(size);
        assert_eq!(sizes, ["0 bytes", "8 KiB", "64 MiB", "1.5 GiB", "24 GiB", "16384 PiB"]);
        assert_eq!(size((10 << 30) - 1), "10 GiB");
        assert_eq!(size((1 << 30) - 1), "1 GiB");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|n| count(n, "file")), ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn a_path_survives_the_shell() {
        assert_eq!(quoted(Path::new("/dev/shm")), "/dev/shm");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
