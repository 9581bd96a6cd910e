//! Processes as people know them: by pid and command.

/// Returns a pid with the command of that process in this pid namespace, as in `4711 python`; `?`
/// if the command cannot be read.
pub(crate) fn process(pid: u32) -> String {
    format!("{pid} {}", command(pid))
}

/// Returns the command of a process in this pid namespace; `?` if it cannot be read.
pub(crate) fn command(pid: u32) -> String {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    command.map_or_else(|_| "?".to_owned(), |command| command.trim_end().to_owned())
}
