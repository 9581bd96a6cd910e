//! Sending the handle of an array that lies elsewhere.

use std::sync::Arc;
use std::time::Duration;

use super::end::End;
use super::handle_text;
use super::loan::{Posted, Slot, publish, slot};
use super::slot::Meta;
use super::slot_use;
use crate::array::Array;
use crate::memory::operation::Operation;
use crate::system;
use crate::value::descriptor::Descriptor;
use crate::value::error::Result;

/// Sends the handle of an array, with a ticket that holds it.
pub(super) fn send(
    end: &Arc<End>,
    array: &Array,
    meta: Meta,
    timeout: Option<Duration>,
) -> Result<Posted> {
    let operation = Operation::enter()?;
    let share = match slot(end, timeout)? {
        Slot::Taken(taken) => slot_use::begin(Arc::clone(end), taken),
        Slot::TimedOut => return Ok(Posted::TimedOut),
        Slot::Full => return Ok(Posted::Full),
    };
    loop {
        let ticket = system::ticket_of(end.segment.directory(), end.words.layout().family)?;
        let descriptor = Descriptor { ticket: Some(ticket.id), ..array.descriptor() };
        let text = descriptor.to_handle();
        // The text comes first: whoever recovers the slot gives back the ticket that it finds.
        handle_text::write(end, share.slot(), text.as_bytes())?;
        if array.hold_for_message(operation, ticket)? {
            return publish(&share, end, meta, &[], text.len() as u64).map(Posted::Posted);
        }
    }
}
