//! `shmarray watch`: memory while it is in use: how much, and channels with their rates, latencies
//! and drops.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use shmarray::{ChannelStats, SegmentInfo};

use crate::channel::{self, Before, Seen};
use crate::list;
use crate::memory::{Directory, Listed, Memory, Totals};

/// What is asked of the command.
pub(crate) struct Watch {
    pub(crate) name: Option<String>,
    pub(crate) interval: Duration,
    /// How often it looks; without a limit if 0.
    pub(crate) count: u64,
    pub(crate) as_json: bool,
}

/// What is watched.
enum Watched {
    All,
    Channel(String),
    /// An array, by its segment.
    Array(String),
}

/// What there is at one moment.
struct Look {
    memory: Option<Memory>,
    channels: Vec<Seen>,
    /// Of `memory`, the index of the array that is watched.
    array: Option<usize>,
}

/// Prints until it has looked often enough, or what it watches has ended.
pub(crate) fn print(watch: &Watch, out: &mut dyn Write) -> Result<()> {
    let clears = std::io::stdout().is_terminal() && !watch.as_json;
    let watched = watched(watch.name.as_deref())?;
    let mut before = None;
    for look in 1.. {
        let Some((seen, now)) = look_at(&watched, before.as_ref())? else {
            writeln!(out, "{}", ended(&watched))?;
            return Ok(());
        };
        if clears {
            write!(out, "\x1b[H\x1b[2J")?; // to the upper left corner, and clear
        }
        if watch.as_json {
            writeln!(out, "{}", serde_json::to_string(&seen.as_json())?)?
        } else {
            seen.print(out)?
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

/// Returns what has that name or handle.
fn watched(name: Option<&str>) -> Result<Watched> {
    let Some(name) = name else { return Ok(Watched::All) };
    let no_channel = match ChannelStats::read(name) {
        Ok(_) => return Ok(Watched::Channel(name.to_owned())),
        Err(error) => error,
    };
    let segment = shmarray::Descriptor::parse(name).map(|handle| handle.segment.to_string());
    let has_it = |info: &SegmentInfo| {
        info.name.as_deref() == Some(name) || segment.as_ref().is_ok_and(|one| *one == text(info))
    };
    match shmarray::segments()?.iter().find(|info| has_it(info)) {
        Some(info) => Ok(Watched::Array(text(info))),
        None => Err(no_channel).context(format!("cannot watch {name:?}")),
    }
}

fn text(info: &SegmentInfo) -> String {
    info.segment.to_string()
}

fn ended(watched: &Watched) -> &'static str {
    match watched {
        Watched::Array(_) => "the array has been given back",
        Watched::All | Watched::Channel(_) => "the channel has ended",
    }
}

/// Returns what there is, or `None` when what is watched has ended.
fn look_at(watched: &Watched, before: Option<&Before>) -> Result<Option<(Look, Before)>> {
    let mut now = Before::now();
    let look = match watched {
        Watched::All => {
            let memory = Memory::read()?;
            let channels = channel::channels(&memory, before, &mut now);
            Look { memory: Some(memory), channels, array: None }
        }
        Watched::Channel(name) => {
            let Ok(stats) = ChannelStats::read(name) else { return Ok(None) };
            let channels = vec![channel::seen(&stats, before, &mut now)];
            Look { memory: None, channels, array: None }
        }
        Watched::Array(segment) => {
            let memory = Memory::read()?;
            let array = memory.segments.iter().position(|info| text(info) == *segment);
            if array.is_none() {
                return Ok(None);
            }
            Look { memory: Some(memory), channels: Vec::new(), array }
        }
    };
    Ok(Some((look, now)))
}

/// A look as a line of JSON.
#[derive(Serialize)]
struct LookAsJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'a Directory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<Totals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<&'a [Seen]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<Listed<'a>>,
}

impl Look {
    fn as_json(&self) -> LookAsJson<'_> {
        let memory = self.memory.as_ref();
        let array = memory.zip(self.array).map(|(memory, at)| Listed::of(&memory.segments[at]));
        LookAsJson {
            directory: memory.and_then(|memory| memory.directory.as_ref()),
            totals: memory.filter(|_| array.is_none()).map(Memory::totals),
            channels: array.is_none().then_some(&self.channels),
            array,
        }
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        if let Some((memory, at)) = self.memory.as_ref().zip(self.array) {
            list::print_heads(out)?;
            return list::print_segment(&memory.segments[at], out);
        }
        if let Some(memory) = &self.memory {
            list::print_totals(memory, out)?;
            if self.channels.is_empty() {
                writeln!(out, "no channels")?;
            }
        }
        for channel in &self.channels {
            channel::print(channel, out)?;
        }
        Ok(())
    }
}
