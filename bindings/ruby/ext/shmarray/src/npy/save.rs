//! Saves arrays to a file or an IO.
#![allow(unsafe_code)] // the elements of Numo's arrays, and the bytes of Ruby's Strings

use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;

use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Object, RArray, RModule, RString, Ruby, TryConvert, Value, function};
use shmarray::npy::{
    Contents, Elements, NpzOptions, save_elements_while, save_npz_while, write_npy, write_npz,
};
use shmarray::{Array, Result as CoreResult};

use super::maker::stopped;
use crate::arguments;
use crate::array::array_of;
use crate::error::{OrRaise, type_error};
use crate::gvl::{Caller, stoppable};
use crate::numo_shared::{NumoSource, Private, is_numo, is_shareable, source};

/// Defines the methods.
pub(super) fn define(files: RModule) -> Result<(), Error> {
    files.define_singleton_method("save", function!(save, 3))?;
    files.define_singleton_method("save_all", function!(save_all, 6))
}

/// Saves an array to the file at a path; to an IO if the path is nil.
fn save(ruby: &Ruby, path: Value, io: Value, array: Value) -> Result<(), Error> {
    let (target, owners) = (Target::of(path, io)?, ruby.ary_new());
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
    is_deflated: bool,
    threads: Value,
) -> Result<(), Error> {
    let (target, owners) = (Target::of(path, io)?, ruby.ary_new());
    let options = NpzOptions { is_deflated, threads: arguments::threads(ruby, threads)? };
    let saved = values.into_iter().map(|value| Saved::of(ruby, value, owners));
    let saved = saved.collect::<Result<Vec<_>, _>>()?;
    let contents = saved.iter().map(Saved::contents).collect::<CoreResult<Vec<_>>>();
    let members: Vec<_> = names.iter().map(String::as_str).zip(contents.or_raise(ruby)?).collect();
    while_in_place(&saved, |caller| match &target {
        Target::Path(path) => save_npz_while(path, &members, options, &mut || caller.goes_on()),
        Target::Io(io) => write_npz(&mut Output { io: *io, caller }, &members, options),
    })?
    .or_raise(ruby)?;
    black_box(owners);
    Ok(())
}

/// A value that is to be saved.
enum Saved {
    Array(Array),
    Numo(Private),
    Bytes(Vec<u8>),
}

impl Saved {
    /// Converts an array or a String. What keeps its elements is added to `owners`.
    fn of(ruby: &Ruby, value: Value, owners: RArray) -> Result<Self, Error> {
        if let Some(array) = array_of(ruby, value) {
            return Ok(Self::Array(Array::clone(&*array?)));
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
        match path.is_nil() {
            true => Ok(Self::Io(io.into())),
            false => PathBuf::try_convert(path).map(Self::Path),
        }
    }
}

/// Writes to an IO by its method `write`, with Ruby's lock.
struct Output<'c> {
    io: Opaque<Value>,
    caller: &'c Caller,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.caller.call(|| match Ruby::get() {
            Ok(ruby) => {
                let io = ruby.get_inner(self.io);
                io.funcall::<_, _, Value>("write", (ruby.str_from_slice(bytes),)).map(|_| ())
            }
            Err(_) => Ok(()), // no Ruby thread, and `call` runs this in one
        });
        match written {
            Some(()) if self.caller.goes_on() => Ok(bytes.len()),
            _ => Err(io::Error::other(stopped())),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
