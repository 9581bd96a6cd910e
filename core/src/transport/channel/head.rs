//! The head of a slot: what a message says of itself.
//!
//! The sender writes it while the slot is LOANED, and it stays until the slot is loaned again. All
//! words are Relaxed: the slot word orders them.

use crate::header::control::ChannelWords;
use crate::header::control::Ordering::Relaxed;
use crate::header::format::{META_BYTES, SLOT_NDIM};
use crate::value::error::{Error, Result};

/// The index of each word in the head.
const TIME: usize = 2;
const SIZES: usize = 3;
const PAYLOAD_BYTES: usize = 4;
const SHAPE: usize = 5;
const META: usize = 16;

/// Refuses metadata that are too long.
pub(super) fn check_meta(meta: &[u8]) -> Result<()> {
    if meta.len() <= META_BYTES {
        return Ok(());
    }
    let found = meta.len();
    let reason = format!("{found} bytes are more than the {META_BYTES} of a message");
    Err(Error::argument("meta", reason))
}

/// The metadata of a message that was received: at most 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    bytes: [u8; META_BYTES],
    len: usize,
}

impl Meta {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What a sender writes beside the payload.
#[derive(Debug)]
pub(super) struct SlotHead {
    pub(super) time_ns: u64,
    pub(super) meta: Meta,
    pub(super) shape: Vec<u64>,
}

/// Writes the head of a message that was sent at a time, with metadata that `check_meta` allows.
/// The shape is that of a channel of varying shapes.
pub(super) fn write(
    (words, slot): (&ChannelWords, u32),
    time_ns: u64,
    meta: &[u8],
    shape: &[u64],
    payload_bytes: u64,
) {
    let put = |index, value| words.slot_head(slot, index).store(value, Relaxed);
    put(TIME, time_ns);
    put(SIZES, meta.len() as u64 | (shape.len() as u64) << 32);
    put(PAYLOAD_BYTES, payload_bytes);
    for (dim, count) in shape.iter().enumerate().take(SLOT_NDIM) {
        put(SHAPE + dim, *count);
    }
    for (index, part) in meta.chunks(8).enumerate().take(META_BYTES / 8) {
        let mut eight = [0; 8];
        eight[..part.len()].copy_from_slice(part);
        put(META + index, u64::from_le_bytes(eight));
    }
}

impl SlotHead {
    /// Reads a head that another process wrote.
    pub(super) fn read(words: &ChannelWords, slot: u32) -> Self {
        Self::of(|index| words.slot_head(slot, index).load(Relaxed))
    }

    /// Makes a head of its words. No value exceeds what a head can have.
    pub(super) fn of(get: impl Fn(usize) -> u64) -> Self {
        let sizes = get(SIZES);
        let len = (sizes as u32 as usize).min(META_BYTES);
        let ndim = ((sizes >> 32) as usize).min(SLOT_NDIM);
        let mut bytes = [0; META_BYTES];
        if len > 0 {
            for (index, eight) in bytes.chunks_exact_mut(8).enumerate().take(len.div_ceil(8)) {
                eight.copy_from_slice(&get(META + index).to_le_bytes());
            }
        }
        let mut shape = Vec::new();
        if ndim > 0 {
            shape.extend((0..ndim).map(|dim| get(SHAPE + dim)));
        }
        Self { time_ns: get(TIME), meta: Meta { bytes, len }, shape }
    }
}
