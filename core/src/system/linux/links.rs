//! Tickets as links to the segment's file, for messages that find no entry.
//!
//! `shmarray-ticket-ID-TICKET-COOKIE`, with `-CELL` behind it for an array in a cell, is one more
//! link to segment ID. Such a segment is LOCK_ONLY. While the file has more links than its own
//! names, a message holds it: the kernel counts them, so nobody lists the directory for that, and a
//! file of another user that only has such a name counts for nothing. The names are for a sweep,
//! which removes the links of messages that no process can receive any more, and for people.
//! COOKIE, six hexadecimal digits, says which registry to ask.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::directory::{Directory, TICKET_PREFIX};
use super::registry::{Liveness, process_owner};
use crate::system::interface::{OwnFiles, TicketLink};
use crate::value::error::{Error, Result};
use crate::value::name::SegmentText;

/// Returns the path of a ticket's link.
fn ticket_path(directory: &Directory, of: &SegmentText, ticket: u64, cookie: u64) -> PathBuf {
    let cell = of.cell.map(|cell| format!("-{cell}")).unwrap_or_default();
    directory.path().join(format!("{TICKET_PREFIX}{}-{ticket}-{cookie:06x}{cell}", of.id))
}

/// Holds a segment by a link; the caller holds the segment by its lock meanwhile. Returns `false`
/// if that link exists already.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/link.2.html
pub(crate) fn link_ticket(
    directory: &Directory,
    of: &SegmentText,
    ticket: u64,
    info: u64,
) -> Result<bool> {
    let path = ticket_path(directory, of, ticket, info >> 40);
    match fs::hard_link(directory.segment_path(&of.id), &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.map(|()| true).map_err(|error| Error::os("link", path, error)),
    }
}

/// Removes a ticket's link. Returns `false` if there was none.
pub(crate) fn unlink_ticket(directory: &Directory, of: &SegmentText, ticket: u64) -> bool {
    let cookie = process_owner(directory).map_or(0, |own| own.info >> 40);
    if fs::remove_file(ticket_path(directory, of, ticket, cookie)).is_ok() {
        return true;
    }
    // Its sender may have been in another registry, unless the file has no link but its id.
    let has_links = fs::symlink_metadata(directory.segment_path(&of.id));
    if has_links.is_ok_and(|facts| facts.nlink() <= 1) {
        return false;
    }
    // The other arrays of the message have the same ticket. Another user's file stays.
    let is_it = |link: TicketLink| {
        (link.segment, link.ticket) == (of.id, ticket)
            && (link.cell.is_none() || link.cell == of.cell)
    };
    let removed = directory.visit_names(|entry| {
        let is_removed = entry.ticket_link().is_some_and(is_it)
            && fs::remove_file(directory.path().join(entry.name())).is_ok();
        if is_removed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    removed.is_ok_and(|removed| removed.is_some())
}

/// Removes the links of messages that nobody can receive any more.
pub(crate) fn sweep_tickets(directory: &Directory, files: &OwnFiles, liveness: &Liveness) {
    for link in files.tickets.iter().filter(|link| liveness.is_dead_owner(link.ticket, link.info)) {
        let of = SegmentText { id: link.segment, cell: link.cell };
        // Received meanwhile, perhaps.
        let _ = fs::remove_file(ticket_path(directory, &of, link.ticket, link.info >> 40));
    }
}
