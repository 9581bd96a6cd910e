//! `shmarray ls`: the segments that exist.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::json;
use shmarray::SegmentInfo;

pub(crate) fn print(as_json: bool) -> Result<()> {
    let mut segments = shmarray::segments()?;
    segments.sort_by_key(|segment| segment.created_ns);
    match as_json {
        true => println!("{}", serde_json::to_string_pretty(&segments.iter().map(to_json).collect::<Vec<_>>())?),
        false => print_table(&segments),
    }
    Ok(())
}

fn to_json(segment: &SegmentInfo) -> serde_json::Value {
    json!({
        "segment": segment.segment.to_string(),
        "name": segment.name,
        "segment_bytes": segment.segment_bytes,
        "dtype": segment.dtype.text(),
        "shape": segment.shape,
        "holders": segment.holders.iter().map(|pid| json!({"pid": pid, "command": command(*pid)})).collect::<Vec<_>>(),
        "tickets": segment.tickets,
        "persists": segment.persists,
        "creator_pid": segment.creator_pid,
        "created_ns": segment.created_ns,
    })
}

fn print_table(segments: &[SegmentInfo]) {
    let heads = ["SEGMENT", "NAME", "BYTES", "AGE", "DTYPE", "SHAPE", "PERSISTS", "TICKETS", "HOLDERS"];
    print_row(&heads.map(str::to_owned));
    for segment in segments {
        print_row(&[
            segment.segment.to_string(),
            segment.name.clone().unwrap_or_else(|| "-".to_owned()),
            segment.segment_bytes.to_string(),
            age(segment.created_ns),
            segment.dtype.name().to_owned(),
            format!("{:?}", segment.shape),
            (if segment.persists { "yes" } else { "-" }).to_owned(),
            segment.tickets.to_string(),
            holders(segment),
        ]);
    }
}

fn print_row([segment, name, bytes, age, dtype, shape, persists, tickets, holders]: &[String; 9]) {
    let which = format!("{segment:28}  {name:16}  {bytes:>14}  {age:>8}  {dtype:10}  {shape:16}");
    println!("{which}  {persists:8}  {tickets:>7}  {holders}");
}

/// `4711 python, 4712 ruby`; who holds by lock alone is not known.
fn holders(segment: &SegmentInfo) -> String {
    let named = segment.holders.iter().map(|pid| format!("{pid} {}", command(*pid)));
    named.collect::<Vec<_>>().join(", ")
}

/// The command of a process of this pid namespace, or `?`.
fn command(pid: u32) -> String {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    command.map_or_else(|_| "?".to_owned(), |command| command.trim_end().to_owned())
}

/// Whole seconds, minutes, hours or days since then.
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
