//! Names: the ids of segments, and the names that people give.

use std::fmt;
use std::str::FromStr;

use data_encoding::{Encoding, Specification};

use crate::value::error::{Error, Result};

/// The bytes of a segment id's text. With the prefix it fits a macOS name of 30 characters.
pub(crate) const ID_BYTES: usize = 24;
/// The longest name that people give, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

const ID_ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz234567";

/// The id of a segment: 120 random bits, so that no one finds a segment by guessing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId([u8; ID_BYTES]);

impl SegmentId {
    pub(crate) fn random() -> Result<Self> {
        let mut bits = [0u8; 15];
        random_bytes(&mut bits)?;
        let mut id = [0u8; ID_BYTES];
        base32().encode_mut(&bits, &mut id);
        Ok(Self(id))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let id: [u8; ID_BYTES] = bytes.try_into().ok()?;
        id.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')).then_some(Self(id))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Returns the id's text: 24 of the characters `a-z2-7`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The value of `"segment"` in a handle: an id and, in a slab, a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct SegmentText {
    /// The segment's id.
    pub id: SegmentId,
    /// The cell, if the segment is a slab.
    pub cell: Option<u32>,
}

impl FromStr for SegmentText {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (id, cell) = match text.split_once('.') {
            Some((id, cell)) => (id, Some(parse_cell(cell).ok_or_else(bad_segment)?)),
            None => (text, None),
        };
        let id = SegmentId::from_bytes(id.as_bytes()).ok_or_else(bad_segment)?;
        Ok(Self { id, cell })
    }
}

/// Parses a cell's number: decimal without a sign or leading zeros, so that each cell has one text.
fn parse_cell(text: &str) -> Option<u32> {
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    text.parse::<u32>().ok().filter(|_| is_plain)
}

fn bad_segment() -> Error {
    Error::handle("segment", "a segment is 24 characters of a-z2-7, with .N for a cell")
}

impl fmt::Display for SegmentText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cell {
            Some(cell) => write!(f, "{}.{cell}", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that a person gave: `[A-Za-z0-9._-]{1,64}`. It is only a way to find a segment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArrayName(String);

impl ArrayName {
    /// Returns the name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is a name.
    pub(crate) fn is_valid(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain)
    }
}

impl FromStr for ArrayName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if Self::is_valid(name) {
            Ok(Self(name.to_owned()))
        } else {
            Err(Error::InvalidName { name: name.chars().take(80).collect() })
        }
    }
}

impl fmt::Display for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the first generation of a segment: random, and small enough to count up from below 2^53.
pub(crate) fn random_generation() -> Result<u64> {
    Ok((random_bits()? >> 12).max(1))
}

/// Returns 64 random bits.
pub(crate) fn random_bits() -> Result<u64> {
    let mut bits = [0u8; 8];
    random_bytes(&mut bits)?;
    Ok(u64::from_le_bytes(bits))
}

/// Returns a process's or a message's byte in the registry: below 2^52, where those of families
/// begin.
#[cfg(linux_backend)]
pub(crate) fn random_owner() -> Result<u64> {
    random_generation()
}

fn random_bytes(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::os("getrandom", "", error.into()))
}

fn base32() -> Encoding {
    let mut specification = Specification::new();
    specification.symbols.push_str(ID_ALPHABET);
    specification.encoding().unwrap_or(data_encoding::BASE32_NOPAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Miri is slow.
    const IDS: usize = if cfg!(miri) { 20 } else { 1000 };

    #[test]
    fn ids_are_24_characters_and_never_the_same() {
        let ids: std::collections::HashSet<_> =
            (0..IDS).map(|_| SegmentId::random().unwrap()).collect();
        assert_eq!(ids.len(), IDS);
        assert!(ids.iter().all(|id| SegmentId::from_bytes(id.as_str().as_bytes()) == Some(*id)));
    }

    #[test]
    fn a_segment_text_names_an_id_and_perhaps_a_cell() {
        let id = "abcdefghijklmnopqrstuvwx";
        for text in [id.to_owned(), format!("{id}.0"), format!("{id}.17")] {
            assert_eq!(text.parse::<SegmentText>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "abc",
            &format!("{id}."),
            &format!("{id}.01"),
            &format!("{id}.-1"),
            &format!("{id}.4294967296"),
            &format!("{id}x"),
            "../../../../../etc/passwd",
        ] {
            assert!(bad.parse::<SegmentText>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_plain_and_short() {
        for good in ["a", "camera-1", "A.b_c-9", &"x".repeat(64), ".."] {
            assert_eq!(good.parse::<ArrayName>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(matches!(bad.parse::<ArrayName>(), Err(Error::InvalidName { .. })), "{bad}");
        }
    }

    #[test]
    fn generations_start_below_two_to_the_53() {
        assert!((0..1000).all(|_| (1..1 << 52).contains(&random_generation().unwrap())));
    }
}
