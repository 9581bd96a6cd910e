//! The bytes of a member of an archive: read or inflated straight into their place, and counted.
//!
//! A [`Stream`] gives the bytes in order, as often as it is asked. [`Stream::finish`] then says
//! whether they were all and whether their CRC is that of the directory. No more bytes come out of
//! a deflated member than its directory entry declares, so the declared size bounds the memory.

use std::io::{self, Read};

use crc32fast::Hasher;
use flate2::{Decompress, FlushDecompress, Status};

use super::fault::Fault;
use super::methods::{self, Method};
use super::source::Source;
use super::threads::{PIECE_BYTES, give_way};
use crate::element::copy::parts_of;
use crate::value::error::{Error, Result};

/// The bytes of a deflated member that are read at once.
const INPUT_BYTES: u64 = 256 << 10;
/// The bytes that are read first: of most streams the header alone is wanted.
const FIRST_INPUT_BYTES: u64 = 1 << 10;
/// The bytes that a thread inflates before it gives way: some 150 µs. At the end of each piece the
/// library copies its window, so half as many cost a tenth of the speed.
const INFLATED_PIECE_BYTES: usize = 128 << 10;

/// Where a member lies in its archive, and what the directory says of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The first byte of its data, and one past the last.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) method: Method,
    /// The size of the member, inflated.
    pub(super) size: u64,
    pub(super) crc: u32,
}

/// A member that is being read.
pub(super) struct Stream<'m> {
    source: &'m Source<'m>,
    name: &'m str,
    extent: Extent,
    /// The next byte of the archive.
    at: u64,
    /// The bytes of the member that are still to come.
    left: u64,
    crc: Hasher,
    inflate: Option<Inflate>,
    /// The reader of a member that is compressed otherwise, when it was read first.
    other: Option<Box<dyn Read + 'm>>,
}

impl<'m> Stream<'m> {
    pub(super) fn new(source: &'m Source<'m>, name: &'m str, extent: Extent) -> Self {
        let inflate = (extent.method == Method::Deflated).then(Inflate::new);
        let at = extent.start;
        let left = extent.size;
        let crc = Hasher::new();
        Self { source, name, extent, at, left, crc, inflate, other: None }
    }

    /// Fills `to` with the next bytes of the member.
    ///
    /// # Errors
    /// [`Error::InvalidFile`], [`Error::Os`].
    pub(super) fn read(&mut self, to: &mut [u8]) -> Result<()> {
        let bytes = to.len() as u64;
        if bytes > self.left {
            let size = self.extent.size;
            return Err(self.invalid("size", format!("{size} bytes do not hold its array")));
        }
        match self.extent.method {
            Method::Stored => self.copy(to)?,
            Method::Deflated => self.inflate(to)?,
            _ => self.decompress(to)?,
        }
        self.left -= bytes;
        Ok(())
    }

    /// Reads what is left of the member, and compares its size and its CRC with the directory.
    ///
    /// # Errors
    /// As for [`Stream::read`].
    pub(super) fn finish(mut self) -> Result<()> {
        let mut rest = vec![0; self.left.min(INPUT_BYTES) as usize];
        while self.left > 0 {
            let count = self.left.min(INPUT_BYTES) as usize;
            self.read(&mut rest[..count])?;
        }
        match self.extent.method {
            Method::Stored => {}
            Method::Deflated => self.expect_end()?,
            _ => self.expect_no_more()?,
        }
        let found = self.crc.clone().finalize();
        let expected = self.extent.crc;
        if found == expected {
            Ok(())
        } else {
            let reason = format!("{found:08x}, and the directory says {expected:08x}");
            Err(self.invalid("CRC", reason))
        }
    }

    fn invalid(&self, field: &'static str, reason: String) -> Error {
        self.source.place().invalid(Some(self.name), Fault { field, reason })
    }

    /// Copies stored bytes: many by several threads, fewer in pieces, whose CRC is computed while
    /// they are in the cache.
    fn copy(&mut self, to: &mut [u8]) -> Result<()> {
        let in_parts = parts_of(to.len() as u64) > 1;
        if in_parts {
            self.source.read_in_parts(to, self.at)?;
        }
        let is_more = to.len() > PIECE_BYTES;
        for piece in to.chunks_mut(PIECE_BYTES) {
            if !in_parts {
                self.source.read(piece, self.at)?;
            }
            self.at += piece.len() as u64;
            self.crc.update(piece);
            if is_more {
                give_way();
            }
        }
        Ok(())
    }

    fn inflate(&mut self, to: &mut [u8]) -> Result<()> {
        let is_more = to.len() > INFLATED_PIECE_BYTES;
        for piece in to.chunks_mut(INFLATED_PIECE_BYTES) {
            let mut done = 0;
            while done < piece.len() {
                done += self.inflate_some(&mut piece[done..])?;
            }
            self.crc.update(piece);
            if is_more {
                give_way();
            }
        }
        Ok(())
    }

    /// Reads bytes of a member that is compressed by another method than deflate.
    fn decompress(&mut self, to: &mut [u8]) -> Result<()> {
        for piece in to.chunks_mut(PIECE_BYTES) {
            let mut done = 0;
            while done < piece.len() {
                match self.decompress_some(&mut piece[done..])? {
                    0 => {
                        let size = self.extent.size;
                        let reason = format!("the compressed data ends before {size} bytes");
                        return Err(self.invalid("size", reason));
                    }
                    count => done += count,
                }
            }
            self.crc.update(piece);
            give_way();
        }
        Ok(())
    }

    fn decompress_some(&mut self, to: &mut [u8]) -> Result<usize> {
        let reader = match &mut self.other {
            Some(reader) => reader,
            None => {
                let data =
                    Data { source: self.source, at: self.extent.start, end: self.extent.end };
                let made = methods::reader(self.extent.method, data, self.extent.size);
                let made = made.map_err(|error| self.undecodable(error))?;
                self.other.insert(made.unwrap_or_else(|| Box::new(io::empty())))
            }
        };
        reader.read(to).map_err(|error| self.undecodable(error))
    }

    /// Returns the error of the source or of the memory, if it is one.
    fn undecodable(&self, error: io::Error) -> Error {
        error.downcast().unwrap_or_else(|error| {
            let reason = format!("it is not data of {:?}: {error}", self.extent.method);
            self.invalid("data", reason)
        })
    }

    /// Checks that compressed data has no more bytes than the directory says.
    fn expect_no_more(&mut self) -> Result<()> {
        match self.decompress_some(&mut [0])? {
            0 => Ok(()),
            _ => {
                let reason = format!("the data has more than {} bytes", self.extent.size);
                Err(self.invalid("size", reason))
            }
        }
    }

    /// Checks that the deflated data ends here.
    fn expect_end(&mut self) -> Result<()> {
        let more = |stream: &Self| {
            let reason = format!("the deflated data has more than {} bytes", stream.extent.size);
            stream.invalid("size", reason)
        };
        let is_over = |stream: &Self| stream.inflate.as_ref().is_some_and(|inflate| inflate.ended);
        while !is_over(self) {
            if self.inflate_one_step(&mut [0])? > 0 {
                return Err(more(self));
            }
        }
        match self.inflate.as_ref().map_or(0, Inflate::unused) + (self.extent.end - self.at) {
            0 => Ok(()),
            unused => {
                let reason = format!("{unused} bytes follow the deflated data");
                Err(self.invalid("compressed size", reason))
            }
        }
    }

    /// Inflates into the start of `to`, which is not empty. Returns how many bytes, at least one.
    fn inflate_some(&mut self, to: &mut [u8]) -> Result<usize> {
        loop {
            let produced = self.inflate_one_step(to)?;
            if produced > 0 {
                return Ok(produced);
            }
            if self.inflate.as_ref().is_some_and(|inflate| inflate.ended) {
                let reason = format!("the deflated data ends before {} bytes", self.extent.size);
                return Err(self.invalid("size", reason));
            }
        }
    }

    /// Calls the library once, with new input if the last was used up.
    fn inflate_one_step(&mut self, to: &mut [u8]) -> Result<usize> {
        let source = self.source;
        let end = self.extent.end;
        let Some(inflate) = &mut self.inflate else { return Ok(0) };
        if inflate.unused() == 0 && self.at < end {
            self.at += inflate.refill(source, self.at, end)?;
        }
        let has_input = inflate.unused() > 0;
        let step = inflate.step(to);
        let ended = inflate.ended;
        match step {
            Some(0) if !has_input && !ended => {
                Err(self.invalid("compressed size", "the deflated data is cut off".to_owned()))
            }
            Some(produced) => Ok(produced),
            None => Err(self.invalid("data", "it is not deflated data".to_owned())),
        }
    }
}

/// The compressed data of a member, for a library that reads it.
struct Data<'m> {
    source: &'m Source<'m>,
    at: u64,
    end: u64,
}

impl Read for Data<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = (self.end - self.at).min(to.len() as u64) as usize;
        self.source.read(&mut to[..count], self.at).map_err(io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The state of the library that inflates, and its input.
struct Inflate {
    state: Decompress,
    input: Vec<u8>,
    /// The bytes of `input` that were used.
    used: usize,
    ended: bool,
}

impl Inflate {
    fn new() -> Self {
        Self { state: Decompress::new(false), input: Vec::new(), used: 0, ended: false }
    }

    fn unused(&self) -> u64 {
        (self.input.len() - self.used) as u64
    }

    fn refill(&mut self, source: &Source<'_>, at: u64, end: u64) -> Result<u64> {
        let most = if self.input.is_empty() { FIRST_INPUT_BYTES } else { INPUT_BYTES };
        let count = (end - at).min(most);
        self.input.resize(count as usize, 0);
        source.read(&mut self.input, at)?;
        self.used = 0;
        Ok(count)
    }

    /// Returns the number of bytes written to `to`. `None` if the data is invalid.
    fn step(&mut self, to: &mut [u8]) -> Option<usize> {
        if self.ended {
            return Some(0);
        }
        let before_in = self.state.total_in();
        let before_out = self.state.total_out();
        let input = &self.input[self.used..];
        let status = self.state.decompress(input, to, FlushDecompress::None).ok()?;
        self.used += (self.state.total_in() - before_in) as usize;
        self.ended = status == Status::StreamEnd;
        Some((self.state.total_out() - before_out) as usize)
    }
}
