//! The methods of compression that Python's zipfile has beside deflate: bzip2, LZMA and Zstandard.
//!
//! Source: PKWARE, APPNOTE.TXT, sections 4.4.5, 5.8 and 5.9.

use std::io::{self, Read};

use bzip2::read::BzDecoder;
use lzma_rust2::LzmaReader;
use rawzip::CompressionMethod;
use ruzstd::decoding::StreamingDecoder;

use crate::system;

/// How a member is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
    Bzip2,
    Lzma,
    Zstd,
}

impl Method {
    pub(super) fn of(method: CompressionMethod) -> Option<Self> {
        match method {
            CompressionMethod::STORE => Some(Self::Stored),
            CompressionMethod::DEFLATE => Some(Self::Deflated),
            CompressionMethod::BZIP2 => Some(Self::Bzip2),
            CompressionMethod::LZMA => Some(Self::Lzma),
            CompressionMethod::ZSTD => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The least dictionary of LZMA.
const LZMA_DICTIONARY_LEAST: u64 = 4096;
/// The most input that a reader takes at once, as the libraries ask for single bytes.
const INPUT_BYTES: usize = 64 << 10;

/// Returns a reader of the `size` bytes of a member that is compressed by one of these methods.
/// `None` for the others.
pub(super) fn reader<'r>(
    method: Method,
    data: impl Read + 'r,
    size: u64,
) -> io::Result<Option<Box<dyn Read + 'r>>> {
    let mut data = io::BufReader::with_capacity(INPUT_BYTES, data);
    Ok(match method {
        Method::Stored | Method::Deflated => None,
        Method::Bzip2 => Some(Box::new(BzDecoder::new(data))),
        Method::Lzma => {
            // The version of the library, the size of the properties, and these: three numbers in a
            // byte, and the size of the dictionary. None larger than the member is of use.
            let mut head = [0; 9];
            data.read_exact(&mut head)?;
            let [_, _, 5, 0, properties, d0, d1, d2, d3] = head else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no properties of LZMA"));
            };
            let most = size.max(LZMA_DICTIONARY_LEAST).next_multiple_of(16);
            let dictionary = u64::from(u32::from_le_bytes([d0, d1, d2, d3])).min(most) as u32;
            // The library does not survive it if this memory is not to be had.
            let room = system::room_for("the dictionary of a member", dictionary.into());
            drop(room.map_err(io::Error::other)?);
            let reader = LzmaReader::new_with_props(data, size, properties, dictionary, None)?;
            Some(Box::new(reader))
        }
        Method::Zstd => {
            let decoder = StreamingDecoder::new(data);
            Some(Box::new(decoder.map_err(|error| io::Error::other(error.to_string()))?))
        }
    })
}

#[cfg(test)]
#[cfg(not(miri))] // Miri is slow, and these are other people's libraries
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    #[test]
    fn zstandard_is_read_and_broken_data_is_an_error() {
        let contents: Vec<u8> = (0..200_000u32).map(|number| (number / 9) as u8).collect();
        let data = compress_to_vec(&contents[..], CompressionLevel::Fastest);
        let read = |data: &[u8]| {
            let mut found = Vec::new();
            let reader = reader(Method::Zstd, data, contents.len() as u64)?;
            reader.unwrap().read_to_end(&mut found).map(|_| found)
        };
        assert_eq!(read(&data).unwrap(), contents);
        assert!(read(&data[..data.len() / 2]).is_err());
        assert!(read(b"no frame of Zstandard").is_err());
    }
}
