//! The command line: what is in shared memory, what is in an array, giving back.
//!
//! Two programs have it: `shmarray` (`main.rs`), and the Python package's `shmarray` and
//! `python -m shmarray`. Both give their arguments to [`run`], and end with what it returns.

mod doctor;
mod list;
mod show;

use std::ffi::OsString;
use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// What a program ends with whose output nobody reads any more: as a shell says it of SIGPIPE.
const NOBODY_READS: u8 = 128 + 13;
/// Each command's, when nothing went wrong.
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
    /// List all shared memory that the library has: arrays and who holds them, what pools keep,
    /// what dead processes left.
    Ls {
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Show an array: its dtype, shape and strides, its values, and their statistics.
    Show {
        /// A handle, or a name.
        handle_or_name: String,
    },
    /// Give back what dead processes held, and say how much.
    Sweep,
    /// Take a name away. The array goes with its last holder.
    Rm {
        /// The array's name.
        name: String,
    },
    /// Look at this machine's settings for shared memory, and say what to do. Fails when there is a
    /// problem.
    Doctor {
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command with these arguments, the program's own name not among them. Returns the exit
/// code.
///
/// It prints to this process's standard output and standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // The name is ours whatever the program was started as, such as `python -m shmarray`.
    let with_name = std::iter::once(OsString::from("shmarray")).chain(arguments);
    let done = match Arguments::try_parse_from(with_name) {
        Ok(arguments) => perform(arguments.command, &mut io::stdout().lock()),
        Err(told) => told
            .print()
            .map(|()| u8::try_from(told.exit_code()).unwrap_or(FAILED))
            .map_err(Into::into),
    };
    done.unwrap_or_else(|error| tell(&error))
}

/// Says what went wrong, unless it is that nobody reads. Returns the exit code.
fn tell(error: &anyhow::Error) -> u8 {
    if nobody_reads(error) {
        return NOBODY_READS;
    }
    let _ = writeln!(io::stderr(), "Error: {error:?}"); // where that is closed, too, nobody can be told
    FAILED
}

fn nobody_reads(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn perform(command: Command, out: &mut dyn Write) -> Result<u8> {
    match command {
        Command::Doctor { json } => return doctor::print(json, out),
        Command::Ls { json } => list::print(json, out)?,
        Command::Show { handle_or_name } => show::print(&handle_or_name, out)?,
        Command::Sweep => sweep(out)?,
        Command::Rm { name } => {
            shmarray::unlink(&name)
                .with_context(|| format!("cannot take the name {name:?} away"))?;
        }
    }
    out.flush()?;
    Ok(DONE)
}

fn sweep(out: &mut dyn Write) -> Result<()> {
    let swept = shmarray::sweep()?;
    writeln!(out, "gave back {} segments, {} bytes", swept.segments, swept.bytes)?;
    Ok(())
}
