//! The kernel: whether it has the features that leases need.

use super::finding::Finding;

const CHECK: &str = "kernel";

pub(crate) fn release(release: &str) -> Finding {
    match version(release) {
        None => Finding::look(
            CHECK,
            format!("{release:?} has no version number"),
            "make sure that it is Linux 3.15 or later",
        ),
        Some((..=2, _) | (3, ..11)) => Finding::problem(
            CHECK,
            format!(
                "Linux {release}: it has no unnamed files (3.11), so arrays are seen half-made, \
                 nor locks that end with their holder (3.15)"
            ),
            "use Linux 3.15 or later",
        ),
        Some((3, ..15)) => Finding::problem(
            CHECK,
            format!(
                "Linux {release}: it has no locks that end with their holder (3.15), so no array \
                 can be held"
            ),
            "use Linux 3.15 or later",
        ),
        Some(_) => Finding::ok(CHECK, format!("Linux {release}")),
    }
}

/// Returns the first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Verdict, says};

    #[test]
    fn an_old_kernel_is_a_problem() {
        for good in ["3.15.0", "3.15", "4.4.0-generic", "6.18.44-x", "10.0-rc1"] {
            says(&release(good), Verdict::Ok, good, "");
        }
        says(&release("3.14.79"), Verdict::Problem, "no array can be held", "3.15 or later");
        says(&release("3.11.0"), Verdict::Problem, "end with their holder", "3.15 or later");
        says(&release("3.10.0-1160.el7"), Verdict::Problem, "no unnamed files", "3.15 or later");
        says(&release("2.6.32"), Verdict::Problem, "no unnamed files", "3.15 or later");
    }

    #[test]
    fn a_release_without_a_version_is_worth_a_look() {
        for odd in ["", "six", "7"] {
            says(&release(odd), Verdict::Look, "has no version number", "3.15 or later");
        }
    }
}
