//! Arrays on their way from one process to another.

mod spins;
pub(crate) mod pipe;
pub(crate) mod queue_slots;
pub(crate) mod queue_tasks;
pub(crate) mod channel;

use crate::system::HAS_TRANSPORT;
use crate::value::error::{Error, Result};

/// Fails where there are no pipes and no channels.
fn check_system(what: &'static str) -> Result<()> {
    if HAS_TRANSPORT { Ok(()) } else { Err(Error::Unsupported { what }) }
}
