//! `shmarray watch`: channels while they are in use, with their rates, latencies and drops.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;
use shmarray::{ChannelStats, EndStats, SegmentKind};

use crate::process::command;

/// What is asked of the command.
pub(crate) struct Watch {
    pub(crate) name: Option<String>,
    pub(crate) interval: Duration,
    /// How often it looks; without a limit if 0.
    pub(crate) count: u64,
    pub(crate) as_json: bool,
}

/// A channel at one moment, and its rates since the moment before.
#[derive(Serialize)]
struct Seen {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    mode: &'static str,
    when_full: &'static str,
    slots: u32,
    loaned: u32,
    queued: u32,
    held: u32,
    sent: u64,
    /// Messages of which nobody knows yet that they were dropped, and those that were missed.
    dropped: u64,
    /// `None` at the first look.
    messages_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
    newest_age_ns: Option<u64>,
    ends: Vec<SeenEnd>,
}

#[derive(Serialize)]
struct SeenEnd {
    pid: u32,
    command: String,
    sends: bool,
    receives: bool,
    loaned: u32,
    held: u32,
    count: u64,
    messages_per_second: Option<f64>,
    behind: u64,
    missed: u64,
    latency_ns: u64,
}

/// What the look before saw: the moment, and the counts of each channel and of its ends.
struct Before {
    at: Instant,
    sent: BTreeMap<String, u64>,
    counts: BTreeMap<(String, usize), u64>,
}

/// Prints until it has looked often enough, or the channel has ended.
pub(crate) fn print(watch: &Watch, out: &mut dyn Write) -> Result<()> {
    let clears = std::io::stdout().is_terminal() && !watch.as_json;
    let mut before = None;
    for look in 1.. {
        let (seen, now) = match look_at(watch.name.as_deref(), before.as_ref()) {
            Ok(seen) => seen,
            Err(error) if before.is_none() => return Err(error),
            Err(_) => {
                writeln!(out, "the channel has ended")?;
                return Ok(());
            }
        };
        if clears {
            write!(out, "\x1b[H\x1b[2J")?; // to the upper left corner, and clear
        }
        if watch.as_json {
            writeln!(out, "{}", serde_json::to_string(&seen)?)?
        } else {
            print_all(&seen, out)?
        }
        out.flush()?;
        before = Some(now);
        if look == watch.count {
            return Ok(());
        }
        std::thread::sleep(watch.interval);
    }
    Ok(())
}

fn look_at(name: Option<&str>, before: Option<&Before>) -> Result<(Vec<Seen>, Before)> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => channels()?,
    };
    let mut now = Before { at: Instant::now(), sent: BTreeMap::new(), counts: BTreeMap::new() };
    let mut all = Vec::new();
    for channel in names {
        match ChannelStats::read(&channel) {
            Ok(stats) => all.push(seen(channel, &stats, before, &mut now)),
            Err(_) if name.is_none() => {} // it has ended meanwhile
            Err(error) => return Err(error).context(format!("cannot watch {channel:?}")),
        }
    }
    Ok((all, now))
}

fn channels() -> Result<Vec<String>> {
    let segments = shmarray::segments()?;
    let channels = segments.into_iter().filter(|info| info.kind == SegmentKind::Channel);
    let mut names: Vec<_> = channels.filter_map(|info| info.name).collect();
    names.sort_unstable();
    Ok(names)
}

fn seen(name: String, stats: &ChannelStats, before: Option<&Before>, now: &mut Before) -> Seen {
    let seconds = before.map(|before| now.at.duration_since(before.at).as_secs_f64());
    let rate = |now: u64, before: Option<u64>| match (before, seconds) {
        (Some(before), Some(seconds)) if seconds > 0.0 => {
            Some(now.saturating_sub(before) as f64 / seconds)
        }
        _ => None,
    };
    let sent_before = before.and_then(|before| before.sent.get(&name).copied());
    let messages_per_second = rate(stats.sent, sent_before);
    let bytes = stats.shape.iter().product::<u64>() * stats.dtype.itemsize();
    let of_end = |(index, end): (usize, &EndStats)| {
        let before = before.and_then(|one| one.counts.get(&(name.clone(), index)).copied());
        SeenEnd {
            pid: end.pid,
            command: command(end.pid),
            sends: end.sends,
            receives: end.receives,
            loaned: end.loaned,
            held: end.held,
            count: end.count,
            messages_per_second: rate(end.count, before),
            behind: end.behind,
            missed: end.missed,
            latency_ns: end.latency_ns,
        }
    };
    let ends: Vec<_> = stats.ends.iter().enumerate().map(of_end).collect();
    now.sent.insert(name.clone(), stats.sent);
    for (index, end) in stats.ends.iter().enumerate() {
        now.counts.insert((name.clone(), index), end.count);
    }
    let age = |time_ns: u64| now_ns().saturating_sub(time_ns);
    Seen {
        dtype: stats.dtype.text().to_owned(),
        shape: stats.shape.clone(),
        mode: stats.mode.name(),
        when_full: stats.when_full.name(),
        slots: stats.slots,
        loaned: stats.loaned,
        queued: stats.queued,
        held: stats.held,
        sent: stats.sent,
        dropped: stats.dropped + ends.iter().map(|end| end.missed).sum::<u64>(),
        messages_per_second,
        bytes_per_second: messages_per_second.map(|rate| rate * bytes as f64),
        newest_age_ns: (stats.newest_ns > 0).then(|| age(stats.newest_ns)),
        ends,
        name,
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn print_all(all: &[Seen], out: &mut dyn Write) -> Result<()> {
    if all.is_empty() {
        writeln!(out, "no channels")?;
    }
    for channel in all {
        print_channel(channel, out)?;
    }
    Ok(())
}

fn print_channel(channel: &Seen, out: &mut dyn Write) -> Result<()> {
    let Seen { name, mode, shape, dtype, when_full, slots, loaned, queued, held, .. } = channel;
    writeln!(out, "{name}: {mode} of {shape:?} {dtype}, when full: {when_full}")?;
    writeln!(
        out,
        "  slots    {slots}: {loaned} on loan, {queued} with messages, {held} looked at"
    )?;
    let rate = channel.messages_per_second.map_or("-".to_owned(), |rate| format!("{rate:.1}/s"));
    let bytes = channel
        .bytes_per_second
        .map_or(String::new(), |bytes| format!(", {:.1} MB/s", bytes / 1e6));
    let newest = channel
        .newest_age_ns
        .map_or(String::new(), |age| format!(", the newest {} ago", time(age)));
    writeln!(
        out,
        "  messages {}, {rate}{bytes}, {} dropped{newest}",
        channel.sent, channel.dropped
    )?;
    let heads =
        ["PID", "COMMAND", "ROLE", "HAS", "MESSAGES", "RATE/S", "BEHIND", "MISSED", "LATENCY"];
    print_row(&heads.map(str::to_owned), out)?;
    for end in &channel.ends {
        let role = match (end.sends, end.receives) {
            (true, true) => "both",
            (true, false) => "sends",
            (false, true) => "receives",
            (false, false) => "-",
        };
        print_row(
            &[
                end.pid.to_string(),
                end.command.clone(),
                role.to_owned(),
                (end.loaned + end.held).to_string(),
                end.count.to_string(),
                end.messages_per_second.map_or("-".to_owned(), |rate| format!("{rate:.1}")),
                end.behind.to_string(),
                end.missed.to_string(),
                if end.latency_ns > 0 { time(end.latency_ns) } else { "-".to_owned() },
            ],
            out,
        )?;
    }
    Ok(())
}

fn print_row(row: &[String; 9], out: &mut dyn Write) -> Result<()> {
    let [pid, command, role, has, messages, rate, behind, missed, latency] = row;
    write!(out, "  {pid:>8}  {command:16}  {role:8}  {has:>4}  {messages:>12}  {rate:>10}")?;
    writeln!(out, "  {behind:>6}  {missed:>8}  {latency:>10}")?;
    Ok(())
}

/// Returns a time with a unit that people read easily.
fn time(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}
