//! What can be seen of a channel from outside: `shmarray watch` shows it.

use super::ends::{CLOSED, HELD, RECEIVES, SENDS};
use super::handle_or_name::HandleOrName;
use super::head::SlotHead;
use super::reader::Reader;
use super::ring::read_only::{self, SlotUse};
use crate::header::format::{ChannelMode, DROPPED_OFFSET, WhenFull};
use crate::memory::operation::Operation;
use crate::system::{Directory, Liveness, is_message};
use crate::value::dtype::DType;
use crate::value::error::Result;

/// The index of the first word with pins of an end.
const PINS: usize = 16;

/// A channel at one moment. Its numbers were read one after the other.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChannelStats {
    /// The name of the channel.
    pub name: String,
    /// The dtype of a message.
    pub dtype: DType,
    /// The shape of a message, or the largest.
    pub shape: Vec<u64>,
    /// Who receives a message.
    pub mode: ChannelMode,
    /// What a sender does when all slots are taken.
    pub when_full: WhenFull,
    /// The number of slots.
    pub slots: u32,
    /// The slots that are on loan to senders.
    pub loaned: u32,
    /// The slots with messages that wait for a receiver.
    pub queued: u32,
    /// The slots with messages that a receiver has.
    pub held: u32,
    /// The messages that were sent since the channel was created.
    pub sent: u64,
    /// The messages of a queue that were dropped, and of which no receiver was told yet.
    pub dropped: u64,
    /// When the newest message was sent, in nanoseconds since 1970; 0 before the first.
    pub newest_ns: u64,
    /// Each process and thread that has the channel open.
    pub ends: Vec<EndStats>,
}

/// One that has a channel open.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndStats {
    /// Its process, as that sees its own pid.
    pub pid: u32,
    /// Whether it sends.
    pub sends: bool,
    /// Whether it receives.
    pub receives: bool,
    /// The slots that it has on loan.
    pub loaned: u32,
    /// The slots with messages that it has received and keeps.
    pub held: u32,
    /// The messages that it has sent and received.
    pub count: u64,
    /// The messages that it was told that it has missed.
    pub missed: u64,
    /// The messages that wait for it; 0 in a queue, where they wait for anyone.
    pub behind: u64,
    /// The time from the sending of a message to its reception, in nanoseconds. One message in 16
    /// is measured.
    pub latency_ns: u64,
}

impl ChannelStats {
    /// Looks at the channel that has a name, and neither joins nor disturbs it. It may be another
    /// user's, if that lets others read it.
    ///
    /// # Errors
    /// As for [`Channel::open`](super::Channel::open).
    pub fn read(handle_or_name: &str) -> Result<Self> {
        let _operation = Operation::enter()?;
        let directory = Directory::current();
        let reader = Reader::open(&directory, &HandleOrName::parse(handle_or_name)?)?;
        let layout = reader.layout;
        let next = reader.next_number()?;
        let mut loaned = 0;
        let mut queued = 0;
        let mut held = 0;
        let mut newest_ns = 0;
        let mut loaned_by = vec![0_u32; layout.ends as usize];
        let mut held_by = loaned_by.clone();
        for slot in 0..layout.slots {
            let head = reader.slot_head(slot)?;
            match read_only::slot_use(&head) {
                SlotUse::Numbered(_) if reader.has_published(slot, &head, next)? => queued += 1,
                SlotUse::Loaned(end) | SlotUse::Numbered(end) => {
                    loaned += 1;
                    loaned_by.get_mut(end as usize).into_iter().for_each(|count| *count += 1);
                }
                SlotUse::Held(end) => {
                    held += 1;
                    held_by.get_mut(end as usize).into_iter().for_each(|count| *count += 1);
                }
                SlotUse::Free => {}
            }
            newest_ns = newest_ns.max(SlotHead::of(|index| head[index]).time_ns);
        }
        let liveness = Liveness::of(&directory);
        let is_broadcast = layout.mode == ChannelMode::Broadcast;
        let ends = reader.ends()?;
        let ends = ends.iter().enumerate().filter(|(_, words)| {
            words[0] & HELD != 0 && !liveness.is_dead_owner(words[0] >> 1, words[1])
        });
        let ends = ends.map(|(index, words)| {
            let pinned: u32 = words[PINS..].iter().map(|pins| pins.count_ones()).sum();
            let is_open = words[2] & CLOSED == 0;
            let sends = words[2] & SENDS != 0;
            let receives = words[2] & RECEIVES != 0;
            let of_end = EndStats {
                pid: words[1] as u32,
                sends: sends && is_open,
                receives: receives && is_open,
                loaned: loaned_by[index],
                held: held_by[index] + pinned,
                count: if is_message(words[1]) { 0 } else { words[9] },
                missed: words[10],
                behind: if is_broadcast && receives && is_open {
                    next.saturating_sub(words[8])
                } else {
                    0
                },
                latency_ns: words[11],
            };
            (is_open || of_end.loaned > 0 || of_end.held > 0).then_some(of_end)
        });
        Ok(Self {
            name: reader.header.name.as_ref().map(ToString::to_string).unwrap_or_default(),
            dtype: reader.header.dtype.clone(),
            shape: reader.header.layout.shape.clone(),
            mode: layout.mode,
            when_full: layout.when_full,
            slots: layout.slots,
            loaned,
            queued,
            held,
            sent: next.saturating_sub(u64::from(layout.ring_words)),
            dropped: reader.field(DROPPED_OFFSET)?,
            newest_ns,
            ends: ends.flatten().collect(),
        })
    }

    /// Returns who has the slots, for people: why a sender waits.
    ///
    /// ```
    /// # use shmarray::{Channel, ChannelOptions, ChannelStats, DType};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # let name = format!("doc-slots-{}", std::process::id());
    /// let options = ChannelOptions::new().slots(2);
    /// let numbers = Channel::create(&name, DType::parse("<i4")?, &[3], &options)?;
    /// let loan = numbers.loan(None)?;
    /// let said = ChannelStats::read(&name)?.who_has_slots();
    /// assert_eq!(said, format!("process {} has 1 on loan", std::process::id()));
    /// # drop(loan);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    #[must_use]
    pub fn who_has_slots(&self) -> String {
        let mut said = Vec::new();
        for end in &self.ends {
            let has =
                [(end.loaned, "on loan"), (end.held, "received"), (behind(end), "to receive")];
            let has = has.iter().filter(|(count, _)| *count > 0);
            let has: Vec<_> = has.map(|(count, what)| format!("{count} {what}")).collect();
            if !has.is_empty() {
                said.push(format!("process {} has {}", end.pid, has.join(" and ")));
            }
        }
        if self.mode == ChannelMode::Queue && self.queued > 0 {
            said.push(format!("{} wait for a receiver", self.queued));
        }
        said.join(", ")
    }
}

/// The messages of a broadcast that wait for an end.
fn behind(end: &EndStats) -> u32 {
    u32::try_from(end.behind).unwrap_or(u32::MAX)
}
