//! The command line: what is in shared memory, what is in an array, giving back.

mod doctor;
mod list;
mod show;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Arrays in shared memory.
#[derive(Parser)]
#[command(name = "shmarray", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List all shared memory that the library has: arrays and who holds them, what pools keep, what dead processes left.
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
    /// Look at this machine's settings for shared memory, and say what to do. Fails when there is a problem.
    Doctor {
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> Result<ExitCode> {
    let done = match Arguments::parse().command {
        Command::Doctor { json } => return doctor::run(json),
        Command::Ls { json } => list::print(json),
        Command::Show { handle_or_name } => show::print(&handle_or_name),
        Command::Sweep => sweep(),
        Command::Rm { name } => shmarray::unlink(&name).with_context(|| format!("cannot take the name {name:?} away")),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn sweep() -> Result<()> {
    let swept = shmarray::sweep()?;
    println!("gave back {} segments, {} bytes", swept.segments, swept.bytes);
    Ok(())
}
