//! The program `shmarray`, which runs the command line of this crate's library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(shmarray_cli::run(std::env::args_os().skip(1)))
}
