//! The class `Shmarray::NpzFile`: the members of an NPZ file.
//!
//! `lib/shmarray/npz_file.rb` gives the members their names, and makes the class a collection.
#![allow(unsafe_code)] // what the derive writes, and the bytes of a file

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use magnus::gc::Marker;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Module, Object, RArray, RClass, RModule, Ruby, TypedData,
    Value, method,
};
use shmarray::npy::{Member, Npz};
use shmarray::{Array, Options};

use super::input::input_of;
use super::maker::{Maker, of_file, stopped};
use crate::arguments;
use crate::error::{OrRaise, try_with_room, type_error, unless_closed};
use crate::gvl::{copying, look_up_class, stoppable};

/// The method that reads what Numo lacks.
const READER: &str = "Shmarray.load_npz";

/// The Rust value of a `Shmarray::NpzFile`; `None` after it was closed.
#[derive(TypedData)]
#[magnus(class = "Shmarray::NpzFile", free_immediately, size, mark)]
struct NpzObject {
    open: RefCell<Option<Open>>,
    maker: Maker,
}

/// An archive, and the object that keeps its bytes: `npz` is used only while that is marked or on a
/// stack.
#[derive(Clone)]
struct Open {
    npz: Arc<Npz<'static>>,
    owner: Opaque<Value>,
    /// Whether it is a file, and not memory.
    is_file: bool,
}

impl DataTypeFunctions for NpzObject {
    fn mark(&self, marker: &Marker) {
        // Nothing is allocated while the cell is borrowed, so no collection finds it so.
        if let Some(open) = self.open.borrow().as_ref() {
            marker.mark(open.owner);
        }
    }
}

/// Defines the class.
pub(super) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    let class = shmarray.define_class("NpzFile", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("open", method!(open, 4))?;
    class.define_private_method("members", method!(NpzObject::members, 0))?;
    class.define_private_method("load_members", method!(NpzObject::load_members, 2))?;
    class.define_private_method("verify_members", method!(NpzObject::verify_members, 1))?;
    class.define_method("close", method!(NpzObject::close, 0))?;
    class.define_method("closed?", method!(NpzObject::is_closed, 0))?;
    look_up_class::<NpzObject>(ruby)
}

/// Opens an archive, as an object of a class that is this one or a child of it.
fn open(
    ruby: &Ruby,
    class: RClass,
    path: Value,
    bytes: Value,
    max_bytes: Value,
    is_numo: bool,
) -> Result<Value, Error> {
    let maker = Maker::new(ruby, is_numo)?;
    let max_bytes = arguments::max_bytes(ruby, max_bytes)?;
    let (input, owner) = input_of(ruby, path, bytes)?;
    // SAFETY: `owner` is on the stack until the object marks it.
    let open = || unsafe { input.source() }.and_then(Npz::open);
    let npz = copying(input.bytes(), open).or_raise(ruby)?;
    let npz = max_bytes.into_iter().fold(npz, Npz::with_max_bytes);
    let npz = Arc::new(npz);
    let is_file = bytes.is_nil();
    let open = RefCell::new(Some(Open { npz, owner: owner.into(), is_file }));
    let object = ruby.obj_wrap_as(NpzObject { open, maker }, class).as_value();
    black_box(owner);
    Ok(object)
}

/// A member that was loaded.
enum Loaded {
    Array(Array),
    Bytes(Vec<u8>),
    /// Why no array of its dtype can be made.
    Refused(String),
}

impl NpzObject {
    /// Returns the archive, which stays open even if the object is closed meanwhile, and what must
    /// be on a stack as long.
    fn open(&self, ruby: &Ruby) -> Result<(Open, Value), Error> {
        let open = unless_closed(ruby, &self.open, "NPZ file")?.clone();
        let owner = ruby.get_inner(open.owner);
        Ok((open, owner))
    }

    /// Returns the names in the archive.
    fn members(ruby: &Ruby, this: &Self) -> Result<RArray, Error> {
        let (Open { npz, .. }, _) = this.open(ruby)?;
        Ok(ruby.ary_from_iter((0..npz.len()).map(|index| ruby.str_new(npz.name(index)))))
    }

    /// Loads members, in so many threads.
    fn load_members(
        ruby: &Ruby,
        this: &Self,
        members: Vec<usize>,
        threads: Value,
    ) -> Result<RArray, Error> {
        let (open, owner) = this.open(ruby)?;
        let maker = this.maker;
        let threads = arguments::threads(ruby, threads)?;
        let loaded =
            try_with_room(ruby, || open.each(&members, threads, |member| loaded(&member, maker)))?;
        black_box(owner); // keeps the object on the stack until here
        let made = ruby.ary_new_capa(loaded.len());
        for one in loaded {
            made.push(match one {
                Loaded::Array(array) => maker.make(ruby, array)?,
                Loaded::Bytes(bytes) => ruby.str_from_slice(&bytes).as_value(),
                Loaded::Refused(text) => return Err(type_error(ruby, text)),
            })?;
        }
        Ok(made)
    }

    /// Compares the CRC of each member with that of its data.
    fn verify_members(ruby: &Ruby, this: &Self, threads: Value) -> Result<(), Error> {
        let (open, owner) = this.open(ruby)?;
        let threads = arguments::threads(ruby, threads)?;
        let members: Vec<usize> = (0..open.npz.len()).collect();
        open.each(&members, threads, |member| member.verify())?.or_raise(ruby)?;
        black_box(owner);
        Ok(())
    }

    fn close(&self) {
        drop(self.open.take());
    }

    fn is_closed(&self) -> bool {
        self.open.borrow().is_none()
    }
}

impl Open {
    /// Works on members in so many threads, until an exception is raised in the thread that called.
    fn each<T: Send + Sync>(
        &self,
        members: &[usize],
        threads: usize,
        work: impl Fn(Member<'_>) -> shmarray::Result<T> + Sync,
    ) -> Result<shmarray::Result<Vec<T>>, Error> {
        let sizes = members.iter().map(|index| self.npz.member_bytes(*index));
        let bytes = if self.is_file { u64::MAX } else { sizes.fold(0, u64::saturating_add) };
        stoppable(usize::try_from(bytes).unwrap_or(usize::MAX), |caller| {
            let work = |member| if caller.goes_on() { work(member) } else { Err(stopped()) };
            self.npz.each(members, threads, work)
        })
    }
}

fn loaded(member: &Member<'_>, maker: Maker) -> shmarray::Result<Loaded> {
    let Some(header) = member.header() else {
        return member.read().map(Loaded::Bytes);
    };
    let refusal = header.dtype().ok().and_then(|dtype| maker.refusal(dtype, READER));
    match refusal {
        Some(text) => Ok(Loaded::Refused(format!("member {:?}: {text}", member.name()))),
        None => member.load(&Options::new()).map(Loaded::Array).map_err(of_file),
    }
}
