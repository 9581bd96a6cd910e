//! Giving back what the ends of dead processes have: CHANNELS.md, *recover*.

use super::handle_text;
use super::opened::{Opened, wake_all};
use crate::header::control::Ordering::Acquire;
use crate::header::format::Payload;
use crate::system::{self, Liveness};

/// Gives back or completes what the ends of dead processes have.
pub(super) fn recover(channel: &Opened) {
    let liveness = Liveness::of(channel.segment.directory());
    let is_dead = |end: u32| {
        let entry = channel.words.entry(end);
        let word = entry.owner.load(Acquire);
        let is_dead =
            word != 0 && liveness.is_dead_owner(word >> 1, entry.owner_info.load(Acquire));
        is_dead.then_some((end, word))
    };
    let dead: Vec<_> = channel.ends.all().filter_map(is_dead).collect();
    for (end, word) in &dead {
        recover_end(channel, *end, *word);
    }
    if !dead.is_empty() {
        wake_all(&channel.words);
    }
}

fn recover_end(channel: &Opened, end: u32, word: u64) {
    let entry = &channel.words.entry(end).owner;
    channel.ring.recover(
        end,
        || entry.load(Acquire) == word,
        |slot, is_still_its| {
            if channel.words.layout().payload == Payload::Handle {
                handle_text::discard_if(channel, slot, is_still_its);
            }
        },
    );
    let info = channel.words.entry(end).owner_info.load(Acquire);
    channel.ends.count_dead(end, word, system::has_exited(info));
    let _ = entry.replace(word, 0); // or another process did
}
