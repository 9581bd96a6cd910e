//! `shmarray metrics`: what `ls` and `watch` show, in the text format of Prometheus.

use std::io::Write;
use std::sync::atomic::AtomicU64;

use anyhow::Result;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::channel::{Before, Seen, channels};
use crate::memory::Memory;

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

pub(crate) fn print(out: &mut dyn Write) -> Result<()> {
    let memory = Memory::read()?;
    let mut registry = Registry::with_prefix("shmarray");
    add_memory(&memory, &mut registry);
    add_channels(&channels(&memory, None, &mut Before::now()), &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    write!(out, "{text}")?;
    Ok(())
}

fn gauges(registry: &mut Registry, name: &str, help: &str) -> Gauges {
    let gauges = Gauges::default();
    registry.register(name, help, gauges.clone());
    gauges
}

fn counters(registry: &mut Registry, name: &str, help: &str) -> Counters {
    let counters = Counters::default();
    registry.register(name, help, counters.clone());
    counters
}

fn add_memory(memory: &Memory, registry: &mut Registry) {
    let segments = gauges(registry, "segments", "Arrays, channels, and parts of pools and remains");
    let bytes = gauges(registry, "segment_bytes", "Shared memory in use, by kind");
    for (kind, total) in memory.totals().each() {
        let labels = vec![("kind", kind.to_owned())];
        segments.get_or_create(&labels).set(total.segments as f64);
        bytes.get_or_create(&labels).set(total.bytes as f64);
    }
    let size = gauges(registry, "directory_bytes", "The size of the directory of shared memory");
    let free = gauges(registry, "directory_free_bytes", "The free memory there");
    if let Some(directory) = &memory.directory {
        let labels = vec![("directory", directory.path.display().to_string())];
        if directory.total_bytes > 0 {
            size.get_or_create(&labels).set(directory.total_bytes as f64);
        }
        free.get_or_create(&labels).set(directory.free_bytes as f64);
    }
    let others = gauges(registry, "other_users_bytes", "Shared memory that this user may not read");
    for other in &memory.others {
        let user = other.user.clone().unwrap_or_else(|| other.uid.to_string());
        others.get_or_create(&vec![("user", user)]).set(other.bytes as f64);
    }
}

fn add_channels(channels: &[Seen], registry: &mut Registry) {
    let messages = counters(registry, "channel_messages", "Messages that were sent");
    let dropped = counters(registry, "channel_dropped", "Messages that receivers missed");
    let slots = gauges(registry, "channel_slots", "Slots, by what they are used for");
    let age = gauges(registry, "channel_newest_age_seconds", "The age of the newest message");
    let behind = gauges(registry, "channel_behind", "Messages that a receiver has yet to receive");
    let latency =
        gauges(registry, "channel_latency_seconds", "From publishing to receiving, of late");
    for channel in channels {
        let labels = || vec![("channel", channel.name.clone())];
        messages.get_or_create(&labels()).inc_by(channel.sent);
        dropped.get_or_create(&labels()).inc_by(channel.dropped);
        let used = channel.loaned + channel.queued + channel.held;
        let states = [
            ("loaned", channel.loaned),
            ("queued", channel.queued),
            ("held", channel.held),
            ("free", channel.slots.saturating_sub(used)),
        ];
        for (state, count) in states {
            let mut labels = labels();
            labels.push(("state", state.to_owned()));
            slots.get_or_create(&labels).set(f64::from(count));
        }
        if let Some(age_ns) = channel.newest_age_ns {
            age.get_or_create(&labels()).set(age_ns as f64 / 1e9);
        }
        for end in channel.ends.iter().filter(|end| end.receives) {
            let mut labels = labels();
            labels.extend([("pid", end.pid.to_string()), ("command", end.command.clone())]);
            behind.get_or_create(&labels).set(end.behind as f64);
            if end.latency_ns > 0 {
                latency.get_or_create(&labels).set(end.latency_ns as f64 / 1e9);
            }
        }
    }
}
