//! A channel as a process sees it that may only read it: copies of its words and messages.

use std::io;

use super::handle_or_name::HandleOrName;
use super::ring::read_only;
use super::sole::{SoleWord, State};
use crate::header::format::{
    CHANNEL_OFFSET, ChannelLayout, END_BYTES, ENDS_USED_OFFSET, GENERATION_OFFSET, Header,
    PAGE_BYTES, SLOT_HEAD_BYTES, SOLE_OFFSET, TAIL_OFFSET,
};
use crate::system::{Directory, ForeignFile};
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};
use crate::value::name::SegmentText;

/// The indices of words of an end.
const NEXT: usize = 12;
const MARK: usize = 13;

/// An open channel that this process reads by calls.
pub(super) struct Reader {
    pub(super) file: ForeignFile,
    pub(super) header: Header,
    pub(super) layout: ChannelLayout,
}

impl Reader {
    /// Opens a channel, whoever owns it.
    pub(super) fn open(directory: &Directory, sought: &HandleOrName) -> Result<Self> {
        let opened = ForeignFile::open(directory, sought.lookup());
        let file = opened.map_err(|error| match error {
            Error::Os { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                sought.not_found()
            }
            error => error,
        })?;
        let label = sought.lookup().to_string();
        let bytes = file.bytes();
        let front = |size: u64| {
            let mut front = vec![0; size.min(bytes) as usize];
            file.read_at(0, &mut front).map(|()| front)
        };
        let page = front(PAGE_BYTES)?;
        let all = front(Header::bytes_needed(&label, &page, bytes)?)?;
        let header = Header::read(&label, &all, bytes)?;
        let layout = header.channel.ok_or_else(not_a_channel)?;
        let reader = Self { file, header, layout };
        sought.check(&reader.descriptor()?)?;
        Ok(reader)
    }

    /// Returns the descriptor of the channel.
    pub(super) fn descriptor(&self) -> Result<Descriptor> {
        Ok(Descriptor {
            segment: SegmentText { id: self.header.id, cell: None },
            generation: self.word(GENERATION_OFFSET)?,
            dtype: self.header.dtype.clone(),
            layout: self.header.layout.clone(),
            ticket: None,
        })
    }

    /// Reads a word of the header.
    fn word(&self, offset: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_at(offset, &mut bytes).map(|()| u64::from_le_bytes(bytes))
    }

    /// Reads a word of the channel's own fields.
    pub(super) fn field(&self, offset: usize) -> Result<u64> {
        self.word((CHANNEL_OFFSET + offset) as u64)
    }

    /// Reads the ring's word of a message.
    pub(super) fn ring(&self, number: u64) -> Result<u64> {
        let index = number % u64::from(self.layout.ring_words);
        self.word(u64::from(self.layout.ring_offset) + 8 * index)
    }

    /// Returns the number of the next message.
    pub(super) fn next_number(&self) -> Result<u64> {
        let sole = SoleWord(self.field(SOLE_OFFSET)?);
        match sole.state() {
            State::Sole | State::Closing => return self.next_of_sole(sole),
            State::Filling => return Ok(sole.number()),
            State::General | State::Opening => {}
        }
        let mut next = self.field(TAIL_OFFSET)?;
        // The first step passes all but the messages of a ring, unless others publish meanwhile or
        // their owner writes nonsense.
        for _ in 0..=self.layout.ring_words {
            match read_only::number(self.ring(next)?) {
                found if found < next => break,
                found => next = found.wrapping_add(1),
            }
        }
        Ok(next)
    }

    /// Whether the message of a numbered slot was published. `next` is the number of the next one.
    pub(super) fn has_published(&self, slot: u32, head: &Vec<u64>, next: u64) -> Result<bool> {
        let sole = SoleWord(self.field(SOLE_OFFSET)?);
        if read_only::is_of_session(head, sole, slot, next) {
            return Ok(true);
        }
        let (number, published) = read_only::number_and_ring(head, slot);
        Ok(self.ring(number)? == published)
    }

    /// Returns the number of the next message of a sole sender.
    fn next_of_sole(&self, sole: SoleWord) -> Result<u64> {
        let at = self.layout.ends_offset + sole.end().min(self.layout.ends - 1) * END_BYTES;
        let words = self.words(u64::from(at), END_BYTES as usize)?;
        let (next, mark) = (words[NEXT], words[MARK]);
        let slot = sole.home(next.wrapping_sub(1));
        let is_marked = read_only::is_marked(&self.slot_head(slot)?, sole, slot, mark);
        Ok(next.wrapping_sub(is_marked.into()))
    }

    /// Reads the head of a slot, as words.
    pub(super) fn slot_head(&self, slot: u32) -> Result<Vec<u64>> {
        let at = self.layout.slots_offset + slot.min(self.layout.slots - 1) * SLOT_HEAD_BYTES;
        self.words(u64::from(at), SLOT_HEAD_BYTES as usize)
    }

    /// Reads the ends that were ever in use, each as words.
    pub(super) fn ends(&self) -> Result<Vec<Vec<u64>>> {
        let used = self.field(ENDS_USED_OFFSET)?.min(u64::from(self.layout.ends)) as usize;
        let at = u64::from(self.layout.ends_offset);
        let each = END_BYTES as usize;
        let words = self.words(at, used * each)?;
        Ok(words.chunks(each / 8).map(<[u64]>::to_vec).collect())
    }

    fn words(&self, offset: u64, bytes: usize) -> Result<Vec<u64>> {
        let mut read = vec![0; bytes];
        self.file.read_at(offset, &mut read)?;
        let words =
            read.chunks_exact(8).map(|eight| eight.try_into().map_or(0, u64::from_le_bytes));
        Ok(words.collect())
    }

    /// Reads from the start of a slot's payload.
    pub(super) fn payload(&self, slot: u32, bytes: &mut [u8]) -> Result<()> {
        self.file
            .read_at(self.header.header_bytes + u64::from(slot) * self.layout.slot_bytes, bytes)
    }
}

pub(super) fn not_a_channel() -> Error {
    Error::argument("name", "it is an array's, not a channel's")
}
