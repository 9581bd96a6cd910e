//! The command line: lists shared memory, shows arrays, and gives memory back.
//!
//! Two programs use it: `shmarray` (`main.rs`), and the Python package's `shmarray` and `python -m
//! shmarray`. Both pass their arguments to [`run`] and exit with the code that it returns.

mod process;
mod doctor;
mod memory;
mod list;
#[cfg(target_os = "linux")]
mod channel;
mod picture;
mod show;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod metrics;

use std::ffi::OsString;
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

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
    /// Show an array: its dtype, shape, strides, values, and statistics of the values. Or show a
    /// channel: its slots and ends.
    Show {
        /// The array's or the channel's handle or name.
        handle_or_name: String,
        /// Write the array to this file as a picture: [height, width], or 1, 3 or 4 channels
        /// besides. Numbers that are no bytes are scaled from the least to the greatest.
        #[arg(long, value_name = "FILE")]
        png: Option<PathBuf>,
        /// Draw that picture in the terminal.
        #[arg(long)]
        draw: bool,
    },
    /// Watch memory in use, once a second: how much there is, and channels with their rates,
    /// latencies and drops. Ends with what is watched.
    #[cfg(target_os = "linux")]
    Watch {
        /// The name or handle of a channel or an array; without one all that there is.
        #[arg(value_name = "HANDLE_OR_NAME")]
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
    /// Print what `ls` and `watch` show in the text format of Prometheus.
    #[cfg(target_os = "linux")]
    Metrics,
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
    /// Print the completions for a shell.
    Completions { shell: Shell },
    /// Write the manual pages to a folder.
    Man {
        /// The folder, such as /usr/local/share/man/man1.
        folder: PathBuf,
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
    let _ = writeln!(io::stderr(), "Error: {error:#}");
    FAILED
}

fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn perform(command: Command, out: &mut dyn Write) -> Result<u8> {
    match command {
        Command::Doctor { json } => return doctor::print(json, out),
        Command::Ls { json } => list::print(json, out)?,
        Command::Show { handle_or_name, png, draw } => {
            show::print(&show::Show { handle_or_name, png, draws: draw }, out)?;
        }
        #[cfg(target_os = "linux")]
        Command::Watch { name, interval, count, json } => {
            let interval = std::time::Duration::from_secs_f64(interval);
            watch::print(&watch::Watch { name, interval, count, as_json: json }, out)?;
        }
        #[cfg(target_os = "linux")]
        Command::Metrics => metrics::print(out)?,
        Command::Sweep => sweep(out)?,
        Command::Rm { name } => {
            shmarray::unlink(&name).with_context(|| format!("cannot remove the name {name:?}"))?;
        }
        Command::Completions { shell } => {
            let mut text = Vec::new(); // clap_complete panics where it cannot write
            clap_complete::generate(shell, &mut Arguments::command(), "shmarray", &mut text);
            out.write_all(&text)?;
        }
        Command::Man { folder } => write_manual(&folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?,
    }
    out.flush()?;
    Ok(DONE)
}

/// Writes a manual page of the command and of each subcommand. The title has a date, that of this
/// version's pages: without one, `clap_mangen` writes the version in its place.
fn write_manual(folder: &Path) -> io::Result<()> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    for page in iter::once(&command).chain(command.get_subcommands()) {
        clap_mangen::Man::new(page.clone())
            .date("2026-12-01")
            .source(concat!("shmarray ", env!("CARGO_PKG_VERSION")))
            .manual("shmarray")
            .generate_to(folder)?;
    }
    Ok(())
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
