//! Saving arrays to NPY and NPZ files.
//!
//! Each piece of a member of an NPZ file is copied once, by several threads, and its CRC is that of
//! the copy, which is written: others may change the array meanwhile. The CRC and the size stand
//! before the data, so they are written last. In a stream, where nothing can be written twice, they
//! follow the data, as Python's zipfile has it. Each piece is deflated by itself, which makes the
//! result independent of the number of threads, and a little larger.

use std::borrow::Cow;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

use super::directory::check_name;
use super::elements::Elements;
use super::fault::Place;
use super::target::Target;
use super::threads::{each_in_order, threads_of};
use super::zip::{self, ZipMember};
use crate::array::Array;
use crate::value::error::{Error, Result};

/// The pieces for each thread that are worked on before the next member can be written.
const PIECES_PER_THREAD: usize = 4;
/// The largest alignment of a member.
const ALIGN_MOST: u16 = 4096;

/// Saves an array to an NPY file, with the bytes that `numpy.save` writes. The file appears under
/// its path when it is complete, and takes the place of an older one.
///
/// # An older file
/// | the older file | becomes | readers, mappings | a kill leaves |
/// |---|---|---|---|
/// | has one name, and a new file can have its owner and attributes | a new file with its owner, group, mode, extended attributes and access control list | keep the older contents | the older file or the new one |
/// | has several names (hard links) | is written in place, so all names have the new contents | see it change | the older file, the new one, or a part |
/// | belongs to a user or a group to which this process cannot give a file, or has an attribute that it cannot set | the same | the same | the same |
/// | cannot be replaced: it is a mount, or its folder may not be written | the same | the same | the same |
/// | is an open file by its path, such as `/dev/stdout` | the same | the same | the same |
/// | is a pipe or a device | is written as it is, in one direction | | a part |
///
/// A file that is written in place is first saved as a whole in a temporary file: in its folder, in
/// that of temporary files (`TMPDIR`), or in memory. So an array may be saved over the file that it
/// maps, and an error before the copying, also for want of room, leaves the older contents. During
/// the copying the file begins with 64 zeros: a part, which a kill or an error of the disk leaves,
/// is refused as an NPY file, and in an NPZ file members have their CRC. Two savers at once may mix
/// their contents, as with `numpy.save`.
///
/// A file is replaced also where its mode lets nobody write it: its folder decides. One that would
/// be written in place is then an error. Outside Linux, extended attributes are those of new files.
///
/// A save that is killed may leave a hidden file, `.shmarray-N.tmp`, beside the path. On Linux,
/// later saves in that folder remove it, mostly the next one.
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
/// As for [`save_elements`]; [`Error::Os`] when it did not go on. An older file stays then.
pub fn save_elements_while(
    path: impl AsRef<Path>,
    elements: &Elements<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut target = Target::create(path.as_ref())?;
    let place = target.written().clone();
    write(elements, &mut Output::new(&mut Asking { to: &mut target, go_on }, &place))?;
    target.finish()
}

/// Saves the bytes of a file, as [`save`] does.
///
/// # Errors
/// As for [`save`].
pub fn save_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let mut target = Target::create(path.as_ref())?;
    let place = target.written().clone();
    Output::new(&mut Stream(&mut target), &place).write(bytes)?;
    target.finish()
}

/// Saves a file in pieces, as [`save`] does. `next` replaces the piece, and says whether there was
/// one.
pub(crate) fn save_pieces(
    path: &Path,
    next: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool>,
) -> Result<()> {
    let mut target = Target::create(path)?;
    let place = target.written().clone();
    let mut stream = Stream(&mut target);
    let mut output = Output::new(&mut stream, &place);
    let mut piece = Vec::new();
    while next(&mut piece)? {
        output.write(&piece)?;
        piece.clear();
    }
    target.finish()
}

/// Writes elements as an NPY file.
///
/// # Errors
/// [`Error::Os`] for an error of `to`; [`Error::InvalidDType`], [`Error::NoMemory`].
pub fn write_npy(to: &mut dyn Write, elements: &Elements<'_>) -> Result<()> {
    write(elements, &mut Output::new(&mut Stream(to), &Place::Memory))
}

fn write(elements: &Elements<'_>, output: &mut Output<'_>) -> Result<()> {
    let mut piece = elements.header().to_bytes()?;
    for index in 0..elements.pieces() {
        elements.read_piece(index, &mut piece)?;
        output.write(&piece)?;
        piece.clear();
    }
    Ok(())
}

/// The contents of a member of an NPZ file.
#[expect(clippy::exhaustive_enums, reason = "a member is an array or bytes")]
pub enum Contents<'a> {
    /// An array.
    Elements(Elements<'a>),
    /// Bytes, which are written as they are.
    Bytes(&'a [u8]),
}

/// Options of an NPZ file that is saved.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers name every option")]
pub struct NpzOptions {
    /// Whether members are deflated. Otherwise they are stored.
    pub is_deflated: bool,
    /// The number of threads; 0 is one for each core.
    pub threads: usize,
    /// The alignment of the members in bytes, a power of two up to 4,096, such as 64: stored arrays
    /// that are mapped are aligned then. It adds a field to each header that other programs pass
    /// over. 0 and 1 add nothing.
    pub align: u16,
}

/// Saves named arrays to an NPZ file. Stored, it has the bytes that `numpy.savez` writes. The file
/// appears under its path when it is complete, and takes an older one's place as with [`save`].
///
/// The names are those in the archive, such as `image.npy`. Others may change the arrays meanwhile;
/// the file then has some elements from before and some from after.
///
/// # Errors
/// As for [`save`]; [`Error::InvalidArgument`] for an alignment that is none, and for a name that
/// is there twice, is longer than 65,535 bytes, or that [`Npz::open`](super::Npz::open) refuses.
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
/// As for [`save_npz`]; [`Error::Os`] when it did not go on. An older file stays then.
pub fn save_npz_while(
    path: impl AsRef<Path>,
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut target = Target::create(path.as_ref())?;
    let place = target.written().clone();
    let mut asking = Asking { to: &mut target, go_on };
    write_members(members, options, &mut Output::new(&mut asking, &place))?;
    target.finish()
}

/// Writes named arrays as an NPZ file, from where `to` is now on.
///
/// # Errors
/// As for [`save_npz`].
pub fn write_npz(
    to: &mut (impl Write + Seek),
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
) -> Result<()> {
    let start = to.stream_position().map_err(|error| Place::Memory.os("seek", error))?;
    let mut output = Output { to: &mut Seekable(to), place: &Place::Memory, bytes: start };
    write_members(members, options, &mut output)
}

/// Writes named arrays as an NPZ file to a stream, such as a pipe: the size of a member follows its
/// data.
///
/// # Errors
/// As for [`save_npz`].
pub fn write_npz_stream(
    to: &mut dyn Write,
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
) -> Result<()> {
    write_members(members, options, &mut Output::new(&mut Stream(to), &Place::Memory))
}

/// Where a file is written.
trait Sink {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes bytes over those at a position, and returns to the end. `None` if it cannot.
    fn overwrite(&mut self) -> Option<Overwrite<'_>>;
}

type Overwrite<'s> = Box<dyn FnMut(u64, &[u8]) -> io::Result<()> + 's>;

/// A file that is written as long as the caller wants it.
struct Asking<'a> {
    to: &'a mut Target,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Sink for Asking<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if (self.go_on)() { self.to.write_all(bytes) } else { Err(io::Error::other("stopped")) }
    }

    fn overwrite(&mut self) -> Option<Overwrite<'_>> {
        let file = self.to.seekable()?;
        Some(Box::new(move |at, bytes| overwrite(file, at, bytes)))
    }
}

/// What can be written again.
struct Seekable<'a, W>(&'a mut W);

impl<W: Write + Seek> Sink for Seekable<'_, W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn overwrite(&mut self) -> Option<Overwrite<'_>> {
        Some(Box::new(move |at, bytes| overwrite(self.0, at, bytes)))
    }
}

fn overwrite(file: &mut (impl Write + Seek), at: u64, bytes: &[u8]) -> io::Result<()> {
    let end = file.stream_position()?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(end)).map(drop)
}

/// What is written in one direction.
struct Stream<'a>(&'a mut dyn Write);

impl Sink for Stream<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn overwrite(&mut self) -> Option<Overwrite<'_>> {
        None
    }
}

/// The file that is written, and how many bytes it has.
struct Output<'o> {
    to: &'o mut dyn Sink,
    place: &'o Place,
    bytes: u64,
}

impl<'o> Output<'o> {
    fn new(to: &'o mut dyn Sink, place: &'o Place) -> Self {
        Self { to, place, bytes: 0 }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(|error| self.place.os("write", error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the header of a member, of which the CRC and the sizes are not known yet.
    fn begin(&mut self, member: &ZipMember) -> Result<()> {
        self.write(&member.local_header())
    }

    /// Writes what is known now that the data of a member has been written.
    fn finish(&mut self, member: &ZipMember) -> Result<()> {
        if member.is_streamed {
            return self.write(&member.descriptor());
        }
        let Some(mut overwrite) = self.to.overwrite() else { return Ok(()) };
        overwrite(member.offset, &member.local_header())
            .map_err(|error| self.place.os("write", error))
    }
}

/// A part of a member that one thread works on.
#[derive(Clone, Copy)]
struct Piece {
    member: usize,
    index: u64,
    is_last: bool,
}

/// The work on a piece: its CRC and size, and what is written of it.
struct Done<'c> {
    crc: Hasher,
    size: u64,
    data: Cow<'c, [u8]>,
}

fn write_members(
    members: &[(&str, Contents<'_>)],
    options: NpzOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    check_names(members)?;
    check_align(options.align)?;
    let is_streamed = output.to.overwrite().is_none();
    let mut written: Vec<ZipMember> = Vec::with_capacity(members.len());
    let mut crc = Hasher::new();
    for wave in waves_of(members, threads_of(options.threads) * PIECES_PER_THREAD) {
        let order: Vec<usize> = (0..wave.len()).collect();
        let done = each_in_order(&order, options.threads, |at| {
            work(&members[wave[at].member].1, wave[at], options.is_deflated)
        })?;
        for (piece, done) in wave.iter().zip(done) {
            if piece.index == 0 {
                let name = members[piece.member].0.to_owned();
                let NpzOptions { is_deflated, align, .. } = options;
                let member = ZipMember::new(name, is_deflated, is_streamed, align, output.bytes);
                output.begin(&member)?;
                written.push(member);
                crc = Hasher::new();
            }
            output.write(&done.data)?;
            let Some(member) = written.last_mut() else { continue };
            crc.combine(&done.crc);
            member.size += done.size;
            member.compressed += done.data.len() as u64;
            if piece.is_last {
                member.crc = crc.clone().finalize();
                output.finish(member)?;
            }
        }
    }
    let end = zip::directory(&written, output.bytes);
    output.write(&end)
}

fn check_align(align: u16) -> Result<()> {
    match align {
        0 => Ok(()),
        1..=ALIGN_MOST if align.is_power_of_two() => Ok(()),
        _ => {
            Err(Error::argument("align", format!("{align} is no power of two up to {ALIGN_MOST}")))
        }
    }
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

fn work<'c>(contents: &Contents<'c>, piece: Piece, is_deflated: bool) -> Result<Done<'c>> {
    let bytes = read_piece(contents, piece.index)?;
    let mut crc = Hasher::new();
    crc.update(&bytes);
    let size = bytes.len() as u64;
    let data = if is_deflated { Cow::Owned(deflate(&bytes, piece.is_last)?) } else { bytes };
    Ok(Done { crc, size, data })
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
        let room = deflated.capacity();
        let before = deflated.len();
        state
            .compress_vec(&bytes[used..], &mut deflated, flush)
            .map_err(|error| Error::os("deflate", "", io::Error::other(error)))?;
        // It is done when it leaves room.
        if state.total_in() as usize == bytes.len() && deflated.len() < room {
            return Ok(deflated);
        }
        deflated.reserve(before.max(4096));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Options;
    use crate::file::npy::{Npy, Npz, Source};
    use crate::value::dtype::DType;

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
            let options = NpzOptions { is_deflated: *is_deflated, threads: 2, align: 64 };
            let mut file = io::Cursor::new(Vec::new());
            let mut stream = Vec::new();
            write_npz(&mut file, &members, options).unwrap();
            write_npz_stream(&mut stream, &members, options).unwrap();
            for bytes in [file.into_inner(), stream] {
                let npz = Npz::open(Source::bytes(&bytes)).unwrap();
                let read = npz.each(&[1, 0], 2, |member| {
                    assert!(*is_deflated || member.stored_at().unwrap() % 64 == 0);
                    member.load(&Options::new())
                });
                read.unwrap().iter().for_each(|read| is_same(read, &array));
            }
        }
    }
}
