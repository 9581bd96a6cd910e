//! Saves arrays to a file or an IO.
#![allow(unsafe_code)] // the elements of Numo's arrays, and the bytes of Ruby's Strings

use std::hint::black_box;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Object, RArray, RModule, RString, Ruby, TryConvert, Value, function};
use shmarray::Result as CoreResult;
use shmarray::npy::{
    Contents, Elements, NpzOptions, save_elements_while, save_npz_while, write_npy, write_npz,
    write_npz_stream,
};

use super::maker::stopped;
use crate::arguments;
use crate::array::array_of;
use crate::error::{OrRaise, type_error};
use crate::gvl::{Caller, stoppable};
use crate::numo_shared::{NumoSource, Private, is_numo, is_shareable, source};
use crate::slot_use::Held;

/// Defines the methods.
pub(super) fn define(files: RModule) -> Result<(), Error> {
    files.define_singleton_method("save", function!(save, 3))?;
    files.define_singleton_method("save_all", function!(save_all, 5))
}

/// Saves an array to the file at a path; to an IO if the path is nil.
fn save(ruby: &Ruby, path: Value, io: Value, array: Value) -> Result<(), Error> {
    let target = Target::of(path, io)?;
    let owners = ruby.ary_new();
    let saved = match Saved::of(ruby, array, owners)? {
        Saved::Bytes(_) => return Err(no_array(ruby, array)),
        saved => [saved],
    };
    let elements = saved[0].elements().or_raise(ruby)?;
    while_in_place(&saved, |caller| match &target {
        Target::Path(path) => save_elements_while(path, &elements, &mut || caller.goes_on()),
        Target::Io(io) => write_npy(&mut Output { io: *io, caller }, &elements),
    })?
    .or_raise(ruby)?;
    black_box(owners); // keeps the objects alive until here
    Ok(())
}

/// Saves arrays and Strings by the names that they shall have in an NPZ file.
fn save_all(
    ruby: &Ruby,
    path: Value,
    io: Value,
    names: Vec<String>,
    values: RArray,
    (is_deflated, threads, align): (bool, Value, u16),
) -> Result<(), Error> {
    let target = Target::of(path, io)?;
    let owners = ruby.ary_new();
    let threads = arguments::threads(ruby, threads)?;
    let options = NpzOptions { is_deflated, threads, align };
    let is_seekable = matches!(target, Target::Io(_)) && is_seekable(io);
    let saved = values.into_iter().map(|value| Saved::of(ruby, value, owners));
    let saved = saved.collect::<Result<Vec<_>, _>>()?;
    let contents = saved.iter().map(Saved::contents).collect::<CoreResult<Vec<_>>>();
    let members: Vec<_> = names.iter().map(String::as_str).zip(contents.or_raise(ruby)?).collect();
    while_in_place(&saved, |caller| match &target {
        Target::Path(path) => save_npz_while(path, &members, options, &mut || caller.goes_on()),
        Target::Io(io) if is_seekable => {
            write_npz(&mut Output { io: *io, caller }, &members, options)
        }
        Target::Io(io) => write_npz_stream(&mut Output { io: *io, caller }, &members, options),
    })?
    .or_raise(ruby)?;
    black_box(owners);
    Ok(())
}

/// A value that is to be saved.
enum Saved {
    Array(Held),
    Numo(Box<Private>),
    Bytes(Vec<u8>),
}

impl Saved {
    /// Converts an array or a String. What keeps its elements is added to `owners`.
    fn of(ruby: &Ruby, value: Value, owners: RArray) -> Result<Self, Error> {
        if let Some(array) = array_of(ruby, value) {
            return array.map(Self::Array);
        }
        if let Some(text) = RString::from_value(value) {
            // SAFETY: no Ruby code runs that could change the String while it is copied.
            return Ok(Self::Bytes(unsafe { text.as_slice() }.to_vec()));
        }
        if !is_numo(ruby, value) || !is_shareable(ruby, value.class().as_value())? {
            return Err(no_array(ruby, value));
        }
        match source(ruby, value)? {
            NumoSource::Shared(array) => Ok(Self::Array(array)),
            NumoSource::Private(private) => {
                owners.push(private.value())?;
                Ok(Self::Numo(private))
            }
            NumoSource::Objects(_) => Err(no_array(ruby, value)),
        }
    }

    fn elements(&self) -> CoreResult<Elements<'_>> {
        match self {
            Self::Array(array) => Elements::of(array),
            // SAFETY: `owners` has the value, and the callers use the elements only in
            // `while_in_place`.
            Self::Numo(private) => unsafe { private.elements() },
            Self::Bytes(_) => unreachable!("Strings are saved as they are"),
        }
    }

    fn contents(&self) -> CoreResult<Contents<'_>> {
        match self {
            Self::Bytes(bytes) => Ok(Contents::Bytes(bytes)),
            _ => self.elements().map(Contents::Elements),
        }
    }
}

fn no_array(ruby: &Ruby, value: Value) -> Error {
    let text = format!(
        "{} cannot be saved: give a Shmarray::Array, or an array of one of Numo's classes of \
         numbers",
        value.class()
    );
    type_error(ruby, text)
}

/// Runs work that reads the elements. Other Ruby threads run meanwhile, unless there is no room for
/// the guards that keep them from replacing the elements.
fn while_in_place<T: Send>(
    saved: &[Saved],
    work: impl FnOnce(&Caller) -> T + Send,
) -> Result<T, Error> {
    let of_numo = |one: &Saved| match one {
        Saved::Numo(private) => Some(private.reading()),
        _ => None,
    };
    let guards: Option<Vec<_>> = saved.iter().filter_map(of_numo).collect();
    stoppable(if guards.is_some() { usize::MAX } else { 0 }, work)
}

/// The file or the IO to which is saved.
enum Target {
    Path(PathBuf),
    Io(Opaque<Value>),
}

impl Target {
    fn of(path: Value, io: Value) -> Result<Self, Error> {
        if path.is_nil() {
            Ok(Self::Io(io.into()))
        } else {
            PathBuf::try_convert(path).map(Self::Path)
        }
    }
}

/// Whether an IO can write over what it has written: one that is not a pipe, and does not append.
fn is_seekable(io: Value) -> bool {
    let position = io.funcall::<_, _, u64>("pos", ());
    position.is_ok_and(|at| io.funcall::<_, _, Value>("seek", (at,)).is_ok()) && !appends(io)
}

fn appends(io: Value) -> bool {
    #[cfg(unix)]
    if let Ok(fd) = io.funcall::<_, _, i32>("fileno", ()) {
        // SAFETY: the call reads the flags of a number, and fails if no file has it.
        return unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_APPEND != 0;
    }
    false
}

/// Writes to an IO by its methods, with Ruby's lock.
struct Output<'c> {
    io: Opaque<Value>,
    caller: &'c Caller,
}

impl Output<'_> {
    fn call<T: Send>(
        &self,
        work: impl FnOnce(&Ruby, Value) -> Result<T, Error> + Send,
    ) -> io::Result<T> {
        // `call` runs this in a thread of Ruby's.
        let done = self.caller.call(|| match Ruby::get() {
            Ok(ruby) => work(&ruby, ruby.get_inner(self.io)).map(Some),
            Err(_) => Ok(None),
        });
        match done.flatten() {
            Some(done) if self.caller.goes_on() => Ok(done),
            _ => Err(io::Error::other(stopped())),
        }
    }
}

impl Seek for Output<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(at) => {
                self.call(|_, io| io.funcall::<_, _, Value>("seek", (at,)).map(|_| at))
            }
            SeekFrom::Current(0) => self.call(|_, io| io.funcall("pos", ())),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|ruby, io| {
            io.funcall::<_, _, Value>("write", (ruby.str_from_slice(bytes),)).map(|_| bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
