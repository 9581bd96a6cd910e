//! Saving arrays to NPY and NPZ files.
//!
//! An NPZ file is written in one direction: the CRC and the deflated size of a member stand before
//! its data. So its pieces are deflated, or their CRCs computed, by several threads first, and then
//! the member is written. Each piece is deflated by itself, which makes the result independent of
//! the number of threads, and a little larger.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

use super::directory::check_name;
use super::elements::Elements;
use super::fault::{Fault, Place};
use super::target::Target;
use super::threads::{each_in_order, threads_of};
use super::zip::{self, Member};
use crate::array::Array;
use crate::error::{Error, Result};

/// The pieces for each thread that are worked on before the next member can be written.
const PIECES_PER_THREAD: usize = 4;

/// Saves an array to an NPY file, with the bytes that `numpy.save` writes. The file appears under
/// its path when it is complete; an older one is replaced and keeps its mode.
///
/// # Errors
/// [`Error::Os`], [`Error::FileNotFound`] for a folder that does not exist; [`Error::InvalidDType`]
/// for a dtype that an NPY file cannot describe.
///
/// ```
/// use shmarray::{Array, DType, Options, npy};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("a.npy");
/// let array = Array::create(DType::parse("<f4")?, &[480, 640], &Options::new())?;
/// npy::save(&path, &array)?;
/// let again = npy::Npy::open(npy::Source::file(&path)?)?.load(&Options::new())?;
/// assert_eq!(again.shape(), array.shape());
/// # Ok::<(), shmarray::Error>(())
/// ```
pub fn save(path: impl AsRef<Path>, array: &Array) -> Result<()> {
    save_elements(path, &Elements::of(array)?)
}

/// Saves elements to an NPY file, as [`save`] does.
///
/// # Errors
/// As for [`save`].
pub fn save_elements(path: impl AsRef<Path>, elements: &Elements<'_>) -> Result<()> {
    save_elements_while(path, elements, &mut || true)
}

/// Saves elements as [`save_elements`] does, and asks before each piece whether to go on.
///
/// # Errors
/// As for [`save_elements`]; [`Error::Os`] when it did not go on. No file is left then.
pub fn save_elements_while(
    path: impl AsRef<Path>,
    elements: &Elements<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut target = Target::create(path.as_ref())?;
    let place = target.place().clone();
    write(elements, &mut Output::new(&mut Asking { to: &mut target, go_on }, &place))?;
    target.finish()
}

/// Saves the bytes of a file, as [`save`] does.
///
/// # Errors
/// As for [`save`].
pub fn save_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let mut target = Target::create(path.as_ref())?;
    let place = target.place().clone();
    Output::new(&mut target, &place).write(bytes)?;
    target.finish()
}

/// Writes elements as an NPY file.
///
/// # Errors
/// [`Error::Os`] for an error of `to`; [`Error::InvalidDType`], [`Error::NoMemory`].
pub fn write_npy(to: &mut dyn Write, elements: &Elements<'_>) -> Result<()> {
    write(elements, &mut Output::new(to, &Place::Memory))
}

fn write(elements: &Elements<'_>, output: &mut Output<'_>) -> Result<()> {
    output.write(&elements.header().to_bytes()?)?;
    let mut piece = Vec::new();
    for index in 0..elements.pieces() {
        piece.clear();
        elements.read_piece(index, &mut piece)?;
        output.write(&piece)?;
    }
    Ok(())
}

/// The contents of a member of an NPZ file.
pub enum Contents<'a> {
    /// An array.
    Elements(Elements<'a>),
    /// Bytes, which are written as they are.
    Bytes(&'a [u8]),
}

/// Options of an NPZ file that is saved.
#[derive(Debug, Clone, Copy, Default)]
pub struct NpzOptions {
    /// Whether members are deflated. Otherwise they are stored.
    pub is_deflated: bool,
    /// The number of threads; 0 is one for each core.
    pub threads: usize,
}

/// Saves named arrays to an NPZ file. Stored, it has the bytes that `numpy.savez` writes. The file
/// appears under its path when it is complete; an older one is replaced and keeps its mode.
///
/// The names are those in the archive, such as `image.npy`. A deflated member is in private memory,
/// deflated, until all of it is.
///
/// # Errors
/// As for [`save`]; [`Error::InvalidArgument`] for a name that is there twice, is longer than
/// 65,535 bytes, or that [`Npz::open`](super::Npz::open) refuses; [`Error::InvalidFile`] when
/// another process changes an array while it is saved.
pub fn save_npz(
    path: impl AsRef<Path>,
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
) -> Result<()> {
    save_npz_while(path, members, options, &mut || true)
}

/// Saves named arrays as [`save_npz`] does, and asks before each piece that is written whether to
/// go on.
///
/// # Errors
/// As for [`save_npz`]; [`Error::Os`] when it did not go on. No file is left then.
pub fn save_npz_while(
    path: impl AsRef<Path>,
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut target = Target::create(path.as_ref())?;
    let place = target.place().clone();
    let mut asking = Asking { to: &mut target, go_on };
    write_members(members, options, &mut Output::new(&mut asking, &place))?;
    target.finish()
}

/// Writes named arrays as an NPZ file.
///
/// # Errors
/// As for [`save_npz`].
pub fn write_npz(
    to: &mut dyn Write,
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
) -> Result<()> {
    write_members(members, options, &mut Output::new(to, &Place::Memory))
}

/// A file that is written as long as the caller wants it.
struct Asking<'a> {
    to: &'a mut Target,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Write for Asking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.go_on)() { self.to.write(bytes) } else { Err(io::Error::other("stopped")) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The file that is written, and how many bytes it has.
struct Output<'o> {
    to: &'o mut dyn Write,
    place: &'o Place,
    bytes: u64,
}

impl<'o> Output<'o> {
    fn new(to: &'o mut dyn Write, place: &'o Place) -> Self {
        Self { to, place, bytes: 0 }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(|error| self.place.os("write", error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// A part of a member that one thread works on.
#[derive(Clone, Copy)]
struct Piece {
    member: usize,
    index: u64,
    is_last: bool,
}

/// The work on a piece: its CRC and size, and its deflated data.
struct Done {
    crc: Hasher,
    size: u64,
    deflated: Vec<u8>,
}

fn write_members(
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    check_names(members)?;
    let (mut written, mut waiting) = (Vec::with_capacity(members.len()), Vec::new());
    for wave in waves_of(members, threads_of(options.threads) * PIECES_PER_THREAD) {
        let order: Vec<usize> = (0..wave.len()).collect();
        let done = each_in_order(&order, options.threads, |at| {
            work(&members[wave[at].member].1, wave[at], options.is_deflated)
        })?;
        for (piece, done) in wave.iter().zip(done) {
            waiting.push(done);
            if piece.is_last {
                let (name, contents) = &members[piece.member];
                let offset = output.bytes;
                let member = joined(name, &waiting, options.is_deflated, offset);
                write_member(&member, contents, &waiting, output)?;
                written.push(member);
                waiting.clear();
            }
        }
    }
    let end = zip::directory(&written, output.bytes);
    output.write(&end)
}

fn check_names(members: &[(&str, Contents<'_>)]) -> Result<()> {
    let mut names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let invalid = |reason: String| Err(Error::argument("name", reason));
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid(format!("{:?} is there twice", pair[0]));
    }
    if let Some(name) = names.iter().find(|name| name.len() > usize::from(u16::MAX)) {
        return invalid(format!("{} bytes are no length of a member's name", name.len()));
    }
    let mut faults = names.iter().map(|name| (name, check_name(name)));
    match faults.find_map(|(name, checked)| Some((name, checked.err()?))) {
        Some((name, fault)) => invalid(format!("{name:?}: {}", fault.reason)),
        None => Ok(()),
    }
}

/// Returns all pieces, so many at once. They are made as they are asked for: an array with strides
/// of zero may have more than there is memory for.
fn waves_of(members: &[(&str, Contents<'_>)], count: usize) -> impl Iterator<Item = Vec<Piece>> {
    let mut pieces = pieces_of(members);
    std::iter::from_fn(move || {
        let wave: Vec<_> = pieces.by_ref().take(count).collect();
        (!wave.is_empty()).then_some(wave)
    })
}

fn pieces_of(members: &[(&str, Contents<'_>)]) -> impl Iterator<Item = Piece> {
    let pieces = |(member, (_, contents)): (usize, &(&str, Contents<'_>))| {
        let count = match contents {
            Contents::Elements(elements) => elements.pieces(),
            Contents::Bytes(_) => 1,
        };
        (0..count).map(move |index| Piece { member, index, is_last: index + 1 == count })
    };
    members.iter().enumerate().flat_map(pieces)
}

fn work(contents: &Contents<'_>, piece: Piece, is_deflated: bool) -> Result<Done> {
    let bytes = read_piece(contents, piece.index)?;
    let mut crc = Hasher::new();
    crc.update(&bytes);
    let deflated = if is_deflated { deflate(&bytes, piece.is_last)? } else { Vec::new() };
    Ok(Done { crc, size: bytes.len() as u64, deflated })
}

/// Returns the bytes of a piece of a member, the first one with the header.
fn read_piece<'c>(contents: &Contents<'c>, index: u64) -> Result<Cow<'c, [u8]>> {
    let elements = match contents {
        Contents::Bytes(bytes) => return Ok(Cow::Borrowed(bytes)),
        Contents::Elements(elements) => elements,
    };
    let mut bytes = if index == 0 { elements.header().to_bytes()? } else { Vec::new() };
    elements.read_piece(index, &mut bytes)?;
    Ok(Cow::Owned(bytes))
}

/// Deflates a piece, as zlib's level 6 does. Pieces are put one behind the other: each but the last
/// ends with a flush at a whole byte.
fn deflate(bytes: &[u8], is_last: bool) -> Result<Vec<u8>> {
    let mut state = Compress::new(Compression::new(6), false);
    let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
    let mut deflated = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let used = state.total_in() as usize;
        let (room, before) = (deflated.capacity(), deflated.len());
        state
            .compress_vec(&bytes[used..], &mut deflated, flush)
            .map_err(|error| Error::os("deflate", "", io::Error::other(error)))?;
        // It is done when it leaves room.
        if state.total_in() as usize == bytes.len() && deflated.len() < room {
            deflated.shrink_to_fit(); // it may wait for all others of its member
            return Ok(deflated);
        }
        deflated.reserve(before.max(4096));
    }
}

fn joined(name: &str, pieces: &[Done], is_deflated: bool, offset: u64) -> Member {
    let mut crc = Hasher::new();
    pieces.iter().for_each(|piece| crc.combine(&piece.crc));
    let size = pieces.iter().map(|piece| piece.size).sum();
    let deflated = pieces.iter().map(|piece| piece.deflated.len() as u64).sum();
    let compressed = if is_deflated { deflated } else { size };
    Member { name: name.to_owned(), is_deflated, crc: crc.finalize(), size, compressed, offset }
}

fn write_member(
    member: &Member,
    contents: &Contents<'_>,
    pieces: &[Done],
    output: &mut Output<'_>,
) -> Result<()> {
    output.write(&member.local_header())?;
    if member.is_deflated {
        return pieces.iter().try_for_each(|piece| output.write(&piece.deflated));
    }
    let mut crc = Hasher::new();
    for index in 0..pieces.len() as u64 {
        let bytes = read_piece(contents, index)?;
        crc.update(&bytes);
        output.write(&bytes)?;
    }
    match crc.finalize() == member.crc {
        true => Ok(()),
        false => {
            let fault = Fault::new("data", "another thread or process changed it meanwhile");
            Err(output.place.invalid(Some(&member.name), fault))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Options;
    use crate::dtype::DType;
    use crate::npy::{Npy, Npz, Source};

    fn array() -> Array {
        let array = Array::create(DType::parse("<u2").unwrap(), &[5, 7], &Options::new()).unwrap();
        (0..35).for_each(|at| array.set(&[at / 7, at % 7], (at * 1999) as u16).unwrap());
        array.slice(0, None, None, -1).unwrap().transpose()
    }

    fn is_same(read: &Array, written: &Array) {
        assert_eq!(read.shape(), written.shape());
        assert_eq!(read.to_bytes().unwrap(), written.to_bytes().unwrap());
    }

    #[test]
    fn a_file_in_memory_reads_as_what_was_written() {
        let array = array();
        let mut bytes = Vec::new();
        write_npy(&mut bytes, &Elements::of(&array).unwrap()).unwrap();
        is_same(&Npy::open(Source::bytes(&bytes)).unwrap().load(&Options::new()).unwrap(), &array);
        // Where Miri looks on, zlib-rs frees memory that its own argument borrows.
        for is_deflated in if cfg!(miri) { &[false][..] } else { &[false, true] } {
            let contents = || Contents::Elements(Elements::of(&array).unwrap());
            let members = [("a.npy", contents()), ("b.npy", contents())];
            let mut bytes = Vec::new();
            let options = NpzOptions { is_deflated: *is_deflated, threads: 2 };
            write_npz(&mut bytes, &members, options).unwrap();
            let npz = Npz::open(Source::bytes(&bytes)).unwrap();
            let read = npz.each(&[1, 0], 2, |member| member.load(&Options::new())).unwrap();
            read.iter().for_each(|read| is_same(read, &array));
        }
    }
}
