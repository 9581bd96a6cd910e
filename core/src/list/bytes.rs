//! Where the bytes of a list are: in an array, or in a file that is mapped.
//!
//! A file has the bytes of the list, and 16 bytes behind them: core/LISTS.md, "In a file".

use std::path::Path;
use std::sync::Arc;

use crc32fast::Hasher;

use crate::array::Array;
use crate::element::per_byte;
use crate::file::npy::{FileMap, Source, save_pieces};
use crate::value::error::{Error, Result};

const TRAILER: &[u8; 8] = b"shmacrc2";
const TRAILER_BYTES: u64 = 16;
/// The size of a list's header.
pub(super) const HEADER_BYTES: u64 = 64;
/// How many bytes are copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The memory of a list. A clone is the same memory.
#[derive(Clone)]
pub(super) enum ListBytes {
    Array(Array),
    File(Arc<FileMap>),
}

impl ListBytes {
    /// Maps a file that has a list.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let source = Source::file(path)?;
        if source.size_bytes() < HEADER_BYTES {
            return Err(in_file(path, fault("magic", "it is no list".into())));
        }
        match source.map()? {
            Some(map) => Ok(Self::File(Arc::new(map))),
            None => {
                let reason = "this process has as many files mapped as it may";
                Err(Error::argument("file", reason))
            }
        }
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        match self {
            Self::Array(array) => array.as_ptr(),
            Self::File(map) => map.as_ptr(),
        }
    }

    /// Returns how many bytes there are, of which the list may have fewer.
    pub(super) fn room(&self) -> u64 {
        match self {
            // It has one dimension: `List::of` refuses others.
            Self::Array(array) => array.shape().first().copied().unwrap_or(0),
            Self::File(map) => map.size_bytes() as u64,
        }
    }

    /// Returns the address from which so many bytes lie there.
    pub(super) fn address(&self, at: u64, bytes: u64) -> Result<*const u8> {
        match at.checked_add(bytes) {
            Some(end) if end <= self.room() => {
                Ok(self.as_ptr().cast_const().wrapping_add(at as usize))
            }
            _ => Err(fault("bytes", format!("{bytes} from {at} on, of {}", self.room()))),
        }
    }

    /// Reads bytes that another process may be writing.
    #[allow(unsafe_code)]
    pub(super) fn load<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let address = self.address(at, N as u64)?;
        // SAFETY: `load` needs bytes that can be read. `address` checked that they lie in the
        // array or the mapping, which `self` keeps.
        Ok(unsafe { per_byte::load(address) })
    }

    /// Copies bytes that another process may be writing.
    pub(super) fn copied(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        self.address(at, bytes)?; // before so much memory is asked for
        let mut copy = vec![0; bytes as usize];
        self.copy_to(at, &mut copy)?;
        Ok(copy)
    }

    /// Does the same, into memory that is there.
    #[allow(unsafe_code)]
    pub(super) fn copy_to(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let address = self.address(at, to.len() as u64)?;
        // SAFETY: `copy` needs bytes that can be read, as in `load`, and room for them, which `to`
        // has.
        unsafe { per_byte::copy(to.as_mut_ptr(), address, to.len()) };
        Ok(())
    }
}

/// Saves the first bytes of a list to a file, and their checksum behind them.
pub(super) fn save(path: &Path, bytes: &ListBytes, size: u64) -> Result<()> {
    let mut hasher = Hasher::new();
    let mut at = 0;
    save_pieces(path, &mut |piece| {
        if at > size {
            return Ok(false);
        }
        if at == size {
            piece.extend(TRAILER);
            piece.extend(u64::from(hasher.clone().finalize()).to_le_bytes());
            at += 1;
            return Ok(true);
        }
        *piece = bytes.copied(at, PIECE_BYTES.min(size - at))?;
        hasher.update(piece);
        at += piece.len() as u64;
        Ok(true)
    })
}

/// Reads all of a list's file, of which the list has the first bytes, and compares the checksum.
pub(super) fn check(bytes: &ListBytes, size: u64) -> Result<()> {
    let mut hasher = Hasher::new();
    let mut at = 0;
    while at < size {
        let piece = bytes.copied(at, PIECE_BYTES.min(size - at))?;
        hasher.update(&piece);
        at += piece.len() as u64;
    }
    let trailer = bytes
        .copied(at, TRAILER_BYTES)
        .map_err(|_| fault("checksum", "the file ends before it".into()))?;
    let (magic, checksum) = trailer.split_at(TRAILER.len());
    let found = u64::from(hasher.finalize());
    if magic != TRAILER || checksum != found.to_le_bytes() {
        return Err(fault("checksum", format!("it is not {found:08x}, that of the file's bytes")));
    }
    Ok(())
}

/// Returns an error of a list's bytes as that of its file.
pub(super) fn in_file(path: &Path, error: Error) -> Error {
    match error {
        Error::InvalidList { field, reason } => Error::InvalidFile {
            file: path.display().to_string(),
            member: None,
            field: "list",
            reason: format!("{field}: {reason}"),
        },
        other => other,
    }
}

pub(super) fn fault(field: &str, reason: String) -> Error {
    Error::InvalidList { field: field.to_owned(), reason }
}
