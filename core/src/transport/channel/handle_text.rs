//! Messages that are handles of shared arrays, with tickets of the channel's family: CHANNELS.md,
//! "Handles".
//!
//! The text of a handle lies at the start of its slot, and a zero byte follows it. Its first byte
//! is stored last, and a zero there says that there is no text.

use super::opened::Opened;
use crate::array::Array;
use crate::header::control::Announced;
use crate::system::Access;
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};

const NONE: &[u8] = &[0];

/// Writes a text to a slot that this process has on loan.
pub(super) fn write(channel: &Opened, slot: u32, text: &[u8]) -> Result<()> {
    let bytes = text.len();
    let room = channel.words.layout().slot_bytes;
    if bytes as u64 >= room {
        let reason = format!("its handle of {bytes} bytes has no room in a slot of {room}");
        return Err(Error::argument("array", reason));
    }
    let payload = channel.bytes(slot, room)?;
    // Most texts are stored in the same steps, whatever the lengths of their numbers.
    let stored = (bytes + NONE.len()).next_multiple_of(256).min(room as usize);
    let mut rest = text[1..].to_vec();
    rest.resize(stored - 1, 0);
    [(0, NONE), (1, &rest[..]), (0, &text[..1])]
        .into_iter()
        .try_for_each(|(at, part)| store(&payload, at, part))
}

/// Stores a part of a text in a slot that this process has.
#[allow(unsafe_code)]
fn store(payload: &Array, at: u64, part: &[u8]) -> Result<()> {
    let address = payload.as_ptr().wrapping_add(at as usize);
    let _around = Announced::around(address, part.len());
    // SAFETY: the part is private memory or a constant, so it is no element of the slot.
    unsafe { payload.write_bytes(at, part) }
}

/// Returns the descriptor that is written in a slot.
pub(super) fn read(channel: &Opened, slot: u32) -> Option<Descriptor> {
    let payload = channel.bytes(slot, channel.words.layout().slot_bytes).ok()?;
    let text = payload.to_bytes().ok()?;
    let text = text.split(|byte| *byte == 0).next()?;
    Descriptor::parse(std::str::from_utf8(text).ok()?).ok()
}

/// Attaches the array of a message. `None` if it is gone: somebody has removed its file.
pub(super) fn attach(channel: &Opened, slot: u32) -> Result<Option<Array>> {
    let Some(descriptor) = read(channel, slot) else { return Ok(None) };
    match Array::attach_with_ticket(&descriptor, Access::ReadWrite) {
        Ok(array) => Ok(Some(array)),
        // The next attempt may succeed.
        Err(
            error @ (Error::Os { .. }
            | Error::NoMemory { .. }
            | Error::CannotMap { .. }
            | Error::Unsupported { .. }),
        ) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Gives back the ticket that is written in a slot of this process, if there is one.
pub(super) fn discard(channel: &Opened, slot: u32) {
    let Some(descriptor) = read(channel, slot) else { return };
    let _ = Array::discard_descriptor(&descriptor); // the array may be gone
    if let Ok(payload) = channel.bytes(slot, 1) {
        let _ = store(&payload, 0, NONE); // it has room for one byte
    }
}

/// Gives back the ticket that is written in a slot of a dead process, if `is_still_its` says that
/// the text was that process's: after a slot has been given to another purpose, the text may be a
/// living message's.
pub(super) fn discard_if(channel: &Opened, slot: u32, is_still_its: &dyn Fn() -> bool) {
    if let Some(descriptor) = read(channel, slot)
        && is_still_its()
    {
        let _ = Array::discard_descriptor(&descriptor); // the array may be gone
    }
}
