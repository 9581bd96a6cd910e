//! The front of a packet: FORMAT.md, "Messages".

use crate::system::socket::{self, Expected, MAGIC};
use crate::value::error::{Error, Result};

pub(super) const HEADER_BYTES: usize = socket::FRONT_BYTES;
const VERSION: u16 = 1;
const BODY_IN_ARRAY: u8 = 1;
/// The rest of that byte: the number of fds that keep the tickets, 64 at most.
const LOCKS_SHIFT: u8 = 1;
/// A bit of the byte with the number of the sender's fds: the body is a file, whose fd is the last.
const BODY_IN_FILE: u8 = 1 << 7;

/// The most bytes of a message that travel in the socket. The kernel copies them faster than shared
/// memory can be allocated.
pub(super) const INLINE_BYTES: usize = 160 << 10;

/// Where the handles and the payload are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Behind the head.
    Inline,
    /// In an array, whose handle is behind the head.
    Array,
    /// In a file without a name.
    File,
}

/// The front of a packet, without the magic and the version.
pub(super) struct Head {
    /// The number of fds that keep the tickets.
    pub(super) locks: usize,
    /// The number of fds that the sender added. A message with more than the byte holds is never
    /// sent.
    pub(super) fds: usize,
    pub(super) body: Body,
    pub(super) arrays: usize,
    pub(super) handles_bytes: usize,
}

impl Head {
    pub(super) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let in_array = if self.body == Body::Array { BODY_IN_ARRAY } else { 0 };
        let in_file = if self.body == Body::File { BODY_IN_FILE } else { 0 };
        let added = u8::try_from(self.fds).map_or(!BODY_IN_FILE, |count| count & !BODY_IN_FILE);
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = (self.locks as u8) << LOCKS_SHIFT | in_array;
        bytes[7] = in_file | added;
        bytes[8..12].copy_from_slice(&(self.arrays as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.handles_bytes as u32).to_le_bytes());
        bytes
    }

    pub(super) fn read(packet: &[u8]) -> Result<Self> {
        let number = |at: usize| {
            u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
                as usize
        };
        if packet.len() < HEADER_BYTES || packet[..4] != MAGIC[..] {
            return Err(no_message("its magic is not that of a message"));
        }
        let body = match (packet[6] & BODY_IN_ARRAY, packet[7] & BODY_IN_FILE) {
            (0, 0) => Body::Inline,
            (_, 0) => Body::Array,
            _ => Body::File,
        };
        match u16::from_le_bytes([packet[4], packet[5]]) {
            VERSION => Ok(Self {
                locks: (packet[6] >> LOCKS_SHIFT).into(),
                fds: (packet[7] & !BODY_IN_FILE).into(),
                body,
                arrays: number(8),
                handles_bytes: number(12),
            }),
            version => Err(no_message(&format!("it is of version {version}, not {VERSION}"))),
        }
    }
}

/// Returns what the receiver of a packet has to prepare: room for the fds that come with it, and
/// for one more to open a body. A payload behind the handles is received apart.
pub(super) fn expected(front: &[u8]) -> Expected {
    let all = usize::MAX;
    let Some(&[_, _, _, _, _, _, flags, added, _, _, _, _, b0, b1, b2, b3]) = front.first_chunk()
    else {
        return Expected { fds: 0, first_bytes: all }; // the end of the pipe, or not a message
    };
    let in_array = flags & BODY_IN_ARRAY;
    let in_file = added & BODY_IN_FILE;
    let body = usize::from(in_array) + usize::from(in_file > 0);
    let handles_bytes = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    Expected {
        fds: usize::from(flags >> LOCKS_SHIFT) + usize::from(added & !BODY_IN_FILE) + body,
        first_bytes: if body == 0 { HEADER_BYTES + handles_bytes } else { all },
    }
}

/// Returns the error for a message that breaks the format.
pub(super) fn no_message(reason: &str) -> Error {
    Error::argument("message", reason)
}

pub(super) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| no_message(&error.to_string()))
}
