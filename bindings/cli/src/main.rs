//! The command `shmarray`: all that it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(shmarray_cli::run(std::env::args_os().skip(1)))
}
