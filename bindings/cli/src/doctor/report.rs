//! The report: findings as aligned lines, or as JSON.

use anyhow::Result;
use serde_json::json;

use super::finding::{Finding, Verdict, count};

pub(crate) fn has_problem(findings: &[Finding]) -> bool {
    number_of(findings, Verdict::Problem) > 0
}

fn number_of(findings: &[Finding], verdict: Verdict) -> usize {
    findings.iter().filter(|finding| finding.verdict == verdict).count()
}

pub(crate) fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text: String = findings.iter().map(|finding| lines(finding, width)).collect();
    text.push_str(&format!("\n{}\n", summary(findings)));
    text
}

fn lines(finding: &Finding, width: usize) -> String {
    let Finding { check, verdict, found, remedy } = finding;
    let line = format!("{:7}  {check:width$}  {found}\n", verdict.word());
    match remedy {
        Some(remedy) => format!("{line}{:7}  {:width$}  -> {remedy}\n", "", ""),
        None => line,
    }
}

fn summary(findings: &[Finding]) -> String {
    let looks = number_of(findings, Verdict::Look);
    let problems = number_of(findings, Verdict::Problem);
    format!(
        "{}: {}, {looks} to look at",
        count(findings.len(), "check"),
        count(problems, "problem")
    )
}

pub(crate) fn json(findings: &[Finding]) -> Result<String> {
    let one = |finding: &Finding| {
        let Finding { check, verdict, found, remedy } = finding;
        json!({ "check": check, "verdict": verdict.word(), "found": found, "remedy": remedy })
    };
    Ok(serde_json::to_string_pretty(&findings.iter().map(one).collect::<Vec<_>>())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> [Finding; 3] {
        [
            Finding::ok("size", "24 GiB"),
            Finding::look("huge pages", "off", "do this"),
            Finding::problem("kernel", "2.6", "do that"),
        ]
    }

    #[test]
    fn lines_are_aligned_and_remedies_stand_below() {
        let wanted = "ok       size        24 GiB\n\
                      look     huge pages  off\n                     -> do this\n\
                      problem  kernel      2.6\n                     -> do that\n\
                      \n3 checks: 1 problem, 1 to look at\n";
        assert_eq!(text(&findings()), wanted);
    }

    #[test]
    fn json_has_every_field() {
        let read: serde_json::Value = serde_json::from_str(&json(&findings()).unwrap()).unwrap();
        assert_eq!(
            read[0],
            json!({ "check": "size", "verdict": "ok", "found": "24 GiB", "remedy": null })
        );
        assert_eq!(
            (&read[1]["remedy"], &read[2]["verdict"]),
            (&"do this".into(), &"problem".into())
        );
    }

    #[test]
    fn a_look_alone_is_no_problem() {
        assert!(has_problem(&findings()));
        assert!(!has_problem(&findings()[..2]));
    }
}
