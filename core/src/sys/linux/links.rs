//! Tickets as links to the segment's file, for messages that find no entry.
//!
//! `shmarray-ticket-ID-TICKET-COOKIE` is one more link to segment ID. While there is one, the
//! segment is not given back; the kernel counts the links. Such a segment is LOCK_ONLY. If no
//! process can receive the message any more, a sweep removes its link as it would an entry. COOKIE,
//! six hexadecimal digits, says which registry to ask.

use std::fs;
use std::io;
use std::ops::ControlFlow;

use super::directory::Directory;
use super::registry::{Liveness, process_owner};
use crate::error::{Error, Result};
use crate::name::SegmentId;

const TICKET_PREFIX: &str = "shmarray-ticket-";

impl Directory {
    fn ticket_path(&self, id: &SegmentId, ticket: u64, cookie: u64) -> std::path::PathBuf {
        self.path().join(format!("{TICKET_PREFIX}{id}-{ticket}-{cookie:06x}"))
    }
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
    id: &SegmentId,
    ticket: u64,
    info: u64,
) -> Result<bool> {
    let path = directory.ticket_path(id, ticket, info >> 40);
    match fs::hard_link(directory.segment_path(id), &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.map(|()| true).map_err(|error| Error::os("link", path, error)),
    }
}

/// Removes a ticket's link. Returns `false` if there was none.
pub(crate) fn unlink_ticket(directory: &Directory, id: &SegmentId, ticket: u64) -> bool {
    let cookie = process_owner(directory).map_or(0, |own| own.info >> 40);
    if fs::remove_file(directory.ticket_path(id, ticket, cookie)).is_ok() {
        return true;
    }
    // Its sender may have been in another registry.
    let start = format!("{TICKET_PREFIX}{id}-{ticket}-");
    let removed = directory.visit_names(|name| match name.starts_with(&start) {
        true => ControlFlow::Break(fs::remove_file(directory.path().join(name)).is_ok()),
        false => ControlFlow::Continue(()),
    });
    removed.is_ok_and(|removed| removed.unwrap_or(false))
}

/// Whether a message may hold a segment by a link: also `true` when the directory cannot be read.
/// This reads the whole directory, so callers check the count of the file's links first.
pub(super) fn has_tickets(directory: &Directory, id: &SegmentId) -> bool {
    let start = format!("{TICKET_PREFIX}{id}-");
    let found = directory.visit_names(|name| match name.starts_with(&start) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    !found.is_ok_and(|found| found.is_none())
}

/// Removes the links of messages that nobody can receive any more.
pub(crate) fn sweep_tickets(directory: &Directory, liveness: &Liveness) {
    let is_dead = |(ticket, cookie)| liveness.is_dead_owner(ticket, cookie << 40);
    // A directory that cannot be read any more is left to a later sweep.
    let _ = directory.visit_names(|name| {
        if parse(name).is_some_and(is_dead) {
            // Received meanwhile, or another user's.
            let _ = fs::remove_file(directory.path().join(name));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Returns the ticket and the cookie in a link's name.
fn parse(name: &str) -> Option<(u64, u64)> {
    let mut parts = name.strip_prefix(TICKET_PREFIX)?.split('-').skip(1);
    Some((parts.next()?.parse().ok()?, u64::from_str_radix(parts.next()?, 16).ok()?))
}
