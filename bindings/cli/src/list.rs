//! `shmarray ls`: the shared memory that the library uses, with its holders.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde::Serialize;
use shmarray::{SegmentInfo, SegmentKind};

use crate::process::{command, process};

pub(crate) fn print(as_json: bool, out: &mut dyn Write) -> Result<()> {
    let mut segments = shmarray::segments()?;
    // A slab's free memory, which has no cell number, is before its cells.
    segments.sort_by_key(|segment| (segment.created_ns, segment.segment.cell));
    if as_json { print_json(&segments, out) } else { print_table(&segments, out) }
}

/// The facts of a segment, in the order of `shma_segment_info`.
#[derive(Serialize)]
struct Listed<'a> {
    segment: String,
    name: Option<&'a str>,
    kind: &'a str,
    persists: bool,
    segment_bytes: u64,
    dtype: &'a str,
    shape: &'a [u64],
    holders: Vec<Holder>,
    tickets: u64,
    creator_pid: u32,
    created_ns: u64,
}

#[derive(Serialize)]
struct Holder {
    pid: u32,
    command: String,
}

fn print_json(segments: &[SegmentInfo], out: &mut dyn Write) -> Result<()> {
    let all = segments.iter().map(listed).collect::<Vec<_>>();
    writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    Ok(())
}

fn listed(info: &SegmentInfo) -> Listed<'_> {
    let holder = |&pid: &u32| Holder { pid, command: command(pid) };
    Listed {
        segment: info.segment.to_string(),
        name: info.name.as_deref(),
        kind: info.kind.as_str(),
        persists: info.persists,
        segment_bytes: info.segment_bytes,
        dtype: info.dtype.text(),
        shape: &info.shape,
        holders: info.holders.iter().map(holder).collect(),
        tickets: info.tickets,
        creator_pid: info.creator_pid,
        created_ns: info.created_ns,
    }
}

fn print_table(segments: &[SegmentInfo], out: &mut dyn Write) -> Result<()> {
    let heads = [
        "SEGMENT", "KIND", "NAME", "BYTES", "AGE", "DTYPE", "SHAPE", "PERSISTS", "TICKETS",
        "HOLDERS",
    ];
    print_row(&heads.map(str::to_owned), out)?;
    for segment in segments {
        let row = [
            segment.segment.to_string(),
            segment.kind.as_str().to_owned(),
            segment.name.clone().unwrap_or_else(|| "-".to_owned()),
            segment.segment_bytes.to_string(),
            age(segment.created_ns),
            segment.dtype.name().to_owned(),
            format!("{:?}", segment.shape),
            (if segment.persists { "yes" } else { "-" }).to_owned(),
            segment.tickets.to_string(),
            segment.holders.iter().map(|pid| process(*pid)).collect::<Vec<_>>().join(", "),
        ];
        print_row(&row, out)?;
    }
    writeln!(out, "{}", totals(segments))?;
    Ok(())
}

fn print_row(row: &[String; 10], out: &mut dyn Write) -> Result<()> {
    let [segment, kind, name, bytes, age, dtype, shape, persists, tickets, holders] = row;
    let which =
        format!("{segment:28}  {kind:7}  {name:16}  {bytes:>14}  {age:>8}  {dtype:10}  {shape:16}");
    writeln!(out, "{which}  {persists:8}  {tickets:>7}  {holders}")?;
    Ok(())
}

/// Returns the line with the bytes of each kind and the free memory.
fn totals(segments: &[SegmentInfo]) -> String {
    let total = |kind| bytes_of(segments, kind);
    let [arrays, channels, pools, remains] =
        [SegmentKind::Array, SegmentKind::Channel, SegmentKind::Pool, SegmentKind::Remains]
            .map(total);
    format!(
        "total: arrays {arrays}, channels {channels}, pools {pools}, remains {remains} bytes{}",
        room().unwrap_or_default()
    )
}

/// Returns the number of bytes that the segments of one kind use.
pub(crate) fn bytes_of(segments: &[SegmentInfo], kind: SegmentKind) -> u64 {
    segments
        .iter()
        .filter(|segment| segment.kind == kind)
        .map(|segment| segment.segment_bytes)
        .sum()
}

#[cfg(target_os = "linux")]
fn room() -> Option<String> {
    let (path, room) = crate::doctor::room();
    let of_all =
        if room.total_bytes > 0 { format!(" of {}", room.total_bytes) } else { String::new() };
    Some(format!("; {} has {}{of_all} bytes free", path.display(), room.free_bytes))
}

#[cfg(not(target_os = "linux"))]
fn room() -> Option<String> {
    None
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
