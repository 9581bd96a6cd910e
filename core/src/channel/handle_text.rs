//! Messages that are the handles of arrays that lie elsewhere, with tickets of the channel's
//! family: PROTOCOL.md, "Arrays that lie elsewhere".
//!
//! The text of a handle lies at the start of its slot, and a zero byte follows it. Its first byte
//! is stored last, and a zero there says that there is no text.

use super::opened::Opened;
use crate::array::Array;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::sys::Access;

const NONE: &[u8] = &[0];

/// Writes a text to a slot that this process has on loan.
#[allow(unsafe_code)]
pub(super) fn write(channel: &Opened, slot: u32, text: &[u8]) -> Result<()> {
    let (bytes, room) = (text.len(), channel.words.layout().slot_bytes);
    if bytes as u64 >= room {
        let reason = format!("its handle of {bytes} bytes has no room in a slot of {room}");
        return Err(Error::argument("array", reason));
    }
    let payload = channel.array(slot, &[room], None)?;
    let rest = [&text[1..], NONE].concat();
    for (at, part) in [(0, NONE), (1, &rest[..]), (0, &text[..1])] {
        // SAFETY: the part is private memory, so it is no element of the slot.
        unsafe { payload.write_bytes(at, part)? };
    }
    Ok(())
}

/// Returns the descriptor that is written in a slot.
pub(super) fn read(channel: &Opened, slot: u32) -> Option<Descriptor> {
    let payload = channel.array(slot, &[channel.words.layout().slot_bytes], None).ok()?;
    let text = payload.to_bytes().ok()?;
    let text = text.split(|byte| *byte == 0).next()?;
    Descriptor::parse(std::str::from_utf8(text).ok()?).ok()
}

/// Attaches the array of a message. `None` if it is gone.
pub(super) fn attach(channel: &Opened, slot: u32) -> Option<Array> {
    Array::attach_with_ticket(&read(channel, slot)?, Access::ReadWrite).ok()
}

/// Gives back the ticket that is written in a slot of this process, if there is one.
#[allow(unsafe_code)]
pub(super) fn discard(channel: &Opened, slot: u32) {
    let Some(descriptor) = read(channel, slot) else { return };
    let _ = Array::discard_descriptor(&descriptor); // the array may be gone
    if let Ok(payload) = channel.array(slot, &[1], None) {
        // SAFETY: the byte is a constant, and no element of the slot.
        let _ = unsafe { payload.write_bytes(0, NONE) }; // it has room for one byte
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
