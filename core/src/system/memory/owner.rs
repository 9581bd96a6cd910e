//! The owners of entries: this process, and messages of its family.

/// The owner of an entry, a process or a message, as its entries name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) info: u64,
}

/// The owner id of this process.
pub(super) const OWNER: u64 = 7;
/// The kind of owner in an entry's owner info, above the pid.
pub(super) const MESSAGE: u64 = 2 << 32;
/// This process's family.
pub(super) const FAMILY: u64 = 1 << 52;
/// The number of tickets of each family.
const FAMILY_TICKETS: u64 = 1 << 32;

/// Returns the family of a ticket, if it has one.
pub(crate) fn family_of(ticket: u64) -> Option<u64> {
    (FAMILY..2 * FAMILY).contains(&ticket).then_some(ticket & !(FAMILY_TICKETS - 1))
}

/// Whether an entry's owner is a message.
pub(crate) fn is_message(info: u64) -> bool {
    info >> 32 != 0
}
