//! Loads one NPY file, or many in one array.
#![allow(unsafe_code)] // the bytes of Ruby's Strings

use std::hint::black_box;
use std::ptr;

use magnus::value::ReprValue;
use magnus::{
    Error, Module, Object, RArray, RModule, RString, Ruby, TypedData, Value, function, method,
};
use shmarray::npy::{Batch, Npy, NpyHeader};
use shmarray::{Options, Order};

use super::input::input_of;
use super::maker::{Maker, of_file, stopped};
use crate::arguments;
use crate::array::{ArrayObject, Self_, bytes_of, close};
use crate::error::{OrRaise, argument_error, try_with_room, with_room};
use crate::gvl::{Caller, copying, stoppable};

/// The method that reads what Numo lacks.
const READER: &str = "Shmarray.load_npy";

/// Defines the methods.
pub(super) fn define(ruby: &Ruby, files: RModule) -> Result<(), Error> {
    files.define_singleton_method("load", function!(load, 3))?;
    files.define_singleton_method("load_all", function!(load_all, 4))?;
    files.define_singleton_method("header_bytes", function!(header_bytes, 1))?;
    files.define_singleton_method("header", function!(header, 2))?;
    files.define_singleton_method("handed_over", function!(handed_over, 2))?;
    ArrayObject::class(ruby).define_private_method("store_bytes", method!(store_bytes, 2))
}

/// Loads the array of a file.
fn load(ruby: &Ruby, path: Value, bytes: Value, is_numo: bool) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let (input, owner) = input_of(ruby, path, bytes)?;
    // SAFETY: `owner` is on the stack until the array is loaded.
    let open = || unsafe { input.source() }.and_then(Npy::open);
    let npy = copying(input.bytes(), open).or_raise(ruby)?;
    maker.check(ruby, npy.dtype().map_err(of_file).or_raise(ruby)?, READER)?;
    let array = with_room(ruby, || copying(input.bytes(), || npy.load(&Options::new())))?;
    black_box(owner); // keeps the object on the stack until here
    maker.make(ruby, array)
}

/// Loads files of one shape and dtype into one array. A block is told how many are read.
fn load_all(
    ruby: &Ruby,
    all: RArray,
    are_bytes: bool,
    threads: Value,
    is_numo: bool,
) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let threads = arguments::threads(ruby, threads)?;
    let owners = ruby.ary_new();
    let nil = ruby.qnil().as_value();
    let mut files = Vec::with_capacity(all.len());
    for one in all {
        let (input, owner) =
            if are_bytes { input_of(ruby, nil, one)? } else { input_of(ruby, one, nil)? };
        owners.push(owner)?;
        files.push(input);
    }
    let has_block = ruby.block_given();
    // SAFETY: `owners` has every object that keeps bytes, and is on the stack until the batch is
    // loaded.
    let open = |index: usize| unsafe { files[index].source() };
    let batch = copying(usize::MAX, || Batch::open(files.len(), open));
    let batch = batch.map_err(of_file).or_raise(ruby)?;
    maker.check(ruby, batch.header().dtype().map_err(of_file).or_raise(ruby)?, READER)?;
    let total = files.len();
    let array = try_with_room(ruby, || {
        stoppable(usize::MAX, |caller| {
            let progress = |done| report(caller, has_block, done, total);
            batch.load(&Options::new(), threads, &progress).map_err(of_file)
        })
    })?;
    black_box(owners);
    maker.make(ruby, array)
}

/// Calls the block of the method, and asks whether to go on.
fn report(caller: &Caller, has_block: bool, done: usize, total: usize) -> shmarray::Result<()> {
    let yielded = || match Ruby::get() {
        Ok(ruby) => ruby.yield_values::<_, Value>((done, total)).map(|_| ()),
        Err(_) => Ok(()), // no Ruby thread, and `call` runs this in one
    };
    let is_reported = !has_block || caller.call(yielded).is_some();
    if is_reported && caller.goes_on() { Ok(()) } else { Err(stopped()) }
}

/// Returns the size of the header that begins with these 12 bytes.
fn header_bytes(ruby: &Ruby, start: RString) -> Result<u64, Error> {
    NpyHeader::size_bytes(&copied(start)).or_raise(ruby)
}

/// Returns the dtype, the shape and the order of a header, and the bytes of the elements.
fn header(
    ruby: &Ruby,
    bytes: RString,
    is_numo: bool,
) -> Result<(String, Vec<u64>, &'static str, u64), Error> {
    let header = NpyHeader::parse(&copied(bytes)).or_raise(ruby)?;
    let dtype = header.dtype().map_err(of_file).or_raise(ruby)?;
    Maker::new(ruby, is_numo)?.check(ruby, dtype, READER)?;
    let order = if header.order() == Order::F { "F" } else { "C" };
    Ok((dtype.text().to_owned(), header.shape().to_vec(), order, header.data_bytes()))
}

/// Copies bytes to an array whose elements lie side by side, from an offset on.
fn store_bytes(ruby: &Ruby, this: Self_, offset: u64, bytes: RString) -> Result<(), Error> {
    let array = this.array(ruby)?;
    let end = offset.checked_add(bytes.len() as u64);
    let is_dense = array.is_contiguous(Order::C) || array.is_contiguous(Order::F);
    if array.is_readonly() || !is_dense || end.is_none_or(|end| end > bytes_of(&array)) {
        return Err(argument_error(ruby, "these bytes have no place in the array"));
    }
    // SAFETY: no Ruby code runs that could change the String before it is copied.
    let from = unsafe { bytes.as_slice() };
    let to = array.as_ptr().wrapping_add(offset as usize);
    // SAFETY: the array maps `bytes_of` writable bytes from `as_ptr` on, among which these are, as
    // was just checked; a String's memory is in no segment, so the two overlap nowhere.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    Ok(())
}

fn copied(text: RString) -> Vec<u8> {
    // SAFETY: no Ruby code runs that could change the String while it is copied.
    unsafe { text.as_slice() }.to_vec()
}

/// Returns the object for the array of `this`, which is closed.
fn handed_over(ruby: &Ruby, this: Self_, is_numo: bool) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let array = shmarray::Array::clone(&*this.array(ruby)?); // it was loaded, and lies in no slot
    close(this)?;
    maker.make(ruby, array)
}
