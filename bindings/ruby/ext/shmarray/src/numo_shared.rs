//! The module `Numo::Shared`: Numo arrays in shared memory.

use std::hint::black_box;
use std::slice;

use magnus::scan_args::scan_args;
use magnus::value::ReprValue;
use magnus::{
    Error, Module, Object, RArray, RClass, RHash, RModule, Ruby, TryConvert, TypedData, Value,
    function,
};
use shmarray::npy::Elements;
use shmarray::{Access, Array, DType, ErrorKind, Layout, Options, Order, size_bytes};

use crate::array::{ArrayObject, array_of, bytes_of};
use crate::error::{OrRaise, argument_error, closed, type_error, with_room};
use crate::gvl::copying;
use crate::numo::{Numo, numo, probe};
use crate::numo_array::{NumoElements, define_types, is_guarded, is_shared, make, make_part, read};
use crate::slot_use::{Held, Part};
use crate::sources::Source;
use crate::{arguments, segments};

/// Defines `Shmarray.bind_numo`, which `lib/numo/shared.rb` calls after it has loaded Numo.
pub(crate) fn define_binder(shmarray: RModule) -> Result<(), Error> {
    shmarray.define_singleton_method("bind_numo", function!(bind, 0))
}

fn bind(ruby: &Ruby) -> Result<RModule, Error> {
    probe(ruby)?;
    define_types(numo(ruby)?);
    let shared = ruby.class_object().const_get::<_, RModule>("Numo")?.define_module("Shared")?;
    shared.define_singleton_method("new", function!(create, -1))?;
    shared.define_singleton_method("share", function!(share, 1))?;
    shared.define_singleton_method("shared?", function!(is_shared_p, 1))?;
    shared.define_singleton_method("guarded?", function!(is_guarded_p, 1))?;
    shared.define_singleton_method("shareable?", function!(is_shareable, 1))?;
    shared.define_singleton_method("dtype_of", function!(dtype_text, 1))?;
    shared.define_singleton_method("copy_to", function!(copy_to, 3))?;
    shared.define_singleton_method("copy_if_room", function!(copy_if_room, 1))?;
    shared.define_singleton_method("copied?", function!(is_copied, 1))?;
    shared.define_singleton_method("unfilled?", function!(is_unfilled, 1))?;
    shared.define_singleton_method("handle", function!(handle, 1))?;
    shared.define_singleton_method("handle_to_send", function!(handle_to_send, 1))?;
    shared.define_singleton_method("attach", function!(attach, -1))?;
    shared.define_singleton_method("unlink", function!(segments::unlink, 1))?;
    shared.define_singleton_method("segments", function!(segments::segments, 0))?;
    shared.define_singleton_method("sweep", function!(segments::sweep, 0))?;
    Ok(shared)
}

fn create(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let scanned = scan_args::<(Value, Value), (), RArray, (), RHash, ()>(arguments)?;
    let (class, shape) = scanned.required;
    let dtype = dtype_of(ruby, numo(ruby)?, class)?;
    let shape = arguments::splat_shape(ruby, shape, scanned.splat)?;
    let options = arguments::options(ruby, scanned.keywords)?;
    make(ruby, numo(ruby)?, with_room(ruby, || Array::create(dtype.clone(), &shape, &options))?)
}

fn attach(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let scanned = scan_args::<(Value,), (), (), (), RHash, ()>(arguments)?;
    let value = scanned.required.0;
    let asked = arguments::access(scanned.keywords)?;
    let is_frozen = value.is_frozen() && value.is_kind_of(ArrayObject::class(ruby));
    let access = if is_frozen { Access::ReadOnly } else { asked };
    let array = match array_of(ruby, value).transpose()? {
        // In a slot: there is no handle by which it could be attached anew.
        Some(found) if found.is_in_slot() && access == Access::ReadOnly => {
            return Err(argument_error(ruby, IN_SLOT));
        }
        Some(found) if found.is_readonly() || access == Access::ReadWrite => {
            let (array, part) = found.into_parts();
            return make_part(ruby, numo(ruby)?, Array::clone(&array), part);
        }
        Some(found) => with_room(ruby, || Array::attach_descriptor(&found.descriptor(), access))?,
        None => {
            let text = arguments::handle_or_name(ruby, value)?;
            with_room(ruby, || Array::attach(&text, access))?
        }
    };
    make(ruby, numo(ruby)?, array)
}

/// Returns whether a class is one of Numo's classes of numbers.
pub(crate) fn is_shareable(ruby: &Ruby, class: Value) -> Result<bool, Error> {
    Ok(dtype_of(ruby, numo(ruby)?, class).is_ok())
}

/// Returns the dtype of one of Numo's classes of numbers, as a type string.
fn dtype_text(ruby: &Ruby, class: Value) -> Result<String, Error> {
    Ok(dtype_of(ruby, numo(ruby)?, class)?.text().to_owned())
}

/// Returns whether another thread is copying its elements.
fn is_copied(ruby: &Ruby, value: Value) -> Result<bool, Error> {
    Ok(read(numo(ruby)?, value, 1).is_some_and(|found| Source::is_one(found.holder)))
}

fn is_shared_p(ruby: &Ruby, value: Value) -> Result<bool, Error> {
    Ok(is_shared(numo(ruby)?, value))
}

/// Returns whether Numo's methods must not free or replace its memory.
fn is_guarded_p(ruby: &Ruby, value: Value) -> Result<bool, Error> {
    Ok(is_guarded(numo(ruby)?, value))
}

/// Why an array of a message has no handle.
const IN_SLOT: &str =
    "the array lies in a slot of a channel: Numo::Shared.share makes a copy that has a handle";

fn handle(ruby: &Ruby, value: Value) -> Result<String, Error> {
    let array = shared_array(ruby, value)?;
    if array.is_in_slot() { Err(argument_error(ruby, IN_SLOT)) } else { Ok(array.handle()) }
}

fn handle_to_send(ruby: &Ruby, value: Value) -> Result<String, Error> {
    shared_array(ruby, value)?.handle_to_send().or_raise(ruby)
}

/// Returns whether Numo is bound and this is a Numo array.
pub(crate) fn is_numo(ruby: &Ruby, value: Value) -> bool {
    numo(ruby).is_ok_and(|numo| numo.narray(value).is_some())
}

/// Returns the core array of a Numo array: itself if it is in shared memory, else a shared copy.
pub(crate) fn shared_copy(ruby: &Ruby, value: Value) -> Result<Held, Error> {
    let (_, found) = find(ruby, value)?;
    let is_there = found.shared && found.strides.is_some() && !found.swapped;
    drop(found);
    shared_array(ruby, if is_there { value } else { share(ruby, value)? })
}

/// Returns the core array of a Numo array in shared memory.
pub(crate) fn shared_array(ruby: &Ruby, value: Value) -> Result<Held, Error> {
    let (dtype, found) = find(ruby, value)?;
    if !found.shared {
        return Err(argument_error(
            ruby,
            "the array is not in shared memory; Numo::Shared.share makes a copy that is",
        ));
    }
    if found.swapped {
        return Err(argument_error(
            ruby,
            "the array's bytes are swapped; Numo::Shared.share makes a copy in order",
        ));
    }
    let Some(strides) = &found.strides else {
        let text = "a view made with an index array has no strides; \
                    Numo::Shared.share makes a copy that has";
        return Err(argument_error(ruby, text));
    };
    let array = match &found.message {
        Some(message) => {
            let offset = found.start as i64 - message.as_ptr() as i64;
            message.view(&found.shape, strides, offset).ok()
        }
        None => Array::over_memory(found.start as usize, dtype, &found.shape, strides),
    };
    let lost = || argument_error(ruby, "the array's elements are not all in its segment");
    Ok(Held::new(array.ok_or_else(lost)?, found.part.unwrap_or_default()))
}

/// Returns a shared copy, or the array itself if it has a handle already. One in a slot of a
/// channel has none.
fn share(ruby: &Ruby, value: Value) -> Result<Value, Error> {
    let (dtype, found) = find(ruby, value)?;
    match &found.strides {
        _ if found.swapped => share(ruby, value.funcall("to_host", ())?),
        Some(_) if found.shared && matches!(found.part, Some(Part::None)) => Ok(value),
        Some(strides) => copy(ruby, dtype, &found, strides),
        None => share(ruby, value.funcall("dup", ())?), // Numo's copy has no index arrays
    }
}

/// The elements of a Numo array from which another array is filled.
pub(crate) enum NumoSource {
    Shared(Held),
    Private(Box<Private>),
    /// Elements of a dtype that cannot be shared, as Arrays of objects.
    Objects(Value),
}

/// A Numo array in private memory.
pub(crate) struct Private {
    value: Value,
    dtype: DType,
    found: NumoElements,
    layout: Layout,
}

pub(crate) fn source(ruby: &Ruby, value: Value) -> Result<NumoSource, Error> {
    if numo(ruby)?.class_of(ruby, value.class()).is_none() {
        return value.funcall("to_a", ()).map(NumoSource::Objects);
    }
    let (dtype, found) = find(ruby, value)?;
    match &found.strides {
        _ if found.swapped => source(ruby, value.funcall("to_host", ())?),
        None => source(ruby, value.funcall("dup", ())?),
        Some(_) if found.shared => shared_array(ruby, value).map(NumoSource::Shared),
        Some(strides) => {
            let layout = layout_of(ruby, &found, strides)?;
            Ok(NumoSource::Private(Box::new(Private { value, dtype, found, layout })))
        }
    }
}

impl Private {
    /// Returns the object. It keeps the elements as long as it is alive: on a stack, or in an
    /// object there.
    pub(crate) fn value(&self) -> Value {
        self.value
    }

    /// Returns what has the guards keep the elements in place. `None` if there is no room for it:
    /// then no other Ruby thread may run while they are read.
    pub(crate) fn reading(&self) -> Option<Source> {
        Source::of(self.found.holder)
    }

    /// Returns the elements, for a file.
    ///
    /// # Safety
    /// While they are used, [`Private::value`] is alive, and what [`Private::reading`] returned is,
    /// too, or no other Ruby thread runs.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn elements(&self) -> shmarray::Result<Elements<'_>> {
        let start = self.found.start;
        let dtype = self.dtype.clone();
        let layout = self.layout.clone();
        // SAFETY: `find` read address and layout from Numo's own struct, and the caller keeps the
        // memory in place.
        unsafe { Elements::memory(start, dtype, layout) }
    }

    /// Fills an array of the same shape and dtype.
    pub(crate) fn copy_to(&self, ruby: &Ruby, to: &Array) -> Result<(), Error> {
        to.expect_dtype(self.dtype.clone()).or_raise(ruby)?;
        let start = Start(self.found.start);
        let layout = &self.layout;
        // SAFETY: as in `copied`, `find` read the layout and `reading` keeps the source in place;
        // private memory overlaps no shared array.
        #[allow(unsafe_code)]
        let fill = || unsafe { to.fill_from(start.get(), layout) };
        let filled = reading(&self.found, &self.dtype, fill);
        black_box(self.value); // keeps the object on the stack until here
        filled.or_raise(ruby)
    }
}

/// Calls a closure with the dtype, the shape and the elements of a Numo array, side by side in C
/// order. The closure may call no Ruby code.
pub(crate) fn with_elements<T>(
    ruby: &Ruby,
    value: Value,
    take: impl FnOnce(&DType, &[u64], &[u8]) -> T,
) -> Result<T, Error> {
    let (dtype, found) = find(ruby, value)?;
    let strides = match &found.strides {
        _ if found.swapped => return with_elements(ruby, value.funcall("to_host", ())?, take),
        None => return with_elements(ruby, value.funcall("dup", ())?, take),
        Some(strides) => strides,
    };
    let layout = layout_of(ruby, &found, strides)?;
    if found.shared {
        let bytes = shared_array(ruby, value)?.to_bytes().or_raise(ruby)?;
        return Ok(take(&dtype, &layout.shape, &bytes));
    }
    if !layout.is_contiguous(dtype.itemsize(), Order::C) {
        return with_elements(ruby, value.funcall("dup", ())?, take);
    }
    let bytes = (layout.len() * dtype.itemsize()) as usize;
    let elements = if bytes == 0 {
        &[]
    } else {
        // SAFETY: `find` read the address and the layout, of so many bytes without gaps, from
        // Numo's own struct; no Ruby code runs that could free or change them.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(found.start, bytes)
        }
    };
    let taken = take(&dtype, &layout.shape, elements);
    black_box(value); // keeps the object on the stack until here
    Ok(taken)
}

/// Copies elements into a buffer, a shared array of bytes, from an offset on. Returns the array
/// that they form there.
fn copy_to(ruby: &Ruby, buffer: &ArrayObject, offset: u64, value: Value) -> Result<Value, Error> {
    let (dtype, found) = find(ruby, value)?;
    let strides = match &found.strides {
        _ if found.swapped => return copy_to(ruby, buffer, offset, value.funcall("to_host", ())?),
        None => return copy_to(ruby, buffer, offset, value.funcall("dup", ())?),
        Some(strides) => strides,
    };
    let dense = Layout::contiguous(&found.shape, dtype.itemsize(), Order::C).or_raise(ruby)?;
    let buffer = buffer.array(ruby)?;
    let start = buffer.as_ptr() as usize;
    let room = bytes_of(&buffer);
    let end = (dense.len() * dtype.itemsize()).checked_add(offset);
    let array = Array::over_memory(
        start.wrapping_add(offset as usize),
        dtype.clone(),
        &found.shape,
        &dense.strides,
    );
    let array = array.filter(|_| end.is_some_and(|end| end <= room));
    let array =
        array.ok_or_else(|| argument_error(ruby, "there is no room for the array's elements"))?;
    let layout = layout_of(ruby, &found, strides)?;
    let start = Start(found.start);
    // SAFETY: as in `copied`, `find` read the layout and `reading` keeps the source in place;
    // nobody else uses these bytes of the buffer yet.
    #[allow(unsafe_code)]
    let fill = || unsafe { array.fill_from(start.get(), &layout) };
    reading(&found, &dtype, fill).or_raise(ruby)?;
    Ok(ArrayObject::holding(ruby, array))
}

fn copy(ruby: &Ruby, dtype: DType, found: &NumoElements, strides: &[i64]) -> Result<Value, Error> {
    let layout = layout_of(ruby, found, strides)?;
    let shared = with_room(ruby, || copied(&dtype, found, &layout))?;
    make(ruby, numo(ruby)?, shared)
}

/// Returns a copy in shared memory if a part of that stays free, else nil. It is for arrays that
/// can be sent another way.
fn copy_if_room(ruby: &Ruby, value: Value) -> Result<Option<Value>, Error> {
    let (dtype, found) = find(ruby, value)?;
    let strides = match &found.strides {
        _ if found.swapped => return copy_if_room(ruby, value.funcall("to_host", ())?),
        None => return copy_if_room(ruby, value.funcall("dup", ())?),
        Some(strides) => strides,
    };
    let layout = layout_of(ruby, &found, strides)?;
    if !shmarray::has_room(size_bytes(&layout.shape, dtype.itemsize()).unwrap_or(u64::MAX)) {
        return Ok(None);
    }
    match copied(&dtype, &found, &layout) {
        Err(error) if [ErrorKind::NoSpace, ErrorKind::NoMemory].contains(&error.kind()) => Ok(None),
        array => Ok(Some(ArrayObject::holding(ruby, array.or_raise(ruby)?))),
    }
}

/// Returns whether Numo has given the array no memory yet.
fn is_unfilled(ruby: &Ruby, value: Value) -> Result<bool, Error> {
    let (_, found) = find(ruby, value)?;
    Ok(found.start.is_null() && !found.shape.contains(&0))
}

fn layout_of(ruby: &Ruby, found: &NumoElements, strides: &[i64]) -> Result<Layout, Error> {
    let layout = Layout { shape: found.shape.clone(), strides: strides.to_vec(), offset: 0 };
    if found.start.is_null() && !layout.is_empty() {
        Err(argument_error(ruby, "the array has no elements yet: fill it first"))
    } else {
        Ok(layout)
    }
}

fn copied(dtype: &DType, found: &NumoElements, layout: &Layout) -> shmarray::Result<Array> {
    let start = Start(found.start);
    let options = Options::default();
    // SAFETY: `find` read address and layout from Numo's own struct. The array lives on the
    // caller's stack, and `reading` has the guards keep its memory in place.
    #[allow(unsafe_code)]
    let share = || unsafe { Array::share(start.get(), dtype.clone(), layout, &options) };
    reading(found, dtype, share)
}

/// Reads a Numo array's elements. If they are many, other Ruby threads run meanwhile.
fn reading<T: Send>(found: &NumoElements, dtype: &DType, work: impl FnOnce() -> T + Send) -> T {
    let bytes = size_bytes(&found.shape, dtype.itemsize()).unwrap_or(u64::MAX);
    match Source::of(found.holder) {
        Some(_source) => copying(bytes as usize, work),
        None => work(),
    }
}

/// An address that is passed to other threads.
struct Start(*mut u8);

#[allow(unsafe_code)]
// SAFETY: it is only an address; each use of it states why the memory may be read there.
unsafe impl Sync for Start {}

impl Start {
    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// Returns the dtype and the elements of a Numo array that can be shared.
fn find(ruby: &Ruby, value: Value) -> Result<(DType, NumoElements), Error> {
    let numo = numo(ruby)?;
    if numo.narray(value).is_none() {
        return Err(type_error(ruby, format!("{} is not a Numo::NArray", value.class())));
    }
    let dtype = dtype_of(ruby, numo, value.class().as_value())?;
    match read(numo, value, dtype.itemsize()) {
        Some(found) if found.part.is_none() => Err(closed(ruby, "array")),
        Some(found) if !found.reversed => Ok((dtype, found)),
        _ => Err(type_error(ruby, "an array in Numo's column-major order cannot be shared")),
    }
}

/// Returns the dtype of one of Numo's classes.
fn dtype_of(ruby: &Ruby, numo: &Numo, class: Value) -> Result<DType, Error> {
    let row = RClass::try_convert(class).ok().and_then(|class| numo.class_of(ruby, class));
    let refused = || {
        let reason = match class.to_string().as_str() {
            "Numo::Bit" => {
                "its elements share bytes, so that processes would lose each other's writes; \
                 Numo::UInt8.cast gives each its own"
            }
            "Numo::RObject" => "its elements are objects of one process",
            _ => "it is none of Numo's classes of numbers",
        };
        type_error(ruby, format!("{} cannot be shared: {reason}", class.inspect()))
    };
    row.map(|row| row.dtype.clone()).ok_or_else(refused)
}
