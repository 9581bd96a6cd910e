//! The command line: lists shared memory, shows arrays, and gives memory back.
//!
//! Two programs use it: `shmarray` (`main.rs`), and the Python package's `shmarray` and `python -m
//! shmarray`. Both pass their arguments to [`run`] and exit with the code that it returns.

mod process;
mod doctor;
mod list;
mod show;
#[cfg(target_os = "linux")]
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// The exit code if the reader of the output has closed it: the one that a shell gives for SIGPIPE.
const OUTPUT_CLOSED: u8 = 128 + 13;
/// The exit code of a command that succeeded.
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// Arrays in shared memory.
#[derive(Parser)]
#[command(name = "shmarray", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the shared memory of the library: arrays with their holders, memory of pools, and
    /// memory that dead processes left behind.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show an array: its dtype, shape, strides, values, and statistics of the values.
    Show {
        /// The array's handle or name.
        handle_or_name: String,
    },
    /// Watch channels in use: rate, latency and drops, once a second. Ends with the channel.
    #[cfg(target_os = "linux")]
    Watch {
        /// The channel's name; without one all channels.
        name: Option<String>,
        /// The time between two looks, in seconds.
        #[arg(long, default_value_t = 1.0, value_parser = seconds)]
        interval: f64,
        /// How often to look; 0 is without a limit.
        #[arg(long, default_value_t = 0)]
        count: u64,
        /// Print JSON: one line for each look.
        #[arg(long)]
        json: bool,
    },
    /// Give back the memory that dead processes held and the unused memory of all pools, and print
    /// how much it was.
    Sweep,
    /// Remove the name of an array. The array is given back when its last holder releases it.
    Rm {
        /// The array's name.
        name: String,
    },
    /// Check this machine's settings for shared memory, and print what to change. Fails if there is
    /// a problem.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command with these arguments, without the program's own name. Returns the exit code.
///
/// It prints to this process's standard output and standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // Messages have this name, also when the program was started as `python -m shmarray`.
    let with_name = std::iter::once(OsString::from("shmarray")).chain(arguments);
    let done = match Arguments::try_parse_from(with_name) {
        Ok(arguments) => perform(arguments.command, &mut io::stdout().lock()),
        Err(message) => message
            .print()
            .map(|()| u8::try_from(message.exit_code()).unwrap_or(FAILED))
            .map_err(Into::into),
    };
    done.unwrap_or_else(|error| report(&error))
}

/// Prints an error, unless it is that the output was closed. Returns the exit code.
fn report(error: &anyhow::Error) -> u8 {
    if is_closed_output(error) {
        return OUTPUT_CLOSED;
    }
    // Standard error may be closed as well; the exit code then is the only report.
    let _ = writeln!(io::stderr(), "Error: {error:?}");
    FAILED
}

fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn perform(command: Command, out: &mut dyn Write) -> Result<u8> {
    match command {
        Command::Doctor { json } => return doctor::print(json, out),
        Command::Ls { json } => list::print(json, out)?,
        Command::Show { handle_or_name } => show::print(&handle_or_name, out)?,
        #[cfg(target_os = "linux")]
        Command::Watch { name, interval, count, json } => {
            let interval = std::time::Duration::from_secs_f64(interval);
            watch::print(&watch::Watch { name, interval, count, as_json: json }, out)?;
        }
        Command::Sweep => sweep(out)?,
        Command::Rm { name } => {
            shmarray::unlink(&name).with_context(|| format!("cannot remove the name {name:?}"))?;
        }
    }
    out.flush()?;
    Ok(DONE)
}

/// Reads a number of seconds that a process can sleep.
#[cfg(target_os = "linux")]
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.01..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("it is not from 0.01 to 86400".to_owned())
    }
}

fn sweep(out: &mut dyn Write) -> Result<()> {
    let swept = shmarray::sweep()?;
    writeln!(out, "gave back {} segments, {} bytes", swept.segments, swept.bytes)?;
    Ok(())
}
