//! Bytes that grow: at first in private memory, and from a megabyte on in shared memory.
//!
//! The bytes of a list lie twice in memory only piece by piece: a piece is given back as soon as it
//! was copied to the list, and the list takes memory as it is written. A list may thus be larger
//! than the private memory, and need not fit twice.

use std::borrow::Cow;
use std::fmt;

use super::bytes::ListBytes;
use crate::array::Array;
use crate::system;
use crate::value::error::{Error, Result};

/// Fewer bytes stay in private memory.
const LEAST_PIECE_BYTES: u64 = 1 << 20;
/// A piece is a part of what is there, so that giving pieces back frees as much as is copied.
const LARGEST_PIECE: u64 = 8;
/// More only where pieces of this size would be more than a process may map.
const MOST_PIECE_BYTES: u64 = 16 << 20;
const MOST_PIECES: u64 = 1024;

pub(super) const PURPOSE: &str = "the items of a list";

/// Bytes to which more are added at the end.
#[derive(Default)]
pub(super) struct GrowingBytes {
    /// Where each piece in shared memory begins, and the piece.
    pieces: Vec<(u64, ListBytes)>,
    /// The bytes in all pieces.
    shared: u64,
    /// What follows them, in private memory.
    rest: Vec<u8>,
    /// How many bytes in private memory are too many.
    most_private: u64,
}

impl fmt::Debug for GrowingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl From<Vec<u8>> for GrowingBytes {
    fn from(rest: Vec<u8>) -> Self {
        Self { rest, ..Self::default() }
    }
}

impl GrowingBytes {
    pub(super) fn len(&self) -> u64 {
        self.shared + self.rest.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some are in shared memory.
    pub(super) fn has_pieces(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Adds bytes, which will lie in one piece.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        self.make_room(bytes.len())?;
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds a number of 64 bits.
    pub(super) fn push(&mut self, number: i64) -> Result<()> {
        self.extend(&number.to_le_bytes())
    }

    /// Adds zeros.
    pub(super) fn extend_zeros(&mut self, count: usize) -> Result<()> {
        self.make_room(count)?;
        self.rest.resize(self.rest.len() + count, 0);
        Ok(())
    }

    /// Makes room for more bytes in private memory: to add as many cannot fail then. An item with
    /// several parts makes room for all of them before it adds one, so it is added whole or not.
    pub(super) fn make_room(&mut self, more: usize) -> Result<()> {
        if self.rest.len() as u64 >= self.most_private.max(LEAST_PIECE_BYTES) {
            self.move_rest();
        }
        if self.rest.capacity() - self.rest.len() >= more {
            return Ok(());
        }
        system::reserve_for(PURPOSE, &mut self.rest, more)
    }

    /// Moves what is in private memory to shared memory, if that has room. Otherwise it stays until
    /// it is twice as much.
    fn move_rest(&mut self) {
        let total = self.len();
        match Array::of_bytes(&self.rest) {
            Ok(piece) => {
                self.pieces.push((self.shared, ListBytes::Array(piece)));
                self.shared = total;
                self.rest.clear();
                self.most_private =
                    (total / LARGEST_PIECE).min(MOST_PIECE_BYTES).max(total / MOST_PIECES);
            }
            Err(_) => self.most_private = 2 * self.rest.len() as u64,
        }
    }

    /// Returns bytes that were added together.
    pub(super) fn get(&self, start: u64, end: u64) -> Result<Cow<'_, [u8]>> {
        if start >= self.shared {
            let range = (start - self.shared) as usize..(end - self.shared) as usize;
            return Ok(Cow::Borrowed(&self.rest[range]));
        }
        let number = self.pieces.partition_point(|(first, _)| *first <= start) - 1;
        let (first, piece) = &self.pieces[number];
        piece.copied(start - first, end - start).map(Cow::Owned)
    }

    /// Returns a number of 64 bits by its index.
    pub(super) fn number(&self, index: u64) -> Result<i64> {
        let bytes = self.get(8 * index, 8 * index + 8)?;
        let bytes = <[u8; 8]>::try_from(&*bytes);
        bytes.map(i64::from_le_bytes).map_err(|_| Error::argument("offsets", "they end"))
    }

    /// Copies as many bytes from `at` on as fit into `to` and lie side by side. Returns how many.
    /// The pieces before them are given back, since the list is written from its start to its end.
    pub(super) fn take(&mut self, at: u64, to: &mut [u8]) -> Result<usize> {
        let next = self.pieces.partition_point(|(start, _)| *start <= at);
        if at >= self.shared {
            self.pieces.clear();
            let from = &self.rest[(at - self.shared) as usize..];
            let count = from.len().min(to.len());
            to[..count].copy_from_slice(&from[..count]);
            return Ok(count);
        }
        let end = self.pieces.get(next).map_or(self.shared, |(start, _)| *start);
        self.pieces.drain(..next - 1);
        let count = to.len().min((end - at) as usize);
        let (start, piece) = &self.pieces[0];
        piece.copy_to(at - start, &mut to[..count])?;
        Ok(count)
    }

    /// Moves the pieces that are left to private memory, if it has room.
    pub(super) fn make_private(&mut self) -> Result<()> {
        let Some((start, _)) = self.pieces.first() else { return Ok(()) };
        let (start, shared) = (*start, (self.shared - *start) as usize);
        let mut private = Vec::new();
        system::reserve_for(PURPOSE, &mut private, shared + self.rest.len())?;
        for (_, piece) in &self.pieces {
            let at = private.len();
            private.resize(at + piece.room() as usize, 0);
            piece.copy_to(0, &mut private[at..])?;
        }
        private.append(&mut self.rest);
        self.pieces.clear();
        (self.rest, self.shared) = (private, start);
        Ok(())
    }
}
