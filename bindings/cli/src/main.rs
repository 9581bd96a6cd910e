//! The command line: what is in shared memory, what is in an array, giving back.

mod list;
mod show;

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
    /// List the segments that exist: id, name, size, dtype, shape, age.
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
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Ls { json } => list::print(json),
        Command::Show { handle_or_name } => show::print(&handle_or_name),
        Command::Sweep => sweep(),
        Command::Rm { name } => shmarray::unlink(&name).with_context(|| format!("cannot take the name {name:?} away")),
    }
}

fn sweep() -> Result<()> {
    let swept = shmarray::sweep()?;
    println!("gave back {} segments, {} bytes", swept.segments, swept.bytes);
    Ok(())
}
