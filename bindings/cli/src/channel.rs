//! Channels at one moment: their slots, messages and ends, with rates since an earlier moment.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde::Serialize;
use shmarray::{ChannelStats, EndStats, SegmentInfo, SegmentKind};

use crate::memory::Memory;
use crate::process::command;

/// A channel at one moment, and its rates since the moment before.
#[derive(Serialize)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) mode: &'static str,
    pub(crate) when_full: &'static str,
    pub(crate) slots: u32,
    pub(crate) loaned: u32,
    pub(crate) queued: u32,
    pub(crate) held: u32,
    pub(crate) sent: u64,
    /// Messages of which nobody knows yet that they were dropped, and those that were missed.
    pub(crate) dropped: u64,
    /// `None` at the first look.
    pub(crate) messages_per_second: Option<f64>,
    pub(crate) bytes_per_second: Option<f64>,
    pub(crate) newest_age_ns: Option<u64>,
    pub(crate) ends: Vec<SeenEnd>,
}

#[derive(Serialize)]
pub(crate) struct SeenEnd {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) sends: bool,
    pub(crate) receives: bool,
    pub(crate) loaned: u32,
    pub(crate) held: u32,
    pub(crate) count: u64,
    pub(crate) messages_per_second: Option<f64>,
    pub(crate) behind: u64,
    pub(crate) missed: u64,
    pub(crate) latency_ns: u64,
}

/// What the look before saw: the moment, and the counts of each channel and of its ends.
pub(crate) struct Before {
    at: Instant,
    sent: BTreeMap<String, u64>,
    counts: BTreeMap<(String, usize), u64>,
}

impl Before {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), sent: BTreeMap::new(), counts: BTreeMap::new() }
    }
}

/// Returns all channels of this user, by name.
pub(crate) fn channels(memory: &Memory, before: Option<&Before>, now: &mut Before) -> Vec<Seen> {
    // A name finds no other user's channel.
    let is_own_channel =
        |info: &&SegmentInfo| info.kind == SegmentKind::Channel && info.other_user.is_none();
    let channels = memory.segments.iter().filter(is_own_channel);
    let mut names: Vec<_> = channels.filter_map(|info| info.name.clone()).collect();
    names.sort_unstable();
    let look = |name: String| {
        let stats = ChannelStats::read(&name).ok()?; // else it has ended meanwhile
        Some(seen(&stats, before, now))
    };
    names.into_iter().filter_map(look).collect()
}

/// Returns a channel of which `stats` were read, and leaves in `now` what the next look needs.
pub(crate) fn seen(stats: &ChannelStats, before: Option<&Before>, now: &mut Before) -> Seen {
    let name = stats.name.clone();
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

pub(crate) fn print(channel: &Seen, out: &mut dyn Write) -> Result<()> {
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
    write!(out, "{pid:>7} {command:15} {role:8} {has:>3} {messages:>10} {rate:>8}")?;
    writeln!(out, " {behind:>6} {missed:>6} {latency:>8}")?;
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
