//! `shmarray ls`: the shared memory that the library uses, with its holders.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde::Serialize;
use shmarray::{SegmentInfo, SegmentKind};

use crate::memory::{Directory, Listed, Memory, OtherUser, Total, Totals, user_name};
use crate::process::process;

pub(crate) fn print(as_json: bool, out: &mut dyn Write) -> Result<()> {
    let memory = Memory::read()?;
    if as_json { print_json(&memory, out) } else { print_table(&memory, out) }
}

#[derive(Serialize)]
struct Listing<'a> {
    directory: Option<&'a Directory>,
    totals: Totals,
    other_users: &'a [OtherUser],
    segments: Vec<Listed<'a>>,
}

fn print_json(memory: &Memory, out: &mut dyn Write) -> Result<()> {
    let listing = Listing {
        directory: memory.directory.as_ref(),
        totals: memory.totals(),
        other_users: &memory.others,
        segments: memory.segments.iter().map(Listed::of).collect(),
    };
    writeln!(out, "{}", serde_json::to_string_pretty(&listing)?)?;
    Ok(())
}

/// Prints at most 80 columns, unless a name or a shape is long.
fn print_table(memory: &Memory, out: &mut dyn Write) -> Result<()> {
    print_heads(out)?;
    for segment in &memory.segments {
        print_segment(segment, out)?;
    }
    print_totals(memory, out)
}

pub(crate) fn print_heads(out: &mut dyn Write) -> Result<()> {
    print_row(&["SEGMENT", "KIND", "BYTES", "AGE", "NAME"].map(str::to_owned), out)
}

/// Prints a segment, and below it what it is and each process that holds it.
pub(crate) fn print_segment(info: &SegmentInfo, out: &mut dyn Write) -> Result<()> {
    let name = info.name.clone().unwrap_or_else(|| "-".to_owned());
    print_row(
        &[
            info.segment.to_string(),
            info.kind.as_str().to_owned(),
            info.segment_bytes.to_string(),
            age(info.created_ns),
            name,
        ],
        out,
    )?;
    let mut facts = Vec::new();
    if matches!(info.kind, SegmentKind::Array | SegmentKind::Channel) {
        facts.push(format!("{} {:?}", info.dtype.name(), info.shape));
    }
    if let Some(user) = info.other_user {
        facts.push(format!("of user {}", user_name(user).unwrap_or_else(|| user.to_string())));
    }
    if info.persists {
        facts.push("persists".to_owned());
    }
    match info.tickets {
        0 => {}
        1 => facts.push("a message holds it".to_owned()),
        tickets => facts.push(format!("{tickets} messages hold it")),
    }
    if !facts.is_empty() {
        writeln!(out, "    {}", facts.join(", "))?;
    }
    for pid in &info.holders {
        writeln!(out, "    {}", process(*pid))?;
    }
    Ok(())
}

fn print_row(row: &[String; 5], out: &mut dyn Write) -> Result<()> {
    let [segment, kind, bytes, age, name] = row;
    writeln!(out, "{segment:28}  {kind:7}  {bytes:>14}  {age:>6}  {name}")?;
    Ok(())
}

/// Prints the bytes of each kind, the free memory, and what this user does not see.
pub(crate) fn print_totals(memory: &Memory, out: &mut dyn Write) -> Result<()> {
    let bytes = memory.totals().each().map(|(_, total): (_, Total)| total.bytes);
    let [arrays, channels, pools, remains] = bytes;
    writeln!(out, "arrays {arrays}, channels {channels}, pools {pools}, remains {remains} bytes")?;
    if let Some(Directory { path, total_bytes, free_bytes }) = &memory.directory {
        let of_all = if *total_bytes > 0 { format!(" of {total_bytes}") } else { String::new() };
        writeln!(out, "{}: {free_bytes}{of_all} bytes free", path.display())?;
    }
    for other in &memory.others {
        let OtherUser { uid, user, files, bytes } = other;
        let of_whom = user.clone().unwrap_or_else(|| uid.to_string());
        let files = if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        writeln!(
            out,
            "not shown, of user {of_whom}: {files}, {bytes} bytes; sudo -u {} shmarray ls",
            other.for_sudo()
        )?;
    }
    Ok(())
}

/// Returns the time since then in whole seconds, minutes, hours or days.
fn age(created_ns: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = now.saturating_sub(Duration::from_nanos(created_ns)).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
