//! Removing a name, and with it the persistence of an array.

use super::hold::clear_dead_and_close;
use crate::header::control;
use crate::header::format::Header;
use crate::header::lease::Closed;
use crate::memory::mapping::{Mapped, read_header};
use crate::memory::operation::Operation;
use crate::system::{self, Directory, Liveness, Lookup};
use crate::value::error::{Error, Result};

/// Removes a name. The array itself goes with its last holder.
///
/// # Errors
/// [`Error::NameNotFound`], [`Error::InvalidName`], [`Error::NotOwner`].
pub fn unlink(name: &str) -> Result<()> {
    let _operation = Operation::without_handlers()?;
    let directory = Directory::current();
    let name = name.parse()?;
    system::is_usable(&directory)?;
    let mut persistent = None;
    let file = system::unlink_name(&directory, &name, |file| {
        match read_header(Lookup::Name(&name), file) {
            Err(Error::InvalidSegment { .. }) => {} // not a segment
            // After an error the name stays.
            header => persistent = Some(clear_persist(file, header?)?),
        }
        Ok(())
    })?;
    let Some(mapped) = persistent else { return Ok(()) }; // not a segment: its name was all
    drop(file);
    let liveness = Liveness::of(&directory);
    if clear_dead_and_close(&mapped.leases(), &liveness) == Closed::Last {
        system::discard(&directory, &mapped.header.id, None)?;
    }
    let id = mapped.header.id;
    drop(mapped);
    system::reclaim(&directory, &id, &liveness).map(drop)
}

/// Clears PERSIST. This comes before the name is removed, so that a crash in between leaves no
/// array that persists without a name.
fn clear_persist(file: &system::SegmentFile, header: Header) -> Result<Mapped> {
    let mapped = Mapped::map_header(file, header)?;
    mapped.leases().control.flags().clear(control::PERSIST);
    Ok(mapped)
}
