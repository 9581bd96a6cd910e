//! The bytes of an NPY or NPZ file: the file itself, or memory that holds it.
//!
//! Nothing here makes a slice of memory that others may write: it is copied out, byte by byte
//! atomic, before anything looks at it. A file that becomes shorter while it is read is a fault,
//! and never a bus error; only [`FileMap`] can have one, as it says.
#![allow(unsafe_code)] // memory that languages describe by its address

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use memmap2::{MmapOptions, MmapRaw};
use rawzip::ReaderAt;

use super::fault::{Fault, Place};
use super::threads::{PIECE_BYTES, give_way};
use crate::element::copy::{count_copied, in_threads, parts_of};
use crate::element::per_byte;
use crate::system;
#[cfg(doc)]
use crate::value::error::Error;
use crate::value::error::Result;

/// The page size at which parts of a read begin.
const PAGE_BYTES: usize = 4096;

/// The bytes of an NPY or NPZ file: the file itself, or memory that holds it.
///
/// ```no_run
/// use shmarray::npy::{Npy, Source};
/// let array = Npy::open(Source::file("image.npy")?)?.load(&shmarray::Options::new())?;
/// # Ok::<(), shmarray::Error>(())
/// ```
pub struct Source<'a> {
    bytes: Bytes<'a>,
    size: u64,
    place: Place,
}

enum Bytes<'a> {
    Memory { start: *const u8, lifetime: PhantomData<&'a [u8]> },
    File(File),
}

// SAFETY: the value must be usable in another thread; the memory is only read, and `memory` demands
// that any thread may read it during `'a`.
unsafe impl Send for Source<'_> {}
// SAFETY: shared references must be usable by several threads at once; they only read, from memory
// by atomic loads, from the file by calls that take the position.
unsafe impl Sync for Source<'_> {}

impl<'a> Source<'a> {
    /// Returns a file, open for reading.
    ///
    /// # Errors
    /// [`Error::Os`] when it cannot be opened; [`Error::InvalidFile`] when it is no regular file,
    /// such as a pipe: read that, and pass its bytes.
    pub fn file(path: impl AsRef<Path>) -> Result<Source<'static>> {
        let path = path.as_ref();
        let place = Place::Path(path.to_owned());
        // Asked before it is opened: to open a pipe waits for its writer.
        let facts = fs::metadata(path).map_err(|error| place.os("open", error))?;
        if !facts.is_file() {
            return Err(place.invalid(None, Fault::new("file", "it is not a regular file")));
        }
        let file = open_at_once(path).map_err(|error| place.os("open", error))?;
        Source::opened(file, path)
    }

    /// Returns a file that is open for reading already. The path is for errors.
    ///
    /// # Errors
    /// As for [`Source::file`].
    pub fn opened(file: File, path: impl AsRef<Path>) -> Result<Source<'static>> {
        let place = Place::Path(path.as_ref().to_owned());
        let facts = file.metadata().map_err(|error| place.os("fstat", error))?;
        if facts.is_file() {
            Ok(Source { bytes: Bytes::File(file), size: facts.len(), place })
        } else {
            Err(place.invalid(None, Fault::new("file", "it is not a regular file")))
        }
    }

    /// Returns memory that holds a file.
    #[must_use]
    pub fn bytes(bytes: &'a [u8]) -> Self {
        // SAFETY: the slice can be read by any thread during its lifetime.
        unsafe { Self::memory(bytes.as_ptr(), bytes.len()) }
    }

    /// Returns memory that holds a file, and that others may write meanwhile. They get an array of
    /// some of the bytes before and some of the bytes after, or an error.
    ///
    /// # Safety
    /// The `size` bytes from `start` on can be read by any thread during `'a`.
    #[must_use]
    pub unsafe fn memory(start: *const u8, size: usize) -> Self {
        let bytes = Bytes::Memory { start, lifetime: PhantomData };
        Self { bytes, size: size as u64, place: Place::Memory }
    }

    /// Returns the size of the file in bytes, as it was when it was opened.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size
    }

    /// Returns the same memory once more. A file cannot be read by two sources of one fd.
    ///
    /// # Panics
    /// If it is a file.
    #[must_use]
    pub fn again(&self) -> Source<'_> {
        match self.bytes {
            // SAFETY: the memory can be read by any thread during `'a`, as `memory` was promised,
            // and the borrow of `self` is shorter.
            Bytes::Memory { start, .. } => unsafe { Self::memory(start, self.size as usize) },
            Bytes::File(_) => panic!("a file is opened again by its path"),
        }
    }

    /// Whether it is memory, and not a file.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self.bytes, Bytes::Memory { .. })
    }

    /// Maps a file. `None` for memory, and where this process has too many mappings for one more.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn map(&self) -> Result<Option<FileMap>> {
        match &self.bytes {
            Bytes::Memory { .. } => Ok(None),
            Bytes::File(file) => FileMap::new(file, self.size, &self.place),
        }
    }

    /// Returns the source with a name, which errors about it then have.
    #[must_use]
    pub fn named(mut self, name: impl AsRef<Path>) -> Self {
        self.place = Place::Path(name.as_ref().to_owned());
        self
    }

    /// Returns the name that errors have: the path, or `in memory`.
    #[must_use]
    pub fn name(&self) -> String {
        self.place.to_string()
    }

    /// Returns the file by a descriptor of its own; `None` for memory.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn try_clone_file(&self) -> Result<Option<File>> {
        match &self.bytes {
            Bytes::Memory { .. } => Ok(None),
            Bytes::File(file) => {
                file.try_clone().map(Some).map_err(|error| self.place.os("dup", error))
            }
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the source as one of a batch: errors about memory then say which.
    pub(super) fn numbered(mut self, index: usize) -> Self {
        if matches!(self.place, Place::Memory) {
            self.place = Place::Item(index);
        }
        self
    }

    /// Reads all of `to`, from a byte of the file on.
    pub(super) fn read(&self, to: &mut [u8], offset: u64) -> Result<()> {
        match self.read_pieces(to, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.place.invalid(None, ends_early(offset, to.len() as u64)))
            }
            Err(error) => Err(self.place.os("pread", error)),
        }
    }

    fn read_pieces(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        if to.len() <= PIECE_BYTES {
            return self.read_exact_at(to, offset);
        }
        for (number, piece) in to.chunks_mut(PIECE_BYTES).enumerate() {
            self.read_exact_at(piece, offset + (number * PIECE_BYTES) as u64)?;
            give_way();
        }
        Ok(())
    }

    /// Reads as [`Source::read`] does, a large part by several threads.
    pub(super) fn read_in_parts(&self, to: &mut [u8], offset: u64) -> Result<()> {
        let bytes = to.len();
        let parts = parts_of(bytes as u64);
        let part_bytes = bytes.div_ceil(parts).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let pieces: Vec<_> = to.chunks_mut(part_bytes).map(Mutex::new).collect();
        let first_error = OnceLock::new();
        in_threads(pieces.len(), |part| {
            let Some(mut piece) = pieces.get(part).and_then(|piece| piece.lock().ok()) else {
                return;
            };
            if let Err(error) = self.read(&mut piece, offset + (part * part_bytes) as u64) {
                let _ = first_error.set(error);
            }
        });
        if matches!(self.bytes, Bytes::Memory { .. }) {
            count_copied(bytes as u64);
        }
        first_error.into_inner().map_or(Ok(()), Err)
    }
}

fn ends_early(offset: u64, bytes: u64) -> Fault {
    Fault::new("data", format!("the file ends before the {bytes} bytes from byte {offset} on"))
}

impl ReaderAt for Source<'_> {
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.bytes {
            // No file reaches beyond this; the system would call it an invalid argument.
            Bytes::File(_) if offset > i64::MAX as u64 - to.len() as u64 => Ok(0),
            Bytes::File(file) => loop {
                match read_file_at(file, to, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => return read,
                }
            },
            Bytes::Memory { start, .. } => {
                let rest = self.size.saturating_sub(offset);
                let count = rest.min(to.len() as u64) as usize;
                let from = start.wrapping_add(offset.min(self.size) as usize);
                // SAFETY: `count` bytes from `offset` on lie inside the memory, whose size `memory`
                // was given; `to` is private and has room for them.
                unsafe { per_byte::copy(to.as_mut_ptr(), from, count) };
                Ok(count)
            }
        }
    }
}

/// Opens a file that was regular a moment ago. If a pipe has taken its place, this waits for no
/// writer.
#[cfg(target_os = "linux")]
fn open_at_once(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    match File::options().read(true).custom_flags(flags).open(path) {
        // A program has a lease of it, which it gives back now.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => File::open(path),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn read_file_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, to, offset)
}

#[cfg(windows)]
fn read_file_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, to, offset)
}

/// The number of files that are mapped now.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// A file in private memory, copy on write: the kernel reads a page when it is first touched, and a
/// store changes this process's copy only.
///
/// If another program makes the file shorter meanwhile, an access to the lost pages is a bus error
/// (SIGBUS). To avoid that, load the array instead of mapping its file.
pub struct FileMap {
    map: MmapRaw,
}

impl FileMap {
    fn new(file: &File, size: u64, place: &Place) -> Result<Option<Self>> {
        // A part of the mappings that a process may have is left to the program's own.
        let most = system::most_mappings() / 4;
        if MAPPED.fetch_add(1, Ordering::Relaxed) >= most {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
            return Ok(None);
        }
        // SAFETY: a mapping of a file must not be read as a slice while others write to the file;
        // it becomes a raw mapping at once, and `FileMap` gives out its address alone.
        match unsafe { MmapOptions::new().len(size as usize).map_copy(file) } {
            Ok(map) => Ok(Some(Self { map: map.into() })),
            Err(error) => {
                MAPPED.fetch_sub(1, Ordering::Relaxed);
                Err(place.os("mmap", error))
            }
        }
    }

    /// Returns the address of the file's first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Returns the size of the mapping in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.map.len()
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}
