//! Logout: whether systemd-logind deletes the user's segments when the user logs out.

use std::path::PathBuf;

use super::finding::Finding;

/// The highest uid of a system user, unless `/etc/login.defs` has another.
pub(crate) const SYSTEM_UID_MAX: u32 = 999;
const TURN_OFF: &str = "sudo mkdir -p /etc/systemd/logind.conf.d && \
    printf '[Login]\\nRemoveIPC=no\\n' | sudo tee /etc/systemd/logind.conf.d/99-shmarray.conf && \
    sudo systemctl kill -s HUP systemd-logind";

/// The facts that decide it.
#[derive(Debug, Clone)]
pub(crate) struct Logout {
    pub(crate) logind_runs: bool,
    /// logind deletes files only there.
    pub(crate) in_dev_shm: bool,
    pub(crate) user: u32,
    pub(crate) system_uid_max: u32,
    /// The setting and the file that has it; `None` if no file has it.
    pub(crate) setting: Option<(bool, PathBuf)>,
}

pub(crate) fn remove_ipc(facts: &Logout) -> Finding {
    const CHECK: &str = "logout";
    let user = facts.user;
    match &facts.setting {
        _ if !facts.logind_runs => Finding::ok(CHECK, "deletes nothing: no systemd-logind here"),
        _ if !facts.in_dev_shm => {
            Finding::ok(CHECK, "deletes nothing: systemd-logind only looks into /dev/shm")
        }
        _ if user <= facts.system_uid_max => {
            Finding::ok(CHECK, format!("deletes nothing of a system user (uid {user})"))
        }
        Some((false, file)) => {
            Finding::ok(CHECK, format!("deletes nothing: RemoveIPC=no in {}", file.display()))
        }
        Some((true, file)) => {
            Finding::look(CHECK, deletes(&format!("RemoveIPC=yes in {}", file.display())), TURN_OFF)
        }
        None => Finding::look(CHECK, deletes("RemoveIPC=yes by default"), TURN_OFF),
    }
}

fn deletes(why: &str) -> String {
    format!("deletes your segments, also those that programs left running still use: {why}")
}

/// Returns the last valid `RemoveIPC` in the order of the files.
pub(crate) fn setting(files: &[(PathBuf, String)]) -> Option<(bool, PathBuf)> {
    let last = |(path, text): &(PathBuf, String)| Some((setting_in(text)?, path.clone()));
    files.iter().filter_map(last).next_back()
}

fn setting_in(text: &str) -> Option<bool> {
    let mut section = "";
    let mut last = None;
    for line in text.lines().map(str::trim) {
        match line.split_once('=') {
            _ if line.starts_with('[') => section = line,
            Some((key, value)) if section == "[Login]" && key.trim() == "RemoveIPC" => {
                last = truth(value.trim()).or(last);
            }
            _ => {}
        }
    }
    last
}

/// Parses systemd's words for yes and no. systemd ignores others.
fn truth(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

/// Returns `SYS_UID_MAX` of the text of `/etc/login.defs`.
pub(crate) fn system_uid_max(login_defs: &str) -> u32 {
    let value = |line: &str| {
        line.split_whitespace().skip_while(|word| *word != "SYS_UID_MAX").nth(1)?.parse().ok()
    };
    let lines = login_defs.lines().filter(|line| line.trim_start().starts_with("SYS_UID_MAX"));
    lines.filter_map(value).next_back().unwrap_or(SYSTEM_UID_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Verdict, says};

    fn desktop() -> Logout {
        Logout {
            logind_runs: true,
            in_dev_shm: true,
            user: 1000,
            system_uid_max: 999,
            setting: None,
        }
    }

    #[test]
    fn a_users_segments_go_at_logout_unless_a_file_says_no() {
        let set =
            |on| Logout { setting: Some((on, "/etc/systemd/logind.conf".into())), ..desktop() };
        says(&remove_ipc(&desktop()), Verdict::Look, "by default", "RemoveIPC=no");
        says(
            &remove_ipc(&set(true)),
            Verdict::Look,
            "RemoveIPC=yes in /etc/systemd/logind.conf",
            "kill -s HUP",
        );
        says(&remove_ipc(&set(false)), Verdict::Ok, "RemoveIPC=no in /etc", "");
    }

    #[test]
    fn logout_deletes_nothing_of_others() {
        says(
            &remove_ipc(&Logout { logind_runs: false, ..desktop() }),
            Verdict::Ok,
            "no systemd-logind",
            "",
        );
        says(
            &remove_ipc(&Logout { in_dev_shm: false, ..desktop() }),
            Verdict::Ok,
            "only looks into /dev/shm",
            "",
        );
        says(&remove_ipc(&Logout { user: 0, ..desktop() }), Verdict::Ok, "system user (uid 0)", "");
        says(
            &remove_ipc(&Logout { user: 999, ..desktop() }),
            Verdict::Ok,
            "system user (uid 999)",
            "",
        );
        let shifted = Logout { user: 999, system_uid_max: 499, ..desktop() };
        says(&remove_ipc(&shifted), Verdict::Look, "deletes your segments", "99-shmarray.conf");
    }

    #[test]
    fn the_last_valid_setting_in_its_section_counts() {
        for (text, wanted) in [
            ("[Login]\nRemoveIPC=no", Some(false)),
            ("[Login]\n RemoveIPC = On \n", Some(true)),
            ("[Login]\nRemoveIPC=no\nRemoveIPC=yes\nRemoveIPC=perhaps", Some(true)),
            ("[Login]\n#RemoveIPC=no\n;RemoveIPC=no", None),
            ("[Other]\nRemoveIPC=no", None),
            ("RemoveIPC=no", None),
            ("", None),
        ] {
            assert_eq!(setting_in(text), wanted, "{text}");
        }
    }

    #[test]
    fn the_last_file_that_says_so_counts() {
        let file = |name: &str, text: &str| (PathBuf::from(name), format!("[Login]\n{text}"));
        let files = [
            file("a", "RemoveIPC=yes"),
            file("b", "RemoveIPC=0"),
            file("c", "KillUserProcesses=no"),
        ];
        assert_eq!(setting(&files), Some((false, "b".into())));
        assert_eq!(setting(&files[2..]), None);
    }

    #[test]
    fn login_defs_may_move_the_system_users() {
        assert_eq!(system_uid_max("SYS_UID_MIN 100\n  SYS_UID_MAX\t499 \n"), 499);
        for text in ["", "#SYS_UID_MAX 499", "SYS_UID_MAX many", "UID_MAX 60000"] {
            assert_eq!(system_uid_max(text), SYSTEM_UID_MAX, "{text}");
        }
    }
}
