//! Running the command.

use std::process::{Command, Output};

/// Runs the command in this process's directory of segments.
pub(crate) fn shmarray(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shmarray")).args(arguments).output().unwrap()
}

/// Returns what a command prints that succeeds.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = shmarray(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
